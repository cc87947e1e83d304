"""Retrieval as papers measure it, against transformers' own states."""

import numpy as np
import pytest
import torch
import transformers

from crosslens.cli.main import main
from crosslens.corpus import Corpus
from crosslens.errors import InputError
from crosslens.recipes.quickstart import DATA
from crosslens.run.retrieval_presets import check_order, preset_layer
from crosslens.run.study import Study

ENCODER = DATA / "tiny-encoder"


def means(sentences, layer, longest):
    """Of all tokens of each sentence, special ones included."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(ENCODER)
    model = transformers.AutoModel.from_pretrained(ENCODER, dtype=torch.float32).eval()
    found = []
    for sentence in sentences:
        told = tokenizer(sentence, return_tensors="pt", truncation=True, max_length=longest)
        with torch.no_grad():
            states = model(**told, output_hidden_states=True).hidden_states[layer][0]
        found.append((states.mean(0) / states.mean(0).norm()).numpy())
    return np.array(found)


def test_deshpande_s_number_is_that_of_a_loop(texts, tmp_path, capsys):
    files = {language: texts[language] for language in ("eng", "fra")}
    told = [f"{language}={path}" for language, path in files.items()]
    line = ["study", "--encoder", str(ENCODER), "--text", *told, "--preset", "deshpande", "--quiet"]
    assert main([*line, "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    english, french = (
        means(open(path, encoding="utf-8").read().splitlines(), 2, 128) for path in files.values()
    )
    right = ((french @ english.T).argmax(1) == np.arange(len(french))).mean()
    assert "As deshpande measures (layer 2, special tokens included, cosine, all 60" in said
    assert f"fra → eng {100 * right:.1f} %." in said
    assert main([*line, "--out", str(tmp_path / "run")]) == 0
    del line[line.index("--preset") : line.index("--quiet")]
    assert main([*line, "--out", str(tmp_path / "run")]) == 2
    assert "preset" in capsys.readouterr().err


def test_layers_are_those_of_the_papers():
    assert [preset_layer("deshpande", n) for n in (8, 12, 3)] == [4, 6, 1]
    assert [preset_layer("xtreme", n) for n in (12, 24)] == [8, 14]
    with pytest.raises(InputError, match="encoders: expected 12 or 24 layers, got 4"):
        preset_layer("xtreme", 4)
    with pytest.raises(InputError, match="preset: expected one of deshpande, xtreme, got 'best'"):
        Study(encoders={"*": "x"}, texts={"eng": "a", "fra": "b"}, preset="best")


def test_what_cannot_be_measured_so_is_refused_before_anything_is_written(texts, tmp_path, capsys):
    lines = open(texts["eng"], encoding="utf-8").read().splitlines()
    (tmp_path / "sorted.txt").write_text("\n".join(sorted(lines)))
    told = [f"fra={texts['fra']}", f"eng={tmp_path / 'sorted.txt'}"]
    line = ["study", "--encoder", str(ENCODER), "--out", str(tmp_path / "run"), "--quiet", "--text"]
    assert main([*line, *told, "--preset", "deshpande"]) == 2
    assert (
        "texts, eng: expected sentences in the order of their translations, got sorted ones in"
        in (capsys.readouterr().err)
    )
    told[1] = f"eng={texts['eng']}"
    assert main([*line, *told, "--preset", "xtreme"]) == 2
    assert (
        "expected 12 or 24 layers, got 4, of which xtreme says nothing" in capsys.readouterr().err
    )
    assert not (tmp_path / "run").exists()


def test_texts_that_are_all_sorted_are_taken():
    some = Corpus("eng", ["a", "b"], ["0", "1"], "a file")
    check_order({"eng": some, "fra": some})
