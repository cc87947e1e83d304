"""Examples of derived languages: where subwords, words and answers stand, what an encoder without
the language reads, and predictions that must be those of the original."""

import dataclasses

import numpy as np
import pytest
import torch
from derived_models import derived_model, sentences

from crosslens.corpus import Corpus
from crosslens.derive.blocks import SpecialTokens, derive_block
from crosslens.derive.labels import derived_entities
from crosslens.derive.registry import transformation
from crosslens.derive.transformation import Derived
from crosslens.errors import InputError, StoreError
from crosslens.files import read_json, write_json
from crosslens.models.finetuning.answer import Answer
from crosslens.models.finetuning.classify import Classify
from crosslens.models.finetuning.derived import (
    DerivedExamples,
    entities_in_order,
    plain_of,
    rows_of,
    with_random_rows,
    word_orders,
)
from crosslens.models.finetuning.examples import (
    QuestionExamples,
    TextExamples,
    TreeExamples,
    WordExamples,
)
from crosslens.models.finetuning.frozen import FrozenStates
from crosslens.models.finetuning.model import FineTunedModel
from crosslens.models.finetuning.parse import Parse
from crosslens.models.finetuning.settings import FineTuning
from crosslens.models.finetuning.tag import Tag
from crosslens.models.saved.derived_languages import (
    DerivedLanguage,
    derived_languages,
    own_languages,
)
from crosslens.models.saved.loading import load_encoder
from crosslens.models.text.vocabularies import load_vocabularies
from crosslens.models.training.data import encode_sentences
from crosslens.models.training.derivation import Derivation
from crosslens.models.training.settings import Source, TrainRecipe
from crosslens.readers.questions import Answer as Gold
from crosslens.readers.words import whitespace_spans
from crosslens.recipes.quickstart import DATA

TEXTS = sentences(12, seed=3)
NAMES = ("B-PER", "I-PER", "O")


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    """An encoder for each derivation, its copy's rows being those of the original."""
    place, made = tmp_path_factory.mktemp("models"), {}

    def encoder(by, **changes):
        key = by, *sorted(changes.items())
        if key not in made:
            made[key] = load_encoder(
                derived_model(place / f"model{len(made)}", by, copied=True, **changes)
            )
        return made[key]

    return encoder


@pytest.fixture(scope="module")
def tiny():
    return load_encoder(DATA / "tiny-encoder")


def corpus(texts=TEXTS, language="eng"):
    words = [whitespace_spans(text) for text in texts]
    return Corpus(language, list(texts), [str(i) for i in range(len(texts))], "toy", words=words)


def tagged(language="eng"):
    mine = corpus(language=language)
    labels = [np.array([0, 1, 2] * 9)[: len(row)] for row in mine.words]
    return WordExamples(mine, labels)


def derived(examples, by, seed=0, told="eng-x", **more):
    parts = {
        name: dataclasses.replace(getattr(examples, name), language=told)
        for name in ("corpus", "second")
        if getattr(examples, name, None) is not None
    }
    return DerivedExamples(
        dataclasses.replace(examples, **parts), DerivedLanguage("eng", by, seed), **more
    )


def ids_of(encoder):
    tokenizer = encoder.for_text("eng").tokenizer
    return [tokenizer.convert_tokens_to_ids(one) for one in ("[CLS]", "[SEP]")]


# -- places


@pytest.mark.parametrize("longest", [48, 9])
@pytest.mark.parametrize("by", ["inversion", "permutation", "local-shuffle:3", "transliteration"])
def test_words_are_asked_for_where_their_first_subword_is(encoders, by, longest):
    """Against a loop written apart; sentences of 9 subwords at most are read through windows."""
    encoder, kind, seed = encoders(by), Tag(3, max_length=longest), 4
    plain = kind.rows(encoder.for_text("eng"), tagged())
    made = transformation(by) if by != "transliteration" else transformation("identity")
    rows = rows_of(kind, encoder, derived(tagged(), by, seed))
    assert len(rows) == len(plain) and (len(rows) > 12) == (longest == 9)
    for number, (row, before) in enumerate(zip(rows, plain, strict=True)):
        inside = before.ids[1:-1].tolist()
        order = made.order(len(inside), seed, number, 0).tolist()
        assert row.ids.tolist() == [before.ids[0], *(inside[i] for i in order), before.ids[-1]]
        for old, new in zip(before.targets["first"], row.targets["first"], strict=True):
            assert new == order.index(old - 1) + 1
        assert row.items.tolist() == before.items.tolist()
        assert row.targets["labels"].tolist() == before.targets["labels"].tolist()
        assert row.languages == ("eng-x", None)


@pytest.mark.parametrize("by", ["inversion", "permutation"])
def test_segments_are_derived_as_blocks_are(encoders, by):
    encoder = encoders(by)
    first, last = ids_of(encoder)
    pairs = TextExamples(corpus(TEXTS[:6]), np.zeros(6, int), corpus(TEXTS[6:]))
    plain = Classify(2).rows(encoder.for_text("eng"), pairs)
    special = SpecialTokens(first=first, last=last, padding=-1, unknown=-1, mask=-1)
    for number, (row, before) in enumerate(
        zip(rows_of(Classify(2), encoder, derived(pairs, by, 5)), plain, strict=True)
    ):
        wanted = derive_block(before.ids, transformation(by), 5, 2 * number, special=special)
        assert row.ids.tolist() == wanted.tokens.tolist()
        assert row.segments.tolist() == before.segments.tolist()


def test_the_order_is_that_of_training(tmp_path):
    """The n-th sentence of a text is derived alike where it is trained on and where it is tested."""
    vocabularies = load_vocabularies(
        derived_model(tmp_path / "model", "transliteration+permutation") / "tokenizer"
    )
    recipe = TrainRecipe(
        name="toy",
        sources=(Source(name="toy", texts={"eng": "a", "eng-x": "a"}),),
        steps=1,
        seed=3,
        derived={"eng-x": Derivation(of="eng", by="transliteration+permutation")},
    )
    file = encode_sentences(vocabularies, corpus(language="eng-x"), tmp_path / "tokens", recipe)
    encoder = load_encoder(tmp_path / "model")
    examples = derived(TextExamples(corpus()), "transliteration+permutation", 3)
    for number, row in enumerate(rows_of(Classify(2), encoder, examples)):
        moved = vocabularies.tables["eng-x"][row.ids[1:-1]]
        assert moved.tolist() == file[number].tolist()


def test_answers_are_found_turned_round(encoders):
    encoder, kind = encoders("inversion"), Answer(max_length=20, stride=4)
    contexts = [" ".join(TEXTS[i : i + 2]) for i in range(6)]
    gold = [[Gold(" ".join(text.split()[2:4]), text.index(text.split()[2]))] for text in contexts]
    asked = QuestionExamples(corpus([text.split()[0] for text in contexts]), corpus(contexts), gold)
    plain = kind.rows(encoder.for_text("eng"), asked)
    rows = rows_of(kind, encoder, derived(asked, "inversion"))
    found = [
        np.array([[*row.targets["bounds"], 1.0]] if row.targets["bounds"][1] else [[1, 1, -9.0]])
        for row in rows
    ]
    found = [
        spans if row.targets["allowed"][int(spans[0, 0])] else spans[:0]
        for spans, row in zip(found, rows, strict=True)
    ]
    assert kind.join(asked, rows, found) == [some[0].text for some in gold]
    assert any(row.targets["bounds"][0] < row.targets["bounds"][1] for row in rows)
    twice = rows_of(kind, encoder, derived(asked, "inversion+inversion"))
    for row, before in zip(twice, plain, strict=True):
        assert row.ids.tolist() == before.ids.tolist()
        assert row.targets["bounds"] == tuple(before.targets["bounds"])
        assert row.targets["allowed"].tolist() == before.targets["allowed"].tolist()


# -- names


def test_names_begin_with_b_in_the_new_order(encoders):
    encoder, examples, kind = encoders("permutation"), tagged(), Tag(3)
    rows = rows_of(kind, encoder, derived(examples, "permutation", 1, names=NAMES))
    orders = word_orders(rows, [len(row) for row in examples.labels])
    for row, order, labels in zip(rows, orders, examples.labels, strict=True):
        # a row is a sentence here: its words in the order of their columns
        assert order.tolist() == np.argsort(row.targets["first"]).tolist()
        tags = [NAMES[n] for n in labels]
        wanted = derived_entities(Derived(order.tolist(), order.tolist()), tags)
        assert [NAMES[row.targets["labels"][word]] for word in order.tolist()] == wanted
    assert any(
        (row.targets["labels"] != labels).any()
        for row, labels in zip(rows, examples.labels, strict=True)
    )


def test_windows_of_a_sentence_stand_one_behind_the_other(encoders):
    examples = tagged()
    rows = rows_of(Tag(3, max_length=9), encoders("inversion"), derived(examples, "inversion"))
    for order, labels in zip(
        word_orders(rows, [len(row) for row in examples.labels]), examples.labels, strict=True
    ):
        assert sorted(order.tolist()) == list(range(len(labels)))
        assert order[0] < len(labels) - 1  # the first window has no last word
    assert word_orders([], [2])[0].tolist() == [0, 1]  # without a subword


def test_what_follows_an_uncounted_word_begins_a_name():
    order = np.array([2, 1, 0])
    assert entities_in_order(["B-PER", "", "I-PER"], order) == ["B-PER", "", "B-PER"]
    assert entities_in_order(["B-PER", "I-LOC", "I-LOC"], order) == ["B-LOC", "I-LOC", "B-PER"]


# -- predictions


def outputs(encoder, kind, examples):
    """What an untrained head makes of some examples."""
    model = FineTunedModel(encoder, kind, FineTuning(seed=1)).eval()
    from crosslens.models.finetuning.batches import padded
    from crosslens.models.training.objective import moved

    rows = model.rows(examples)
    inputs = moved(padded(kind, rows, encoder.pad_id), encoder.device)
    given = {name: inputs.pop(name) for name in model.reads}
    with torch.no_grad():
        found = kind.outputs(model.head, model.states(**given), given["mask"], inputs)
    return kind.join(plain_of(examples), rows, found)


def test_a_copy_of_the_rows_gives_the_predictions_of_the_original(encoders):
    encoder, mine = encoders("transliteration"), corpus()
    heads = [np.array([0, *range(1, len(row))]) for row in mine.words]
    relations = [np.zeros(len(row), int) for row in mine.words]
    for kind, examples in (
        (Classify(3), TextExamples(mine)),
        (Tag(3), tagged()),
        (Tag(3, crf=True), tagged()),
        (Parse(4), TreeExamples(mine, heads, relations)),
    ):
        one = outputs(encoder, kind, examples)
        other = outputs(encoder, kind, derived(examples, "transliteration"))
        for a, b in zip(one, other, strict=True):
            assert np.array_equal(getattr(a, "heads", a), getattr(b, "heads", b))
            assert np.array_equal(getattr(a, "relations", a), getattr(b, "relations", b))


def test_inversion_twice_is_the_original_and_once_is_not(encoders):
    encoder = encoders("inversion")
    plain, once, twice = (
        outputs(encoder, Classify(3), one)
        for one in (
            TextExamples(corpus()),
            derived(TextExamples(corpus()), "inversion"),
            derived(TextExamples(corpus()), "inversion+inversion"),
        )
    )
    assert np.array_equal(plain, twice) and not np.array_equal(plain, once)


def test_frozen_states_are_those_of_the_derived_input(encoders, tmp_path):
    encoder = encoders("transliteration+inversion")
    examples = derived(tagged(), "transliteration+inversion")
    rows = FrozenStates(encoder, tmp_path).rows(Tag(3), examples)
    bare = rows_of(Tag(3), encoder, examples)
    assert (
        rows[3].states.shape[0] == len(rows[3].ids) and rows[3].ids.tolist() == bare[3].ids.tolist()
    )
    ids = torch.from_numpy(bare[3].ids)[None]
    wanted = encoder.for_text("eng-x").states(ids, torch.ones_like(ids))["hidden"][-1]
    assert np.allclose(rows[3].states[:, -1], wanted[0].detach().numpy(), atol=2e-2)  # float16


# -- an encoder of the original alone


def test_unknown_subwords_leave_the_length_alone(tiny):
    """With nothing but unknown tokens, inputs of one length are one input."""
    texts = TextExamples(corpus())
    found = outputs(tiny, Classify(3), derived(texts, "transliteration", unseen="unknown"))
    rows = rows_of(Classify(3), tiny, derived(texts, "transliteration", unseen="unknown"))
    lengths = [len(row.ids) for row in rows]
    assert len({*lengths}) < len(lengths)
    unknown = tiny.tokenizer.unk_token_id
    assert all({*row.ids[1:-1].tolist()} == {unknown} for row in rows)
    for a in range(len(rows)):
        for b in range(a):
            same = np.allclose(found[a], found[b], rtol=0, atol=1e-6)  # columns of one batch
            assert same or lengths[a] != lengths[b]


def test_random_rows_are_new_and_the_original_s_stay(tiny):
    wider = with_random_rows(tiny, 3)
    table, before = wider.token_embeddings(), tiny.token_embeddings()
    n = len(before)
    assert len(table) == 2 * n and torch.equal(table[:n], before)
    assert table[n:].std().item() == pytest.approx(tiny.model.config.initializer_range, rel=0.02)
    assert wider.fingerprint not in (tiny.fingerprint, with_random_rows(tiny, 4).fingerprint)
    texts = TextExamples(corpus())
    assert np.array_equal(outputs(wider, Classify(3), texts), outputs(tiny, Classify(3), texts))
    rows = rows_of(Classify(3), wider, derived(texts, "transliteration", unseen="random"))
    plain = rows_of(Classify(3), wider, texts)
    for row, before in zip(rows, plain, strict=True):
        assert (row.ids[1:-1] - before.ids[1:-1] == n).all() and row.ids[0] == before.ids[0]
    outputs(wider, Classify(3), derived(texts, "transliteration", unseen="random"))


def test_an_encoder_that_cannot_is_refused(encoders, tiny):
    with pytest.raises(InputError, match=r"--unseen random: expected an encoder of transformers"):
        with_random_rows(encoders("transliteration"), 0)
    examples = derived(TextExamples(corpus()), "transliteration", unseen="unknown")
    token = tiny.tokenizer.unk_token
    try:
        tiny.tokenizer.unk_token = None
        with pytest.raises(InputError, match="a tokeniser with an unknown token"):
            rows_of(Classify(2), tiny, examples)
    finally:
        tiny.tokenizer.unk_token = token


# -- what a folder says


def test_a_folder_says_how_its_languages_are_derived(tmp_path):
    folder = derived_model(tmp_path / "model", "transliteration+local-shuffle:3", seed=7)
    how = DerivedLanguage("eng", "transliteration+local-shuffle:3", 7)
    assert derived_languages(folder) == {"eng-x": how} and own_languages(folder) == ("eng", "eng-x")
    assert DerivedLanguage.parse(str(how)) == how
    assert (
        derived_languages(DATA / "tiny-encoder")
        == {}
        == dict.fromkeys(own_languages(DATA / "tiny-encoder"))
    )
    config = read_json(folder / "config.json", dict)
    for wrong, match in (
        ({"eng-x": {"of": "eng"}}, "key derived"),
        ({"eng-x": {"of": "eng", "by": "invertion"}}, "invertion"),
        ({"eng-x": {"of": "eng", "by": "token-hop"}}, "token-hop"),
    ):
        write_json(folder / "config.json", {**config, "derived": wrong})
        with pytest.raises(StoreError, match=match):
            derived_languages(folder)


@pytest.mark.parametrize(
    "text", ["inversion", "eng:", ":inversion", "eng:inversion@x", "eng:nothing"]
)
def test_what_is_no_derivation_is_refused(text):
    with pytest.raises(InputError):
        DerivedLanguage.parse(text)
