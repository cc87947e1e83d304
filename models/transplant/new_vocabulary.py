"""An encoder below a new vocabulary: its tokeniser, the rows of its embeddings, and its folder.

    text --learn_tokenizer--> new subwords --new_rows--> their rows --put_rows--> below the same body

What is no token embedding keeps its bits. A head that is none for masked words is left out.
"""

import dataclasses
import io
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from scipy.sparse import csr_matrix, diags_array
from torch import Tensor, nn

from crosslens.alignment.words.new_rows import (
    NewRows,
    copied_rows,
    factorised_rows,
    mean_rows,
    random_rows,
    similar_rows,
)
from crosslens.errors import panics_as_errors, refuse
from crosslens.files import make_folder, write_json, write_whole
from crosslens.models.saved.arrays import writing
from crosslens.models.saved.loading import encoder_class, make_model, refuse_missing
from crosslens.models.text.subword_vectors import SkipGram, skipgram_of_ids
from crosslens.models.transplant.subwords import (
    retokenised_weights,
    shared_subwords,
    translation_weights,
)
from crosslens.progress import say

__all__ = [
    "MADE",
    "WholeEncoder",
    "embedding_table",
    "learn_tokenizer",
    "load_whole_encoder",
    "new_rows",
    "put_rows",
    "write_encoder",
]

# names that BERT's and RoBERTa's heads have for what is tied to the token embeddings
_OF_VOCABULARY = ("decoder.weight", "decoder.bias", "predictions.bias", "lm_head.bias")
MADE = "transplant.json"
"""In the folder of an encoder: how it was made."""


@dataclasses.dataclass(frozen=True)
class WholeEncoder:
    """All that an encoder's folder has.

    Attributes
    ----------
    model: of transformers, with its head for masked words where there is one.
    other_weights: those that such a model has no place for (a pooler, a head for next sentences), by
        name.
    """

    model: Any
    other_weights: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)


def load_whole_encoder(name: str, view: Path, trusted: bool) -> WholeEncoder:
    """The whole encoder of a folder.

    Raises
    ------
    InputError: it lacks weights.
    """
    from transformers import AutoConfig, AutoModelForMaskedLM

    config = AutoConfig.from_pretrained(view, trust_remote_code=trusted)
    made = (config.architectures or ["Model"])[0]
    # "WithLMHeadModel" are XLM's kin, unless theirs is an adaptive softmax
    heads = ("ForMaskedLM", "ForPreTraining", "WithLMHeadModel")
    if made.endswith(heads) and not getattr(config, "asm", False):
        maker = AutoModelForMaskedLM
        model, absent, unused = make_model(name, view, maker, config, None, trusted)
        # a head that is saved untied names its bias once, and transformers looks for it twice
        lacks = [one for one in absent if not one.endswith("decoder.bias")]
        body = f"{model.base_model_prefix}."
        head = {one for one, _ in model.named_parameters() if not one.startswith(body)}
        if not head or not {one for one in head if not one.endswith("decoder.bias")} <= {*lacks}:
            refuse_missing(name, lacks)
            return WholeEncoder(model.eval(), _other_weights(view, unused))
    # no head, or another one (ELECTRA is pretrained to tell words apart)
    model, absent, _ = make_model(name, view, encoder_class(config), config, None, trusted)
    refuse_missing(name, absent)
    return WholeEncoder(model.eval())


def _other_weights(view: Path, names: Sequence[str]) -> dict[str, Tensor]:
    """These weights of a folder in float32, but for copies of the old embeddings and biases that some
    folders keep for the head for masked words."""
    found = dict[str, Tensor]()
    for path in sorted(view.rglob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in {*names} & {*file.keys()}:
                tensor = file.get_tensor(name)
                if tensor.is_floating_point() and not name.endswith(_OF_VOCABULARY):
                    found[name] = tensor.float()
    return found


def embedding_table(name: str, model: Any) -> np.ndarray:
    """(v, d) or, with a head, (v, d + 1) the old rows, the bias of the output behind each.

    Raises
    ------
    InputError: embeddings that are no plain table, or a head with a table of its own.
    """
    table = model.get_input_embeddings()
    if type(table) is not nn.Embedding or table.embedding_dim < 1:
        got = type(table).__name__
        refuse("--encoder", "one with a plain table of token embeddings", got, "choose another")
    weight = table.weight.detach()
    head = model.get_output_embeddings()
    if head is None:
        return np.array(weight.numpy())
    if head.weight is not table.weight:
        remedy = "remove its head, or choose another encoder"
        refuse(
            "--encoder", f"{name} with a head that shares its embeddings", "another head", remedy
        )
    if head.bias is None:
        return np.array(weight.numpy())
    return np.concatenate([weight.numpy(), head.bias.detach().numpy()[:, None]], 1)


def learn_tokenizer(source: Any, text: Sequence[str], size: int) -> Any:
    """A tokeniser of the encoder's kind with a vocabulary of the text.

    Raises
    ------
    InputError: the encoder's is no fast one, or no such vocabulary comes of the text.
    """
    if not hasattr(source, "train_new_from_iterator"):
        expected, got = "an encoder with a fast tokeniser", type(source).__name__
        refuse("--encoder", expected, got, "choose another")

    try:
        with panics_as_errors():
            target = source.train_new_from_iterator(iter(text), size, show_progress=False)
    except Exception as error:  # the library raises bare Exception
        got = " ".join(str(error).split())[:200]
        refuse(
            "--vocabulary", "a text that gives such a vocabulary", got, "give more text, or fewer"
        )
    return target


def new_rows(
    by: str,
    table: np.ndarray,
    text: Sequence[str],
    source: Any,
    target: Any,
    pairs: Mapping[tuple[str, str], float] | None,
    seed: int,
    kept: Path | None = None,
) -> NewRows:
    """The rows of an initialiser; special tokens that both vocabularies have keep theirs.

    Parameters
    ----------
    table: (v, d) the old rows.
    source, target: the old tokeniser and the new one.
    pairs: (old language's word, new language's word) -> weight, for "translation".
    kept: a file for the static vectors of "similarity" and "factorised": written where it is not
        there, and read where it is, by trainings from other seeds.

    Raises
    ------
    InputError: nothing is shared, or no translation is known.
    """
    shared = shared_subwords(source, target)
    known = shared.copy()
    known[target.all_special_ids] = -1  # theirs are put back below
    found = _rows(by, table, known, text, source, target, pairs, seed, kept)
    special = np.array([n for n in target.all_special_ids if shared[n] >= 0], np.int64)
    found.rows[special], found.made[special] = table[shared[special]], 1
    return found


def _rows(
    by: str,
    table: np.ndarray,
    shared: np.ndarray,
    text: Sequence[str],
    source: Any,
    target: Any,
    pairs: Mapping[tuple[str, str], float] | None,
    seed: int,
    kept: Path | None,
) -> NewRows:
    """Those of an initialiser; ``shared`` is (n,) which old row each new subword has, or -1."""
    if by == "random":
        return random_rows(table, len(shared), seed)
    if by == "translation":
        assert pairs is not None
        weights = translation_weights(pairs, source, target, len(table))
        return mean_rows(table, weights, shared, seed)
    if by == "retokenised":
        weights = retokenised_weights(text, source, target, len(table))
        weights = csr_matrix(diags_array((shared < 0).astype(float)) @ weights)
        if weights.sum():
            return mean_rows(table, weights, shared, seed)
    if not (shared >= 0).any():
        expected, remedy = "a subword that both vocabularies have", "choose translation, or random"
        refuse(f"--by {by}", expected, "none", remedy)
    if by in ("overlap", "retokenised"):  # all of the text is shared where it comes to this
        return copied_rows(table, shared, seed)
    if kept is not None and kept.is_file():
        vectors = np.load(kept)
    else:
        say("training static vectors of the new subwords")
        vectors = _static_vectors(text, target, len(shared))
        if kept is not None:
            np.save(content := io.BytesIO(), vectors)
            write_whole(kept, content.getvalue())
    made = similar_rows if by == "similarity" else factorised_rows
    return made(table, shared, vectors, seed)


def _static_vectors(text: Sequence[str], target: Any, n: int) -> np.ndarray:
    """(n, d) skip-gram vectors of subwords, NaN for those that do not occur."""
    settings = SkipGram(epochs=3)
    found = np.full((n, settings.dimensions), np.nan, np.float32)
    rows = (
        ids
        for start in range(0, len(text), 1000)
        for ids in target(list(text[start : start + 1000]), add_special_tokens=False)["input_ids"]
    )
    with tempfile.TemporaryDirectory() as folder:
        ids, vectors = skipgram_of_ids(rows, settings, Path(folder))
    found[ids] = vectors
    return found


@torch.no_grad()
def put_rows(model: Any, rows: np.ndarray, source: Any, target: Any) -> None:
    """Put new rows (as :func:`embedding_table` gives the old ones) below a model, and in its head
    and configuration.

    Raises
    ------
    InputError: the new vocabulary has its padding at another id, by which positions are counted.
    """
    table, head = model.get_input_embeddings(), model.get_output_embeddings()
    d, pad = table.embedding_dim, target.pad_token_id
    if table.padding_idx is not None and pad != table.padding_idx:
        # some families count positions from the padding id
        expected = f"padding at id {table.padding_idx}, where it is"
        remedy = "choose another encoder"
        refuse("vocabulary", expected, f"at {pad}", remedy)
    new = nn.Embedding.from_pretrained(
        torch.from_numpy(np.ascontiguousarray(rows[:, :d])),
        freeze=False,
        padding_idx=table.padding_idx,
    )
    model.set_input_embeddings(new)
    if head is not None:
        head.weight = new.weight
        head.out_features = len(rows)
        old = head.bias
        if old is not None:
            bias = nn.Parameter(torch.from_numpy(np.ascontiguousarray(rows[:, d])))
            for module in model.modules():  # some families hold it twice
                if getattr(module, "bias", None) is old:
                    module.bias = bias
    config = model.config
    config.vocab_size = len(rows)
    for role in ("pad", "bos", "eos", "sep", "cls", "mask"):
        if getattr(config, f"{role}_token_id", None) is not None:
            setattr(config, f"{role}_token_id", getattr(target, f"{role}_token_id"))


def write_encoder(whole: WholeEncoder, tokenizer: Any, told: Mapping[str, Any], out: Path) -> None:
    """Write model, tokeniser and how they were made; the folder appears whole or not at all."""
    tokenizer.backend_tokenizer.no_truncation()  # what it was last called with is written along
    tokenizer.backend_tokenizer.no_padding()
    make_folder(out.parent, "--out")
    aside = out.with_name(f".{out.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    with writing(out):
        weights = {**whole.model.state_dict(), **whole.other_weights}
        whole.model.save_pretrained(aside, state_dict=weights)
        tokenizer.save_pretrained(aside)
    write_json(aside / MADE, told)
    os.replace(aside, out)
