"""Languages that an encoder reads, before its weights are loaded: as the loaded one has them."""

import pytest
from derived_models import derived_model, sentences
from xlm_models import save_xlm

from crosslens.errors import InputError
from crosslens.models.network.encoder import EncoderConfig, MaskedLM
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.saved.loading import load_encoder
from crosslens.models.saved.native import save_model
from crosslens.models.saved.read_languages import check_read
from crosslens.models.text.tokenisation import Vocabulary
from crosslens.models.text.vocabularies import learn_vocabularies
from crosslens.recipes.quickstart import DATA

CODES = ("eng", "en", "fra", "fr", "eng-x", "eng_Latn", "deu", "cmn")


def all_shared(folder):
    """A model of ours of which no language has a part."""
    texts = {"eng": sentences(), "fra": sentences()}
    vocabularies = learn_vocabularies(texts, Vocabulary(size=120, sentences=300, mode="joint"), 0)
    sizes = {"hidden_size": 16, "layers": 2, "heads": 2, "ffn_size": 32, "max_positions": 48}
    config = EncoderConfig(vocab_size=max(vocabularies.sizes.values()), **sizes)
    told = {"languages": tuple(texts), "sizes": vocabularies.sizes}
    model = MaskedLM(config, plan=SharingPlan.parse("", 2), **told)
    save_model(model, vocabularies, folder)
    return folder


KINDS = {
    "ours": lambda folder: derived_model(folder, "inversion"),
    "a vocabulary of each": lambda folder: derived_model(folder, "transliteration"),
    "ours, and nothing apart": all_shared,
    "embedded": save_xlm,
    "not embedded": lambda folder: save_xlm(folder, embedded=False),
    "any": lambda folder: DATA / "tiny-encoder",
}


def refused(check, *given):
    try:
        check(*given)
    except InputError:
        return True
    return False


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_refused_is_what_the_loaded_encoder_refuses(tmp_path, kind):
    folder = KINDS[kind](tmp_path / "model")
    encoder = load_encoder(folder)

    found = [refused(check_read, "it", folder, [("--test", code)]) for code in CODES]
    assert found == [refused(encoder.for_text, code) for code in CODES]
    # Chinese, the last, may be refused for want of a segmenter
    assert any(found[:-1]) == (kind in ("ours", "a vocabulary of each", "embedded"))
