"""A model with modules of each language is an encoder as it lies there: the same bits as from each
language's exported folder."""

import dataclasses
import shutil

import numpy as np
import pytest
import torch
from toy_texts import deep, two_languages
from typed import typed

from crosslens.activations import Activations
from crosslens.cli.main import main
from crosslens.errors import InputError, OutputError, StoreError
from crosslens.files import read_json, write_json
from crosslens.models.extraction.encoder import Encoder
from crosslens.models.extraction.extract import extract
from crosslens.models.saved.loading import load_encoder
from crosslens.models.scoring.cloze import load_scorer
from crosslens.models.training.masked_lm import train
from crosslens.models.training.settings import with_overrides
from crosslens.outcomes import read_outcomes
from crosslens.run.measures import told_apart

TEXTS = dict(zip(("eng", "nld"), two_languages(30, seed=1), strict=True))
# Our forward pass takes queries, keys and values by one product, transformers' by three: float32,
# sums of 16 numbers below 10.
CLOSE = {"rtol": 0, "atol": 1e-6}


@pytest.fixture(scope="module")
def run(toy, tmp_path_factory):
    """A run whose languages own their embeddings and two of three layers, with ids of their own."""
    recipe = with_overrides(
        deep(toy, sharing="sep=emb,1,3", steps=4),
        {"encoder.layers": 3, "encoder.segments": 2, "save_every": 2},
    )
    recipe = with_overrides(recipe, {"vocabulary.mode": "separate", "masking.scope": "language"})
    return train(recipe, tmp_path_factory.mktemp("run") / "run").parent


@pytest.fixture(scope="module")
def native(run):
    return load_encoder(run / "model")


def arrays(store):
    return [
        np.asarray(store.layer(number, output))
        for output in ("hidden", "attention", "mlp")
        for number in range(output != "hidden", 4)
    ]


@pytest.mark.parametrize("unit", ["sentence", "word", "token"])
@pytest.mark.parametrize("language", ["eng", "nld"])
def test_each_text_is_read_with_its_own_language_s_modules(run, native, language, unit):
    told = {"language": language, "unit": unit, "outputs": ("hidden", "attention", "mlp")}
    mine, view = (
        extract(one, TEXTS[language], **told)
        for one in (native, load_encoder(run / "views" / language))
    )
    assert mine.index() == view.index()
    assert mine.manifest["settings"]["language_modules"] == language
    for ours, theirs in zip(arrays(mine), arrays(view), strict=True):
        np.testing.assert_allclose(ours, theirs, **CLOSE)
    other = extract(
        native.in_language("nld" if language == "eng" else "eng"),
        TEXTS[language],
        **{**told, "unit": "sentence"},
    )
    assert other.manifest["settings"]["language_modules"] != language
    assert unit != "sentence" or not np.allclose(other.layer(3), mine.layer(3), atol=1e-2)


@pytest.mark.parametrize("unit", ["type", "embedding", "pair"])
def test_types_embeddings_and_pairs_are_those_of_the_view(run, native, unit):
    second = {"second": TEXTS["eng"][::-1]} if unit == "pair" else {}
    mine, view = (
        extract(one, TEXTS["eng"], language="eng", unit=unit, **second)
        for one in (native, load_encoder(run / "views/eng"))
    )
    assert mine.index() == view.index()
    np.testing.assert_allclose(mine.layer(0), view.layer(0), **CLOSE)
    np.testing.assert_allclose(mine.layer(mine.layers - 1), view.layer(view.layers - 1), **CLOSE)


def test_a_text_under_another_code_of_its_language_is_read_by_its_modules(toy, tmp_path):
    recipe = with_overrides(deep(toy, sharing="sep=emb", steps=1), {"validate_every": 1})
    texts = {
        code: recipe.sources[0].texts[one]
        for code, one in zip(("eng", "zho"), recipe.languages, strict=True)
    }
    source = dataclasses.replace(recipe.sources[0], texts=texts)
    folder = train(dataclasses.replace(recipe, sources=(source,)), tmp_path / "run")
    encoder = load_encoder(folder)
    for code in ("cmn", "zh", "zh_Hans"):
        assert encoder.for_text(code, "zho").language == "zho"
    assert encoder.for_text("zho").for_text("cmn").language == "zho"
    assert encoder.in_language("cmn").language_settings() == {"language_modules": "zho"}
    with pytest.raises(InputError, match="language: expected one that encoder .*got 'yue'"):
        encoder.for_text("yue")
    with pytest.raises(InputError, match="second: expected text of cmn.*got text of eng"):
        encoder.for_text("cmn", "eng")


def test_a_second_segment_that_was_never_trained_is_not_read(run, native):
    view = load_encoder(run / "views" / "eng")
    for one in (native.in_language("eng"), view):
        (pair,) = one.tokenizer(TEXTS["eng"][0], TEXTS["eng"][1]).encodings
        assert set(pair.type_ids) == {0}


def test_sentences_are_scored_as_by_the_view(run):
    for language, lines in TEXTS.items():
        ours, view = (
            load_scorer(str(run / "model"), language=language),
            load_scorer(str(run / "views" / language)),
        )
        for method in ("pll", "pll_word_l2r"):
            mine, theirs = (scorer.score_sentences(lines, method).total for scorer in (ours, view))
            assert mine == pytest.approx(theirs, rel=1e-5)
    with pytest.raises(
        InputError,
        match="expected the language of its input, one of eng, nld, got none; name one of them",
    ):
        load_scorer(str(run / "model"))


def test_a_checkpoint_is_the_model_it_became(run, native):
    checkpoint = load_encoder(run / "checkpoints" / "step-00000004")
    for language, lines in TEXTS.items():
        mine, finished = (extract(one, lines, language=language) for one in (checkpoint, native))
        assert all(np.array_equal(mine.layer(i), finished.layer(i)) for i in range(4))


def test_a_checkpoint_of_a_model_that_is_shared_reads_every_language(undisturbed):
    checkpoint = load_encoder(undisturbed / "checkpoints" / "step-00000030")
    assert checkpoint.languages is None and isinstance(checkpoint, Encoder)
    mine, finished = (
        extract(one, TEXTS["eng"], language="deu")
        for one in (checkpoint, load_encoder(undisturbed / "model"))
    )
    for layer in range(mine.layers):
        np.testing.assert_allclose(mine.layer(layer), finished.layer(layer), **CLOSE)
    assert "language_modules" not in mine.manifest["settings"]
    with pytest.raises(InputError, match="language: expected none, since"):
        checkpoint.in_language("eng")


def test_a_random_copy_has_the_shape_and_other_weights(run, native):
    one, again = (
        extract(load_encoder(run / "model", random_seed=5), TEXTS["eng"], language="eng")
        for _ in range(2)
    )
    trained = extract(native, TEXTS["eng"], language="eng")
    assert np.array_equal(one.layer(3), again.layer(3)) and not np.allclose(
        one.layer(3), trained.layer(3), atol=1e-2
    )
    assert one.manifest["settings"]["encoder"] != trained.manifest["settings"]["encoder"]


def test_the_command_takes_each_text_s_modules_and_refuses_a_language_that_is_not_there(
    run, native, tmp_path, capsys
):
    for language, lines in TEXTS.items():
        (tmp_path / f"{language}.txt").write_text("".join(f"{line}\n" for line in lines))
    texts = [
        part
        for language in TEXTS
        for part in ("--text", f"{language}={tmp_path / f'{language}.txt'}")
    ]
    assert (
        typed(
            "extract",
            "--encoder",
            str(run / "model"),
            *texts,
            "--out",
            str(tmp_path / "stores"),
            "--quiet",
        )
        == 0
    )
    said = capsys.readouterr().out
    assert "read as eng" in said and "read as nld" in said
    out = str(tmp_path / "stores" / "eng")
    assert np.array_equal(
        extract(native, TEXTS["eng"], language="eng").layer(3), Activations(out).layer(3)
    )
    # language identification would say nothing
    assert told_apart([Activations(tmp_path / "stores" / language) for language in TEXTS])
    with pytest.raises(OutputError, match="language_modules: 'eng' there, 'nld' here"):
        extract(load_encoder(run / "model", language="nld"), TEXTS["eng"], out, language="eng")
    other = ["--text", f"deu={tmp_path / 'eng.txt'}", "--out", str(tmp_path / "stores")]
    assert typed("extract", "--encoder", str(run / "model"), *other) == 2
    assert (
        "language: expected one that encoder model has (eng, nld), got 'deu'; call the text by one"
        in capsys.readouterr().err
    )


def test_minimal_pairs_of_each_language_are_scored_by_its_own_modules(run, tmp_path, capsys):
    texts = {language: [one for one in text if len(one) < 26] for language, text in TEXTS.items()}
    for language, text in texts.items():
        half = len(text) // 2
        rows = [f"{one}\t{other}\n" for one, other in zip(text[:half], text[half:], strict=False)]
        (tmp_path / "multiblimp" / language).mkdir(parents=True)
        table = "".join(["sen\twrong_sen\n", *rows])
        (tmp_path / "multiblimp" / language / "data.tsv").write_text(table, encoding="utf-8")
    line = ["probe", "--encoder", str(run / "model"), "--data", str(tmp_path), "--quiet"]
    out = ["--out", str(tmp_path / "out")]
    assert main([*line, "--tasks", "multiblimp", "--no-random-control", *out]) == 0
    found = {one.target: one for one in read_outcomes(tmp_path / "out")}
    assert set(found) == set(TEXTS)
    for language, text in texts.items():
        of, half = {}, len(text) // 2
        for view in TEXTS:
            total = load_scorer(str(run / "views" / view)).score_sentences(text).total
            of[view] = [float(right) for right in total[:half] > total[half : 2 * half]]
        assert found[language].outcome.tolist() == of[language]
        assert of["eng"] != of["nld"]  # so the other language's modules would be seen
    (tmp_path / "mine.jsonl").write_text('{"sentence_good": "a b", "sentence_bad": "a c"}\n')
    mine = ["--labels", f"mine={tmp_path / 'mine.jsonl'}", "--out", str(tmp_path / "other")]
    capsys.readouterr()
    assert main([*line[:3], *mine]) == 2 and "name one (--language" in capsys.readouterr().err
    assert main([*line[:3], *mine, "--language", "nld", "--quiet"]) == 0


def test_the_fingerprint_covers_all_that_is_read(run, tmp_path):
    prints = {
        load_encoder(run / "model").fingerprint,
        load_encoder(run / "checkpoints" / "step-00000004").fingerprint,
    }
    for name in ("model.safetensors", "config.json", "tokenizer/nld/tokenizer.json"):
        folder = shutil.copytree(run / "model", tmp_path / name.replace("/", "-"))
        if name == "model.safetensors":
            content = bytearray((folder / name).read_bytes())
            content[-2] ^= 1
            (folder / name).write_bytes(content)
        elif name == "config.json":
            told = read_json(folder / name, dict)
            write_json(folder / name, {**told, "encoder": {**told["encoder"], "norm_eps": 1e-6}})
        else:
            (folder / name).write_text((folder / name).read_text() + " ")
            with pytest.raises(
                StoreError, match="expected the tokeniser that was saved, got another"
            ):
                load_encoder(folder)
            continue
        prints.add(load_encoder(folder).fingerprint)
    assert len(prints) == 4
    assert load_encoder(shutil.copytree(run / "model", tmp_path / "copy")).fingerprint in prints


def test_what_does_not_belong_together_is_refused(run, native, tmp_path):
    with pytest.raises(InputError, match="second: .*got text of nld"):
        native.for_text("eng", "nld")
    with pytest.raises(InputError, match="encoder model: .*got none"):
        native.states(torch.tensor([[2, 3]]), None)
    with pytest.raises(InputError, match="outputs: expected no residual"):
        native.output_names(["residual"])
    with pytest.raises(InputError, match=r"encoder model: .*got 100000"):
        native.for_text("eng").check_ids(np.array([100_000]))
    alone = shutil.copytree(
        run / "checkpoints" / "step-00000004", tmp_path / "far" / "checkpoints" / "step-00000004"
    )
    with pytest.raises(InputError, match=r"config.json in the folder, got none"):
        load_encoder(alone)
    folder = shutil.copytree(run / "model", tmp_path / "linked")
    shutil.move(folder / "model.safetensors", tmp_path / "elsewhere.safetensors")
    (folder / "model.safetensors").symlink_to(tmp_path / "elsewhere.safetensors")
    with pytest.raises(
        InputError, match="expected files in its own folder, got model.safetensors, a link to"
    ):
        load_encoder(folder)
    folder = shutil.copytree(run / "model", tmp_path / "more")
    told = read_json(folder / "config.json", dict)
    write_json(folder / "config.json", {**told, "languages": ["eng", "nld", "deu"]})
    with pytest.raises(StoreError, match="expected the weights of this plan"):
        load_encoder(folder)
