"""Files of labelled pairs and of tagged words, in the layouts they are published in."""

import gzip

import pytest

from crosslens.errors import InputError
from crosslens.front.derived import derive_files
from crosslens.probes.tasks.catalogue import find_task
from crosslens.probes.tasks.data_folder import Absent, DataFolder
from crosslens.readers.sentence_pairs import read_sentence_pairs
from crosslens.readers.tagged_words import read_tagged_words

UNER = (
    "# newdoc id = d\n# sent_id = d-1\n# text = Don't ask Ada.\n1\tDo\tO\t-\t-\n2\tn't\tO\t-\t-\n"
    "3\task\tO\t-\t-\n4\tAda\tB-PER\t-\tx\n5\t.\tO\t-\t-\n\n# sent_id = d-2\n# text = 1 B-LOC\n"
    "1\t1\tO\t-\t-\n2\tB-LOC\tB-LOC\t-\t-\n"
)


def put(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def test_universal_ner_keeps_its_text_and_ids(tmp_path):
    corpus = read_tagged_words(put(tmp_path, "en.iob2", UNER), "eng")
    assert corpus.sentences == ["Don't ask Ada.", "1 B-LOC"] and corpus.ids == ["d-1", "d-2"]
    assert corpus.words[0] == [(0, 2), (2, 5), (6, 9), (10, 13), (13, 14)]
    assert corpus.annotations["ner"] == [["O", "O", "O", "B-PER", "O"], ["O", "B-LOC"]]


@pytest.mark.parametrize(
    "text",
    [
        "-DOCSTART- -X- O O\n\nAda NNP B-NP I-PER\nwrote VBD B-VP O\n\nParis NNP B-NP I-LOC\n\n",
        "Ada I-PER\nwrote O\n\nParis I-LOC\n",
        "en:Ada\tI-PER\nen:wrote\tO\n\n\nen:Paris\tI-LOC",
    ],
    ids=["CoNLL-2003", "two columns", "WikiAnn"],
)
def test_other_layouts(tmp_path, text):
    corpus = read_tagged_words(put(tmp_path, "x.iob2", text), "eng")
    assert corpus.sentences == ["Ada wrote", "Paris"] and corpus.ids == ["0", "1"]
    assert corpus.annotations["ner"] == [["B-PER", "O"], ["B-LOC"]]


def test_a_sentence_may_begin_with_a_number_sign(tmp_path):
    text = "# text = 1 O\n1 O\nO O\n\n# O\n1 O\nParis B-LOC\n\n# NN B-NP O\n# newdoc\nAda B-PER\n"
    with pytest.raises(InputError, match=r"x:10: expected a tag"):
        read_tagged_words(put(tmp_path, "x", text), "eng")
    text = text.replace("# newdoc\n", "")
    corpus = read_tagged_words(put(tmp_path, "x", text), "eng")
    assert corpus.sentences == ["1 O", "# 1 Paris", "# Ada"]
    assert corpus.annotations["ner"] == [["O", "O"], ["O", "O", "B-LOC"], ["O", "B-PER"]]


def test_names_that_begin_with_i_are_those_of_conll_2003(tmp_path):
    text = "Ada I-PER\nBea B-PER\nLove I-PER\nParis I-LOC\nis O\n\nBea I-PER\n"
    corpus = read_tagged_words(put(tmp_path, "x", text), "eng")
    assert corpus.annotations["ner"] == [["B-PER", "B-PER", "I-PER", "B-LOC", "O"], ["B-PER"]]


def test_a_number_at_its_own_place_is_a_word_where_others_have_no_number(tmp_path):
    text = (
        "-DOCSTART- -X- O O\n\nLONDON NNP I-NP I-LOC\n2 CD I-NP O\nLeeds NNP I-NP I-ORG\n1 CD I-NP O\n"
        "\n1 CD I-NP O\n"
    )
    corpus = read_tagged_words(put(tmp_path, "eng.testa", text), "eng")
    assert corpus.sentences == ["LONDON 2 Leeds 1", "1"]
    assert corpus.annotations["ner"] == [["B-LOC", "O", "B-ORG", "O"], ["O"]]
    text = "In Prep O\n2 Num O\nBelgië N B-LOC\n"  # CoNLL-2002
    corpus = read_tagged_words(put(tmp_path, "ned.testa", text), "nld")
    assert corpus.sentences == ["In 2 België"]


def test_a_word_without_its_number_is_named(tmp_path):
    text = UNER.replace("4\tAda", "5\tAda")
    with pytest.raises(InputError, match=r"en.iob2:7: expected 4, a word and its tag"):
        read_tagged_words(put(tmp_path, "en.iob2", text), "eng")


def test_one_name_in_a_hundred_may_begin_with_i(tmp_path, capsys):
    text = "Ada B-PER\n\n" * 99 + "wrote O\nLove I-PER\nBea I-PER\n"
    corpus = read_tagged_words(put(tmp_path, "x", text), "eng")
    assert corpus.annotations["ner"][-1] == ["O", "B-PER", "I-PER"]
    assert "1 of 100 names begin with I- (line 200: I-PER); read as B-" in capsys.readouterr().err
    with pytest.raises(InputError, match="x:198: expected B-PER at the beginning"):
        read_tagged_words(put(tmp_path, "x", text.replace("Ada B-PER\n\n", "", 1)), "eng")


def test_words_are_read_without_the_language_that_most_have(tmp_path):
    text = "simple:Ada\tB-PER\nsimple:wrote\tO\nunprefixed\tO\n\nsimple:Paris\tB-LOC\n"
    corpus = read_tagged_words(put(tmp_path, "x", text), "eng")
    assert corpus.sentences == ["Ada wrote unprefixed", "Paris"]


def test_a_word_with_a_colon_is_no_prefix_where_others_have_none(tmp_path):
    corpus = read_tagged_words(put(tmp_path, "x", "at:3 O\nAda B-PER\n"), "eng")
    assert corpus.sentences == ["at:3 Ada"]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("Ada\n", r"x:1: expected a word and its tag"),
        ("Ada S-PER\n", r"x:1: expected a tag B-TYPE"),
        ("Ada B-PER\nLove E-PER\n", r"x:2: expected a tag B-TYPE"),
        ("Ada B-PER\n\nwrote O\nLove I-PER\n", r"x:4: expected B-PER at the beg.* as line 1 has"),
        ("Ada B-PER\nParis I-LOC\n", r"x:2: expected B-LOC at the beginning of a name"),
        ("# text = Bea\n1\tAda\tB-PER\n", r"x:2: expected word 1"),
        ("\n\n", r"x: expected sentences|text"),
    ],
)
def test_lines_that_are_no_tagged_words_are_named(tmp_path, text, match):
    with pytest.raises(InputError, match=match):
        read_tagged_words(put(tmp_path, "x", text), "eng")


PAIRS = {
    "shared": "label\tpremise\thypothesis\tgenre\nneutral\tA\tB\tx\ncontradiction\tC\tD\ty\n",
    "translated": "premise\thypo\tlabel\nA\tB\tneutral\nC\tD\tcontradictory\n",
    "no names": "A\tB\tneutral\nC\tD\tcontradiction\n",
    "paws": "id\tsentence1\tsentence2\tlabel\n1\tA\tB\tneutral\n2\tC\tD\tcontradiction\n",
}


@pytest.mark.parametrize("layout", PAIRS)
def test_pairs_by_the_names_of_their_columns(tmp_path, layout):
    pairs = read_sentence_pairs(put(tmp_path, "x.tsv.gz", PAIRS[layout]))
    assert (pairs.firsts, pairs.seconds) == (["A", "C"], ["B", "D"])
    assert pairs.labels == ["neutral", "contradiction"]
    first, second = pairs.corpora("eng")
    assert first.sentences == ["A", "C"] and second.ids == ["0", "1"]


OFFICIAL = (
    "language\tgold_label\tsentence1_binary_parse\tsentence1\tsentence2\tpairID\n"
    "en\tneutral\t\tA\tB\t1\nde\tentailment\t\tC\tD\t1\n"
)


def test_a_file_of_all_languages_is_read_by_one(tmp_path):
    path = put(tmp_path, "xnli.dev.tsv", OFFICIAL)
    assert read_sentence_pairs(path, "de").firsts == ["C"]
    with pytest.raises(InputError, match="none of fr"):
        read_sentence_pairs(path, "fr")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("A\tB\nC\tD\n", "expected pairs with their labels, got 2 columns"),
        ("A\tB\tC\tD\n", "expected a first line that names the columns"),
        ("premise\tlabel\nA\tneutral\n", "expected a column for the second"),
        ("premise\thypo\tlabel\nA\tB\n", ":2: expected 3 tab-separated columns"),
        ("premise\thypo\tlabel\nA\t \tneutral\n", ":2: expected a second"),
        ("premise\thypo\tlabel\n", "expected labelled pairs"),
    ],
)
def test_what_is_no_labelled_pair_is_named(tmp_path, text, match):
    with pytest.raises(InputError, match=match):
        read_sentence_pairs(put(tmp_path, "x.tsv", text))


def test_pairs_without_a_sentence_are_left_out_where_that_is_asked_for(tmp_path, capsys):
    text = "id\tsentence1\tsentence2\tlabel\n1\tA\tB\t0\n2\t\t\t0\n3\tC\t \t1\n4\tD\tE\t1\n"
    path = put(tmp_path, "x-final/de/translated_train.tsv", text)
    with pytest.raises(InputError, match=":3: expected a first"):
        read_sentence_pairs(path)
    pairs = read_sentence_pairs(path, skip_blank=True)
    assert (pairs.firsts, pairs.labels, pairs.blank) == (["A", "D"], ["0", "1"], 2)
    assert "left out: 2 (the first on line 3)" in capsys.readouterr().err
    items = find_task("paws_x").read(DataFolder(tmp_path), "deu")
    assert sizes(items) == {"train": 2}


def sizes(items):
    return {split: len(some) for split, some in items.splits.items()}


def test_tasks_find_the_folders_that_are_published(tmp_path):
    put(tmp_path, "XNLI-1.0/xnli.dev.tsv", OFFICIAL)
    put(tmp_path, "XNLI-MT-1.0/multinli/multinli.train.en.tsv", PAIRS["translated"])
    put(tmp_path, "pawsx/train-en.tsv", "A\tB\t1\n")
    numbered = PAIRS["paws"].replace("neutral", "0").replace("contradiction", "1")
    put(tmp_path, "x-final/de/translated_train.tsv", numbered)
    put(tmp_path, "x-final/de/dev_2k.tsv", numbered)
    for split in ("train", "testa", "testb"):
        put(tmp_path, f"conll2002/esp.{split}", "Ada B-PER\n")
    put(tmp_path, "ner/de_pud-ud-test.iob2", UNER)
    put(tmp_path, "ner/en_pud-ud-test.iob2", UNER)
    put(tmp_path, "ner/en_ewt-ud-dev.iob2", UNER)
    put(tmp_path, "ner/en_ewt-ud-test.iob2", UNER)
    put(tmp_path, "mldoc/english.train.1000", "CCAT\tShares rose.\nGCAT\tA vote.\n")
    put(tmp_path, "mldoc/english.test", "CCAT\tShares fell.\n")
    put(tmp_path, "documents/swh.train.tsv", "good\tNzuri.\nbad\tMbaya.\n")
    put(tmp_path, "documents/swh.test.tsv", "good\tNzuri sana.\n")
    put(tmp_path, "documents/eng.test", "good\tGood.\n")
    data = DataFolder(tmp_path)
    names = ("xnli", "paws_x", "ner", "mldoc", "documents")
    there = {name: list(find_task(name).languages(data)) for name in names}
    assert {"deu", "eng"} <= {*there["xnli"]} and len(there["xnli"]) == 15
    assert there["paws_x"] == ["deu", "eng"] and there["ner"] == ["deu", "eng", "spa"]
    assert there["mldoc"] == ["eng"] and there["documents"] == ["eng", "swh"]
    own = find_task("documents").read(data, "swh").texts
    assert own.parts == ["train", "train", "test"] and own.labels == ["good", "bad", "good"]
    assert sizes(find_task("xnli").read(data, "eng")) == {"train": 2, "dev": 1}
    assert sizes(find_task("xnli").read(data, "deu")) == {"dev": 1}
    assert sizes(find_task("paws_x").read(data, "de")) == {"train": 2, "dev": 2}
    assert sizes(find_task("ner").read(data, "spa")) == {"train": 1, "dev": 1, "test": 1}
    assert find_task("ner").read(data, "eng").name == "en_ewt"
    assert sizes(find_task("ner").read(data, "en_pud")) == {"test": 2}
    mldoc = find_task("mldoc").read(data, "eng")
    assert mldoc.texts.parts == ["train", "train", "test"] and mldoc.language == "eng"
    assert "ner/en_ewt-ud-dev.iob2" in data.files
    with pytest.raises(Absent, match="of fra"):
        find_task("ner").read(data, "fra")


def test_raw_tags_of_a_derived_language_are_read_as_they_stand(tmp_path):
    """Turned round, names end with B-; most files with as many would be refused."""
    put(tmp_path, "en.iob2", "Ada\tB-PER\nKing\tI-PER\nsaw\tO\nBo\tB-PER\n\n" * 2)
    for how, wanted in (
        ("raw", ["B-PER", "O", "I-PER", "B-PER"]),
        ("consistent", ["B-PER", "O", "B-PER", "I-PER"]),
    ):
        [made] = derive_files(
            "inversion", tmp_path / how, iob2={"eng": tmp_path / "en.iob2"}, tags=how
        )
        assert read_tagged_words(made.path, "eng").annotations["ner"] == [wanted] * 2
        assert ("# tags = raw" in made.path.read_text()) is (how == "raw")
