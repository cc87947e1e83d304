"""Extra anchors in training: which words of a batch are replaced, how many, and that a resumed run
is the undisturbed one."""

import dataclasses
import gzip
import json

import numpy as np
import pytest
from toy_texts import _OTHER, _WORDS, prepared, toy_recipe, weights, write_lines

from crosslens.errors import InputError
from crosslens.models.text.tokenisation import SPECIAL_TOKENS, Vocabulary
from crosslens.models.training import anchors
from crosslens.models.training.anchors import Anchors, check_direction, weighted_dictionary
from crosslens.models.training.masked_batches import MaskedBatches
from crosslens.models.training.masked_lm import train
from crosslens.models.training.settings import Source, resolve, with_overrides
from crosslens.readers.dictionary import read_dictionary
from crosslens.recipes import load_recipe

PAIRS = dict(zip(_WORDS, _OTHER, strict=True))
BOTH = {**PAIRS, **{b: a for a, b in PAIRS.items()}}


def recipe_with(folder, pairs=None, units="stream", mode="union", **anchors):
    lines = [" ".join(pair) for pair in pairs or PAIRS.items()]
    told = Anchors(dictionary=write_lines(folder / "en-nl.txt", lines), **anchors)
    made = toy_recipe(folder, anchors=told)
    return with_overrides(
        dataclasses.replace(made, units=units, max_length=24),
        {"vocabulary.mode": mode, "tlm_share": 0.0},
    )


def words_of(batches, ids, language):
    """Each row's text, word by word; reads ids of both languages."""
    names = batches.vocabularies.pieces(language)
    return [
        "".join(" " if i < len(SPECIAL_TOKENS) else names[i] for i in row).replace("▁", " ").split()
        for row in ids.tolist()
    ]


def both(batches, step):
    """A step's rows without and with code-switching, and the counts."""
    plain = batches.data.streams[int(batches.which[step])].collate(
        batches._items(int(batches.which[step]), int(batches.turn[step]))
    )
    switched, counts = batches._rows(step)
    return plain, switched, tuple(map(sum, zip(*counts.values(), strict=True)))


def test_whole_words_of_sentences_become_translations_and_nothing_else_changes(tmp_path):
    recipe = recipe_with(tmp_path, units="sentences", rate=1.0, most=1.0)
    batches = MaskedBatches(*prepared(recipe, tmp_path / "run"))
    for step in range(10):
        plain, switched, (words, known, replaced) = both(batches, step)
        language = batches.recipe.languages[plain.languages[0, 0]]
        before, after = (words_of(batches, one.ids, language) for one in (plain, switched))
        assert after == [[BOTH[word] for word in row] for row in before]
        assert words == known == replaced == sum(map(len, before))
        assert (switched.ids[:, 0] == plain.ids[:, 0]).all()  # [CLS]
        assert (switched.languages == plain.languages[0, 0]).all()


def test_words_at_the_edge_of_continuous_rows_are_left_alone(tmp_path):
    """A row may begin and end within a word: these, and they alone, are not replaced."""
    recipe = recipe_with(tmp_path, rate=1.0, most=1.0)
    batches = MaskedBatches(*prepared(recipe, tmp_path / "run"))
    cut = 0
    for step in range(10):
        plain, switched, counts = both(batches, step)
        assert counts[0] == counts[1] >= counts[2] > 0
        assert switched.ids.shape[1] <= plain.ids.shape[1] and (switched.lengths > 0).all()
        language = batches.recipe.languages[plain.languages[0, 0]]
        for before, after in zip(
            *(words_of(batches, one.ids, language) for one in (plain, switched)), strict=True
        ):
            # the first may be the rest of a word; of a longer row the end is cut off
            inner = [BOTH[word] for word in before[1:-1]]
            at = min(len(inner), len(after) - 2)
            assert after[1 : 1 + at] == inner[:at]
            cut += at < len(inner)
    assert cut < 40


@pytest.mark.parametrize("units", ["sentences", "stream"])
def test_no_batch_exceeds_the_limit_and_the_rate_is_realised(tmp_path, units):
    limited = MaskedBatches(*prepared(recipe_with(tmp_path, units=units), tmp_path / "run"))
    for step in range(30):
        _, _, (words, known, replaced) = both(limited, step)
        assert words >= known and replaced <= 0.15 * words
    free = recipe_with(tmp_path, units=units, most=1.0)
    told = MaskedBatches(*prepared(free, tmp_path / "run")).anchor_counts(30)[""].told()
    spread = 4 * (0.3 * 0.7 / told["known"]) ** 0.5
    assert told["known"] == told["words"] and abs(told["of_known"] - 0.3) < spread
    counts = limited.anchor_counts(30)
    told, *others = (one.told() for one in counts.values())
    assert told["of_words"] <= 0.15 and 0.12 < told["highest"] <= 0.15
    assert sorted(counts) == ["", *sorted(limited.recipe.languages)]
    assert sum(one["replaced"] for one in others) == told["replaced"]
    assert all(one["highest"] <= 0.15 for one in others)


def test_a_word_is_never_replaced_by_itself(tmp_path):
    """Half of the words have themselves among their translations: nothing is lost to these."""
    same = [(word, word) for word in _WORDS[::2]]
    told = {"units": "sentences", "mode": "joint", "rate": 1.0, "most": 1.0}
    recipe = recipe_with(tmp_path, [*PAIRS.items(), *same], **told)
    batches = MaskedBatches(*prepared(recipe, tmp_path / "run"))
    for step in range(10):
        plain, switched, _ = both(batches, step)
        language = batches.recipe.languages[plain.languages[0, 0]]
        before, after = (words_of(batches, one.ids, language) for one in (plain, switched))
        assert after == [[BOTH[word] for word in row] for row in before]
    alone = recipe_with(tmp_path, same, mode="joint")
    with pytest.raises(InputError, match="none is so, or each is a word and itself"):
        MaskedBatches(*prepared(alone, tmp_path / "other"))


def test_weights_of_translations_are_above_0(tmp_path):
    path = write_lines(tmp_path / "scored.txt", ["sun\tzon\t0.5", "moon\tmaan\t-0.1"])
    with pytest.raises(InputError, match="expected scores above 0, .*, got -0.1 of 'moon maan'"):
        weighted_dictionary(path)


def test_a_row_never_grows_beyond_its_room(tmp_path):
    """Translations of many subwords: of whole sentences those are not made that there is no room
    for."""
    long = [(word, "zonzeerood") for word in _WORDS] + [("sun", "zon")]
    recipe = recipe_with(tmp_path, long, units="sentences", rate=1.0, most=1.0)
    recipe = dataclasses.replace(recipe, max_length=14)
    batches = MaskedBatches(*prepared(recipe, tmp_path / "run"))
    known, replaced = 0, 0
    for step in range(10):
        _, switched, counts = both(batches, step)
        known, replaced = known + counts[1], replaced + counts[2]
        assert switched.lengths.max() <= 16
        last = switched.ids[np.arange(len(switched.ids)), switched.lengths - 1]
        assert (last == SPECIAL_TOKENS.index("[SEP]")).all()
    assert 0 < replaced < known


def test_a_word_that_is_cut_away_with_the_end_of_its_row_is_not_counted(tmp_path):
    """Of a stream all are made, and rows that become longer are cut."""
    long = [(word, "zonzeerood") for word in _WORDS]
    recipe = recipe_with(tmp_path, long, rate=1.0, most=1.0)
    batches = MaskedBatches(*prepared(recipe, tmp_path / "run"))
    seen = lost = 0
    for step in range(10):
        plain, switched, (_, known, replaced) = both(batches, step)
        if batches.recipe.languages[plain.languages[0, 0]] != "eng":
            continue
        rows = words_of(batches, switched.ids, "nld")  # the ids are both languages'
        seen += sum(word in "zonzeerood" and word.startswith("z") for row in rows for word in row)
        lost += known - replaced
        seen -= replaced
    assert lost > 0 and seen == 0


def test_an_identity_dictionary_anchors_a_transliteration(tmp_path):
    """The copy's ids stand in the original's rows: the only subwords that the two have in common."""
    text = toy_recipe(tmp_path).sources[0].texts["eng"]
    source = Source(name="toy", texts={"eng": text, "eng-x": text})
    recipe = recipe_with(tmp_path, [(word, word) for word in ("cat", "dog", "sees")], most=1.0)
    recipe = dataclasses.replace(
        recipe,
        sources=(source,),
        vocabulary=Vocabulary(
            size=110, kind="bpe", sentences=300, mode="disjoint", copies={"eng-x": "eng"}
        ),
    )
    batches = MaskedBatches(*prepared(recipe, tmp_path / "run"))
    tables = batches.vocabularies.tables
    to_copy = dict(zip(tables["eng"].tolist(), tables["eng-x"].tolist(), strict=True))
    swap = {**to_copy, **{b: a for a, b in to_copy.items()}}
    changed = 0
    for step in range(10):
        plain, switched, _ = both(batches, step)
        assert switched.ids.shape == plain.ids.shape  # as many subwords
        different = plain.ids != switched.ids
        changed += int(different.sum())
        assert [swap[i] for i in plain.ids[different].tolist()] == switched.ids[different].tolist()
    assert changed > 20


def test_a_stopped_run_goes_on_to_the_same_weights(tmp_path, stopped_at):
    recipe = recipe_with(tmp_path)
    whole = train(recipe, tmp_path / "whole")
    folder = stopped_at(recipe, 17)
    train(recipe, folder, resume=True)
    assert weights(folder) == weights(whole.parent)
    told = json.loads((folder / "anchors.json").read_text())
    assert told["replaced"] > 0 and told == json.loads(
        (tmp_path / "whole" / "anchors.json").read_text()
    )
    without = train(with_overrides(recipe, {"anchors.dictionary": ""}), tmp_path / "without")
    assert weights(without.parent) != weights(folder)
    assert "anchors" not in json.loads((tmp_path / "without/config.json").read_text())["settings"]


def test_a_recipe_file_names_its_dictionary_beside_itself(tmp_path):
    recipe_with(tmp_path)
    path = tmp_path / "recipe.toml"
    path.write_text(
        'name = "x"\nsteps = 2\n[[sources]]\nname = "s"\ntexts = {eng = "toy.eng", nld = "toy.nld"}\n'
        '[anchors]\ndictionary = "en-nl.txt"\nrate = 0.5\nmost = 0.2\n'
    )
    found = load_recipe(str(path))
    assert found.anchors == Anchors(dictionary=str(tmp_path / "en-nl.txt"), rate=0.5, most=0.2)
    assert resolve(found).tlm_share == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"anchors.rate": 2.0}, "anchors.rate: expected a number from 0 to 1, got 2.0"),
        ({"anchors.source": "eng"}, "anchors.source, anchors.target: expected two of eng, nld"),
        ({"units": "packed"}, "units: expected sentences or stream where there are anchors"),
        (
            {"sharing": "sep=emb", "vocabulary.mode": "separate"},
            "vocabulary.mode: expected ids that languages share where",
        ),
        ({"masking.exponent": 0.5}, "masking.counts: expected joint where there are anchors"),
        ({"tlm_share": 0.5}, "tlm_share: expected 0 with anchors"),
        ({"anchors.dictionary": "none.txt"}, "none.txt"),
    ],
)
def test_what_does_not_go_with_anchors_is_refused(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        train(with_overrides(recipe_with(tmp_path), changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_dictionary_of_the_other_direction_is_refused():
    english, french = ["A cat eats, and a dog sleeps."], ["Un chat mange, et un chien dort."]
    pairs = [("cat", "chat"), ("dog", "chien"), ("sleeps", "dort")]
    check_direction(pairs, ("eng", "fra"), english, french)
    turned = [(b, a) for a, b in pairs]
    with pytest.raises(InputError, match="0 and 0 of 3 .*, 3 and 3 the other way round; exchange"):
        check_direction(turned, ("eng", "fra"), english, french)
    check_direction([("a", "a"), *pairs[:1]], ("eng", "fra"), english, french)  # the same both ways


@pytest.fixture
def said(monkeypatch):
    """What is remarked."""
    remarks = []
    monkeypatch.setattr(anchors, "say", remarks.append)
    return remarks


def test_a_dictionary_of_another_language_is_refused_or_said(said):
    """None of its translations stands in the text, or by accident a few do."""
    english = [" ".join(f"w{i}" for i in range(100))]
    french, german = ([(f"w{i}", f"{code}{i}") for i in range(100)] for code in ("f", "d"))
    text = [" ".join(word for _, word in french)]
    check_direction(french, ("eng", "fra"), english, text)
    with pytest.raises(InputError) as refused:
        check_direction(german, ("eng", "fra"), english, text)
    assert (
        "anchors.dictionary: expected translations that stand in the text of fra, got none of "
        in (str(refused.value))
    )
    assert "none of those of 100 words of eng; " in str(refused.value)
    same = [("Ada", "Ada"), ("Bo", "Bo")]  # names tell nothing
    with pytest.raises(InputError, match="expected translations that stand in the text of fra"):
        check_direction([*german, *same], ("eng", "fra"), [*english, "Ada Bo"], [*text, "Ada Bo"])
    assert said == []
    check_direction(german, ("eng", "fra"), english, [*text, "d1 d2"])
    told = "anchors.dictionary: 100 words of eng are known, of 2 a translation stands in the text of fra"
    assert said == [f"{told}: is it a dictionary of fra?"]
    check_direction(same, ("eng", "eng-x"), ["Ada Bo"], ["Ada Bo"])  # anchors of a copy
    check_direction(german[:19], ("eng", "fra"), english, [*text, "d1"])  # too few to say anything
    wide = [(f"w{i}", f"bon {word}") for i, (_, word) in enumerate(french)]
    check_direction(wide, ("eng", "fra"), english, [*text, "bon"])  # translations of two words
    assert len(said) == 1


def test_of_words_without_spaces_between_nothing_is_said(said):
    english, chinese = ["a cat sees a dog"], ["猫看狗。", "狗看猫。"]
    check_direction([("cat", "猫"), ("dog", "狗")], ("eng", "cmn"), english, chinese)
    assert said == []
    french = ["Un chat voit un chien."]
    with pytest.raises(InputError, match="expected translations that stand in the text of fra"):
        check_direction([("cat", "猫"), ("dog", "狗")], ("eng", "fra"), english, french)


@pytest.mark.parametrize("code", ["fr", "de", "ru"])
def test_real_dictionaries_pass_and_those_of_other_languages_are_said(shared_data, code, said):
    """Verses of a Bible: of the words that a dictionary of its language knows more than half have a
    translation in them, of another one's 2 % or fewer."""
    names = {"fr": "fr.LSG1910", "de": "de.ELB1932", "ru": "ru.SYNOD1876"}
    english, verses = (
        [
            line.partition("\t")[2]
            for line in gzip.open(
                shared_data / "text" / f"bible.{name}.tsv.gz", "rt", encoding="utf-8"
            )
        ][:5000]
        for name in ("en.WEB2000", names[code])
    )
    for other in names:
        pairs = read_dictionary(shared_data / "dictionaries" / f"en-{other}.0-5000.txt").pairs
        try:
            check_direction(pairs, ("eng", code), english, verses)
        except InputError as error:
            said.append(str(error))
        assert bool(said) == (other != code)
        said.clear()


def test_a_dictionary_without_a_known_word_is_refused(tmp_path):
    with pytest.raises(InputError, match="anchors.dictionary: expected words of eng, each with"):
        train(recipe_with(tmp_path, [("Cat", "Ket"), ("tree", "boom")]), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    # one side is enough
    train(recipe_with(tmp_path, [("feline", "ket")]), tmp_path / "run")
