"""Every number of a recipe has a range, is refused outside it by its own name, and leaves no trace
on the disk."""

import dataclasses
import re
import types
import typing
from collections.abc import Mapping

import pytest
import toy_texts

from crosslens.cli.main import main
from crosslens.errors import InputError
from crosslens.models.limits import LIMITS, Limits
from crosslens.models.network.shape import EncoderConfig
from crosslens.models.text.tokenisation import Vocabulary
from crosslens.models.training import masked_lm as train_module
from crosslens.models.training.anchors import Anchors
from crosslens.models.training.masked_lm import train
from crosslens.models.training.masking import Masking
from crosslens.models.training.settings import Optimisation, Source, TrainRecipe, with_overrides
from crosslens.recipes import load_recipe

PARTS = {
    TrainRecipe: "",
    Optimisation: "optimisation.",
    Masking: "masking.",
    Vocabulary: "vocabulary.",
    EncoderConfig: "encoder.",
    Anchors: "anchors.",
    Source: "mine.",
}
BAD = ["nan", "inf", "-inf", "-7", "1e300", "true", '"three"', "[1]", "{}", "9" * 400]


def is_number(hint):
    if typing.get_origin(hint) in (types.UnionType, Mapping):
        return any(is_number(part) for part in typing.get_args(hint))
    return hint in (int, float)


def numbers(kind):
    hints = typing.get_type_hints(kind)
    return [field.name for field in dataclasses.fields(kind) if is_number(hints[field.name])]


def test_every_class_of_settings_is_walked():
    """A recipe's parts are those above; another would have numbers that nobody checks."""
    hints = typing.get_type_hints(TrainRecipe)
    parts = {hint for hint in hints.values() if dataclasses.is_dataclass(hint)} | {
        typing.get_args(hints["sources"])[0],
        TrainRecipe,
    }
    assert parts == set(PARTS)


@pytest.mark.parametrize("kind", PARTS)
def test_every_number_has_a_range_that_holds_its_default(kind):
    table = LIMITS[kind.__name__]
    assert sorted(table) == sorted(numbers(kind))
    for field in dataclasses.fields(kind):
        if field.name in table and field.default not in (None, dataclasses.MISSING):
            assert table[field.name].hold(field.default), field.name


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipe")
    toy_texts.write_lines(folder / "e.txt", toy_texts.two_languages(60)[0])
    return folder


def recipe_with(place, kind, name, value):
    """A recipe's TOML with one setting of one of its parts."""
    source = {"name": '"mine"', "texts": '{eng = "e.txt"}'}
    lines = ['name = "x"', "steps = 3"]
    if kind is Source:
        source[name] = f"{{eng = {value}}}" if name == "columns" else value
    elif kind is TrainRecipe:
        lines = [line for line in lines if not line.startswith(f"{name} =")] + [f"{name} = {value}"]
    else:
        lines.append(f"{PARTS[kind]}{name} = {value}")
    lines += ["[[sources]]", *(f"{key} = {item}" for key, item in source.items())]
    (place / "recipe.toml").write_text("\n".join(lines) + "\n")
    return str(place / "recipe.toml")


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in PARTS for name in numbers(kind)]
)
def test_every_bad_value_is_refused_by_name_before_the_disk_is_touched(place, capsys, kind, name):
    limits = LIMITS[kind.__name__][name]
    beyond = [f"{limits.low - 1:.0f}"] if limits.whole and limits.also is None else []
    for value in [*BAD, *(["2.5", f"{limits.high + 1:.0f}"] if limits.whole else []), *beyond]:
        with pytest.raises(InputError) as refusal:
            load_recipe(recipe_with(place, kind, name, value))
        where = "sources[0]." if kind is Source else PARTS[kind]
        assert str(refusal.value).startswith((f"{PARTS[kind]}{name}", f"{where}{name}")), (
            refusal.value
        )
        assert ": expected " in str(refusal.value) and len(str(refusal.value)) < 300, refusal.value
    assert main(["train", recipe_with(place, kind, name, "nan"), "--out", str(place / "run")]) == 2
    assert re.match(
        rf"crosslens: (sources\[0\]|mine|[a-z]+)?\.?{name}.*: expected .*, got nan; [^\n]*\n\Z",
        capsys.readouterr().err,
    )
    assert not (place / "run").exists()


def test_ranges_by_their_ends():
    closed, open_ = Limits(0, 2, also=-1), Limits(0, 2, above=True, below=True)
    assert [closed.hold(value) for value in (0, 2.0, -1, -1.0, -0.5, 2.1)] == [
        True,
        True,
        True,
        True,
        False,
        False,
    ]
    assert [open_.hold(value) for value in (0, 1, 2)] == [False, True, False]
    assert (
        str(closed) == "-1 or a number from 0 to 2" and str(open_) == "a number above 0 and below 2"
    )


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"vocabulary.size": 6, "vocabulary.kind": "unigram"},
            "vocabulary.size: expected room for every character",
        ),
        ({"batch_tokens": 6}, "batch_tokens: expected room for the longest item"),
        ({"max_length": 1}, "text of eng: expected sentences to train on"),
    ],
)
def test_a_refusal_that_needs_the_vocabulary_frees_the_folder(toy, tmp_path, changes, told, there):
    folder, short = tmp_path / "run", with_overrides(toy, {"steps": 2})
    if there:
        folder.mkdir()
    with pytest.raises(InputError, match=told):
        train(with_overrides(short, changes), folder)
    assert folder.exists() == there and not (
        there and [path for path in folder.iterdir() if path.name != ".lock"]
    )
    train(short, folder)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"encoder.norm_embeddings": False},
            ("encoder: expected a shape that one of transformers' classes has"),
        ),
        (
            {"tlm_share": 1.0, "sources": [{"name": "s", "texts": {"eng": "no"}}]},
            "tlm_share: expected 0 where no source has two languages",
        ),
        (
            {"optimisation.warmup": 31},
            ("optimisation.warmup: expected at most steps = 30 .*"),
        ),
        (
            {"units": "packed", "max_length": 2},
            "max_length: expected at least 3 tokens a row for these units",
        ),
        (
            {"validation": 80},
            (r"toy: expected more than 160 sentences \(validation holds out 80\)"),
        ),
    ],
)
def test_what_can_be_known_before_is_refused_before_a_vocabulary_is_learnt(
    toy, tmp_path, monkeypatch, changes, told
):
    monkeypatch.setattr(train_module, "learn_vocabularies", None)
    with pytest.raises(InputError, match=told):
        train(with_overrides(toy, changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_text_that_is_excluded_altogether_is_refused_before_a_vocabulary_is_learnt(
    toy, tmp_path, monkeypatch
):
    monkeypatch.setattr(train_module, "learn_vocabularies", None)
    with pytest.raises(InputError, match="text of nld in toy: .*got 160 of 160"):
        train(with_overrides(toy, {"exclude": [toy.sources[0].texts["nld"]]}), tmp_path / "run")
    assert not (tmp_path / "run").exists()
