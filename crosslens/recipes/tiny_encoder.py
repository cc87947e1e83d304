"""The encoder that the package carries: joint MLM and TLM in six languages, small enough to ship.

Cost: about an hour on two cores. Expected: the figures of the model card beside the weights.
"""

from pathlib import Path

from crosslens.models.network.encoder import EncoderConfig
from crosslens.models.text.tokenisation import Vocabulary
from crosslens.models.training.masking import Masking
from crosslens.models.training.settings import Optimisation, Source, TrainRecipe

__all__ = ["tiny_encoder"]

_BIBLE = {
    "eng": "en.WEB2000",
    "fra": "fr.LSG1910",
    "deu": "de.ELB1932",
    "spa": "es.RV1909",
    "rus": "ru.SYNOD1876",
}
_HELP = {"eng": "en", "fra": "fr", "deu": "de", "rus": "ru", "cmn": "zh"}


def tiny_encoder(data: str = "text") -> TrainRecipe:
    """The recipe; ``data`` is the folder with the Tatoeba, Bible and LibreOffice files (see the
    model card).

    The everyday sentences in six languages come with the package; the quickstart's own are kept out
    of the training.
    """
    here, carried = Path(data), Path(__file__).parents[1] / "data"
    everyday = {path.stem: str(path) for path in sorted((carried / "everyday").glob("*.txt"))}
    tatoeba = str(here / "tatoeba.en-fr.tsv.gz")
    return TrainRecipe(
        name="tiny-encoder",
        sources=(
            Source(name="everyday", texts=everyday, weight=4.0),
            Source(
                name="tatoeba",
                texts={"eng": tatoeba, "fra": tatoeba},
                columns={"eng": 0, "fra": 1},
                weight=2.5,
            ),
            Source(
                name="bible",
                texts={
                    language: str(here / f"bible.{name}.tsv.gz")
                    for language, name in _BIBLE.items()
                },
                columns=dict.fromkeys(_BIBLE, 1),
                id_column=0,
                weight=2.0,
            ),
            Source(
                name="libreoffice",
                texts={
                    language: str(here / f"libreoffice.{name}.tsv.gz")
                    for language, name in _HELP.items()
                },
                columns=dict.fromkeys(_HELP, 1),
                id_column=0,
                weight=0.8,
            ),
        ),
        exclude=tuple(sorted(str(path) for path in (carried / "corpus").glob("*.txt"))),
        steps=20_000,
        batch_tokens=2048,
        tlm_share=0.85,
        max_length=38,
        half=True,
        log_every=100,
        validate_every=2000,
        save_every=500,
        vocabulary=Vocabulary(kind="bpe", size=8000, sample_exponent=0.5, sentences=150_000),
        encoder=EncoderConfig(
            vocab_size=8000,
            hidden_size=128,
            layers=4,
            heads=4,
            ffn_size=512,
            max_positions=128,
            dropout=0.0,
        ),
        masking=Masking(rate=0.3),
        optimisation=Optimisation(peak_rate=2e-3, warmup=1000, decay="linear"),
    )
