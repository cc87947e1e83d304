"""Word orders that are saved: the same orders to the last bit, and what is no such file."""

import json

import numpy as np
import pytest
from test_order import projective, treebank

import crosslens as cl
from crosslens.asked import read_asked
from crosslens.cli.main import main
from crosslens.derive.order import learn_word_order
from crosslens.derive.order_files import read_word_order, save_word_order
from crosslens.errors import InputError, OutputError

KINDS = ("log-linear", "relation-weights")


def conllu(path, sentences):
    rows = []
    for one in sentences:
        columns = (one.tokens, one.columns["upos"], one.heads, one.columns["deprel"])
        for number, (form, upos, head, deprel) in enumerate(zip(*columns, strict=True), 1):
            rows.append(f"{number}\t{form}\t_\t{upos}\t_\t_\t{head}\t{deprel}\t_\t_")
        rows.append("")
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Kind of model -> an order, and the file that it is saved in."""
    folder = tmp_path_factory.mktemp("orders")
    found = {}
    for kind in KINDS:
        order = learn_word_order(treebank(projective(60)), model=kind)
        save_word_order(order, folder / f"{kind}.json")
        found[kind] = order, folder / f"{kind}.json"
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("choice", ["sampled", "best"])
def test_a_saved_order_orders_as_the_one_that_was_learnt(saved, kind, choice):
    order, path = saved[kind]
    back = read_word_order(path, model=kind, choice=choice)
    assert (back.language, back.choice, back.models.keys()) == ("fra", choice, order.models.keys())
    learnt = learn_word_order(treebank(projective(60)), model=kind, choice=choice)
    for number, sentence in enumerate(projective(40, seed=1)):
        assert (
            back.derive(sentence, 0, number).sources == learnt.derive(sentence, 0, number).sources
        )
    for part, model in order.models.items():
        names = ("codes", "weights") if kind == "log-linear" else ("direction", "distance")
        for name in names:
            np.testing.assert_array_equal(getattr(model, name), getattr(back.models[part], name))
        assert back.models[part].nodes == model.nodes
    content = path.read_bytes()
    save_word_order(back, path)  # the very same
    assert path.read_bytes() == content


def test_a_saved_mixture_is_that_of_its_first_language(saved, tmp_path):
    order, _ = saved["log-linear"]
    other = learn_word_order(treebank(projective(60, seed=3), "eng"))
    save_word_order(order.mixed_with(other), tmp_path / "mixed.json")
    for language in ("fra", "fra-with-0.05-eng"):
        found = cl.word_order(tmp_path / "mixed.json", language)
        assert found.name == "order:fra-with-0.05-eng"
    with pytest.raises(InputError, match="language: expected fra-with-0.05-eng, .*, got 'eng'"):
        cl.word_order(tmp_path / "mixed.json", "eng")


def test_one_class_of_heads_is_taken_and_one_that_is_not_there_is_refused(saved, tmp_path):
    _, path = saved["log-linear"]
    nouns = read_word_order(path, parts="N")
    assert list(nouns.models) == ["N"]
    save_word_order(nouns, tmp_path / "n.json")
    with pytest.raises(InputError, match=r"parts: expected classes of heads .* \(N\), got V; ch"):
        read_word_order(tmp_path / "n.json")
    with pytest.raises(InputError, match="model: expected log-linear, which .*, got relation-w"):
        read_word_order(path, model="relation-weights")
    with pytest.raises(InputError, match="language: expected fra, whose order .*, got 'deu'"):
        cl.word_order(path, "deu")
    with pytest.raises(OutputError, match="the very same order, got another content"):
        save_word_order(nouns, path)
    with pytest.raises(InputError, match="ends with .json, got another"):
        save_word_order(nouns, tmp_path / "order.npz")


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("log-linear", {"codes": lambda some: some[::-1]}, "codes: expected rising whole numbers"),
        ("log-linear", {"codes": lambda some: []}, "codes: expected rising whole numbers"),
        ("log-linear", {"weights": lambda some: some[1:]}, "weights: expected [0-9]+ numbers"),
        ("log-linear", {"weights": lambda some: [float("nan"), *some[1:]]}, "that is not finite"),
        ("log-linear", {"symbols": lambda some: some[::-1]}, "symbols: expected names in their"),
        ("log-linear", {"nodes": lambda some: "9"}, "key nodes: expected a whole number"),
        ("log-linear", {"symbols": lambda some: some[1:]}, "expected the order that was saved"),
        ("log-linear", {"nodes": lambda some: -4}, "expected the order that was saved"),
        ("relation-weights", {"direction": lambda some: [9.0] * len(some)}, "order that was saved"),
        ("relation-weights", {"direction": lambda some: some[1:]}, "direction: expected [0-9]+ n"),
        ("relation-weights", {"relations": lambda some: ["a", "a"]}, "relations: expected names"),
    ],
)
def test_a_damaged_file_is_refused_by_what_is_wrong(saved, kind, change, message, tmp_path):
    told = json.loads(saved[kind][1].read_text())
    for name, changed in change.items():
        told["models"]["N"][name] = changed(told["models"]["N"][name])
    (tmp_path / "x.json").write_text(json.dumps(told))
    with pytest.raises(InputError, match=message):
        read_word_order(tmp_path / "x.json", model=kind)


def test_the_command_line_saves_an_order_and_uses_it_again(tmp_path, capsys):
    learnt = conllu(tmp_path / "fr.conllu", projective(60))
    english = conllu(tmp_path / "en.conllu", projective(20, seed=1))
    saved = tmp_path / "fra.json"
    ask = ["derive", "--treebank", f"eng={english}", "--order-of"]
    main([*ask, f"fra={learnt}", "--save-order", str(saved), "--out", str(tmp_path / "a")])
    main([*ask, f"fra={saved}", "--out", str(tmp_path / "b")])
    capsys.readouterr()
    names = sorted(path.name for path in (tmp_path / "a").glob("eng*"))
    assert names == sorted(path.name for path in (tmp_path / "b").glob("eng*")) and len(names) == 2
    asked = read_asked(tmp_path / "b", "derive")[0]
    assert asked["order_of"] == f"fra={saved}" and "save_order" not in asked
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    out = str(tmp_path / "c")
    for name, content, told in (
        ("x.json", b"\xff", "expected a new file, or one with the very same order"),
        (
            "no/x.json",
            None,
            f"--save-order: expected a file in a folder that is there, got {tmp_path}/no/",
        ),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        to = ["--save-order", str(tmp_path / name), "--out", out]
        assert main([*ask, f"fra={learnt}", *to]) == 2
        assert told in capsys.readouterr().err
    text = ["derive", "--text", f"eng={english}", "--by", "inversion", "--out", out]
    assert main([*text, "--save-order", "x.json"]) != 0
    assert "expected --order-of, whose order is saved" in capsys.readouterr().err
    for option, value in (("parts", "N"), ("model", "relation-weights"), ("choice", "best")):
        assert main([*text, f"--order-{option}", value]) == 2
        told = f"expected --order-of, which it is about, got --order-{option} without it"
        assert told in capsys.readouterr().err
    tree = ["derive", "--treebank", f"eng={english}", "--by", "inversion", "--out", out]
    for option, value, kinds in (
        ("tags", "raw", "--iob2"),
        ("unit", "line", "--text or --labels or --pairs or --questions"),
    ):
        assert main([*tree, f"--{option}", value]) == 2
        told = f"expected {kinds}, which it is about, got --{option} without it"
        assert told in capsys.readouterr().err
    marked = [*tree[:-3], "full-reversal:epoch", "--out", out]
    for asked in (tree, marked):
        assert main([*asked, "--epoch", "1"]) == 2
        assert "--by permutation:epoch, which it is about, got --epoch" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


def test_a_file_of_a_later_version_is_refused(saved, tmp_path):
    told = json.loads(saved["log-linear"][1].read_text()) | {"word_order": 2}
    (tmp_path / "x.json").write_text(json.dumps(told))
    with pytest.raises(InputError, match="key word_order: expected 1, got 2; use a newer version"):
        read_word_order(tmp_path / "x.json")


def test_what_cannot_be_put_in_order_is_refused_before_an_order_is_learnt(tmp_path, capsys):
    french = conllu(tmp_path / "fra.conllu", projective(60))
    (tmp_path / "eng.txt").write_text("A sentence.\n")
    order = ["--order-of", f"fra={french}", "--save-order", str(tmp_path / "order.json")]
    for given, told in (
        (["--treebank", "eng=nothere.conllu"], "nothere.conllu: expected a file, got no such file"),
        (
            ["--text", f"eng={tmp_path / 'eng.txt'}"],
            "eng.txt: expected trees, whose words are put in order, got plain text; add --parser",
        ),
        *(
            (
                [f"--{kind}", f"eng={tmp_path / 'eng.txt'}"],
                f"eng.txt: expected trees, whose words are put in order, got a file of --{kind};",
            )
            for kind in ("labels", "iob2", "pairs", "questions")
        ),
    ):
        assert main(["derive", *given, *order, "--out", str(tmp_path / "out")]) == 2
        assert told in capsys.readouterr().err
    circle = "1\ta\t_\tNOUN\t_\t_\t2\tdep\t_\t_\n2\tb\t_\tNOUN\t_\t_\t1\tdep\t_\t_\n\n"
    (tmp_path / "circle.conllu").write_text(circle)
    for given in (
        ["--treebank", f"eng={tmp_path / 'circle.conllu'}"],
        ["--text", f"eng={tmp_path / 'circle.conllu'}"],
    ):
        assert main(["derive", *given, *order, "--out", str(tmp_path / "out")]) == 2
        assert "one root (head 0) in sentence" in (error := capsys.readouterr().err)
        assert "circle.conllu:1, got 0" in error
    (tmp_path / "circle.conllu").unlink()
    tree = ["derive", "--treebank", f"eng={french}", *order]
    assert main([*tree, "--out", str(tmp_path / "eng.txt" / "out")]) != 0
    assert "eng.txt/out: expected a folder that can be written to" in capsys.readouterr().err
    for by, told in (
        (
            "partial-reversal",
            "expected a transformation that keeps each word, got partial-reversal",
        ),
        ("inversion+transliteration:40", "which is of subwords' ids; name a script: translit"),
    ):
        tree = ["derive", "--treebank", f"eng={french}", "--by", by]
        for given in (order, []):
            assert main([*tree, *given, "--out", str(tmp_path / "out")]) == 2
            assert told in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"fra.conllu", "eng.txt"}
