"""Data sets as they are published, with what is odd about them."""

import csv
import gzip

import pytest

from crosslens.errors import InputError
from crosslens.probes.tasks.catalogue import find_task
from crosslens.probes.tasks.data_folder import Absent, DataFolder
from crosslens.probes.tasks.treebanks import read_treebank


def put(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def conllu(*forms):
    lines = [f"{i}\t{form}\t_\tNOUN\t_\t_\t{i - 1}\tdep\t_\t_" for i, form in enumerate(forms, 1)]
    return "\n".join([*lines, "", ""])


def test_a_treebank_without_its_text_is_passed_over_and_refused_where_it_is_alone(tmp_path, capsys):
    for split in ("train", "dev", "test"):
        put(tmp_path, f"ud/ja_bccwj-ud-{split}.conllu.gz", conllu("_", "_", "_"))
    with pytest.raises(InputError, match="expected words, got _ for 3 of 3: it is published with"):
        read_treebank(DataFolder(tmp_path), "jpn")
    put(tmp_path, "ud/ja_gsd-ud-test.conllu", conllu("犬", "_", "鳴く"))
    assert read_treebank(DataFolder(tmp_path), "jpn").name == "ja_gsd"
    assert "ja_bccwj passed over: published without the text" in capsys.readouterr().err
    with pytest.raises(InputError, match="published without its text"):
        read_treebank(DataFolder(tmp_path), "ja_bccwj")


def test_treebanks_are_found_in_their_folders_and_parts_of_a_split_are_named(tmp_path, capsys):
    put(tmp_path, "ud/UD_German-HDT/de_hdt-ud-test.conllu", conllu("Hund", "bellt"))
    for part in ("a-1", "a-2"):
        put(tmp_path, f"ud/UD_German-HDT/de_hdt-ud-train-{part}.conllu", conllu("Hund"))
    found = read_treebank(DataFolder(tmp_path), "deu")
    assert list(found.splits) == ["test"]
    told = capsys.readouterr().err
    assert "de_hdt has its train split in 2 files, which are not read: join them" in told
    assert "UD_German-HDT/de_hdt-ud-train.conllu" in told


def xtreme(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        csv.writer(file, delimiter="\t").writerows(rows)


@pytest.mark.parametrize(
    ("task", "folder", "labels"),
    [("xnli", "xnli", ("neutral", "entailment")), ("paws_x", "pawsx", ("0", "1"))],
)
def test_xtreme_s_files_are_unquoted_and_its_test_has_no_labels(
    tmp_path, capsys, task, folder, labels
):
    rows = [('He said "no" .', "A\u2028b", labels[0]), ('"Yes"', 'It is 5" long .', labels[1])]
    for split in ("train", "dev"):
        xtreme(tmp_path / folder / f"{split}-en.tsv", rows)
    xtreme(tmp_path / folder / "test-en.tsv", [row[:2] for row in rows])
    items = find_task(task).read(DataFolder(tmp_path), "eng")
    assert set(items.splits) == {"train", "dev"}
    assert items.splits["train"].firsts == ['He said "no" .', '"Yes"']
    assert items.splits["dev"].seconds[1] == 'It is 5" long .'
    assert "test-en.tsv: left out, since it has no labels" in capsys.readouterr().err
    for split in ("train", "dev"):
        (tmp_path / folder / f"{split}-en.tsv").unlink()
    with pytest.raises(InputError, match="2 columns, pairs alone"):
        find_task(task).read(DataFolder(tmp_path), "eng")


def test_quotation_marks_of_a_file_that_is_not_quoted_stay(tmp_path):
    text = 'He said "no".\t"Yes" is "right"\tneutral\n"One."\tB\tneutral\n'
    put(tmp_path, "xnli/dev-en.tsv", text)
    items = find_task("xnli").read(DataFolder(tmp_path), "eng")
    assert items.splits["dev"].firsts == ['He said "no".', '"One."']


def test_the_test_of_xnli_is_read_beside_xtreme_s(tmp_path):
    header = "language\tgold_label\tsentence1\tsentence2\n"
    put(tmp_path, "XNLI-1.0/xnli.test.tsv", header + "en\tneutral\tA\tB\n")
    xtreme(tmp_path / "xnli/train-en.tsv", [("C", "D", "neutral")])
    xtreme(tmp_path / "xnli/test-en.tsv", [("A", "B")])
    items = find_task("xnli").read(DataFolder(tmp_path), "eng")
    assert {split: pairs.firsts for split, pairs in items.splits.items()} == {
        "train": ["C"],
        "test": ["A"],
    }


def test_mldoc_s_bytes_are_decoded(tmp_path, capsys):
    texts = ["Télécom – l'accord", 'Il dit "non"', 'prix d\'"or"']
    for split in ("train.1000", "dev", "test"):
        lines = "".join(f"CCAT\t{text.encode()}\n" for text in texts)
        put(tmp_path, f"mldoc/french.{split}", lines)
        put(tmp_path, f"mldoc/german.{split}", "".join(f"CCAT\t{text}\n" for text in texts))
    data = DataFolder(tmp_path)
    assert list(find_task("mldoc").read(data, "fra").texts.texts) == texts * 3
    assert "mldoc, fra: written as bytes of Python" in capsys.readouterr().err
    assert list(find_task("mldoc").read(data, "deu").texts.texts) == texts * 3
    put(tmp_path, "mldoc/french.dev", "CCAT\tplain\n")
    with pytest.raises(InputError, match=r"french.dev:1: expected bytes \(b'...'\)"):
        find_task("mldoc").read(DataFolder(tmp_path), "fra")


def test_folders_that_are_unpacked_are_found(tmp_path):
    pair = '{"sentence_good": "A.", "sentence_bad": "B.", "UID": "x", "pairID": "0"}\n'
    put(tmp_path, "blimp/data/x.jsonl", pair)
    assert len(find_task("blimp").read(DataFolder(tmp_path), "eng").pairs) == 1
    for split in ("train", "dev", "test"):
        put(tmp_path, f"wic/{split}/{split}.data.txt", "dog\tN\t1-1\tA dog .\tThe dog .\n")
        put(tmp_path, f"wic/{split}/{split}.gold.txt", "T\n")
    assert set(find_task("wic").read(DataFolder(tmp_path), "eng").splits) == {
        "train",
        "dev",
        "test",
    }
    with pytest.raises(Absent, match="no wic/train.data.txt"):
        find_task("wic").read(DataFolder(tmp_path / "blimp"), "eng")


def test_the_languages_of_unpacked_folders_are_listed(tmp_path):
    put(tmp_path, "blimp/data/x.jsonl.gz", "{}")
    for split in ("train", "dev", "test"):
        for kind in ("data", "gold"):
            put(tmp_path, f"wic/{split}/{split}.{kind}.txt", "")
    for task in ("blimp", "wic"):
        assert list(find_task(task).languages(DataFolder(tmp_path))) == ["eng"]


def test_wikipedia_s_old_codes_are_languages_of_their_own(tmp_path):
    names = ["als", "be", "be-x-old", "en", "nds", "nds-nl", "no", "roa-rup", "roa-tara", "sq"]
    names += ["zh", "zh-classical", "zh-min-nan", "zh-yue"]
    for name in names:
        for split in ("train", "dev", "test"):
            put(tmp_path, f"wikiann/{name}/{split}", f"{name}:{name}\tB-LOC\n\n")
    task, data = find_task("ner"), DataFolder(tmp_path)
    called = ["gsw", "bel", "be-x-old", "eng", "nds", "nds-nl", "nor", "rup", "nap", "sqi"]
    called += ["cmn", "lzh", "nan", "yue"]
    assert task.languages(data) == sorted(called)
    for name, language in zip(names, called, strict=True):
        read = task.read(data, language)
        assert (read.splits["test"].sentences[0], read.language) == (name, language)
        if name != "als":  # which is Albanian, but for Wikipedia
            assert task.read(data, name).language == language
