"""Small untrained models of ours with English and a language derived from it."""

from pathlib import Path

import torch

from crosslens.models.network.encoder import EncoderConfig, MaskedLM
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.saved.derived_languages import DerivedLanguage
from crosslens.models.saved.native import save_model
from crosslens.models.text.tokenisation import Vocabulary
from crosslens.models.text.vocabularies import learn_vocabularies

__all__ = ["WORDS", "derived_model", "sentences"]

WORDS = (
    "Ada Grace Emmy Sofja Paris Rome Oslo Kyiv Person House lives in the dog cat sleeps house rain "
    "falls barks eats entails nothing Where When does answer is she are they"
).split()


def sentences(n: int = 300, seed: int = 0) -> list[str]:
    """Words at random, for a tokeniser."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randint(len(WORDS), (n, 6), generator=generator).tolist()
    return [f"{' '.join(WORDS[i] for i in row)} {k}." for k, row in enumerate(numbers)]


def derived_model(
    folder: Path, by: str, *, seed: int = 0, told: bool = True, copied: bool = False, **shape: int
) -> Path:
    """A model of ``eng`` and ``eng-x``, with all rows of the copy's subwords, where it has its own,
    those of the original (``copied``); with ``told=False`` as an earlier version wrote it."""
    how = DerivedLanguage("eng", by, seed)
    mode = "disjoint" if how.derivation.transliterated else "union"
    vocabulary = Vocabulary(size=120, kind="bpe", sentences=300, mode=mode, copies={"eng-x": "eng"})
    texts = sentences()
    vocabularies = learn_vocabularies({"eng": texts, "eng-x": texts}, vocabulary, 0)
    sizes = {"hidden_size": 16, "layers": 2, "heads": 2, "ffn_size": 32, "max_positions": 48}
    config = EncoderConfig(**{"vocab_size": max(vocabularies.sizes.values()), **sizes, **shape})
    languages = ("eng", "eng-x")
    model = MaskedLM(
        config, languages=languages, plan=SharingPlan.parse("", 2), sizes=vocabularies.sizes
    )
    if copied:
        table = model.encoder.token.of("eng").weight.data
        own, other = (torch.from_numpy(vocabularies.tables[one]) for one in languages)
        table[other] = table[own]
    save_model(model, vocabularies, folder, derived={"eng-x": how} if told else None)
    return folder
