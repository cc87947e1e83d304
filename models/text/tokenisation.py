"""Text to token ids: learning a vocabulary, and the tokeniser folder that transformers reads.

Unigram subwords are learnt by SentencePiece, BPE subwords by the ``tokenizers`` library; both become
a tokeniser of the latter. A space is the sign "▁" in front of the next subword, so scripts with and
without spaces are treated alike and no word segmentation is needed.
"""

import collections
import dataclasses
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from crosslens.checks import check_seed
from crosslens.errors import check_choice, cut, panics_as_errors, refuse
from crosslens.files import write_json, write_whole
from crosslens.models.limits import LIMITS, check_numbers, shown

__all__ = [
    "SPECIAL_TOKENS",
    "Vocabulary",
    "balanced_sample",
    "by_bytes",
    "load_tokenizer",
    "sampling_weights",
    "save_tokenizer",
    "tokenised",
    "train_tokenizer",
    "with_segments",
    "with_special_tokens",
]

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # ids 0 to 4 in every vocabulary
_NAMED = dict(
    zip(
        ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"),
        SPECIAL_TOKENS,
        strict=True,
    )
)

# SentencePiece adds up counts in as many parts as it is told threads, and the last digits of the
# sums depend on their number: it is the same on every machine, however many cores there are. (The
# trainer of ``tokenizers`` adds up in the order of a hash table that differs from one call to the
# next, on a single thread, too.)
_PARTS = 16
# SentencePiece's own sign for an unknown character; it passes over whatever holds one
_RESERVED = "\u2585"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """How a vocabulary is learnt; :func:`crosslens.models.text.vocabularies.learn_vocabularies`
    does it.

    Attributes
    ----------
    size: number of subwords, special tokens included: of the one vocabulary if ``mode`` is "joint",
        of each language's otherwise.
    kind: "unigram" (Kudo 2018) or "bpe" (Sennrich et al. 2016).
    sample_exponent: languages are sampled in proportion to (their sentences) ** exponent; 1 keeps
        the corpus as it is, 0 (or -1, as in XLM) gives each language the same share.
    sentences: how many sentences are sampled to learn from.
    mode: "joint": one vocabulary learnt from all languages. "union": one for each language, then
        united, so that identical subwords are one id (the natural anchors of Conneau et al. 2020).
        "disjoint": the same, but only the special tokens are shared (no anchors). "separate": one
        for each language, each with ids of its own, for models whose languages own their
        embeddings.
    copies: language to the language whose tokeniser it uses, under ids of its own: the
        transliterations of Deshpande et al. 2022, § 3, of which every subword's translation is known.
        (In "union" under the same ids.) Their text is not learnt from.
    """

    size: int = 8000
    kind: str = "unigram"
    sample_exponent: float = 0.5
    sentences: int = 100_000
    mode: str = "joint"
    copies: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        check_numbers(self, "vocabulary.")
        check_choice(self.kind, "vocabulary.kind", ("unigram", "bpe"))
        check_choice(self.mode, "vocabulary.mode", ("joint", "union", "disjoint", "separate"))
        if self.copies and self.mode == "joint":
            expected = "union, disjoint or separate where a language is a copy"
            refuse("vocabulary.mode", expected, repr(self.mode), "choose one of the three")


def sampling_weights(counts: Sequence[int], exponent: float | int) -> np.ndarray:
    """(n,) relative weights of languages or streams: counts ** exponent; the same for all with
    exponent 0 or -1.

    Conneau & Lample 2019, eq. 1, and the -1 of their program, which is no power but stands for
    "evenly".

    Raises
    ------
    InputError: an exponent that is neither -1 nor in its range.

    >>> sampling_weights([900, 100], -1).tolist()
    [1.0, 1.0]
    """
    limits = LIMITS["Vocabulary"]["sample_exponent"]
    if not limits.hold(exponent):
        refuse("sample_exponent", str(limits), shown(exponent), limits.remedy)
    return np.asarray(counts, float) ** (0 if exponent == -1 else exponent)


def balanced_sample(
    texts: Mapping[str, Sequence[str]], vocabulary: Vocabulary, seed: int
) -> Iterator[str]:
    """Sentences drawn (with replacement where a language is short) in the proportions of
    ``sample_exponent``."""
    rng = np.random.default_rng([seed, 0x70C])
    for lines, count in zip(texts.values(), _sample_sizes(texts, vocabulary), strict=True):
        whole, rest = divmod(count, len(lines))
        for _ in range(whole):
            yield from lines
        for i in np.sort(rng.permutation(len(lines))[:rest]):
            yield lines[int(i)]


def _sample_sizes(texts: Mapping[str, Sequence[str]], vocabulary: Vocabulary) -> list[int]:
    """How many sentences of each language are drawn."""
    weights = sampling_weights([len(lines) for lines in texts.values()], vocabulary.sample_exponent)
    counts: list[int] = (
        np.round(vocabulary.sentences * weights / weights.sum()).astype(int).tolist()
    )
    return counts


def train_tokenizer(
    texts: Mapping[str, Sequence[str]], vocabulary: Vocabulary, seed: int = 0
) -> Tokenizer:
    """Learn one vocabulary from the sentences of all languages that are given.

    The same texts, settings and seed give the same vocabulary to the byte, for any number of
    threads and cores.

    Parameters
    ----------
    texts: language to its sentences.
    vocabulary: size and kind.
    seed: seed of the sample.

    Raises
    ------
    InputError: no possible seed; a language without sentences, or with so small a share of the sample
        that none of its sentences is drawn; a size without room for every character of the sample.

    >>> toy = {"eng": ["a cat and a dog sat down"] * 50, "fra": ["un chat et un chien sont assis"] * 50}
    >>> tokenizer = train_tokenizer(toy, Vocabulary(size=60, sentences=100))
    >>> tokenizer.encode("a dog").tokens[0], tokenizer.get_vocab_size() <= 60
    ('[CLS]', True)
    """
    check_seed(seed)
    for language, lines in texts.items():
        if not lines:
            remedy = "leave the language out or give it text"
            refuse(f"texts[{language}]", "at least one sentence", "none", remedy)
    for language, count in zip(texts, _sample_sizes(texts, vocabulary), strict=True):
        if not count:  # all of its text would be unknown
            expected = f"enough for a sentence of {language} among those of all languages"
            remedy = "raise it, or lower vocabulary.sample_exponent"
            refuse("vocabulary.sentences", expected, str(vocabulary.sentences), remedy)
    sample = balanced_sample(texts, vocabulary, seed)
    tokenizer = (
        _learn_unigram(sample, vocabulary.size)
        if vocabulary.kind == "unigram"
        else _learn_bpe(sample, vocabulary.size)
    )
    tokenizer.post_processor = _template(tokenizer, 0)
    return tokenizer


def _template(tokenizer: Tokenizer, second: int) -> processors.TemplateProcessing:
    """What stands around a sentence, and around a pair, whose second has the segment ``second``."""
    special = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    return processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair=f"[CLS] $A [SEP] $B:{second} [SEP]:{second}",
        special_tokens=special,
    )


def with_segments(tokenizer: Tokenizer, segments: int) -> Tokenizer:
    """A tokeniser of :func:`train_tokenizer` as an encoder that was trained with that many segments
    reads pairs: the second sentence of a pair has segment 1 where there are two or more, as in BERT,
    and 0 where not.

    >>> tokenizer = train_tokenizer({"eng": ["a cat sat"] * 50}, Vocabulary(size=30, sentences=50))
    >>> [with_segments(tokenizer, n).encode("a", "a").type_ids for n in (0, 2)]
    [[0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1]]
    """
    if segments < 2:
        return tokenizer
    told = Tokenizer.from_str(tokenizer.to_str())  # a model's vocabularies stay as they were read
    told.post_processor = _template(told, 1)
    return told


def _around(model: models.Model) -> Tokenizer:
    """A tokeniser with what stands before and behind its model: how text is tidied, cut, and put
    together again."""
    tokenizer = Tokenizer(model)
    # Runs of spaces and the other space characters are one space: a lone "▁" carries no meaning
    # worth a token.
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    )
    # Punctuation is cut off so that "cat," and "cat" share their subword.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()]
    )
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def _learn_bpe(sentences: Iterator[str], size: int) -> Tokenizer:
    tokenizer = _around(models.BPE(unk_token="[UNK]"))
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(SPECIAL_TOKENS), show_progress=False
    )
    try:
        tokenizer.train_from_iterator(sentences, trainer)
    except Exception as error:  # the library raises bare Exception
        expected = "room for every character of the text"
        refuse("vocabulary.size", expected, f"{size} ({error})", "raise it or clean the text")
    if tokenizer.get_vocab_size() == len(SPECIAL_TOKENS):
        refuse("texts", "at least one word", "none", "give other text")
    return tokenizer


def _learn_unigram(sentences: Iterator[str], size: int) -> Tokenizer:
    """Kudo 2018, by SentencePiece's trainer, on words that are cut as they will be cut in use."""
    empty = _around(models.Unigram())
    between_spaces = collections.Counter(
        word
        for sentence in sentences
        for word in empty.normalizer.normalize_str(sentence).split(" ")
        if word
    )
    words: collections.Counter[str] = collections.Counter()
    for word, count in between_spaces.items():
        for piece, _ in empty.pre_tokenizer.pre_tokenize_str(word):
            for part in filter(None, piece.split(_RESERVED)):
                words[part] += count
    needed = len(set().union(*words)) + len(SPECIAL_TOKENS)
    if not words:
        refuse("texts", "at least one word", "none", "give other text")
    if needed > size:
        expected = f"room for every character of the text (at least {needed})"
        refuse("vocabulary.size", expected, str(size), "raise it or clean the text")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(f"{word}\t{words[word]}" for word in sorted(words)),
        input_format="tsv",
        model_writer=model,
        model_type="unigram",
        vocab_size=size,
        hard_vocab_limit=False,  # little text has fewer subwords
        num_threads=_PARTS,
        pad_id=0,  # the special tokens' ids; what they are called here is not looked at
        unk_id=1,
        bos_id=2,
        eos_id=3,
        control_symbols=list(SPECIAL_TOKENS[4:]),
        character_coverage=1.0,
        max_sentence_length=2**30,  # bytes of a word: none is passed over
        normalization_rule_name="identity",  # the words are tidied and cut already
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
        split_by_unicode_script=False,
        split_by_number=False,
        minloglevel=2,
    )
    learnt = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [
        (learnt.id_to_piece(i), learnt.get_score(i))
        for i in range(len(SPECIAL_TOKENS), len(learnt))
    ]
    tokenizer = _around(
        models.Unigram([*((token, 0.0) for token in SPECIAL_TOKENS), *pieces], unk_id=1)
    )
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return tokenizer


def with_special_tokens(tokenizer: Tokenizer) -> Any:
    """A tokeniser as transformers has them, as it reads it from a folder of :func:`save_tokenizer`,
    but without a longest input."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **_NAMED)


def save_tokenizer(
    tokenizer: Tokenizer, folder: str | Path, max_length: int, *, segments: int = 1
) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json`` as transformers' AutoTokenizer reads
    them.

    Parameters
    ----------
    segments: of the model. Of two, AutoTokenizer is told to give the segment of each token, which it
        leaves out otherwise, so that both sentences of a pair would be read in the first.
    """
    folder = Path(folder)
    write_whole(folder / "tokenizer.json", tokenizer.to_str())
    told: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        **_NAMED,
    }
    if segments > 1:
        told["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    write_json(folder / "tokenizer_config.json", told)


def load_tokenizer(folder: str | Path) -> Tokenizer:
    """Read ``tokenizer.json`` of a model folder.

    Raises
    ------
    InputError: there is none, or it is damaged.
    """
    path = Path(folder) / "tokenizer.json"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    try:
        with panics_as_errors():
            return Tokenizer.from_buffer(path.read_bytes())  # from_file takes names in UTF-8 only
    except Exception as error:  # the library raises bare Exception
        refuse(str(path), "a tokeniser", cut(str(error), 300), "give a folder with a tokeniser")


def tokenised(name: str, tokenizer: Any, *texts: Sequence[str], **settings: Any) -> list[Any]:
    """The encodings of some texts, or of pairs of them, by the fast tokeniser of an encoder.

    Parameters
    ----------
    name: of the encoder, for messages.
    tokenizer: transformers' tokeniser. settings: what it is called with.

    Raises
    ------
    InputError: the tokeniser fails, because it lacks a token that it adds, say.
    """
    try:
        with panics_as_errors():
            encodings: list[Any] = tokenizer(*texts, **settings).encodings
            return encodings
    except Exception as error:  # the library raises bare Exception
        expected = "a tokeniser that takes every text"
        refuse(f"encoder {name}", expected, str(error)[:200], "check its tokenizer.json")


def by_bytes(tokenizer: Any) -> bool:
    """Whether a tokeniser is byte-level BPE, which has two subwords for a word: as it begins a text,
    and behind a space.

    By what it does, not by how subwords look, since Ġ is a letter of Maltese as well.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return backend is not None and "ByteLevel" in f"{backend.pre_tokenizer} {backend.decoder}"
