"""Words of treebanks that are trained and tested on: those with a label, and as they are read."""

import pytest
from battery_data import write

from crosslens.errors import InputError
from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.recipes.quickstart import DATA
from crosslens.run.transfer.data import languages_by_task, transfer_data
from crosslens.run.transfer.settings import Transfer
from crosslens.run.transfer.transfer import _of_data


def sentence(number, feature):
    return [
        f"# text = Du chat {number}",
        "1-2\tDu\t_\t_\t_\t_\t_\t_\t_\t_",
        f"1\tDe\t_\tADP\t_\t{feature}\t3\tcase\t_\t_",
        "2\tle\t_\tDET\t_\t_\t3\tdet\t_\t_",
        f"3\tchat\t_\tNOUN\t_\t{feature.replace('Sing', 'Plur')}\t0\troot\t_\t_",
        f"4\t{number}\t_\tNUM\t_\t_\t3\tnummod\t_\t_",
        "",
    ]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """English and French with Number, Chinese without."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "ud").mkdir()
    for treebank in ("en_toy", "fr_toy", "zh_toy"):
        feature = "_" if treebank == "zh_toy" else "Number=Sing"
        for split in ("train", "dev", "test"):
            first = 100 * ("train", "dev", "test").index(split)
            lines = [line for i in range(first, first + 12) for line in sentence(i, feature)]
            write(folder / "ud" / f"{treebank}-ud-{split}.conllu", lines)
    return folder


def test_a_language_without_a_label_is_named_with_its_treebank(data):
    with pytest.raises(InputError) as refused:
        transfer_data("feature_Number", DataFolder(data), ["eng"], ["fra", "zho"])
    message = "task feature_Number: expected words of zho with a label, got none in zh_toy"
    assert str(refused.value).startswith(message) and "leave the language out" in str(refused.value)


def test_all_languages_are_those_with_a_label(data, capsys):
    one = transfer_data("feature_Number", DataFolder(data), ["eng"], ["all"])
    assert set(one.tests) == {"eng", "fra"}
    assert "feature_Number is not tested in cmn: none in zh_toy" in capsys.readouterr().err
    every = transfer_data("upos", DataFolder(data), ["eng"], ["all"])
    assert set(every.tests) == {"eng", "fra", "cmn"}


def test_of_several_tasks_each_is_tested_where_it_has_labels(data):
    tested = languages_by_task(["upos", "feature_Number"], DataFolder(data), ["fra", "zho"])
    assert tested == {"upos": ["fra", "zho"], "feature_Number": ["fra"]}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "Du chat 200"),
        ({"words_apart": True}, "De le chat 200"),
        ({"preset": "wu_dredze"}, "De le chat 200"),
        ({"preset": "wu_dredze_code"}, "De le chat 200"),
        ({"preset": "xtreme"}, "Du chat 200"),
    ],
)
def test_words_of_one_token_are_read_apart_where_the_paper_or_the_user_does(data, options, text):
    asked = Transfer(
        encoders=[str(DATA / "tiny-encoder")],
        tasks=["upos"],
        data=str(data),
        train=["eng"],
        test=["fra"],
        **options,
    )
    one = transfer_data("upos", DataFolder(data), ["eng"], ["fra"], **_of_data(asked, []))
    (split,) = one.tests.values()
    assert split.corpus.sentences[0] == text and split.labels[0] == ["ADP", "DET", "NOUN", "NUM"]


def test_scripts_of_a_language_are_each_tested(tmp_path):
    (tmp_path / "sib200").mkdir()
    rows = [
        f"{part}\t{name}\t{part}{i}\t{('sport', 'travel')[i % 2]}\t{name} {part} {i}"
        for name in ("eng_Latn", "fra_Latn", "zho_Hans", "zho_Hant")
        for part in ("train", "dev", "test")
        for i in range(10)
    ]
    write(tmp_path / "sib200/sib200.tsv", ["split\tlanguage\tindex_id\ttopic\ttext", *rows])
    data = DataFolder(tmp_path)
    every = transfer_data("topic", data, ["eng"], ["all"])
    assert {name: split.texts[0] for name, split in every.tests.items()} == {
        "eng": "eng_Latn test 0",
        "fra": "fra_Latn test 0",
        "zho_Hans": "zho_Hans test 0",
        "zho_Hant": "zho_Hant test 0",
    }
    named = transfer_data("topic", data, ["zho_Hans"], ["zho_Hant", "zho"])
    assert (named.trained_on, named.names) == (
        "zho_Hans",
        {"zho_Hant": "zho_Hant", "zho": "zho_Hans"},
    )
    (tmp_path / "documents").mkdir()
    write(tmp_path / "documents" / "zh_Hans.test", ["sport\tx"])
    tested = languages_by_task(["topic", "documents"], data, ["zho_Hant", "zho_Hans"])
    assert tested == {"topic": ["zho_Hant", "zho_Hans"], "documents": ["zho_Hans"]}
