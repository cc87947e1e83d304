"""Vocabularies: special ids, what transformers reads, and that learning one twice gives one."""

import collections
import dataclasses
import functools
import gzip
import hashlib
import io
import itertools
import json
import os
import re
import subprocess
import sys

import pytest
import sentencepiece
import toy_texts
from transformers import AutoTokenizer

from crosslens.errors import InputError
from crosslens.models.text.tokenisation import (
    SPECIAL_TOKENS,
    Vocabulary,
    balanced_sample,
    load_tokenizer,
    save_tokenizer,
    train_tokenizer,
    with_segments,
)

ODD = ["the cat, the dog!", "🙂 的猫", "  spaces \t here ", "e\u0301", "(the) cat-dog"]


@pytest.fixture(params=["unigram", "bpe"])
def kind(request):
    return request.param


@pytest.fixture
def texts():
    one, other = toy_texts.two_languages(150)
    return {"eng": one, "nld": other}


@pytest.fixture
def tokenizer(texts, kind):
    return train_tokenizer(texts, Vocabulary(size=110, kind=kind, sentences=200))


def test_special_tokens_have_the_first_ids(tokenizer):
    assert [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]
    assert tokenizer.get_vocab_size() <= 110


def test_the_template_frames_sentences_and_pairs(tokenizer):
    a, b = (tokenizer.encode(text, add_special_tokens=False).ids for text in ("the cat", "de hond"))
    assert tokenizer.encode("the cat").ids == [2, *a, 3]
    pair = tokenizer.encode("the cat", "de hond")
    assert pair.ids == [2, *a, 3, *b, 3] and set(pair.type_ids) == {0}
    assert with_segments(tokenizer, 1) is tokenizer  # no second segment to tell apart by
    told = with_segments(tokenizer, 2).encode("the cat", "de hond")
    assert told.ids == pair.ids
    assert told.type_ids == [0] * (len(a) + 2) + [1] * (len(b) + 1)
    assert set(tokenizer.encode("the cat", "de hond").type_ids) == {0}  # as it was


def test_transformers_reads_the_folder_and_gives_the_same_ids(tokenizer, tmp_path):
    save_tokenizer(tokenizer, tmp_path, 32)
    theirs, ours = AutoTokenizer.from_pretrained(tmp_path), load_tokenizer(tmp_path)
    for text in [*ODD, "the cat sees a dog"]:
        assert theirs(text)["input_ids"] == ours.encode(text).ids == tokenizer.encode(text).ids
    assert theirs("the cat", "a dog")["input_ids"] == tokenizer.encode("the cat", "a dog").ids
    named = (
        theirs.pad_token_id,
        theirs.unk_token_id,
        theirs.cls_token_id,
        theirs.sep_token_id,
        theirs.mask_token_id,
    )
    assert named == (0, 1, 2, 3, 4) and theirs.model_max_length == 32 and theirs.is_fast


def test_known_text_comes_back(tokenizer):
    assert tokenizer.decode(tokenizer.encode("the cat sees a dog").ids) == "the cat sees a dog"


def test_runs_of_spaces_and_compatible_forms_change_nothing(tokenizer):
    plain = tokenizer.encode("the cat").ids
    assert tokenizer.encode("  the \t\u3000 cat ").ids == plain
    assert tokenizer.encode("ｔｈｅ cat").ids == plain  # full-width letters, NFKC


def test_unknown_characters_are_unknown_tokens(tokenizer):
    assert 1 in tokenizer.encode("的").ids


LEARN = (
    "import hashlib, json, sys\nfrom crosslens.models.text.tokenisation import Vocabulary, "
    "train_tokenizer\n"
    "texts, settings = json.load(sys.stdin)\nkinds = [Vocabulary(**chosen) for chosen in "
    "settings]\n"
    "whole = [train_tokenizer(texts, vocabulary, 1).to_str() for vocabulary in kinds]\n"
    "print(json.dumps([hashlib.sha256(one.encode()).hexdigest() for one in whole]))"
)


def learnt_elsewhere(texts, settings, cores, **environment):
    """Hashes of the vocabularies that another process learns on some of the machine's cores."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    command, given = [sys.executable, "-c", LEARN], json.dumps([texts, settings])
    keep_to = (
        functools.partial(os.sched_setaffinity, 0, cores)
        if hasattr(os, "sched_setaffinity")
        else None
    )
    done = subprocess.run(
        command,
        input=given,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        preexec_fn=keep_to,
    )
    return json.loads(done.stdout)


def learnt_here(texts, settings):
    whole = [train_tokenizer(texts, Vocabulary(**chosen), 1).to_str() for chosen in settings]
    return [hashlib.sha256(one.encode()).hexdigest() for one in whole]


def all_cores():
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]


def test_learning_twice_gives_the_same_vocabulary(texts):
    settings = [{"size": 110, "kind": kind, "sentences": 200} for kind in ("unigram", "bpe")]
    first = learnt_here(texts, settings)
    assert learnt_here(texts, settings) == first
    other = {
        "RAYON_NUM_THREADS": "3",
        "OMP_NUM_THREADS": "3",
        "TOKENIZERS_PARALLELISM": "true",
        "PYTHONHASHSEED": "7",
    }
    assert learnt_elsewhere(texts, settings, all_cores()[:1], **other) == first


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tatoeba.en-fr", "libreoffice.zh"])
def test_a_large_text_gives_the_same_vocabulary_in_every_process(shared_data, name):
    with gzip.open(shared_data / "text" / f"{name}.tsv.gz", "rt", encoding="utf-8") as file:
        texts = {
            "und": [line.rstrip("\n").split("\t")[1] for line in itertools.islice(file, 60_000)]
        }
    settings = [{"kind": "unigram"}, {"kind": "bpe"}]
    one_thread = {
        "RAYON_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONHASHSEED": "1",
    }
    several = {
        "RAYON_NUM_THREADS": "5",
        "OMP_NUM_THREADS": "5",
        "TOKENIZERS_PARALLELISM": "true",
        "PYTHONHASHSEED": "2",
    }
    first = learnt_elsewhere(texts, settings, all_cores()[:1], **one_thread)
    assert learnt_elsewhere(texts, settings, all_cores(), **several) == first


def test_unigram_pieces_are_those_of_sentencepiece_and_segment_alike(texts):
    texts["eng"] += [
        "the sun (a big, red one) sits by the sea. don't",
        "on-and-on, in 2024 by 20 cats",
    ]
    ours = train_tokenizer(texts, Vocabulary(size=110, sentences=300))
    words = collections.Counter(
        word
        for line in balanced_sample(texts, Vocabulary(size=110, sentences=300), 0)
        for word in re.findall(
            r"▁(?=[,.()'-])|▁?[^▁,.()'-]+|[,.()'-]", "▁" + line.replace(" ", "▁")
        )
    )
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(f"{word}\t{count}" for word, count in sorted(words.items())),
        model_writer=model,
        input_format="tsv",
        vocab_size=110,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        control_symbols=["[MASK]"],
        character_coverage=1.0,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
        split_by_unicode_script=False,
        split_by_number=False,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    assert theirs.get_piece_size() == ours.get_vocab_size()
    assert [ours.id_to_token(i) for i in range(5, len(theirs))] == [
        theirs.id_to_piece(i) for i in range(5, len(theirs))
    ]
    assert len(words) > 30
    for word in words:
        assert [token.id for token in ours.model.tokenize(word)] == theirs.encode(word), word


def test_the_sign_that_sentencepiece_keeps_for_itself_costs_no_other_character():
    tokenizer = train_tokenizer({"eng": ["load ▁▂▃▅▇ of two", "q▅w"] * 5}, Vocabulary(size=60))
    assert 1 not in tokenizer.encode("q w ▂▃▇").ids and tokenizer.encode("▅").ids == [
        2,
        tokenizer.token_to_id("▁"),
        1,
        3,
    ]


def test_another_seed_draws_another_sample(texts):
    few = Vocabulary(sentences=40)
    samples = [list(balanced_sample(texts, few, seed)) for seed in (0, 0, 1)]
    assert samples[0] == samples[1] != samples[2]


@pytest.mark.parametrize(
    ("exponent", "shares"), [(1.0, (900, 100)), (0.0, (500, 500)), (0.5, (750, 250))]
)
def test_the_sample_has_the_proportions_asked_for(exponent, shares):
    texts = {"big": [f"b{i}" for i in range(9000)], "small": [f"s{i}" for i in range(1000)]}
    sample = list(balanced_sample(texts, Vocabulary(sample_exponent=exponent, sentences=1000), 0))
    assert tuple(sum(line[0] == letter for line in sample) for letter in "bs") == shares
    assert len(set(sample)) == len(sample)  # without replacement while there is enough text


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_language_of_which_no_sentence_would_be_drawn_is_named(kind):
    """All of its text became unknown tokens, and nothing was said."""
    texts = {"eng": [f"the cat {i} sat" for i in range(900)], "ell": ["η γάτα", "το σκυλί"]}
    few = Vocabulary(size=100, sentences=200, sample_exponent=1.0, kind=kind)
    told = r"vocabulary.sentences: expected enough for a sentence of ell .*, got 200; raise it"
    with pytest.raises(InputError, match=told):
        train_tokenizer(texts, few)
    for more in ({"sentences": 300}, {"sample_exponent": 0.5}):
        tokenizer = train_tokenizer(texts, dataclasses.replace(few, **more))
        assert any("γ" in piece or "σ" in piece for piece in tokenizer.get_vocab())


def test_a_short_text_is_repeated_evenly():
    sample = list(balanced_sample({"eng": ["a", "b", "c"]}, Vocabulary(sentences=8), 0))
    assert len(sample) == 8 and sorted(sample.count(line) for line in "abc") == [2, 3, 3]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda: Vocabulary(kind="words"),
            "vocabulary.kind: expected one of unigram, bpe",
        ),
        (
            lambda: Vocabulary(mode="both"),
            ("vocabulary.mode: expected one of joint, union, disjoint, separate"),
        ),
        (
            lambda: Vocabulary(size=5),
            ("vocabulary.size: expected a whole number from 6 to 10,000,000"),
        ),
        (
            lambda: train_tokenizer({"eng": ["abcdefghijklmnopqrstuvwxyz"]}, Vocabulary(size=10)),
            (r"vocabulary.size: expected room for every character of the text \(at least 32\)"),
        ),
        (
            lambda: train_tokenizer({"eng": [" ", "\u3000"]}, Vocabulary()),
            "texts: expected at least one word",
        ),
        (
            lambda: train_tokenizer({"eng": [" ", "\u3000"]}, Vocabulary(kind="bpe")),
            "texts: expected at least one word",
        ),
        (
            lambda: train_tokenizer({"eng": ["a cat"] * 9}, Vocabulary(size=20), seed=-1),
            "seed: expected a whole number from 0 up, got -1",
        ),
        (
            lambda: train_tokenizer({"eng": ["a"], "fra": []}, Vocabulary()),
            (r"texts\[fra\]: expected at least one sentence"),
        ),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(make, told):
    with pytest.raises(InputError, match=told):
        make()


@pytest.mark.parametrize("content", [None, "{"])
def test_a_missing_or_damaged_tokeniser_is_refused(tmp_path, content):
    if content:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(InputError, match="tokenizer.json: expected"):
        load_tokenizer(tmp_path)
