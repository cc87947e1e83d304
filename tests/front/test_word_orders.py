"""A word order from a treebank to a derived treebank, in Python and at the command line."""

import json

import pytest

import crosslens as cl
from crosslens.cli.main import main
from crosslens.derive.order_relation_weights import RelationWeights
from crosslens.derive.registry import derived_code
from crosslens.errors import InputError
from crosslens.readers.words import read_conllu
from crosslens.trees import crossing_edges


def conllu(*sentences):
    """Sentences of words given as form/upos/head/relation."""
    lines = []
    for sentence in sentences:
        for number, word in enumerate(sentence.split(), 1):
            form, upos, head, relation = word.split("/")
            lines.append(
                "\t".join([str(number), form, "_", upos, "_", "_", head, relation, "_", "_"])
            )
        lines.append("")
    return "\n".join([*lines, ""])


FRENCH = [
    "le/DET/2/det chat/NOUN/4/nsubj noir/ADJ/2/amod dort/VERB/0/root ./PUNCT/4/punct",
    "la/DET/2/det lune/NOUN/4/nsubj rouge/ADJ/2/amod brille/VERB/0/root ./PUNCT/4/punct",
]
ENGLISH = [
    "the/DET/3/det red/ADJ/3/amod car/NOUN/4/nsubj stopped/VERB/0/root ./PUNCT/4/punct",
    "sleep/VERB/0/root well/ADV/1/advmod",
    # "what" and "of" cross
    "what/PRON/4/obj you/PRON/3/nsubj think/VERB/0/root of/ADP/3/obl",
]


@pytest.fixture
def files(tmp_path):
    paths = {"fra": tmp_path / "fra.conllu", "eng": tmp_path / "eng.conllu"}
    paths["fra"].write_text(conllu(*FRENCH * 5), encoding="utf-8")
    paths["eng"].write_text(conllu(*ENGLISH), encoding="utf-8")
    return paths


def test_english_trees_stand_in_french_order(files, tmp_path):
    order = cl.word_order(files["fra"], "fra", choice="best")
    [made] = cl.derive_files(order, tmp_path / "out", treebank={"eng": files["eng"]})
    assert made.language == "eng-orderfrabest"
    derived = read_conllu(made.path, made.language)
    assert derived.sentences[0] == "the car red stopped ."
    heads = [[int(head) for head in row] for row in derived.annotations["head"]]
    assert heads[0] == [2, 4, 2, 0, 4]
    assert [crossing_edges(row) for row in heads] == [0, 0, 0]


def test_the_command_learns_derives_and_tells_what_it_covers(files, tmp_path, capsys):
    asked = ["derive", "--treebank", f"eng={files['eng']}", "--order-of", f"fra={files['fra']}"]
    assert main([*asked, "--out", str(tmp_path / "a")]) == 0
    told = capsys.readouterr().out
    assert "eng-orderfra" in told and "4 of 5 heads (80.0 %)" in told
    assert "1 of 3 sentences had edges that cross" in told
    more = ["--order-parts", "N", "--order-choice", "best", "--json"]
    assert main([*asked, *more, "--out", str(tmp_path / "b")]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["language"] == "eng-orderfraNbest"
    assert lines[1]["order"] == "order:fra,N,best" and lines[1]["reordered"] == 1
    assert lines[1]["heads"] == 5 and lines[1]["too_large"] == 0


def test_an_order_comes_before_the_other_transformations(files, tmp_path):
    asked = ["derive", "--treebank", f"eng={files['eng']}", "--order-of", f"fra={files['fra']}"]
    asked += [
        "--order-choice",
        "best",
        "--by",
        "transliteration:greek",
        "--out",
        str(tmp_path / "c"),
    ]
    assert main(asked) == 0
    [path] = (tmp_path / "c").glob("*.conllu")
    both = read_conllu(path, "eng")
    plain = cl.word_order(files["fra"], "fra", choice="best")
    [made] = cl.derive_files(plain, tmp_path / "d", treebank={"eng": files["eng"]})
    alone = read_conllu(made.path, "eng")
    assert both.annotations["head"] == alone.annotations["head"]
    assert not set("".join(both.sentences)) & set("abcdefghijklmnopqrstuvwxyz")


def test_relation_weights_by_name(files):
    order = cl.word_order(files["fra"], "fra", parts="V", model="relation-weights")
    assert isinstance(order.models["V"], RelationWeights) and [*order.models] == ["V"]
    assert order.name == "order:fra,V,relation-weights"
    assert derived_code("eng", order) == "eng-orderfraVrelationweights"
    assert cl.word_order_coverage(files["eng"], "eng", order).reordered == 3


def test_what_is_wrong_is_named_by_its_line(files, tmp_path, capsys):
    circle = "a/NOUN/0/root b/DET/3/det c/DET/2/det"
    roots = "a/NOUN/0/root b/DET/0/det"
    for wrong, says in ((circle, "circle"), (roots, "one root")):
        files["fra"].write_text(conllu(FRENCH[0], wrong), encoding="utf-8")
        with pytest.raises(InputError, match=r"fra\.conllu:7\b") as refused:
            cl.word_order(files["fra"], "fra")
        assert says in str(refused.value)
    told = "# text = le chien\n1\tle\t_\tDET\t_\t_\t2\tdet\t_\t_\n2\tchat\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
    files["fra"].write_text(told, encoding="utf-8")
    with pytest.raises(InputError, match=r"fra\.conllu:3: expected word 2, 'chat'"):
        cl.word_order(files["fra"], "fra")
    plain = tmp_path / "eng.txt"
    plain.write_text("The red car stopped.\n", encoding="utf-8")
    files["fra"].write_text(conllu(*FRENCH), encoding="utf-8")
    asked = ["derive", "--text", f"eng={plain}", "--order-of", f"fra={files['fra']}"]
    assert main([*asked, "--out", str(tmp_path / "e")]) == 2
    assert "give a treebank (.conllu)" in capsys.readouterr().err
    assert main(["derive", "--text", f"eng={plain}", "--out", str(tmp_path / "e")]) == 2
    assert "--by or --order-of" in capsys.readouterr().err
