"""Text to token ids: learning a vocabulary, and the tokeniser folder that transformers reads.

SentencePiece-style unigram or BPE pieces by the ``tokenizers`` library. A space is
the sign "▁" in front of the next piece, so scripts with and without spaces are
treated alike and no word segmentation is needed.
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from crosslens.errors import InputError, refuse
from crosslens.files import write_json, write_whole

__all__ = ["SPECIAL_TOKENS", "Vocabulary", "balanced_sample", "load_tokenizer", "save_tokenizer", "train_tokenizer"]

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # ids 0 to 4 in every vocabulary


@dataclasses.dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """How a vocabulary is learnt; :func:`crosslens.models.vocabularies.learn_vocabularies` does it.

    Attributes
    ----------
    size: number of pieces, special tokens included: of the one vocabulary if ``mode`` is "joint", of each language's otherwise.
    kind: "unigram" (Kudo 2018) or "bpe" (Sennrich et al. 2016).
    sample_exponent: languages are sampled in proportion to (their sentences) ** exponent; 1 keeps the corpus as it is, 0 gives each
        language the same share.
    sentences: how many sentences are drawn to learn from.
    mode: "joint": one vocabulary learnt from all languages. "union": one for each language, then united, so that identical pieces are
        one id (the natural anchors of Conneau et al. 2020). "disjoint": the same, but only the special tokens are shared (no anchors).
        "separate": one for each language, each with ids of its own, for models whose languages own their embeddings.
    copies: language to the language whose tokeniser it uses, under ids of its own: the transliterations of Deshpande et al. 2022, § 3,
        of which every piece's translation is known. Their text is not learnt from.
    """

    size: int = 8000
    kind: str = "unigram"
    sample_exponent: float = 0.5
    sentences: int = 100_000
    mode: str = "joint"
    copies: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in ("unigram", "bpe"):
            refuse("vocabulary.kind", "unigram or bpe", repr(self.kind), "choose one of the two")
        if self.mode not in ("joint", "union", "disjoint", "separate"):
            refuse("vocabulary.mode", "joint, union, disjoint or separate", repr(self.mode), "choose one of the four")
        if self.copies and self.mode not in ("disjoint", "separate"):
            refuse("vocabulary.mode", "disjoint or separate where a language is a copy", repr(self.mode), "choose one of the two")
        if self.size <= len(SPECIAL_TOKENS):
            refuse("vocabulary.size", f"more than the {len(SPECIAL_TOKENS)} special tokens", str(self.size), "choose a larger one")


def balanced_sample(texts: Mapping[str, Sequence[str]], vocabulary: Vocabulary, seed: int) -> Iterator[str]:
    """Sentences drawn (with replacement where a language is short) in the proportions of ``sample_exponent``."""
    rng = np.random.default_rng([seed, 0x70C])
    weights = np.array([len(lines) for lines in texts.values()], float) ** vocabulary.sample_exponent
    counts = np.round(vocabulary.sentences * weights / weights.sum()).astype(int)
    for lines, count in zip(texts.values(), counts, strict=True):
        whole, rest = divmod(int(count), len(lines))
        for _ in range(whole):
            yield from lines
        for i in np.sort(rng.permutation(len(lines))[:rest]):
            yield lines[int(i)]


def train_tokenizer(texts: Mapping[str, Sequence[str]], vocabulary: Vocabulary, seed: int = 0) -> Tokenizer:
    """Learn one vocabulary from the sentences of all languages that are given.

    The same texts, settings and seed give the same BPE vocabulary to the byte. Unigram pieces do not come out so: the library sums
    their scores in the order of a hash table, and the last digits differ from one call to the next.

    Parameters
    ----------
    texts: language to its sentences.
    vocabulary: size and kind.
    seed: seed of the sample.

    >>> toy = {"eng": ["a cat and a dog sat down"] * 50, "fra": ["un chat et un chien sont assis"] * 50}
    >>> tokenizer = train_tokenizer(toy, Vocabulary(size=60, sentences=100))
    >>> tokenizer.encode("a dog").tokens[0], tokenizer.get_vocab_size() <= 60
    ('[CLS]', True)
    """
    for language, lines in texts.items():
        if not lines:
            refuse(f"texts[{language}]", "at least one sentence", "none", "leave the language out or give it text")
    # Runs of spaces and the other space characters are one space: a lone "▁" carries no meaning worth a token.
    tidy = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()])
    special = list(SPECIAL_TOKENS)
    if vocabulary.kind == "unigram":
        tokenizer = Tokenizer(models.Unigram())
        trainer: trainers.Trainer = trainers.UnigramTrainer(
            vocab_size=vocabulary.size, special_tokens=special, unk_token="[UNK]", show_progress=False
        )
    else:
        tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
        trainer = trainers.BpeTrainer(vocab_size=vocabulary.size, special_tokens=special, show_progress=False)
    tokenizer.normalizer = tidy
    # Punctuation is cut off so that "cat," and "cat" share their piece.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()])
    tokenizer.decoder = decoders.Metaspace()
    try:
        tokenizer.train_from_iterator(balanced_sample(texts, vocabulary, seed), trainer)
    except Exception as error:  # the library raises bare Exception
        refuse("vocabulary.size", "room for every character of the text", f"{vocabulary.size} ({error})", "raise it or clean the text")
    sep, cls = tokenizer.token_to_id("[SEP]"), tokenizer.token_to_id("[CLS]")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:0 [SEP]:0", special_tokens=[("[CLS]", cls), ("[SEP]", sep)]
    )
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: str | Path, max_length: int) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json`` as transformers' AutoTokenizer reads them."""
    folder = Path(folder)
    write_whole(folder / "tokenizer.json", tokenizer.to_str())
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL_TOKENS, strict=True))
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": max_length, **names})


def load_tokenizer(folder: str | Path) -> Tokenizer:
    """Read ``tokenizer.json`` of a model folder.

    Raises
    ------
    InputError: there is none, or it is damaged.
    """
    path = Path(folder) / "tokenizer.json"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise InputError(f"{folder}: expected a tokenizer.json, got {error}; give a folder with a tokeniser") from error
