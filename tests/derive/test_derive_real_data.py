"""Every transformation on all of Universal Dependencies, Universal NER and XQuAD that is there.

``pytest -m slow -s tests/derive/test_derive_real_data.py`` prints what was counted.
"""

import collections
import importlib.util
import json
import time
from pathlib import Path

import numpy as np
import pytest

from crosslens.corpus import Corpus
from crosslens.derive.corpora import derive_corpus, restore
from crosslens.derive.labels import entities
from crosslens.derive.registry import TRANSFORMATIONS, transformation
from crosslens.derive.reorderings import Reordering
from crosslens.derive.transformation import Sentence
from crosslens.derive.transliteration import SubwordTransliteration
from crosslens.errors import InputError
from crosslens.front.derived import derive_files
from crosslens.readers.plain import read_tsv
from crosslens.readers.questions import read_questions
from crosslens.readers.tagged_words import read_tagged_words, tagged_text
from crosslens.readers.treebank import conllu_text
from crosslens.readers.words import parse_conllu, read_conllu
from crosslens.trees import crossing_edges

ORDERS = [name for name in TRANSFORMATIONS if isinstance(transformation(name), Reordering)]
TREES = [*ORDERS, "transliteration", "transliteration+permutation"]
TEXTS = [*TRANSFORMATIONS, "transliteration+inversion", "full-reversal+even-odd"]
PLAIN = [name for name in TEXTS if not name.endswith("hop")]
pytestmark = pytest.mark.slow


def code(path: Path) -> str:
    name = path.name.replace("_", ".").split(".")
    return name[1] if name[0] == "xquad" else name[0]


def files(shared_data: Path, pattern: str) -> list[Path]:
    found = sorted(shared_data.glob(pattern))
    assert found
    return found


@pytest.fixture(scope="module")
def treebanks(shared_data):
    return {
        path.name: read_conllu(path, code(path)) for path in files(shared_data, "ud/*.conllu.gz")
    }


def edges(words, heads, labels):
    """The labelled edges of a sentence, words told apart by nothing but what they are."""
    forms = [None, *words]
    return collections.Counter(
        (word, label, forms[int(head)])
        for word, label, head in zip(words, labels, heads, strict=True)
    )


def heads_of(corpus: Corpus, row: int) -> list[int]:
    return [int(head) for head in corpus.annotations["head"][row]]


@pytest.mark.parametrize("name", TREES)
def test_derived_treebanks_have_the_same_labelled_edges(treebanks, name):
    how, counted = transformation(name), collections.Counter()
    for corpus in treebanks.values():
        if "transliteration" in name and corpus.language in ("hi", "zh"):
            with pytest.raises(InputError, match="expected text in the letters of"):
                derive_corpus(corpus, how, 1)
            continue
        made = derive_corpus(corpus, how, 1)
        there = made.corpus.annotations
        letters = transformation("transliteration")
        for row, sources in enumerate(made.sources):
            forms = corpus.annotations["form"][row]
            if "transliteration" in name:
                forms = letters.undo(letters.undo(forms, 0, 0), 0, 0)
                derived = letters.undo(there["form"][row], 0, 0)
            else:
                derived = there["form"][row]
            assert sorted(sources) == list(range(len(forms)))
            assert [forms[source] for source in sources] == list(derived)
            before = edges(
                forms, corpus.annotations["head"][row], corpus.annotations["deprel"][row]
            )
            assert edges(derived, there["head"][row], there["deprel"][row]) == before
            for column in ("upos", "feats", "lemma", "xpos", "deprel"):
                values = corpus.annotations[column][row]
                assert there[column][row] == [values[source] for source in sources]
            crossing = crossing_edges(heads_of(corpus, row)) if name == "inversion" else 0
            if name == "inversion":
                assert crossing_edges(heads_of(made.corpus, row)) == crossing
                counted["not projective"] += crossing > 0
            counted["sentences"] += 1
            counted["words"] += len(sources)
        if name == "transliteration+permutation":
            lines = conllu_text(made.corpus).split("\n")
            again = parse_conllu(lines, "again", made.corpus.language)
            assert again.fingerprint == made.corpus.fingerprint, "what is written is what is read"
    print(f"\n{name}: {dict(counted)} in {len(treebanks)} treebanks")


def has_third_person(corpus):
    """Whether a treebank has a verb that hops take a number of."""
    wanted = {"Person=3", "Tense=Pres", "VerbForm=Fin"}
    return any(
        wanted < {*str(feats).split("|")} and {"Number=Sing", "Number=Plur"} & {*feats.split("|")}
        for row in corpus.annotations["feats"]
        for feats in row
    )


@pytest.mark.parametrize("name", TEXTS)
def test_every_sentence_comes_back(treebanks, name):
    counted = collections.Counter()
    how = transformation(name)
    for corpus in treebanks.values():
        tagged = name.endswith("hop")
        plain = (
            corpus if tagged else Corpus(corpus.language, corpus.sentences, corpus.ids, corpus.name)
        )
        if "transliteration" in name and corpus.language in ("hi", "zh"):
            with pytest.raises(InputError, match="text in the letters of"):  # of Latin and Cyrillic
                derive_corpus(plain, how, 2, labels=False)
            counted["refused"] += 1
            continue
        if tagged and not has_third_person(corpus):
            with pytest.raises(InputError, match="expected a verb in the third person"):
                derive_corpus(plain, how, 2, labels=False)
            counted["refused"] += 1
            continue
        made = derive_corpus(plain, how, 2, labels=False)
        for text, line, back in zip(
            corpus.sentences, made.corpus.sentences, made.back, strict=True
        ):
            assert restore(line, json.loads(json.dumps(back))) == text
            counted["by the whole sentence"] += "text" in back
        counted["sentences"] += len(corpus)
        counted["words"] += sum(len(sources) for sources in made.sources)
    print(f"\n{name}: {dict(counted)}")


def test_transformations_undo_themselves_and_commute(treebanks):
    counted = collections.Counter()
    pairs = [("transliteration", name) for name in ORDERS]
    for corpus in treebanks.values():
        for number, forms in enumerate(corpus.annotations["form"]):
            given = Sentence(forms)
            for name in TEXTS:
                how = transformation(name)
                if how.undoes:
                    assert list(how.undo(how.derive(given, 3, number).tokens, 3, number)) == list(
                        forms
                    )
                    counted["undone"] += 1
            for one, other in pairs if number % 5 == 0 else ():
                both, swapped = transformation(f"{one}+{other}"), transformation(f"{other}+{one}")
                assert both.derive(given, 3, number) == swapped.derive(given, 3, number)
                counted["commuted"] += 1
            once = transformation("inversion").derive(given, 0, 0)
            assert transformation("inversion").derive(Sentence(once.tokens), 0, 0).tokens == list(
                forms
            )
    print(f"\n{dict(counted)}")


def test_transliteration_shares_no_word_with_a_latin_or_cyrillic_text(treebanks):
    letters = transformation("transliteration")
    for name, corpus in treebanks.items():
        types = {form for row in corpus.annotations["form"] for form in row}
        made = {form: letters.derive(Sentence([form]), 0, 0).tokens[0] for form in types}
        assert len({*made.values()}) == len(types), "a bijection"
        shared = sorted(types & {*made.values()})
        print(f"\n{name}: {len(types):,} types, {len(shared)} shared {shared[:12]}", end="")
        if corpus.language == "en":
            # what is in neither alphabet (a picture, a letter of a third script) stays
            assert len(shared) <= 0.0005 * len(types)


def test_subwords_share_none(treebanks):
    how, size = SubwordTransliteration(40_000, kept=()), 40_000
    ids: dict[str, int] = {}
    for corpus in treebanks.values():
        for forms in corpus.annotations["form"]:
            row = np.array([ids.setdefault(form, len(ids)) % size for form in forms])
            made = how.derive(Sentence(row), 0, 0).tokens
            assert (made - row == size).all() and not {*made.tolist()} & {*range(size)}
            assert (how.undo(made, 0, 0) == row).all()


@pytest.mark.parametrize("name", [*TREES, "partial-reversal", "full-reversal"])
def test_no_name_loses_its_type(shared_data, name):
    counted = collections.Counter()
    for path in files(shared_data, "ner/*.iob2.gz"):
        corpus = read_tagged_words(path, code(path))
        if "transliteration" in name and code(path) == "zh":
            continue
        made = derive_corpus(corpus, name, 4)
        raw = derive_corpus(corpus, name, 4, tags="raw").corpus.annotations["ner"]
        for row, sources in enumerate(made.sources):
            tags, new = corpus.annotations["ner"][row], made.corpus.annotations["ner"][row]
            assert [t[1:] for t in new] == [tags[s][1:] if s >= 0 else "" for s in sources]
            assert [t for t, s in zip(raw[row], sources, strict=True) if s >= 0] == [
                tags[s] for s in sources if s >= 0
            ]
            before, after = entities(tags), entities(new)
            n = len(tags)
            if name == "inversion":
                assert sorted(after) == sorted((n - b, n - a, kind) for a, b, kind in before)
            counted["names"] += len(before)
            counted["names then"] += len(after)
        counted["sentences"] += len(corpus)
        assert tagged_text(made.corpus).count("# sent_id") == len(corpus)
    print(f"\n{name}: {dict(counted)}")


def words_of(path, folder):
    """What cuts a file into words; None for Chinese where the extra ``segment`` is not installed.
    Without a segmenter Chinese is refused."""
    if code(path) != "zh":
        return "punctuation"
    with pytest.raises(InputError, match="a segmenter for xquad.zh.json.gz, whose script"):
        derive_files("inversion", folder, questions={"zh": path})
    return "rjieba" if importlib.util.find_spec("rjieba") else None


@pytest.mark.parametrize("name", ["inversion", "transliteration", "transliteration+inversion"])
def test_no_answer_is_lost(shared_data, tmp_path, name):
    letters = transformation("transliteration")
    counted = collections.Counter()
    for path in files(shared_data, "xquad/*.json.gz"):
        if "transliteration" in name and code(path) in ("hi", "zh"):
            continue
        words = words_of(path, tmp_path)
        if words is None:
            continue
        [made] = derive_files(name, tmp_path, questions={code(path): path}, words=words)
        before, after = read_questions(path), read_questions(made.path)
        for old, new in zip(before, after, strict=True):
            assert old.id == new.id and len(old.answers) == len(new.answers)
            for first, second in zip(old.answers, new.answers, strict=True):
                text = second.text
                if "transliteration" in name:
                    text = letters.undo([text], 0, 0)[0]
                one, other = ("".join(sorted("".join(t.split()))) for t in (first.text, text))
                exact = one == other
                counted["exact"] += exact
                counted["grown"] += not exact
                assert exact or len(other) > len(one)
        counted["questions"] += len(before)
        back = [json.loads(line) for line in made.back.read_text().splitlines()]
        contexts = {f"{q.document}.{q.paragraph}": q.context for q in after}
        for q in before:
            key = f"{q.document}.{q.paragraph}"
            if key in contexts:
                entry = next(one for one in back if one["id"] == key)
                assert restore(contexts.pop(key), entry) == q.context
    print(f"\n{name}: {dict(counted)}")


def test_a_permutation_is_refused_where_it_tears_an_answer(shared_data, tmp_path):
    for path in files(shared_data, "xquad/*.json.gz"):
        words = words_of(path, tmp_path)
        if words is None:
            continue
        with pytest.raises(
            InputError, match="of the answer side by side, got tokens that are torn"
        ):
            derive_files("permutation", tmp_path, questions={code(path): path}, words=words)
    assert not list(tmp_path.iterdir())


def test_how_many_words_a_second(shared_data):
    text = read_tsv(shared_data / "text" / "bible.en.WEB2000.tsv.gz", "eng")
    for name in PLAIN:
        begun = time.process_time()
        made = derive_corpus(text, name)
        words, took = sum(map(len, made.sources)), time.process_time() - begun
        print(f"\n{name}: {words:,} words in {took:.1f} s of a core", end="")
        assert words > 700_000
