"""Vocabularies: special ids, what transformers reads, and that learning one twice gives one."""

import json
import os
import subprocess
import sys

import pytest
import toy_texts
from transformers import AutoTokenizer

from crosslens.errors import InputError
from crosslens.models.tokenisation import SPECIAL_TOKENS, Vocabulary, balanced_sample, load_tokenizer, save_tokenizer, train_tokenizer

ODD = ["the cat, the dog!", "🙂 的猫", "  spaces \t here ", "e\u0301", "(the) cat-dog"]


@pytest.fixture(params=["unigram", "bpe"])
def kind(request):
    return request.param


@pytest.fixture
def texts():
    one, other = toy_texts.two_languages(150)
    return {"eng": one, "nld": other}


def pieces(tokenizer):
    return dict(map(tuple, json.loads(tokenizer)["model"]["vocab"]))


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


def test_transformers_reads_the_folder_and_gives_the_same_ids(tokenizer, tmp_path):
    save_tokenizer(tokenizer, tmp_path, 32)
    theirs, ours = AutoTokenizer.from_pretrained(tmp_path), load_tokenizer(tmp_path)
    for text in [*ODD, "the cat sees a dog"]:
        assert theirs(text)["input_ids"] == ours.encode(text).ids == tokenizer.encode(text).ids
    assert theirs("the cat", "a dog")["input_ids"] == tokenizer.encode("the cat", "a dog").ids
    named = (theirs.pad_token_id, theirs.unk_token_id, theirs.cls_token_id, theirs.sep_token_id, theirs.mask_token_id)
    assert named == (0, 1, 2, 3, 4) and theirs.model_max_length == 32 and theirs.is_fast


def test_known_text_comes_back(tokenizer):
    assert tokenizer.decode(tokenizer.encode("the cat sees a dog").ids) == "the cat sees a dog"


def test_runs_of_spaces_and_compatible_forms_change_nothing(tokenizer):
    plain = tokenizer.encode("the cat").ids
    assert tokenizer.encode("  the \t\u3000 cat ").ids == plain
    assert tokenizer.encode("ｔｈｅ cat").ids == plain  # full-width letters, NFKC


def test_unknown_characters_are_unknown_tokens(tokenizer):
    assert 1 in tokenizer.encode("的").ids


@pytest.fixture(scope="module")
def learnt_elsewhere():
    """Kind to the vocabulary that another process learns, with other hash seeds and another number of threads."""
    program = (
        "import json, sys\nfrom crosslens.models.tokenisation import Vocabulary, train_tokenizer\ntexts = json.load(sys.stdin)\n"
        "kinds = {kind: Vocabulary(size=110, kind=kind, sentences=200) for kind in ('unigram', 'bpe')}\n"
        "print(json.dumps({kind: train_tokenizer(texts, vocabulary, 1).to_str() for kind, vocabulary in kinds.items()}))"
    )
    one, other = toy_texts.two_languages(150)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "RAYON_NUM_THREADS": "3", "PYTHONHASHSEED": "7"}
    command, texts = [sys.executable, "-c", program], json.dumps({"eng": one, "nld": other})
    done = subprocess.run(command, input=texts, env=environment, capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout)


def test_learning_twice_gives_the_same_vocabulary(texts, kind, learnt_elsewhere):
    first, again = (train_tokenizer(texts, Vocabulary(size=110, kind=kind, sentences=200), 1).to_str() for _ in range(2))
    for other in (again, learnt_elsewhere[kind]):
        if kind == "bpe":
            assert other == first
        else:  # the library sums the scores in the order of a hash table: the pieces are the same, their last digits are not
            assert pieces(other) == pytest.approx(pieces(first), rel=1e-9)


def test_another_seed_draws_another_sample(texts):
    few = Vocabulary(sentences=40)
    samples = [list(balanced_sample(texts, few, seed)) for seed in (0, 0, 1)]
    assert samples[0] == samples[1] != samples[2]


@pytest.mark.parametrize(("exponent", "shares"), [(1.0, (900, 100)), (0.0, (500, 500)), (0.5, (750, 250))])
def test_the_sample_has_the_proportions_asked_for(exponent, shares):
    texts = {"big": [f"b{i}" for i in range(9000)], "small": [f"s{i}" for i in range(1000)]}
    sample = list(balanced_sample(texts, Vocabulary(sample_exponent=exponent, sentences=1000), 0))
    assert tuple(sum(line[0] == letter for line in sample) for letter in "bs") == shares
    assert len(set(sample)) == len(sample)  # without replacement while there is enough text


def test_a_short_text_is_repeated_evenly():
    sample = list(balanced_sample({"eng": ["a", "b", "c"]}, Vocabulary(sentences=8), 0))
    assert len(sample) == 8 and sorted(sample.count(line) for line in "abc") == [2, 3, 3]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Vocabulary(kind="words"), "vocabulary.kind: expected unigram or bpe, got 'words'; choose one of the two"),
        (
            lambda: Vocabulary(mode="both"),
            "vocabulary.mode: expected joint, union, disjoint or separate, got 'both'; choose one of the four",
        ),
        (lambda: Vocabulary(size=5), "vocabulary.size: expected more than the 5 special tokens, got 5; choose a larger one"),
        (
            lambda: train_tokenizer({"eng": ["abcdefghijklmnopqrstuvwxyz"]}, Vocabulary(size=10)),
            r"vocabulary.size: expected room for every character of the text, got 10 \(.*\); raise it or clean the text",
        ),
        (
            lambda: train_tokenizer({"eng": ["a"], "fra": []}, Vocabulary()),
            r"texts\[fra\]: expected at least one sentence, got none; leave the language out or give it text",
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
    with pytest.raises(InputError, match=r"expected a tokenizer.json, got .+; give a folder with a tokeniser"):
        load_tokenizer(tmp_path)
