"""Files to files of a derived language: their names, that they are read again, what is refused."""

import json

import pytest

import crosslens as cl
from crosslens.cli.main import main
from crosslens.derive.corpora import restore
from crosslens.errors import InputError, OutputError
from crosslens.probes.tasks.catalogue import find_task
from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.readers.labelled_text import read_labelled_text
from crosslens.readers.questions import read_questions
from crosslens.readers.sentence_pairs import read_sentence_pairs
from crosslens.readers.tagged_words import read_tagged_words

CONLLU = """# sent_id = a
# text = The dog sleeps.
1	The	the	DET	_	_	2	det	_	_
2	dog	dog	NOUN	_	_	3	nsubj	_	_
3	sleeps	sleep	VERB	_	Number=Sing|Person=3|Tense=Pres|VerbForm=Fin	0	root	_	SpaceAfter=No
4	.	.	PUNCT	_	_	3	punct	_	_

# sent_id = b
# text = Go
1	Go	go	VERB	_	_	0	root	_	_

"""
IOB2 = "# text = Ada Bo ran.\n1\tAda\tB-PER\t-\t-\n2\tBo\tI-PER\t-\t-\n3\tran\tO\t-\t-\n4\t.\tO\t-\t-\n\n"
CONTEXT = "She came from New York. He did not."


def questions(answer: str) -> str:
    asked = {
        "id": "q",
        "question": "Where from?",
        "answers": [{"text": answer, "answer_start": CONTEXT.index(answer)}],
    }
    return json.dumps(
        {"data": [{"title": "T", "paragraphs": [{"context": CONTEXT, "qas": [asked]}]}]}
    )


@pytest.fixture
def files(tmp_path):
    told = {
        "eng.txt": "The cat sat. It slept.\nA dog.\n",
        "labels.tsv": "animal\tA cat.\nthing\tA red box.\n",
        "parts.tsv": "tr\tx\tA cat.\nte\ty\tA box.\n",
        "dev-eng.tsv": "It rains.\tIt is wet.\tentailment\n",
        "en_toy-ud-test.conllu": CONLLU,
        "en_toy-ud-test.iob2": IOB2,
        "xquad.en.json": questions("New York"),
    }
    for name, content in told.items():
        (tmp_path / name).write_text(content)
    return tmp_path


def derive(files, by, **kinds):
    given = {kind: {"eng": files / name} for kind, name in kinds.items()}
    return cl.derive_files(by, files / "out", **given)


def test_every_kind_of_file_is_written_read_again_and_led_back(files):
    made = derive(
        files,
        "inversion",
        text="eng.txt",
        labels="labels.tsv",
        pairs="dev-eng.tsv",
        treebank="en_toy-ud-test.conllu",
        iob2="en_toy-ud-test.iob2",
        questions="xquad.en.json",
    )
    assert [one.path.name for one in made] == [
        "eng-inversion.txt",
        "labels.eng-inversion.tsv",
        "dev-eng-inversion.tsv",
        "eng-inversion_toy-ud-test.conllu",
        "eng-inversion_toy-ud-test.iob2",
        "xquad.eng-inversion.json",
    ]
    assert [(one.kind, one.sentences, one.words, one.shared) for one in made[:2]] == [
        ("text", 2, 10, 1.0),
        ("labels", 2, 7, 1.0),
    ]
    text, labels, pairs, tree, tags, asked = (one.path for one in made)
    lines = text.read_text().splitlines()
    assert lines == [". sat cat The . slept It", ". dog A"]
    back = [json.loads(line) for line in made[0].back.read_text().splitlines()]
    assert [restore(*both) for both in zip(lines, back, strict=True)] == [
        "The cat sat. It slept.",
        "A dog.",
    ]
    assert read_labelled_text(labels).labels == ["animal", "thing"]
    assert read_sentence_pairs(pairs).firsts == [". rains It"]
    trees = cl.read_conllu(tree, "eng-inversion")
    assert trees.sentences == [". sleeps dog The", "Go"]
    assert trees.annotations["head"] == [["2", "0", "2", "3"], ["0"]]
    names = read_tagged_words(tags, "eng-inversion")
    assert names.annotations["ner"] == [["O", "O", "B-PER", "I-PER"]]
    [one] = read_questions(asked)
    assert (one.context, one.answers[0].text) == (
        ". York New from came She . not did He",
        "York New",
    )
    assert one.question == "? from Where"


def test_of_pairs_in_several_languages_those_of_the_one_that_is_named_are_derived(files):
    """XNLI's files have all of its languages, each under its two-letter code."""
    rows = ["language\tgold_label\tsentence1\tsentence2"]
    rows += ["en\tneutral\tIt rains.\tIt is wet.", "fr\tneutral\tIl pleut.\tC'est humide."]
    rows += ["en\tentailment\tA dog.\tA pet."]
    (files / "xnli.dev.tsv").write_text("".join(row + "\n" for row in rows))
    made = cl.derive_files(
        "inversion", files / "out", pairs=dict.fromkeys(("eng", "fra"), files / "xnli.dev.tsv")
    )
    assert [one.path.name for one in made] == [
        "xnli.dev.eng-inversion.tsv",
        "xnli.dev.fra-inversion.tsv",
    ]
    assert [read_sentence_pairs(one.path).firsts for one in made] == [
        [". rains It", ". dog A"],
        [". pleut Il"],
    ]
    with pytest.raises(InputError, match="xnli.dev.tsv: expected labelled pairs, got none of deu"):
        cl.derive_files("inversion", files / "other", pairs={"deu": files / "xnli.dev.tsv"})
    assert not (files / "other").exists()


def test_splits_of_labelled_text_stay(files):
    [made] = derive(files, "inversion", labels="parts.tsv")
    assert read_labelled_text(made.path).parts == ["train", "test"]


def test_tasks_find_a_derived_language_and_no_other_in_its_place(files):
    data = files / "data"
    for kind, folder, name in [
        ("treebank", "ud", "en_toy-ud-test.conllu"),
        ("iob2", "ner", "en_toy-ud-test.iob2"),
    ]:
        (data / folder).mkdir(parents=True)
        (data / folder / name).write_text((files / name).read_text())
        cl.derive_files("even-odd", data / folder, **{kind: {"eng": files / name}})
    for task in ("upos", "ner"):
        found, there = find_task(task), DataFolder(data)
        assert found.languages(there) == ["eng", "eng-evenodd"]
        derived = found.read(there, "en-evenodd").splits["test"]
        assert found.read(there, "en-evenodd").language == "eng-evenodd"
        assert derived.sentences != found.read(there, "eng").splits["test"].sentences


def test_the_same_call_changes_nothing_and_another_seed_is_refused(files):
    [made] = derive(files, "permutation", text="eng.txt")
    stamp = made.path.stat().st_mtime_ns, made.path.read_bytes()
    [again] = derive(files, "permutation", text="eng.txt")
    assert again == made and made.path.read_bytes() == stamp[1]
    with pytest.raises(
        OutputError, match="expected a folder without such a file, or with the very"
    ):
        cl.derive_files("permutation", files / "out", text={"eng": files / "eng.txt"}, seed=1)
    assert made.path.read_bytes() == stamp[1]


def test_nothing_is_written_where_anything_is_refused(files):
    with pytest.raises(
        InputError, match="answer 'New York': expected the 2 tokens of the answer side"
    ):
        derive(files, "even-odd", text="eng.txt", questions="xquad.en.json")
    assert not (files / "out").exists()


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        (
            "en_toy-ud-test.conllu",
            "\t0\troot\t_\tSpace",
            "\t2\troot\t_\tSpace",
            "conllu:3, got 0; repair",
        ),
        ("en_toy-ud-test.conllu", "2\tdet", "0\tdet", "one root (head 0) in sentence {}:3, got 2"),
        (
            "en_toy-ud-test.conllu",
            "\t3\tnsubj",
            "\t1\tnsubj",
            "a tree in sentence {}:3, got a circle",
        ),
        (
            "en_toy-ud-test.conllu",
            "\t0\troot\t_\t_\n",
            "\t1\troot\t_\t_\n",
            "sentence {}:10, got 0",
        ),
        (
            "en_toy-ud-test.conllu",
            "The dog",
            "A dog",
            "{}:3: expected word 1, 'The', at character 0",
        ),
        ("en_toy-ud-test.iob2", "Ada Bo", "Bo Ada", "{}:2: expected word 1, 'Ada'"),
    ],
)
def test_bad_input_is_named_by_its_line(files, name, old, new, told):
    path = files / name
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(InputError) as refused:
        derive(files, "inversion", **{"treebank" if "conllu" in name else "iob2": name})
    assert told.format(path) in str(refused.value)
    assert not (files / "out").exists()


def test_calls_that_ask_for_nothing_or_for_what_is_not_there(files):
    with pytest.raises(InputError, match="text: expected a file to derive, got none"):
        cl.derive_files("inversion", files / "out")
    with pytest.raises(InputError, match="words: expected one of punctuation, whitespace, rjieba"):
        cl.derive_files("inversion", files / "out", text={"eng": files / "eng.txt"}, words="jieba")
    (files / "sub").mkdir()
    (files / "sub" / "eng.txt").write_text("label\tOther.\n")
    with pytest.raises(InputError, match="names of their own"):
        cl.derive_files(
            "inversion",
            files / "out",
            labels={"eng": files / "labels.tsv"},
            pairs={"eng": _renamed(files / "dev-eng.tsv", files / "sub" / "labels.tsv")},
        )


def _renamed(path, other):
    other.write_text(path.read_text())
    return other


def test_whitespace_words_keep_their_marks(files):
    made = cl.derive_files(
        "inversion", files / "out", text={"eng": files / "eng.txt"}, words="whitespace"
    )
    assert made[0].path.read_text() == "sat. cat The slept. It\ndog. A\n"


@pytest.mark.parametrize("line", ["我们学习语言。", "ภาษาไทย", "言葉を学ぶ。"])
def test_lines_of_a_script_without_spaces_are_no_words(files, line):
    (files / "x.txt").write_text(f"{line}\n")
    asked = {"text": {"zho": files / "x.txt"}}
    with pytest.raises(
        InputError, match="words: expected a segmenter for x.txt, whose script puts"
    ):
        cl.derive_files("inversion", files / "out", **asked)
    made = cl.derive_files("inversion", files / "out", **asked, words="whitespace")
    assert made[0].path.read_text() == f"{line}\n"


def test_a_damaged_config_is_refused_before_anything_is_written(files, capsys):
    (files / "out").mkdir()
    (files / "out" / "config.json").write_text("{")
    line = ["derive", "--text", f"eng={files / 'eng.txt'}", "--by", "inversion"]
    assert main([*line, "--out", str(files / "out")]) == 2
    assert "config.json: expected JSON" in capsys.readouterr().err
    assert [one.name for one in (files / "out").iterdir()] == ["config.json"]


def test_the_command_line_derives_and_says_what_it_wrote(files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    line = ["derive", "--text", "eng=eng.txt", "--by", "transliteration+inversion", "--out", "out"]
    assert main(line) == 0
    told = capsys.readouterr().out
    assert "out/eng-transliteration-inversion.txt" in told and "0.0" in told and "10" in told
    assert main([*line, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["language"] == "eng-transliteration-inversion" and record["shared"] == 0.0
    assert main(["derive", "--text", "eng=eng.txt", "--by", "invertion", "--out", "out"]) == 2
    assert "did you mean inversion?" in capsys.readouterr().err
    assert main(["derive", "--by", "inversion", "--out", "out"]) == 2
    assert "expected a file to derive (--text, --labels" in capsys.readouterr().err
    assert main(["list", "transformations"]) == 0
    listed = capsys.readouterr().out
    assert "local-shuffle: words are shuffled within windows" in listed
    assert all(f"  {name}:" in listed for name in cl.derive.TRANSFORMATIONS)


def test_of_several_places_of_a_language_in_a_name_the_last_is_the_one(files):
    (files / "tatoeba.fra-eng.eng").write_text("A dog.\n")
    [made] = derive(files, "inversion", text="tatoeba.fra-eng.eng")
    assert made.path.name == "tatoeba.fra-eng.eng-inversion.txt"
    (files / "tatoeba.eng-fra.eng").write_text("A dog.\n")
    [made] = derive(files, "inversion", text="tatoeba.eng-fra.eng")
    assert made.path.name == "tatoeba.eng-fra.eng-inversion.txt"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"text": "A big cat", "spans": [[0, 1], [6, 9]]}, "'big' in none"),
        ({"text": "A cat", "spans": [[0, 5], [2, 5]]}, "words that do not overlap"),
        ({"text": "A\ncat", "words": ["A", "cat"]}, "a line break"),
        ({"text": "A cat\r", "words": ["A", "cat"]}, "a line break"),
        ({"text": "--", "spans": []}, "words of the text, got none"),
    ],
)
def test_json_lines_whose_text_would_be_lost_are_refused_by_their_line(files, line, told):
    lines = [{"text": "Go", "words": ["Go"]}, line]
    (files / "eng.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    with pytest.raises(InputError) as refused:
        derive(files, "inversion", text="eng.jsonl")
    assert f"{files / 'eng.jsonl'}:2: expected" in str(refused.value) and told in str(refused.value)


def test_a_table_is_no_text(files):
    (files / "ids.txt").write_text("a1\tThe cat.\na2\tA dog.\n")
    with pytest.raises(InputError, match="a tab in every line; take .* cut -f2"):
        derive(files, "inversion", text="ids.txt")


def test_words_that_come_are_refused_in_a_treebank_of_no_verb_too(files):
    path = files / "en_toy-ud-test.conllu"
    path.write_text(path.read_text().replace("Person=3", "Person=1"))
    with pytest.raises(InputError, match="--treebank .*: expected a transformation that keeps"):
        derive(files, "word-hop", treebank=path.name)


def test_labelled_texts_are_derived_by_line_without_a_plain_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.eng.tsv").write_text("neg\tGo! No.\npos\tStay. Yes.\n")
    line = ["derive", "--labels", "eng=x.eng.tsv", "--by", "inversion", "--out", "out"]
    assert main([*line, "--unit", "line"]) == 0
    (made,) = [path for path in (tmp_path / "out").glob("*.tsv")]
    assert made.read_text().splitlines()[0] == "neg\t. No ! Go"


def test_a_composition_with_spaces_may_name_its_epoch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "eng.txt").write_text("One two three four five.\n" * 5)
    by = ["--by", "inversion + permutation:epoch", "--epoch", "1"]
    assert main(["derive", "--text", "eng=eng.txt", *by, "--out", "out"]) == 0
