"""Readers of minimal pairs: three formats, and what they refuse."""

import gzip
import json

import pytest

from crosslens.errors import InputError
from crosslens.readers.minimal_pairs import (
    MARVIN_LINZEN_CATEGORIES,
    MinimalPair,
    read_minimal_pairs,
)

HEADER = "template\tcase\tgrammatical\tungrammatical\textra"


@pytest.fixture
def file(tmp_path):
    def write(text, name="pairs.tsv"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return write


def test_marvin_linzen_lines_get_the_categories_of_the_paper(file):
    path = file(
        (
            f"{HEADER}\nprep_inanim\tsing\tthe book is new\tthe book are new\t\nvp_coord\tplur\ta "
            f"b\ta c\t\n"
        ),
        "ml.tsv.gz",
    )
    first, second = read_minimal_pairs(path)
    assert first == MinimalPair(
        "the book is new",
        "the book are new",
        "across a prepositional phrase",
        "prep_inanim/sing/2",
        f"{path}:2",
    )
    assert (second.category, second.where) == ("short VP coordination", f"{path}:3")


def test_there_are_thirteen_categories():
    assert len(set(MARVIN_LINZEN_CATEGORIES.values())) == 13


def test_npi_pairs_are_kept_only_on_demand(file):
    path = file(f"{HEADER}\nsimple_npi_anim\tpast\tno a\tthe a\t\nsimple_agrmt\tx\ta b\ta c\t\n")
    assert [pair.category for pair in read_minimal_pairs(path)] == ["simple agreement"]
    assert [pair.category for pair in read_minimal_pairs(path, npi=True)] == [
        "simple NPI",
        "simple agreement",
    ]


def test_blimp_lines(file):
    line = json.dumps(
        {
            "sentence_good": "A b.",
            "sentence_bad": "A c.",
            "UID": "passive_1",
            "pairID": "7",
            "field": "syntax",
        }
    )
    path = file(line + "\n", "passive_1.jsonl.gz")
    assert read_minimal_pairs(path) == [MinimalPair("A b.", "A c.", "passive_1", "7", f"{path}:1")]


@pytest.mark.parametrize(
    ("name", "mark"), [("data.tsv", "\t"), ("data.csv", ","), ("data.tsv.gz", "\t")]
)
def test_tables_of_multiblimp_have_named_columns_in_any_order(file, name, mark):
    rows = [
        ["", "prefix", "sen", "wrong_sen", "phenomenon", "lang"],
        ["0", "Les", "Les chats dorment", "Les chats dort", "SV-#", "fra"],
    ]
    path = file("".join(mark.join(row) + "\n" for row in rows), name)
    assert read_minimal_pairs(path) == [
        MinimalPair("Les chats dorment", "Les chats dort", "SV-#", "2", f"{path}:2", "fra")
    ]


def test_cells_of_multiblimp_may_be_quoted_and_other_columns_missing(file):
    quoted = 'sen\twrong_sen\n"He ""is"" \there"\t"He are here"\n'
    (pair,) = read_minimal_pairs(file(quoted, "eng.tsv"))
    assert (pair.good, pair.bad, pair.category, pair.language) == (
        'He "is" \there',
        "He are here",
        "eng",
        "",
    )


@pytest.mark.parametrize(
    "text",
    ["sen\twrong_sen\na\n", "sen,wrong_sen\n", 'sen,wrong_sen\n"a,b\n', "sen,wrong_sen\n ,b\n"],
)
def test_broken_tables_of_multiblimp_are_refused(file, text):
    with pytest.raises(InputError, match=r"eng\.csv"):
        read_minimal_pairs(file(text, "eng.csv"))


def test_plain_lines_take_the_name_of_the_file_where_they_have_no_category(file):
    found = read_minimal_pairs(file("a b\ta c\nd e\td f\tcase\n", "mine.tsv"))
    assert [(pair.category, pair.id) for pair in found] == [("mine", "1"), ("case", "2")]
    found = read_minimal_pairs(
        file(
            '{"good": "a b", "bad": "a c"}\n{"good": "a", "bad": "b", "category": "x", "id": 0}\n',
            "my.jsonl",
        )
    )
    assert [(pair.category, pair.id) for pair in found] == [("my", "1"), ("x", "0")]


def test_equal_sentences_are_read_for_others_to_count(file):
    assert read_minimal_pairs(file("a b\ta b\n"))[0][:2] == ("a b", "a b")


def test_a_folder_is_all_its_files_in_order(file, tmp_path):
    file("a\tb\n", "two.tsv")
    file('{"good": "c", "bad": "d"}\n', "one.jsonl.gz")
    file("not pairs\n", "README.md")
    assert [pair.category for pair in read_minimal_pairs(tmp_path)] == ["one", "two"]


def test_wrong_numbers_of_columns_are_refused_with_their_line(file):
    path = file("a b\ta c\nonly one\n")
    with pytest.raises(InputError, match=r"pairs\.tsv:2: .*got 1"):
        read_minimal_pairs(path)
    with pytest.raises(InputError, match=r"pairs\.tsv:1: .*got 4"):
        read_minimal_pairs(file("a\tb\tc\td\n"))
    with pytest.raises(InputError, match=r"pairs\.tsv:2: .*got 4"):
        read_minimal_pairs(file(f"{HEADER}\nsimple_agrmt\tx\ta b\ta c\n"))


def test_other_refusals(file, tmp_path):
    with pytest.raises(InputError, match=r"pairs\.tsv:1: .*got a blank one"):
        read_minimal_pairs(file("a b\t \n"))
    with pytest.raises(InputError, match=r"pairs\.tsv:2: .*got 'new'"):
        read_minimal_pairs(file(f"{HEADER}\nnew\tx\ta b\ta c\t\n"))
    with pytest.raises(InputError, match=r"pairs\.tsv: .*got none but NPI"):
        read_minimal_pairs(file(f"{HEADER}\nsimple_npi_anim\tx\ta b\ta c\t\n"))
    header = (
        "pattern constr_id sent_id correct_number form class type prefix n_attr punct freq "
        "len_context len_prefix sent"
    )
    row = "p 1 1 sing is correct t x 0 . 1 1 1".replace(" ", "\t") + "\tit is <eos>\n"
    open_quote = row.replace("is", '"is', 1) + row * 4000  # more than a cell of CSV may hold
    with pytest.raises(
        InputError, match=r"pairs\.tsv:3: expected cells as CSV has them, got field"
    ):
        read_minimal_pairs(file(header.replace(" ", "\t") + "\n" + row + open_quote))
    with pytest.raises(InputError, match=r"a\.jsonl:1: .*got something else"):
        read_minimal_pairs(file("{", "a.jsonl"))
    with pytest.raises(InputError, match=r"a\.jsonl:1: .*got the keys bad"):
        read_minimal_pairs(file('{"bad": "a"}', "a.jsonl"))
    with pytest.raises(InputError, match=r"a\.jsonl:1: .*got a list"):
        read_minimal_pairs(file("[]", "a.jsonl"))
    with pytest.raises(InputError, match=r"a\.jsonl:1: .*got str and int"):
        read_minimal_pairs(file('{"good": "a", "bad": 1}', "a.jsonl"))
    with pytest.raises(
        InputError, match=r"expected a text file that can be read, got no such file; check"
    ):
        read_minimal_pairs(tmp_path / "none.tsv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: .*got none in the"):
        read_minimal_pairs(tmp_path / "empty")


def test_blimp_is_read_whole(shared_data):
    pairs = read_minimal_pairs(shared_data / "blimp")
    assert len(pairs) == 34_000
    assert len({pair.category for pair in pairs}) == 34
    assert 0 < sum(pair.good == pair.bad for pair in pairs) < 10


def test_clams_has_a_pair_in_two_lines(file):
    path = file("True\tder Autor lacht\nFalse\tder Autor lachen\n" * 2, "subj_rel.txt")
    assert read_minimal_pairs(path) == [
        MinimalPair("der Autor lacht", "der Autor lachen", "subj_rel", "1", f"{path}:1"),
        MinimalPair("der Autor lacht", "der Autor lachen", "subj_rel", "3", f"{path}:3"),
    ]
    assert len(read_minimal_pairs(path.parent)) == 2


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("False\ta b\nTrue\ta c\n", 1),
        ("True\ta b\nTrue\ta c\nFalse\ta d\n", 2),
        ("True\ta b\nFalse\ta c\nFalse\ta d\n", 3),
        ("True\ta b\nFalse\ta c\nTrue\ta d\n", 3),
        ("a b\ta c\nTrue\ta b\nFalse\ta c\n", 1),
        ("True\ta b\nFalse\ta c\tcase\n", 2),
    ],
)
def test_lines_of_clams_without_a_partner_are_refused(file, text, line):
    with pytest.raises(InputError, match=rf"pairs\.tsv:{line}: expected a line True TAB SENTENCE"):
        read_minimal_pairs(file(text))


def test_columns_of_rublimp_are_known(file):
    header = (
        "id,source_sentence,target_sentence,source_word,target_word,level,phenomenon,PID,subtype"
    )
    row = '7,"Да, я дома.","Да, я доме.",дома,доме,Syntax,Government,np_case,other'
    path = file(f"{header}\n{row}\n", "x.csv")
    assert read_minimal_pairs(path) == [
        MinimalPair("Да, я дома.", "Да, я доме.", "np_case", "2", f"{path}:2")
    ]


def test_a_table_with_other_columns_is_told_which_are_looked_for(file):
    with pytest.raises(
        InputError, match=r"x\.csv:1: .*sen and wrong_sen or source_sentence and .*got 'yes,no'"
    ):
        read_minimal_pairs(file("yes,no\na,b\n", "x.csv"))
    assert read_minimal_pairs(file("a\tb\n", "x.csv"))[0][:2] == ("a", "b")


def test_plain_text_in_a_folder_is_read_where_there_is_nothing_else(tmp_path):
    """CLAMS's folders have such files alone; elsewhere they are notes."""
    (tmp_path / "a.txt").write_text("True\tder Autor lacht\nFalse\tder Autor lachen\n")
    assert [pair.category for pair in read_minimal_pairs(tmp_path)] == ["a"]
    (tmp_path / "b.tsv").write_text("the author laughs\tthe author laugh\n")
    (tmp_path / "a.txt").write_text("How these were made.\n")
    assert [pair.category for pair in read_minimal_pairs(tmp_path)] == ["b"]
