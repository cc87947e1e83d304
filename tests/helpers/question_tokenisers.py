"""Tokenisers of all makes, learnt from some texts, and an encoder that has nothing but one."""

import copy
import functools

from tokenizers import (
    Regex,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from crosslens.models.saved.loading import load_encoder
from crosslens.models.text.tokenisation import Vocabulary, train_tokenizer
from crosslens.recipes.quickstart import DATA

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BYTES = pre_tokenizers.ByteLevel.alphabet()
SPLIT = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+"


def _bert(**settings):
    return normalizers.BertNormalizer(**settings), pre_tokenizers.BertPreTokenizer()


def _sequence(*parts):
    return normalizers.Sequence(list(parts))


# kind of model, normaliser, what it is cut by first, and settings of the trainer
_MADE = {
    "WordPiece, cased": ("wordpiece", *_bert(lowercase=False, strip_accents=False), {}),
    "WordPiece, uncased": ("wordpiece", *_bert(lowercase=True), {}),
    "WordPiece, Chinese uncut": (
        "wordpiece",
        *_bert(lowercase=False, handle_chinese_chars=False),
        {},
    ),
    "BPE, white space": ("bpe", None, pre_tokenizers.Whitespace(), {}),
    "BPE, NFKC, lower case": (
        "bpe",
        _sequence(normalizers.NFKC(), normalizers.Lowercase()),
        pre_tokenizers.Whitespace(),
        {},
    ),
    "BPE, spaces replaced": (
        "bpe",
        _sequence(normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")),
        pre_tokenizers.Split("▁", "merged_with_next"),
        {},
    ),
    "byte-level BPE": ("bytes", None, pre_tokenizers.ByteLevel(add_prefix_space=False), {}),
    "byte-level BPE, untrimmed": (
        "bytes, untrimmed",
        None,
        pre_tokenizers.ByteLevel(add_prefix_space=True),
        {},
    ),
    "byte-level BPE, NFC, digits cut": (
        "bytes",
        normalizers.NFC(),
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(SPLIT), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        ),
        {},
    ),
    "unigram": ("unigram", None, pre_tokenizers.Metaspace(), {}),
    "unigram, NFKC, lower case": (
        "unigram",
        _sequence(normalizers.NFKC(), normalizers.Lowercase()),
        pre_tokenizers.Metaspace(prepend_scheme="first"),
        {},
    ),
    "unigram, no accents": (
        "unigram",
        _sequence(normalizers.NFD(), normalizers.StripAccents()),
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
        {},
    ),
}
_MODELS = {
    "wordpiece": (models.WordPiece, trainers.WordPieceTrainer, {}),
    "bpe": (models.BPE, trainers.BpeTrainer, {}),
    "bytes": (models.BPE, trainers.BpeTrainer, {"initial_alphabet": BYTES}),
    "unigram": (models.Unigram, trainers.UnigramTrainer, {"unk_token": "[UNK]"}),
}
KINDS = (*_MADE, "ours, unigram", "ours, BPE")


def learnt(kind, texts, size):
    """The tokeniser of a kind, learnt from texts, as transformers has it."""
    if kind.startswith("ours"):
        made = Vocabulary(size=size, kind="bpe" if kind.endswith("BPE") else "unigram")
        return wrapped(train_tokenizer({"mul": texts}, made))
    what, normalizer, cut, settings = _MADE[kind]
    model, trainer, more = _MODELS[what.partition(",")[0]]
    known = {} if what == "unigram" or what.startswith("bytes") else {"unk_token": "[UNK]"}
    tokenizer = Tokenizer(model(**known))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = cut
    told = {"vocab_size": size, "special_tokens": SPECIAL, "show_progress": False}
    tokenizer.train_from_iterator(texts, trainer(**told, **more, **settings))
    template = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    parts = [template]
    if what == "bytes":
        parts = [processors.ByteLevel(trim_offsets=True), template]
    tokenizer.post_processor = processors.Sequence(parts)
    return wrapped(tokenizer)


def wrapped(tokenizer):
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


def encoder_of(tokenizer, max_length=384):
    """A small encoder with another tokeniser, for all that asks for no states."""
    encoder = copy.copy(_small())
    encoder.name, encoder.tokenizer, encoder.max_length = "toy", tokenizer, max_length
    encoder.check_ids = lambda ids: None
    return encoder


@functools.cache
def _small():
    return load_encoder(DATA / "tiny-encoder")
