"""``--config``: every verb can be run from a file and from an earlier run, and what is typed
wins."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from ground_tools import GRAMMAR
from typed import typed

from crosslens.asked import asked_of, keep_asked, read_asked
from crosslens.cli.main import main
from crosslens.errors import InputError
from crosslens.files import claim_folder, read_json
from crosslens.recipes import load_recipe
from crosslens.recipes.quickstart import DATA
from crosslens.run import study as studies
from crosslens.run.probing import battery as batteries
from crosslens.run.probing.battery import Battery
from crosslens.run.study import Study


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Two texts in a folder to stand in."""
    monkeypatch.chdir(tmp_path)
    for language in ("eng", "fra"):
        (tmp_path / f"{language}.txt").write_text("a\nb\n", encoding="utf-8")
    return tmp_path


class Asked(Exception):
    """What would have been run."""


@pytest.fixture
def asked(monkeypatch):
    """Run a command as far as what it would run, and return that."""

    def stop(what, *_, **__):
        raise Asked(what)

    monkeypatch.setattr(studies, "run_study", stop)
    monkeypatch.setattr(batteries, "run_battery", stop)
    monkeypatch.setenv("CROSSLENS_TRACEBACK", "1")

    def run(*line):
        with pytest.raises(Asked) as found:
            main(list(line))
        return found.value.args[0]

    return run


def run_of(folder, kind, what, paths):
    claim_folder(folder, kind, {}, asked_of(vars(what), paths))
    return str(folder / "config.json")


STUDIES = [
    Study(
        encoders={"*": "org/model"},
        texts={"fra": "fra.txt", "eng": "eng.txt"},
        train_fraction=0.3,
        seed=4,
        device="cuda:1",
    ),
    Study(encoders={"eng": "a", "fra": "b"}, texts={"eng": "eng.txt", "fra": "hf:x?field=a.b"}),
]


@pytest.mark.parametrize("first", STUDIES)
def test_a_study_is_asked_again_from_its_run_in_any_folder(place, asked, first, monkeypatch):
    config = run_of(place / "run", "study", first, ["encoders", "texts"])
    (place / "elsewhere").mkdir()
    monkeypatch.chdir(place / "elsewhere")
    for path in (config, str(place / "run")):
        again = asked("study", "--config", path, "--out", "new")
        texts = {
            name: text if text.startswith("hf:") else str(place / text)
            for name, text in first.texts.items()
        }
        assert again == Study(**{**vars(first), "texts": texts})


def test_what_is_typed_wins_and_a_list_is_replaced_as_a_whole(place, asked):
    config = run_of(place / "run", "study", STUDIES[0], ["encoders", "texts"])
    again = asked(
        "study",
        "--config",
        config,
        "--out",
        "new",
        "--seed=7",
        "--text",
        "deu=fra.txt",
        "rus=eng.txt",
        "--encoder",
        "other",
    )
    assert (again.seed, again.train_fraction, again.device) == (7, 0.3, "cuda:1")
    assert again.encoders == {"*": "other"} and again.texts == {"deu": "fra.txt", "rus": "eng.txt"}


def test_a_battery_is_asked_again_from_its_run(place, asked):
    (place / "data").mkdir()
    labels = {"tense": ("eng.txt",), "mood": ("eng.txt", "fra.txt", "eng.txt")}
    settings = {
        "battery": "semantic",
        "only": ["wic", "scws"],
        "data": "data",
        "labels": labels,
        "mdl": True,
        "random_control": False,
    }
    settings |= {"train": "eng", "test": ["fra", "rus"]}
    first = Battery(encoders=["a", "b"], **settings, limit=9, seeds=3)
    again = asked(
        "probe",
        "--config",
        run_of(place / "run", "probe", first, ["encoders", "data", "labels"]),
        "--out",
        "new",
    )
    there = {name: [str(place / file) for file in files] for name, files in labels.items()}
    assert again == Battery(**{**vars(first), "data": str(place / "data"), "labels": there})


def test_activations_are_asked_for_again_and_compared_again(place, monkeypatch):
    """extract, align and compare keep what they were asked, whichever folder it is done from."""
    text = [f"{language}={place / f'{language}.txt'}" for language in ("eng", "fra")]
    for language in ("eng", "fra"):
        lines = (DATA / "corpus" / f"{language}.txt").read_text("utf-8").splitlines(keepends=True)
        (place / f"{language}.txt").write_text("".join(lines[:24]), encoding="utf-8")
    line = ["--encoder", str(DATA / "tiny-encoder"), "--text", "eng=eng.txt", "fra=fra.txt"]
    more = ["--layers", "1,3-4", "--special-tokens", "--pool", "max", "--quiet"]
    assert main(["extract", *line, "--out", "act", *more]) == 0
    kept = asked_in("act")
    assert (kept["layers"], kept["special_tokens"], kept["text"]) == ("1,3,4", True, text)
    for verb, more in (("align", ["--by", "csls"]), ("compare", ["--also", "mutual_knn,rsa"])):
        assert main([verb, "act/eng", "act/fra", *more, "--out", verb, "--quiet"]) == 0
        assert asked_in(verb)["stores"] == [str(place / "act" / name) for name in ("eng", "fra")]
    (place / "elsewhere").mkdir()
    monkeypatch.chdir(place / "elsewhere")
    assert typed("extract --config ../act --out act --quiet") == 0
    assert asked_in("act") == kept
    assert read_json(place / "act/eng/manifest.json") == read_json("act/eng/manifest.json")
    for verb in ("align", "compare"):
        assert main([verb, "--config", f"../{verb}", "--out", verb, "--quiet"]) == 0
        assert asked_in(verb) == asked_in(place / verb)
        for file in ("scores.jsonl", "report.html"):
            assert (place / verb / file).read_bytes() == (
                place / "elsewhere" / verb / file
            ).read_bytes()
    more = ["--by", "cosine", str(place / "act/fra"), str(place / "act/eng")]
    assert typed("align --config ../align", *more, "--out", "other", "--quiet") == 0
    assert asked_in("other") == asked_in("align") | {"by": "cosine", "stores": more[2:]}


def asked_in(folder):
    return read_json(f"{folder}/config.json")["asked"]


def test_files_that_somebody_has_written(place, asked):
    (place / "mine").mkdir()
    (place / "mine" / "eng.txt").write_text("a\n")
    toml = (
        'encoder = "org/model"\nout = "there"\ntrain-fraction = 0.25\n[text]\neng = '
        '"eng.txt"\nfra = "../fra.txt"\n'
    )
    (place / "mine" / "study.toml").write_text(toml)
    found = asked("study", "--config", "mine/study.toml")
    assert found == Study(
        encoders={"*": "org/model"},
        texts={"eng": str(place / "mine/eng.txt"), "fra": str(place / "mine/../fra.txt")},
        train_fraction=0.25,
    )
    (place / "probe.json").write_text(
        json.dumps(
            {"encoder": ["a", "b"], "labels": ["t=eng.txt"], "mdl": True, "random-control": False}
        )
    )
    found = asked("probe", "--config", "probe.json", "--out", "x", "--random-control")
    assert (
        found.encoders == ["a", "b"]
        and found.labels == {"t": [str(place / "eng.txt")]}
        and found.mdl
        and found.random_control
    )


BAD = {
    "no file": (None, "--config: expected config.json of a run"),
    "no JSON": ("x.json", "{", "x.json: expected JSON"),
    "no TOML": ("x.toml", "a = ", "x.toml: expected a TOML file"),
    "no table": ("x.json", "[1]", "x.json: expected"),
    "an option that is none": ("x.toml", "encodr = 'x'", "did you mean encoder?"),
    "a table for a number": ("x.toml", "seed = {a = 1}", "--seed"),
    "a list for one value": ("x.toml", "seed = [1, 2]", "x.toml, seed: expected"),
    "a text for a switch": ("x.toml", "trust_remote_code = 'x'", "trust_remote_code"),
    "somebody's code": (
        "x.toml",
        "trust-remote-code = true",
        "type --trust-remote-code, if you trust the code",
    ),
    "a number that does not fit": ("x.toml", "train-fraction = 2", "--train-fraction"),
    "another verb's run": (
        "config.json",
        '{"kind": "align", "settings": {}, "asked": {}}',
        "expected a run of `crosslens study`",
    ),
    "a run that says nothing": (
        "config.json",
        '{"kind": "study", "settings": {}}',
        "one of an earlier version",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_files_that_do_not_fit_are_refused_in_one_line(place, capsys, case):
    *file, told = BAD[case]
    if file[0] is not None:
        (place / file[0]).write_text(file[1])
    try:
        status = typed(
            "study",
            "--config",
            file[0] or "none.json",
            "--encoder",
            "x",
            "--text",
            "eng=eng.txt",
            "--out",
            "new",
        )
    except SystemExit as ended:
        status = ended.code
    message = capsys.readouterr().err
    assert (
        status == 2
        and told in message
        and GRAMMAR.fullmatch(message.removeprefix("crosslens: ").strip())
    ), message
    assert not (place / "new").exists()


def test_code_of_an_encoder_is_not_run_since_an_earlier_run_did(place, asked):
    first = Study(**{**vars(STUDIES[0]), "trust_remote_code": True})
    config = run_of(place / "run", "study", first, ["texts"])
    assert "trust_remote_code" not in (place / "run" / "config.json").read_text()
    assert not asked("study", "--config", config, "--out", "new").trust_remote_code
    assert asked(
        "study", "--config", config, "--out", "new", "--trust-remote-code"
    ).trust_remote_code


RECIPE = (
    'name = "r"\nsteps = 2\nsharing = "sep=emb"\n[[sources]]\nname = "s"\ntexts = {eng = '
    '"eng.txt", fra = "fra.txt"}\n'
)


def test_a_training_is_asked_again_from_its_run_with_other_settings(place, monkeypatch, capsys):
    from crosslens.models.training import masked_lm

    (place / "recipe.toml").write_text(RECIPE)
    first = load_recipe("recipe.toml")
    claim_folder(place / "run", "train", {}, {"recipe": masked_lm._asked(first)})
    found = []
    claim_folder(place / "new", "train", {}, {})
    (place / "new" / "model").mkdir()
    monkeypatch.setattr(
        masked_lm,
        "train",
        lambda recipe, out, **_: found.append((recipe, out)) or place / "new" / "model",
    )
    monkeypatch.setattr("crosslens.report.write_report", lambda folder, _: folder)
    for line in (
        ["run/config.json"],
        ["run"],
        ["--config", "run/config.json"],
        ["--config", "recipe.toml"],
    ):
        assert main(["train", *line, "steps=5", "--out", "new", "--quiet"]) == 0
        (recipe, out) = found.pop()
        texts = {name: str(place / f"{name}.txt") for name in ("eng", "fra")}
        assert (recipe.steps, recipe.sharing, out) == (5, "sep=emb", "new")
        assert {name: str(place / path) for name, path in recipe.sources[0].texts.items()} == texts
    assert (
        main(["train", "--quiet"]) == 2
        and "RECIPE: expected a TOML file" in capsys.readouterr().err
    )


def test_an_emergence_is_asked_again_from_its_run(place, monkeypatch, capsys):
    found = []
    claim_folder(
        place / "run",
        "emergence",
        {},
        {"recipe": "emergence", "settings": {"steps": 300, "data": str(place / "eng.txt")}},
    )
    monkeypatch.setattr(
        "crosslens.run.trainings.emergence.run_emergence",
        lambda recipes, text, out, asked, **_: found.append((recipes, text, asked)) or 1 / 0,
    )
    assert typed("train --config run seed=2 --quiet") == 1
    ((recipes, text, again),) = found
    assert again == {"steps": 300, "data": str(place / "eng.txt"), "seed": 2} and text == ["a", "b"]
    assert {(recipe.steps, recipe.seed) for recipe in recipes.values()} == {(300, 2)}


def test_runs_keep_what_they_were_asked(place):
    """Beside the settings, which alone decide whether a folder is resumed."""
    from crosslens.front.kept import Kept

    asked = {"stores": ["/a", "/b"], "seed": 0}
    with Kept("run", "align", {"seed": 0}, asked, ()).long_work("x"):
        assert json.loads((place / "run" / "config.json").read_text()) == {
            "kind": "align",
            "settings": {"seed": 0},
            "asked": asked,
        }
    (place / "act").mkdir()
    for asked, kept in (
        ({"encoder": ["e"], "text": ["eng=a"]}, ["eng=a"]),
        ({"encoder": ["e"], "text": ["fra=b"]}, ["eng=a", "fra=b"]),  # taken apart in the same way
        ({"encoder": ["e"], "text": ["fra=b"]}, ["eng=a", "fra=b"]),
        ({"encoder": ["e"], "text": ["fra=d"]}, ["fra=d"]),  # a language has one text
        ({"encoder": ["f"], "text": ["deu=c"]}, ["deu=c"]),
    ):
        keep_asked(place / "act", "extract", asked, ["text"])
        assert json.loads((place / "act" / "config.json").read_text())["asked"] == {
            **asked,
            "text": kept,
        }
    (place / "act" / "config.json").write_text('{"model_type": "bert"}')
    keep_asked(place / "act", "extract", {"encoder": ["e"], "text": ["eng=a"]}, ["text"])
    assert (place / "act" / "config.json").read_text() == '{"model_type": "bert"}'


@pytest.mark.parametrize("name", ["options.toml", "options.json"])
def test_a_file_of_options_may_begin_with_a_byte_order_mark(tmp_path, name):
    text = 'by = "inversion"\n' if name.endswith(".toml") else '{"by": "inversion"}'
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    assert read_asked(tmp_path / name)[0] == {"by": "inversion"}


def test_a_recipe_may_begin_with_a_byte_order_mark(tmp_path):
    for encoding in ("utf-8", "utf-8-sig"):
        text = "name = 'r'\nsteps = 2\n[[sources]]\nname = 's'\ntexts = {eng = 'eng.txt'}\n"
        (tmp_path / f"{encoding}.toml").write_text(text, encoding=encoding)
    one, other = (load_recipe(str(tmp_path / f"{e}.toml")) for e in ("utf-8", "utf-8-sig"))
    assert one == other


@pytest.mark.parametrize(
    "given",
    ['exclude = [""]', 'sources = [{name = "a", texts = {eng = ""}}]'],
    ids=["left", "text"],
)
def test_an_empty_path_in_a_recipe_is_not_its_folder(tmp_path, given):
    path = tmp_path / "empty.toml"
    path.write_text('name = "x"\nsteps = 1\n' + given)
    with pytest.raises(InputError, match=r"empty\.toml: expected the name of a file, got an empty"):
        load_recipe(str(path))


def test_calls_that_write_into_one_folder_at_once_are_all_kept(tmp_path):
    texts = [f"{letter}={letter}.txt" for letter in "abcdefgh"]

    def keep(text):
        keep_asked(tmp_path, "extract", {"encoder": ["e"], "text": [text]}, ["text"])

    with ThreadPoolExecutor(len(texts)) as pool:
        assert list(pool.map(keep, texts)) == [None] * len(texts)
    assert sorted(read_asked(tmp_path, "extract")[0]["text"]) == texts
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_a_language_is_derived_from_a_file_of_options(place, capsys):
    (place / "d.toml").write_text(
        'by = "inversion"\nout = "made"\n[text]\neng = "eng.txt"\n', encoding="utf-8"
    )
    (place / "eng.txt").write_text("one two three\n", encoding="utf-8")
    assert main(["derive", "--config", "d.toml"]) == 0
    assert (place / "made" / "eng-inversion.txt").read_text(encoding="utf-8") == "three two one\n"
    assert main(["derive", "--config", "d.toml", "--by", "identity"]) == 0  # what is typed wins
    assert (place / "made" / "eng-identity.txt").exists()
    (place / "d.toml").write_text('by = "inversion"\nlanguage = "eng"\n', encoding="utf-8")
    assert main(["derive", "--config", "d.toml"]) == 2
    assert "expected options of crosslens derive, got 'language'" in capsys.readouterr().err


def test_a_language_is_derived_as_in_an_earlier_folder(place, monkeypatch, capsys):
    tree = "1\tOld\told\tADJ\t_\t_\t2\tamod\t_\t_\n2\tmen\tman\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
    (place / "xx.conllu").write_text(tree, encoding="utf-8")
    (place / "eng.txt").write_text("one two three four\n", encoding="utf-8")
    line = ["derive", "--by", "permutation", "--seed", "3", "--out", "made"]
    assert main([*line, "--text", "eng=eng.txt"]) == 0
    assert main([*line, "--treebank", "xx=xx.conllu"]) == 0
    kept = asked_in("made")
    assert kept["text"] == [f"eng={place / 'eng.txt'}"] and kept["seed"] == 3
    assert kept["treebank"] == [f"xx={place / 'xx.conllu'}"] and "out" not in kept
    (place / "elsewhere").mkdir()
    monkeypatch.chdir(place / "elsewhere")
    assert main(["derive", "--config", "../made", "--out", "again"]) == 0
    assert asked_in("again") == kept
    (place / "made" / "config.json").unlink()
    (place / "elsewhere/again" / "config.json").unlink()
    made = {path.name: path.read_bytes() for path in (place / "made").iterdir()}
    assert {path.name: path.read_bytes() for path in (place / "elsewhere/again").iterdir()} == made
    assert len(made) == 4
    keep_asked("../made", "derive", kept, ())
    assert main(["derive", "--config", "../made", "--out", "other", "--seed", "4"]) == 0
    assert asked_in("other") == kept | {"seed": 4}
    assert main(["study", "--config", "../made", "--out", "x"]) == 2
    assert "got one of `crosslens derive`" in capsys.readouterr().err
    (place / "mine").mkdir()
    (place / "mine" / "config.json").write_text('{"model_type": "bert"}')
    assert main([*line[:-1], str(place / "mine"), "--text", f"eng={place / 'eng.txt'}"]) == 0
    assert read_json(place / "mine" / "config.json") == {"model_type": "bert"}  # nobody else's


def test_a_vocabulary_is_transplanted_as_an_earlier_one(place, monkeypatch):
    text = (DATA / "corpus" / "fra.txt").read_text("utf-8")
    (place / "fra.txt").write_text(text, encoding="utf-8")
    (place / "pairs.txt").write_text("house maison\n", encoding="utf-8")
    line = ["transplant", "--encoder", str(DATA / "tiny-encoder"), "--text", "fra=fra.txt"]
    more = [
        "--by",
        "translation",
        "--dictionary",
        "pairs.txt",
        "--vocabulary",
        "400",
        "--seed",
        "5",
    ]
    assert main([*line, *more, "--out", "made"]) == 0
    (place / "elsewhere").mkdir()
    monkeypatch.chdir(place / "elsewhere")
    assert main(["transplant", "--config", "../made", "--out", "again"]) == 0
    for name in ("model.safetensors", "tokenizer.json", "transplant.json"):
        made, again = place / "made" / name, place / "elsewhere" / "again" / name
        assert made.read_bytes() == again.read_bytes()
    file = "../made/transplant.json"
    assert main(["transplant", "--config", file, "--vocabulary", "300", "--out", "fewer"]) == 0
    assert read_json("fewer/transplant.json")["subwords"] == 300


def test_a_vocabulary_is_transplanted_from_a_file_of_options(place, monkeypatch):
    import crosslens as cl

    def stop(*given, **named):
        raise Asked({**named, "given": given})

    monkeypatch.setattr(cl, "transplant", stop)
    monkeypatch.setenv("CROSSLENS_TRACEBACK", "1")
    options = {"encoder": "e", "text": {"fra": "fra.txt"}, "vocabulary": 300, "out": "made"}
    (place / "t.json").write_text(json.dumps({**options, "by": "overlap"}), encoding="utf-8")
    with pytest.raises(Asked) as found:
        main(["transplant", "--config", "t.json", "--by", "random"])
    asked = found.value.args[0]
    assert asked["given"] == ("e", str(place / "fra.txt"), "made")
    assert (asked["size"], asked["by"], asked["language"]) == (300, "random", "fra")
