"""Which files make which tasks: names, parts, limits, one's own files, and what is said of those
that are not there."""

import gzip
import json
from collections import Counter

import numpy as np
import pytest
from battery_data import NOUNS, PARTS, make_data, tree, write

from crosslens.cli.probes import BATTERIES as ON_THE_COMMAND_LINE
from crosslens.errors import InputError
from crosslens.probes.tasks.catalogue import choose_tasks
from crosslens.probes.tasks.task import GROUPS
from crosslens.run.probing.data import Sources, read_tasks
from crosslens.run.probing.splits import some


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_data(tmp_path_factory.mktemp("data"))


def read(folder, *tasks, labels=None, required=(), **more):
    return read_tasks(Sources(folder=folder, tasks=tasks, labels=labels or {}, **more), required)


def words_of(task):
    corpus = task.text.corpus
    return [
        corpus.sentences[i][slice(*span)] for i in range(len(corpus)) for span in corpus.words[i]
    ]


def test_the_command_line_offers_the_groups_that_there_are():
    assert ON_THE_COMMAND_LINE == (*GROUPS, "all")


def test_parts_are_those_of_the_files(data):
    found = read(data, "wic", "topic", "upos", "language_id")
    wic, topic, upos, languages = (
        found.tasks[name] for name in ("wic", "topic", "upos", "language_id")
    )
    assert {part: len(getattr(wic.parts, part)) for part in PARTS} == {
        part: 2 * n for part, n in PARTS.items()
    }
    assert {part: len(getattr(topic.parts, part)) for part in PARTS} == PARTS
    assert {part: len(getattr(languages.parts, part)) for part in PARTS} == {
        part: 3 * n for part, n in PARTS.items()
    }
    assert [str(part) for part in upos.part_of] == [
        part for part, n in PARTS.items() for _ in range(n)
    ]
    first_of_dev = wic.items.items[wic.parts.dev[0]].sentences[0]
    assert first_of_dev == (data / "wic" / "dev.data.txt").read_text().split("\t")[3]
    assert all(
        name.split(":")[1].split("-")[0] == part
        for name, part in zip(upos.text.corpus.ids, upos.part_of, strict=True)
    )
    assert found.not_measured == {} and set(found.files) >= {
        "wic/train.data.txt",
        "sib200/sib200.tsv",
        "ud/en_ewt-ud-dev.conllu",
    }


def test_labels_go_with_their_sentences(data):
    for name in ("topic", "language_id"):
        task = read(data, name).tasks[name]
        lines = [
            line.split("\t")
            for line in (data / "sib200" / "sib200.tsv")
            .read_text(encoding="utf-8")
            .splitlines()[1:]
        ]
        expected = {(line[4], line[3 if name == "topic" else 1]) for line in lines}
        assert {*zip(task.sentences, task.labels.tolist(), strict=True)} <= expected


def test_files_may_be_compressed(data, tmp_path):
    (tmp_path / "scws").mkdir()
    with gzip.open(tmp_path / "scws" / "ratings.txt.gz", "wb") as file:
        file.write((data / "scws" / "ratings.txt").read_bytes())
    found = read(tmp_path, "scws")
    assert len(found.tasks["scws"].items) == 14 and list(found.files) == ["scws/ratings.txt.gz"]


def test_topics_have_a_text_in_their_own_language(data):
    """That of language identification is in none that an encoder could be told (XLM)."""
    together, alone = read(data, "topic", "language_id").tasks, read(data, "topic").tasks["topic"]
    (topic,), (every,) = (together[name].texts.values() for name in ("topic", "language_id"))
    assert (topic.corpus.language, every.corpus.language) == ("eng", "mul")
    assert (
        list(topic.corpus.sentences) == list(together["topic"].sentences) == list(alone.sentences)
    )


def test_tasks_on_words_share_the_treebank(data):
    tasks = read(data, "upos", "deprel", "structural_depth", "feature_Number").tasks
    assert len({name for task in tasks.values() for name in task.texts}) == 1


def test_a_limit_draws_items_of_each_part_alike_every_time(data):
    whole, some, again = (
        read(data, "wic", "upos", "language_id", "minimal_pairs", limit=n).tasks
        for n in (None, 20, 20)
    )
    for part, n in PARTS.items():
        sizes = [len(getattr(some[name].parts, part)) for name in ("wic", "language_id")] + [
            int((some["upos"].part_of == part).sum())
        ]
        assert sizes == [min(20, 2 * n), min(20, 3 * n), min(20, n)]
    assert some["language_id"].sentences == again["language_id"].sentences
    assert set(some["wic"].items.items) < set(whole["wic"].items.items)
    chosen = {
        item: part
        for part in PARTS
        for item in (some["wic"].items.items[i] for i in getattr(some["wic"].parts, part))
    }
    there = {
        item: part
        for part in PARTS
        for item in (whole["wic"].items.items[i] for i in getattr(whole["wic"].parts, part))
    }
    assert chosen.items() <= there.items()  # nobody changes sides
    other = read(data, "language_id", limit=20, seed=1).tasks["language_id"]
    assert other.sentences != some["language_id"].sentences
    few = read(data, "minimal_pairs", limit=4).tasks["minimal_pairs"].pairs
    assert (
        len(few) == 8
        and len({pair.category for pair in few}) == 2
        and len(some["minimal_pairs"].pairs) == 12
    )
    assert words_of(some["upos"]) != words_of(whole["upos"])[: len(words_of(some["upos"]))]


def test_a_treebank_without_three_parts_is_divided_by_sentences(data, tmp_path):
    (tmp_path / "ud").mkdir()
    write(
        tmp_path / "ud" / "fra_pud-ud-test.conllu",
        [tree(str(i), i).replace("old", f"old{i}") for i in range(40)],
    )
    task = read(tmp_path, "upos", treebank="fra_pud").tasks["upos"]
    counts = {part: int((task.part_of == part).sum()) for part in PARTS}
    assert counts == {"train": 28, "dev": 4, "test": 8}
    assert (
        task.drawn == "a random 70 / 10 / 20 % of the sentences, seed 0"
        and task.text.corpus.language == "fra"
    )
    # twelve sentences, again and again
    write(tmp_path / "ud" / "fra_pud-ud-test.conllu", [tree(str(i), i) for i in range(40)])
    task = read(tmp_path, "upos", treebank="fra_pud").tasks["upos"]
    sides = [
        {s for s, p in zip(task.text.corpus.sentences, task.part_of, strict=True) if p == part}
        for part in PARTS
    ]
    assert sum(map(len, sides)) == 12 and all(sides)


def test_an_official_test_part_stays_what_it_is(data, tmp_path):
    (tmp_path / "ud").mkdir()
    for there, trained in ((("train", "test"), "train"), (("dev", "test"), "dev")):
        for part in PARTS:
            (tmp_path / "ud" / f"en_ewt-ud-{part}.conllu").unlink(missing_ok=True)
        for part in there:
            write(
                tmp_path / "ud" / f"en_ewt-ud-{part}.conllu",
                [tree(f"{part}-{i}", i).replace("old", f"{part}{i}") for i in range(30)],
            )
        task = read(tmp_path, "upos").tasks["upos"]
        sides = {
            part: [
                s
                for s, p in zip(task.text.corpus.sentences, task.part_of, strict=True)
                if p == part
            ]
            for part in PARTS
        }
        assert {part: len(side) for part, side in sides.items()} == {
            "train": 27,
            "dev": 3,
            "test": 30,
        }
        assert all("test" in s for s in sides["test"]) and all(
            trained in s for s in sides["train"] + sides["dev"]
        )
        assert (
            f"the files of {trained} to train on, of test to test on; dev is a random 10 %"
            in task.drawn
        )


def test_equal_texts_stay_on_one_side_of_what_is_drawn(tmp_path):
    own = str(
        write(tmp_path / "own.tsv", [f"{'ab'[i % 30 % 2]}\ttext  {i % 30} " for i in range(90)])
    )
    task = read(None, labels={"mine": [own]}).tasks["mine"]
    sides = [{task.sentences[row] for row in getattr(task.parts, part)} for part in PARTS]
    assert sum(map(len, sides)) == 30 and all(sides)


def test_a_dev_file_without_a_label_of_training_is_refused_in_its_own_words(tmp_path):
    files = []
    for part, labels in (("train", "ab"), ("dev", "c"), ("test", "ab")):
        lines = [f"{labels[i % len(labels)]}\t{part} text {i}" for i in range(12)]
        files.append(str(write(tmp_path / f"{part}.tsv", lines)))
    with pytest.raises(
        InputError, match=r"^mine: expected a dev split with labels of training \(a, b\), got c"
    ):
        read(None, labels={"mine": files})


def test_a_limit_keeps_the_labels_shares(tmp_path):
    own = str(
        write(tmp_path / "own.tsv", [f"{'a' if i % 10 else 'b'}\ttext {i}" for i in range(1000)])
    )
    for limit in (20, 7):
        task = read(None, labels={"mine": [own]}, limit=limit).tasks["mine"]
        for part in PARTS:
            counts = Counter(task.labels[getattr(task.parts, part)].tolist())
            assert counts == {
                "a": limit - limit // 10 - (limit < 10),
                "b": limit // 10 + (limit < 10),
            }
    rare = str(
        write(tmp_path / "rare.tsv", [f"{'a' if i > 4 else 'c'}\ttext {i}" for i in range(1000)])
    )
    assert {*read(None, labels={"mine": [rare, rare, rare]}, limit=10).tasks["mine"].labels} == {
        "a",
        "c",
    }


def test_a_limit_takes_one_of_each_label_while_there_is_room():
    labels = np.array([*"a" * 90, *"bcdefghijk"])
    for limit, common in ((15, 5), (12, 2), (11, 1), (40, 30)):
        taken = Counter(labels[some(np.arange(100), limit, 0, labels)].tolist())
        assert taken == {"a": common, **dict.fromkeys("bcdefghijk", 1)}
    assert Counter(labels[some(np.arange(100), 10, 0, labels)].tolist()).total() == 10


def test_own_files_of_one_name_in_several_folders_are_all_noted(tmp_path):
    paths = []
    for part in PARTS:
        (tmp_path / part).mkdir()
        lines = [f"{'ab'[i % 2]}\t{part} {i}" for i in range(20)]
        paths.append(str(write(tmp_path / part / "own.tsv", lines)))
    noted = read(None, labels={"mine": paths}).files
    assert list(noted) == ["own.tsv", "dev/own.tsv", "test/own.tsv"]
    write(tmp_path / "test" / "own.tsv", [f"{'ab'[i % 2]}\tother {i}" for i in range(20)])
    other = read(None, labels={"mine": paths}).files
    assert {name for name in noted if other[name] != noted[name]} == {"test/own.tsv"}
    assert list(read(None, labels={"mine": [paths[0]] * 3}).files) == ["own.tsv"]


def test_labels_of_texts_are_none_of_words_and_a_test_part_has_labels_of_training(tmp_path):
    own = str(write(tmp_path / "ok.tsv", [f"{'ab'[i % 2]}\ttext {i}" for i in range(40)]))
    other = str(write(tmp_path / "other.tsv", [f"{'cd'[i % 2]}\ttext {i}" for i in range(40)]))
    told = (
        r"--labels: expected a treebank \(.conllu\), whose words have labels for upos, got "
        r"ok.tsv, whose labels"
    )
    with pytest.raises(InputError, match=told):
        read(None, labels={"upos": [own]})
    with pytest.raises(InputError, match=r"--labels: .*got ok.tsv"):
        read(None, labels={"wic": [own]})
    with pytest.raises(InputError, match=r"mine: .*got c, d"):
        read(None, labels={"mine": [own, own, other]})


def test_wili_is_read_where_there_is_no_sib(tmp_path):
    folder = tmp_path / "wili-2018"
    folder.mkdir()
    for part in ("train", "test"):
        write(folder / f"x_{part}.txt", [f"{part} text {i}" for i in range(40)])
        write(folder / f"y_{part}.txt", [("deu", "eng")[i % 2] for i in range(40)])
    task = read(tmp_path, "language_id").tasks["language_id"]
    assert {part: len(getattr(task.parts, part)) for part in PARTS} == {
        "train": 36,
        "dev": 4,
        "test": 40,
    }
    assert set(np.unique(task.labels)) == {"deu", "eng"} and task.surface
    for path in list(folder.glob("*.txt")):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    packed = read(tmp_path, "language_id")
    assert packed.tasks["language_id"].sentences == task.sentences
    assert set(packed.files) == {
        f"wili-2018/{k}_{p}.txt.gz" for k in "xy" for p in ("train", "test")
    }


def test_scripts_of_a_language_are_each_tested_and_what_is_left_out_is_said(tmp_path, capsys):
    (tmp_path / "sib200").mkdir()
    rows = [
        f"{part}\t{name}\t{part}{i}\t{('sport', 'travel')[i % 2]}\t{name} {part} {i}"
        for name in ("eng_Latn", "zho_Hans", "zho_Hant")
        for part in ("train", "dev", "test")
        for i in range(10)
    ]
    write(tmp_path / "sib200/sib200.tsv", ["split\tlanguage\tindex_id\ttopic\ttext", *rows])
    test = ["zho_Hans", "zho_Hant", "zh", "en"]
    task = read(tmp_path, "topic", train=["eng"], test=test).tasks["topic"]
    assert {one.language: one.source[1].corpus.sentences[0] for one in task.tested} == {
        name: f"{name} test 0" for name in ("zho_Hans", "zho_Hant")
    }
    told = capsys.readouterr().err
    assert "topic: zh is zho_Hans, and is taken once" in told and "topic: en is eng" in told
    assert "zho_Hant" not in told
    both = read(tmp_path, "topic", train=["zho_Hans", "zho_Hant"]).tasks["topic"]
    assert [one.language for one in both.trained] == ["zho_Hans", "zho_Hant"]


def test_the_paper_s_language_identification_reads_the_first_two_sentences_as_a_pair(tmp_path):
    folder = tmp_path / "wili-2018"
    folder.mkdir()
    for part in ("train", "test"):
        write(
            folder / f"x_{part}.txt",
            [
                f"One of {part} {i}. Two too! Three." if i % 4 else f"{part} alone {i}"
                for i in range(40)
            ],
        )
        write(folder / f"y_{part}.txt", [("deu", "eng")[i % 2] for i in range(40)])
    found = read(tmp_path, "language_id", "language_id_paper")
    usual, paper = found.tasks["language_id"], found.tasks["language_id_paper"]
    ((name, text),) = paper.texts.items()
    assert (
        name == "language_id_paper"
        and text.settings["pool"] == "mean"
        and text.settings["special_tokens"]
    )
    assert (text.corpus.sentences[0], text.second.sentences[0]) == ("train alone 0", "")
    assert (text.corpus.sentences[1], text.second.sentences[1]) == ("One of train 1.", "Two too!")
    assert np.array_equal(paper.labels, usual.labels) and np.array_equal(
        paper.parts.train, usual.parts.train
    )
    assert (
        paper.facts()["settings"]["epochs"] == 10
        and not paper.surface
        and usual.texts["language_id"].unit == "sentence"
    )


def test_one_s_own_labels_come_in_one_file_or_in_three(tmp_path):
    files = [
        str(write(tmp_path / f"{part}.tsv", [f"{'ab'[i % 2]}\t{part} {i}" for i in range(n)]))
        for part, n in PARTS.items()
    ]
    three = read(None, labels={"mine": files}).tasks["mine"]
    assert {part: len(getattr(three.parts, part)) for part in PARTS} == PARTS and not three.surface
    assert three.sentences[three.parts.test[0]] == "test 0"
    one = read(None, labels={"language_id": files[:1]}).tasks["language_id"]
    assert one.surface and "a random 70 / 10 / 20 % of each label" in one.facts()["drawn"]
    pairs = write(
        tmp_path / "pairs.jsonl",
        [json.dumps({"good": f"The {noun} is.", "bad": f"The {noun} are."}) for noun in NOUNS],
    )
    assert len(read(None, labels={"number": [str(pairs)]}).tasks["number"].pairs) == 6


def test_without_marvin_and_linzen_s_file_the_pairs_are_generated(tmp_path):
    (tmp_path / "empty").mkdir()
    task = read(tmp_path / "empty", "minimal_pairs", limit=3).tasks["minimal_pairs"]
    assert len(task.pairs) == 3 * 13 and "generated" in task.facts()["source"]


def test_what_is_not_there_is_named(data, tmp_path):
    (tmp_path / "wic").mkdir()
    write(tmp_path / "wic" / "train.data.txt", ["x"])
    found = read(tmp_path, *choose_tasks("all"), limit=1)
    assert set(found.tasks) == {"minimal_pairs"}
    assert (
        "wic/train.gold.txt, wic/dev.data.txt" in found.not_measured["wic"]
        and "train.data" not in found.not_measured["wic"]
    )
    assert (
        "ud/en_ewt-ud-train.conllu" in found.not_measured["upos"]
        and "blimp/*.jsonl" in found.not_measured["blimp"]
    )
    assert "wili*/x_train.txt" in found.not_measured["language_id"]
    with pytest.raises(InputError, match=r"--data: .*got scws: no scws/ratings\.txt"):
        read(tmp_path, "scws")
    with pytest.raises(InputError, match=r"task scws: .*got no scws/ratings\.txt"):
        read_tasks(
            Sources(folder=tmp_path, tasks=("scws", "minimal_pairs"), labels={}, limit=1), ["scws"]
        )
    with pytest.raises(InputError, match=r"--data: .*got .*nowhere"):
        read(tmp_path / "nowhere", "scws")
    for limit, told in ((0, "0"), (2.5, "2.5"), ("3", "'3'")):
        with pytest.raises(InputError, match=rf"--limit: .*got {told}"):
            read(data, "scws", limit=limit)


def test_a_feature_that_the_treebank_has_not_is_told_and_too_few_items_are_refused(data):
    found = read(data, "upos", "feature_Tense")
    assert (
        set(found.tasks) == {"upos"}
        and "words with such a label, got none of 360" in found.not_measured["feature_Tense"]
    )
    with pytest.raises(InputError, match=r"task feature_Tense: .*got feature:Tense"):
        read(data, "upos", "feature_Tense", required=["feature_Tense"])
    with pytest.raises(InputError, match=r"wic: .*got \d T and"):
        read(data, "wic", limit=6)
    with pytest.raises(InputError, match=r"scws: .*got 3 item\(s\)"):
        read(data, "scws", limit=3)


def test_too_few_texts_to_divide_are_refused_by_the_task_s_name(tmp_path):
    text, tree = tmp_path / "mine.tsv", tmp_path / "one.conllu"
    tree.write_text("1\tdog\tdog\tNOUN\t_\t_\t0\troot\t_\t_\n\n")
    for count, told in (
        (1, "mine: test: expected at least one item, got none; "),
        (3, "mine: fraction: expected a share that holds an "),
    ):
        write(text, [f"{label}\t{label} {i}" for label in "ab" for i in range(count)])
        with pytest.raises(InputError, match=told):
            read(tmp_path, labels={"mine": [str(text)]})
    with pytest.raises(InputError, match=r"^one\.conllu: test: .*got none"):
        read(tmp_path, labels={"upos": [str(tree)]})


def test_files_of_one_s_own_that_are_none_are_refused(data, tmp_path):
    one = str(write(tmp_path / "one.tsv", ["a\tone", "b\ttwo"]))
    treebank = str(data / "ud" / "en_ewt-ud-dev.conllu")
    with pytest.raises(InputError, match=r"--labels: .*got 'nowhere\.tsv'"):
        read(None, labels={"mine": ["nowhere.tsv"]})
    with pytest.raises(InputError, match=r"--labels: .*got 2 for mine"):
        read(None, labels={"mine": [one, one]})
    with pytest.raises(InputError, match=r"--labels: .*got 'mine'"):
        read(None, labels={"mine": [treebank]})
    with pytest.raises(InputError, match=r"feature:Tense: .*got none of 72"):
        read(None, labels={"feature_Tense": [treebank]})
    broken = str(write(tmp_path / "broken.tsv", ["a\tone", "two"]))
    with pytest.raises(InputError, match=r"broken\.tsv:2: .*got 1"):
        read(None, labels={"mine": [broken]})
