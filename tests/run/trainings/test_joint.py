"""The joint systems that MonoTrans is compared with: what they have in common with it, what they
say of their vocabularies, and what cannot be."""

import collections
import dataclasses
import json

import pytest
from monotrans_toy import SMALL
from toy_texts import two_languages, write_lines
from typed import typed

import crosslens as cl
from crosslens.errors import InputError
from crosslens.front.calls import training_recipes
from crosslens.models.saved.loading import load_encoder
from crosslens.models.saved.native import load_model
from crosslens.models.text.vocabularies import load_vocabularies
from crosslens.models.training.sources import read_source, split_rows
from crosslens.recipes.joint import joint
from crosslens.recipes.monotrans import monotrans
from crosslens.report import write_report

ENGLISH, DUTCH = two_languages(160)
PAIR = {"source": "eng:eng.txt", "target": "nld:nld.txt"}
LINE = [f"{name}={value}" for name, value in {**SMALL, "steps": 3}.items()]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """English has subwords of its own, since it is five times as long."""
    folder = tmp_path_factory.mktemp("texts")
    write_lines(folder / "eng.txt", ENGLISH)
    write_lines(folder / "nld.txt", DUTCH[:70])
    write_lines(folder / "deu.txt", [line.upper() for line in DUTCH[:60]])
    return folder


@pytest.fixture(scope="module")
def three(texts, tmp_path_factory):
    """A finished joint-multi. Not to be written to."""
    files = ",".join(f"{name}:{texts}/{name}.txt" for name in ("eng", "nld", "deu"))
    given = {**SMALL, "steps": 3, "text": files}
    out = tmp_path_factory.mktemp("joint") / "run"
    return cl.train("joint-multi", out, settings=given, device="cpu").folder


def test_the_folder_of_a_model_that_learnt_next_sentences_reads_pairs_by_its_segments(three):
    (pair,) = load_encoder(three / "model").tokenizer(ENGLISH[0], DUTCH[0]).encodings
    behind = pair.ids.index(3) + 1  # the first [SEP]
    assert pair.type_ids == [0] * behind + [1] * (len(pair.ids) - behind)


@pytest.mark.parametrize("mode", ["joint", "separate"])
@pytest.mark.parametrize("settings", [{}, {"model": 64, "tokens": 2e6, "max_length": 64}])
def test_a_pair_differs_from_monotrans_in_what_is_joint_alone(mode, settings):
    """The same shape and settings, and as many steps as MonoTrans' two trainings together."""
    steps = monotrans({**PAIR, **settings, "variant": "token"})
    first = steps["step-1"]
    pair = joint("joint-pair", {**PAIR, **settings, "vocabulary.mode": mode})
    assert pair.steps == sum(one.steps for one in steps.values())
    assert [one.texts for one in pair.sources] == [{"eng": "eng.txt"}, {"nld": "nld.txt"}]
    assert pair.vocabulary == dataclasses.replace(first.vocabulary, mode=mode)
    own = mode == "separate"
    assert pair.encoder == dataclasses.replace(first.encoder, special_table=own)
    assert pair.sharing == (first.sharing if own else "")
    assert pair.validate_every * 10 <= pair.steps and first.validate_every * 10 <= first.steps
    free = {"name", "sources", "steps", "validate_every", "vocabulary", "encoder", "sharing"}
    for field in dataclasses.fields(pair):
        if field.name not in free:
            assert getattr(pair, field.name) == getattr(first, field.name), field.name


def test_tokens_are_those_of_each_language():
    two = joint("joint-multi", {"text": "eng:a,nld:b", "tokens": 4096 * 5})
    four = joint("joint-multi", {"text": "eng:a,nld:b,deu:c,fra:d", "tokens": 4096 * 5})
    assert (two.steps, four.steps) == (10, 20)
    assert joint("joint-multi", {"text": "eng:a,nld:b", "steps": 7}).steps == 7
    (one,) = training_recipes("joint-multi", {"text": "eng:a,nld:b"}).values()
    assert one.name == "joint-multi" and one.languages == ("eng", "nld")


def test_a_joint_model_reads_all_its_languages_by_one_vocabulary(three):
    vocabularies = load_vocabularies(three / "tokenizer")
    assert vocabularies.mode == "joint" and vocabularies.languages == ("eng", "nld", "deu")
    assert cl.load_encoder(three / "model").languages is None  # told none


def test_subwords_used_are_counted_in_the_training_sentences(three):
    recipe = training_recipes(three)["joint-multi"]
    vocabularies = load_vocabularies(three / "tokenizer")
    told = json.loads((three / "data.json").read_text())["vocabulary"]["used"]
    assert list(told) == ["eng", "nld", "deu"]
    corpora = {source.name: read_source(source) for source in recipe.sources}
    config = json.loads((three / "config.json").read_text())["settings"]
    recipe = dataclasses.replace(recipe, validation=config["validation"]["text-eng"])
    for source in recipe.sources:
        ((language, corpus),) = corpora[source.name].items()
        rows = split_rows(
            dataclasses.replace(recipe, validation=config["validation"][source.name]), corpora
        )[source.name]
        counts = collections.Counter(
            i
            for sentence, train in zip(corpus.sentences, rows.train, strict=True)
            for i in vocabularies.tokenizers[language].encode(sentence).ids
            if train and i > 4
        )
        mine = told[language]
        assert mine["used"] == len(counts) and mine["tokens"] == counts.total()
        assert mine["vocabulary"] == vocabularies.sizes[language] - 5
        assert mine["cover_99"] <= mine["used"] < mine["vocabulary"]


def test_the_report_has_what_each_language_uses_and_old_runs_are_read(three, tmp_path):
    told = json.loads((three / "data.json").read_text())["vocabulary"]["used"]
    page = write_report(three, tmp_path / "page.html").read_text()
    assert "For 99 % of its tokens" in page
    for of in told.values():
        assert f"{100 * of['used'] / of['vocabulary']:.1f} %" in page
    before = tmp_path / "before"
    before.mkdir()
    for name in ("config.json", "log.jsonl"):
        (before / name).write_bytes((three / name).read_bytes())
    data = json.loads((three / "data.json").read_text())
    del data["vocabulary"]["used"]
    (before / "data.json").write_text(json.dumps(data))
    assert "For 99 % of its tokens" not in write_report(before).read_text()


def test_a_pair_is_asked_for_on_the_command_line(texts, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(texts)
    line = ["train", "joint-pair", "source=eng:eng.txt", "target=nld:nld.txt", *LINE]
    line += ["vocabulary.mode=separate"]
    assert typed(*line, "--dry-run") == 0
    said = capsys.readouterr().out
    assert "vocabulary.mode = 'separate'" in said and "sharing = 'sep=token" in said
    out = tmp_path / "run"
    assert typed(*line, "--out", str(out), "--quiet") == 0
    said = capsys.readouterr().out
    told = json.loads((out / "data.json").read_text())["vocabulary"]["used"]
    for language, of in told.items():
        (row,) = (one for one in said.splitlines() if one.split()[:1] == [language])
        assert row.split()[1:4] == [str(of[name]) for name in ("vocabulary", "used", "cover_99")]
    model, vocabularies = load_model(out / "model")
    assert model.languages == ("eng", "nld") and vocabularies.mode == "separate"
    assert model.plan.owned("token") and model.config.special_table
    monkeypatch.chdir(tmp_path)  # finished: nothing is done, wherever the texts lie
    assert typed("train", "run", "--out", "run", "--resume", "--quiet", "--json") == 0
    assert json.loads(capsys.readouterr().out)["subwords"] == told


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        ("joint-multi", {}, "text: expected LANGUAGE:FILE, got none; add text=eng:eng.txt"),
        ("joint-multi", {"text": "eng:a"}, "text: expected two languages or more, got eng alone"),
        ("joint-multi", {"text": "eng:a,eng:b"}, "text: expected languages that differ, got eng"),
        ("joint-multi", {"text": "eng:a,fra"}, "text: expected LANGUAGE:FILE, got 'fra'"),
        ("joint-multi", {"text": "eng:a,fra:b", "source": "eng:a"}, "source: expected a setting"),
        ("joint-pair", {"source": "eng:a"}, "target: expected LANGUAGE:FILE, got none"),
        ("joint-pair", {**PAIR, "target": "eng:b"}, "target: expected languages that differ"),
        ("joint-pair", {**PAIR, "target": "fra:b,deu:c"}, "target: expected one language, got 2"),
        ("joint-pair", {**PAIR, "vocabulary.mode": "union"}, "expected joint or separate"),
        ("joint-pair", {**PAIR, "sharing": ""}, "sharing: expected what the vocabulary's mode"),
        ("joint-pair", {**PAIR, "tokens": 5}, "tokens: expected a number from 4096 up"),
        ("joint-pair", {**PAIR, "tokens": 1e6, "steps": 9}, "steps: expected none beside tokens"),
        ("joint-pair", {**PAIR, "model": 33}, "model: expected a width"),
        ("joint-pair", {**PAIR, "size": 9}, "size: expected a setting of TrainRecipe"),
    ],
)
def test_settings_that_cannot_be_are_refused(name, settings, told):
    with pytest.raises(InputError, match=told):
        joint(name, settings)


def test_a_setting_given_twice_or_a_text_that_is_not_there_is_refused(tmp_path, capsys):
    line = [
        "train",
        "joint-multi",
        "text=eng:a.txt",
        "text=fra:b.txt",
        "--out",
        str(tmp_path / "r"),
    ]
    assert typed(*line) == 2
    assert "text: expected one value, got text= twice" in capsys.readouterr().err
    line = ["train", "joint-multi", "text=eng:a.txt,fra:b.txt", "--out", str(tmp_path / "r")]
    assert typed(*line) == 2
    assert "a.txt: expected a text file that can be read" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()
