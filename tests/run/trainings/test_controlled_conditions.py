"""The conditions of studies: which texts and ids each has, in which order, and beside
which number of the paper it stands."""

import pytest

from crosslens.errors import InputError
from crosslens.files import write_json
from crosslens.front import calls
from crosslens.front.named_trainings import fine_tuned_of
from crosslens.models.network.sharing import SYSTEMS
from crosslens.readers.published import published
from crosslens.recipes import load_recipe, study_settings
from crosslens.recipes.controlled import controlled_study


def test_the_order_of_the_compositions_is_that_of_the_paper():
    study = controlled_study("deshpande-compositions", {"data": "x", "syntax": "y"})
    assert study.order == [
        ["transliteration"],
        ["transliteration-syntax"],
        ["transliteration-inversion", "transliteration-permutation"],
    ]
    syntax = study.conditions["transliteration-syntax"]
    assert syntax.kept == {"eng-x": "kept-syntax"}
    assert syntax.recipe.vocabulary.mode == "disjoint"
    assert (
        controlled_study("deshpande-pairs", {"data": "x", "syntax": "y"})
        .conditions["syntax"]
        .recipe.vocabulary.mode
        == "union"
    )  # the same words, with the same ids


@pytest.mark.parametrize("name", ["deshpande-compositions", "deshpande-corpora"])
def test_each_condition_stands_beside_its_own_number_of_the_paper(name):
    other = {"other": "y"} if name == "deshpande-corpora" else {"syntax": "y"}
    study = controlled_study(name, {"data": "x", **other})
    told = {condition: one.published for condition, one in study.conditions.items()}
    assert {*told.values()} <= {one.system for one in published(paper="deshpande")}
    assert len({*told.values()}) == len(told)
    words = {"same": "same", "parallel": "parallel", "different": "diff"}
    for condition, system in told.items():
        parts = condition.split("-") if "-" in condition else [words.get(condition, condition)]
        assert all(part in system for part in parts)


def test_only_the_same_half_of_a_text_is_read_line_by_line():
    study = controlled_study("deshpande-corpora", {"data": "x", "other": "y"})
    sources = {name: len(one.recipe.sources) for name, one in study.conditions.items()}
    assert sources == {"parallel": 1, "same": 2, "different": 2}


def test_random_replacements_come_from_where_each_system_of_conneau_has_its_ids():
    copy = controlled_study("conneau-sharing", {"data": "x"})
    scopes = {name: one.recipe.masking.scope for name, one in copy.conditions.items()}
    own = {"sep-emb", "sep-emb-1-3", "sep-emb-1-6", "monolingual"}
    assert scopes == {name: "language" if name in own else "all" for name in scopes}
    pair = controlled_study("conneau-sharing", {"data": "x", "pair": "fra:y"})
    for name, one in pair.conditions.items():
        assert one.recipe.masking.scope == SYSTEMS[name].scope
    assert len({one.recipe.masking.scope for one in pair.conditions.values()}) == 2


def test_words_in_common_are_ordered_by_how_many_there_are():
    asked = {"data": "x", "pair": "fra:y", "dictionary": "z"}
    study = controlled_study("conneau-anchors", asked)
    assert study.order == [["extra"], ["default", "default-anchors"], ["none"]]
    assert (study.control, [*study.conditions]) == (
        "default",
        ["none", "default-anchors", "default", "extra"],
    )


def test_an_order_with_the_ids_of_english_is_another_language_than_with_ids_of_its_own():
    study = controlled_study("eng-inversion,translit+inversion", {"data": "x"})
    modes = {name: one.recipe.vocabulary.mode for name, one in study.conditions.items()}
    assert modes == {"inversion": "union", "transliteration-inversion": "disjoint"}


def test_what_lies_in_the_working_folder_is_no_hindrance_to_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("eng-inversion", "fra-permutation", "eng-translit"):
        (tmp_path / name).mkdir()
        assert study_settings(name) == (name, {}, None)  # an empty folder
    write_json(tmp_path / "fra-permutation" / "config.json", {"kind": "derive", "asked": {}})
    assert study_settings("fra-permutation") == ("fra-permutation", {}, None)
    asked = {"recipe": "eng-translit", "settings": {"data": "x"}, "seeds": 2}
    write_json(tmp_path / "eng-translit" / "config.json", {"kind": "controlled", "asked": asked})
    assert study_settings("eng-translit") == ("eng-translit", {"data": "x"}, 2)
    (tmp_path / "eng-permutation").mkdir()
    write_json(tmp_path / "eng-permutation" / "config.json", {"model_type": "bert"})
    assert study_settings("eng-permutation") == ("eng-permutation", {}, None)
    (tmp_path / "eng-reversal").write_text("a sentence")
    assert study_settings("eng-reversal") is None


def test_a_study_is_resumed_in_the_folder_that_is_named(tmp_path, monkeypatch):
    asked = {"recipe": "eng-inversion", "settings": {"data": "x"}, "seeds": 2}
    write_json(tmp_path / "config.json", {"kind": "controlled", "asked": asked})
    places = []
    monkeypatch.setattr(calls, "_train_study", lambda *told, **how: places.append(told[3]))
    calls.train(tmp_path, resume=True)
    calls.train(str(tmp_path), tmp_path / "other", resume=True)
    calls.train(tmp_path)
    calls.train("eng-inversion", resume=True)
    assert places == [tmp_path, tmp_path / "other", None, None]


def test_a_study_may_have_a_name_that_is_too_long_for_a_file():
    name = "eng-" + ",".join(f"local-shuffle:{window}" for window in range(2, 40))
    assert study_settings(name) == (name, {}, None) and fine_tuned_of(name) is None
    assert len(controlled_study(name, {"data": "x"}).conditions) == 38
    with pytest.raises(InputError, match="recipe: expected a TOML file, .*; check the spelling"):
        load_recipe("x" * 300)
    with pytest.raises(InputError, match="recipe: expected a TOML file, .*; check the spelling"):
        load_recipe("x" * 300, data="texts")


def test_the_control_of_similarity_is_a_model_of_two_languages():
    for given, control in (
        ({"paraphrase": "y"}, "bilingual-paraphrase"),
        ({"pair": "fra:z"}, "bilingual-fra"),
        ({"paraphrase": "y", "pair": "fra:z"}, "bilingual-paraphrase"),
    ):
        assert controlled_study("conneau-cka", {"data": "x", **given}).control == control


@pytest.mark.parametrize(
    ("named", "published"),
    [
        (
            "eng-inversion+translit,translit",
            ["transliteration and inversion", "transliteration, parallel corpora"],
        ),
        ("eng-inversion,permutation,permutation:epoch", ["inversion", "permutation", ""]),
        ("eng-translit+permutation,translit+even-odd", ["transliteration and permutation", ""]),
        ("fra-translit+inversion", [""]),
    ],
)
def test_a_condition_has_the_paper_s_numbers_however_it_is_spelt(named, published):
    study = controlled_study(named, {"data": "x"})
    assert [one.published for one in study.conditions.values()] == published
