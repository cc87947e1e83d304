"""Whole texts: words, sentences within lines, annotations, and the way back."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslens.corpus import Corpus
from crosslens.derive.corpora import LineDeriver, derive_corpus, restore
from crosslens.derive.markers import PartialReversal
from crosslens.derive.order import learn_word_order
from crosslens.derive.registry import TRANSFORMATIONS, derived_code, transformation
from crosslens.derive.reorderings import Reordering
from crosslens.derive.text_words import punctuation_spans, sentence_bounds
from crosslens.derive.transformation import Sentence
from crosslens.errors import InputError
from crosslens.languages import derivation, same_language

LINES = [
    "The cat sat. It slept!",
    "  Two  spaces,\tand a tab ",
    "“Quoted?” he said; (well) 3.5 % of it...",
    "one",
    "--",
    "Ends with U.S. Then Mr. Fox came.",
]
PLAIN = [name for name in TRANSFORMATIONS if not name.endswith("hop")]
MARKED = "Number=Sing|Person=3|Tense=Pres|VerbForm=Fin"


def treebank() -> Corpus:
    columns = {
        "form": [["He", "sees", "du", "chat"], ["Go", "!"]],
        "lemma": [["he", "see", "du", "chat"], ["go", "!"]],
        "upos": [["PRON", "VERB", "DET", "NOUN"], ["VERB", "PUNCT"]],
        "feats": [["_", MARKED, "_", "_"], ["_", "_"]],
        "head": [["2", "0", "4", "2"], ["0", "1"]],
        "deprel": [["nsubj", "root", "det", "obj"], ["root", "punct"]],
    }
    words = [[(0, 2), (3, 7), (8, 15), (8, 15)], [(0, 2), (2, 3)]]
    return Corpus("mul", ["He sees du-chat", "Go!"], ["a", "b"], "toy", words, columns)


def refusal(*arguments, **options) -> str:
    with pytest.raises(InputError) as refused:
        derive_corpus(*arguments, **options)
    return str(refused.value)


@pytest.mark.parametrize("unit", ["sentence", "line"])
@pytest.mark.parametrize("name", PLAIN)
def test_every_text_comes_back(name, unit):
    made = derive_corpus(LINES, name, 5, language="eng", unit=unit)
    assert [restore(*both) for both in zip(made.corpus.sentences, made.back, strict=True)] == LINES
    assert made.corpus.words is None and made.corpus.language.startswith("eng-")
    assert derive_corpus(LINES, name, 5, language="eng", unit=unit) == made
    for line, derived, sources in zip(LINES, made.corpus.sentences, made.sources, strict=True):
        n = len(punctuation_spans(line))
        assert sorted(source for source in sources if source >= 0) == list(range(n))
        if "order" in transformation(name).changes:
            assert derived == " ".join(derived.split())


@settings(max_examples=30, deadline=None, derandomize=True)
@given(text=st.text("aB. ,!?\u00a0\t“”я", min_size=1, max_size=30).filter(str.strip))
def test_any_line_comes_back(text):
    for name in ("inversion", "full-reversal", "transliteration+permutation"):
        made = derive_corpus([text], name)
        assert restore(made.corpus.sentences[0], made.back[0]) == text


def test_the_way_back_is_short_where_it_can_be():
    made = derive_corpus([LINES[0]], "inversion")
    assert made.back == [{"sources": [3, 2, 1, 0, 6, 5, 4], "glued": [3, 6]}]
    assert restore(made.corpus.sentences[0], made.back[0]) == LINES[0]
    hops = derive_corpus(treebank(), "token-hop:1", labels=False).back
    assert hops[0] == {"sources": [0, 1, 2, -1, 3], "text": "He sees du-chat"}


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({}, "back, key sources: expected a list, got nothing"),
        ({"sources": [1, "0"]}, "back, key sources[1]: expected a whole number, got '0'"),
        ({"sources": [1, 0], "words": ["x"]}, "back, key words: expected an object, got a list"),
        ({"sources": [0]}, "line: expected a line of 1 words, got 2"),
        (
            {"sources": [2, 0]},
            "back: expected an entry with every word of the original, got nothing",
        ),
    ],
)
def test_an_entry_that_leads_nowhere_is_refused(entry, told):
    with pytest.raises(InputError) as refused:
        restore("b a", entry)
    assert str(refused.value).startswith(told)


def test_a_column_head_without_numbers_is_no_tree():
    order = learn_word_order(treebank(), model="relation-weights")
    columns = {name: list(rows) for name, rows in treebank().annotations.items()}
    columns["head"] = [["_"] * 4, ["_"] * 2]
    told = refusal(dataclasses.replace(treebank(), annotations=columns), order)
    assert "expected heads of each word, which order:mul,relation-weights needs, got" in told
    assert " head," not in told


def test_sentences_of_a_line_are_derived_in_their_places():
    assert derive_corpus([LINES[0]], "inversion").corpus.sentences == [". sat cat The ! slept It"]
    whole = derive_corpus([LINES[0]], "inversion", unit="line").corpus.sentences
    assert whole == ["! slept It . sat cat The"]
    lines = derive_corpus([LINES[0], "a b c d"], "permutation", 3)
    apart = derive_corpus(["The cat sat.", "It slept!", "a b c d"], "permutation", 3)
    assert lines.corpus.sentences == [
        " ".join(apart.corpus.sentences[:2]),
        apart.corpus.sentences[2],
    ], "sentences are counted through the text"
    kept = derive_corpus([LINES[0]], "inversion", spans={0: [(8, 15)]})
    assert kept.corpus.sentences == whole, "no sentence ends within what is one thing"


@pytest.mark.parametrize(
    ("line", "sentences"),
    [
        ("A b. C d.", ["A b .", "C d ."]),
        ("“Go!” he said. “Now.” “Why?”", ["“ Go ! ” he said .", "“ Now . ”", "“ Why ? ”"]),
        (
            "Mr. Fox met J. Doe, e.g. Jane. 3 came.",
            ["Mr . Fox met J . Doe , e.g . Jane .", "3 came ."],
        ),
        ("No end", ["No end"]),
        ("वह गया। वह आया।", ["वह गया ।", "वह आया ।"]),
        ("Well... yes. . .", ["Well ... yes . . ."]),
        ("Wait... He left. She stayed.", ["Wait ...", "He left .", "She stayed ."]),
        (
            'He left. "Go!" she said. Ada. "No."',
            ["He left .", '" Go ! " she said .', "Ada .", '" No . "'],
        ),
        ('He said "Go." She left. "Now."', ['He said " Go . "', "She left .", '" Now . "']),
    ],
)
def test_where_sentences_end(line, sentences):
    words = [line[start:end] for start, end in punctuation_spans(line)]
    assert [" ".join(words[start:end]) for start, end in sentence_bounds(words)] == sentences


def test_a_treebank_keeps_its_edges_and_its_columns_go_with_their_words():
    made = derive_corpus(treebank(), "inversion").corpus
    assert made.language == "mul-inversion" and made.ids == ["a", "b"]
    assert made.sentences == ["chat du sees He", "! Go"]
    assert made.annotations["head"] == [["3", "1", "0", "3"], ["2", "0"]]
    assert made.annotations["deprel"] == [["obj", "det", "root", "nsubj"], ["punct", "root"]]
    assert made.words[0] == [(0, 4), (5, 7), (8, 12), (13, 15)]
    letters = derive_corpus(treebank(), "transliteration").corpus
    assert letters.annotations["form"][1] == letters.sentences[1].split() == ["Жо", "⸀"]
    assert letters.annotations["lemma"] == treebank().annotations["lemma"]


def test_hops_take_the_text_of_a_treebank_and_refuse_its_trees():
    made = derive_corpus(treebank(), "token-hop:1", labels=False)
    assert made.corpus.sentences == ["He see du 🅂 chat", "Go !"]
    assert made.corpus.annotations is None
    assert restore(made.corpus.sentences[0], made.back[0]) == "He sees du-chat"
    assert "x.conllu:4: expected the same words in some order" in refusal(
        treebank(), "token-hop", places=["x.conllu:4", "x.conllu:9"]
    )


def test_tags_are_consistent_or_raw():
    corpus = Corpus(
        "eng",
        ["Ada Bo ran"],
        ["0"],
        "toy",
        [[(0, 3), (4, 6), (7, 10)]],
        {"ner": [["B-PER", "I-PER", "O"]]},
    )
    assert derive_corpus(corpus, "inversion").corpus.annotations["ner"] == [["O", "B-PER", "I-PER"]]
    raw = derive_corpus(corpus, "inversion", tags="raw").corpus.annotations["ner"]
    assert raw == [["O", "I-PER", "B-PER"]]


def test_what_is_no_tree_is_refused_by_its_place():
    columns = dict(treebank().annotations)
    for heads, told in [
        (["2", "1", "4", "2"], "one root (head 0) in sentence toy:1, got 0"),
        (["0", "0", "4", "2"], "one root (head 0) in sentence toy:1, got 2"),
        (["2", "0", "4", "3"], "a tree in sentence toy:1, got a circle"),
        (["2", "0", "9", "2"], "numbers from 0 to 4 in sentence toy:1, got 9"),
        (
            ["2", "0", "_", "2"],
            "toy:1: expected a word's number as head, or 0 for the root, got '_'",
        ),
    ]:
        bad = {**columns, "head": [heads, ["0", "1"]]}
        assert told in refusal(dataclasses.replace(treebank(), annotations=bad), "inversion")


def test_other_bad_input():
    assert "text: expected text in the letters of transliteration, got 2 of 3 words in others" in (
        refusal(["वह cat आया ।"], "transliteration")
    )
    assert derive_corpus(["वह cat ran 7 !"], "transliteration").corpus.sentences[0][:2] == "वह"
    assert "unit: expected sentence or line, got 'block'; take derive_blocks" in (
        refusal(["a"], "inversion", unit="block")
    )
    assert "tags: expected one of consistent, raw" in refusal(["a"], "inversion", tags="bio")
    assert "text: expected a list of sentences, got a single string" in refusal("a", "inversion")
    assert "text:1: expected text, got a NUL" in refusal(["a\0b"], "inversion")
    assert "text:1: expected feats and lemma" in refusal(["a"], "word-hop")
    assert "text:1: expected numbers of subwords" in refusal(["a"], "transliteration:40000")
    with pytest.raises(InputError, match="line: expected a line of 2 words, got 3"):
        restore("a b c", {"sources": [1, 0]})
    for epoch in (-1, 1.5, True):
        assert f"epoch: expected a whole number from 0 up, got {epoch}" in (
            refusal(["a b"], "inversion", epoch=epoch)
        )
    assert "transformation: expected a name or a transformation, got None" in refusal(["a"], None)
    deriver = LineDeriver(transformation("permutation"), 0, "line", epoch=2)
    assert deriver.number == 0 and deriver.epoch == 2


@dataclasses.dataclass(frozen=True)
class FirstLast(Reordering):
    """The first word last."""

    word = "first-last"

    def order(self, n, seed, number, epoch):
        return np.roll(np.arange(n), -1)


def test_a_transformation_of_ones_own_gives_a_language_of_its_own():
    code = derive_corpus(["a b c"], FirstLast(), language="eng").corpus.language
    assert code == "eng-ownfirstlast" and not same_language(code, "eng")
    for name in TRANSFORMATIONS:
        assert derivation(derived_code("eng", name).partition("-")[2])
        assert "own" not in derived_code("eng", name)


def test_each_marker_has_a_code_of_its_own():
    markers = ["★", "🅁", "X", "*", "x!", "x"]
    codes = {derived_code("eng", PartialReversal(marker)) for marker in markers}
    assert len(codes) == len(markers)
    assert all(code.replace("-", "").isalnum() and code.isascii() for code in codes)
    with pytest.raises(InputError, match="a setting of partial-reversal with a letter"):
        derived_code("eng", "partial-reversal:-")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("love❤️ you!", "love ❤️ you !"),
        ("ok 👍🏽👍🏽 👍🏿.", "ok 👍🏽👍🏽 👍🏿 ."),
        ("the 👩‍❤️‍👩👨‍👩‍👧 family", "the 👩‍❤️‍👩 👨‍👩‍👧 family"),
        ("Vive🇫🇷🇩🇪 1️⃣ #️⃣ 🏴󠁧󠁢󠁥󠁮󠁧󠁿", "Vive 🇫🇷 🇩🇪 1️⃣ #️⃣ 🏴󠁧󠁢󠁥󠁮󠁧󠁿"),
    ],
)
def test_emoji_of_several_characters_stay_whole(text, words):
    assert [text[start:end] for start, end in punctuation_spans(text)] == words.split()
    made = derive_corpus([text], "inversion", language="eng", unit="line")
    assert made.corpus.sentences[0].split() == words.split()[::-1]
    assert restore(made.corpus.sentences[0], made.back[0]) == text


def test_hops_that_find_no_verb_are_refused():
    plain = treebank()
    plain.annotations["feats"][0][1] = "Number=Sing"
    assert "toy: expected a verb in the third person" in refusal(plain, "word-hop", labels=False)
    assert "no word with Person=3" in refusal(plain, "token-hop:2+inversion", labels=False)


@pytest.mark.parametrize("how", ["word-hop+token-hop", "token-hop+word-hop"])
def test_two_hops_are_one_too_many(how):
    assert "keep one of the two" in refusal(treebank(), how, labels=False)


def test_lines_are_drawn_by_their_number_and_epoch():
    words, how = "a b c d e f g h i".split(), transformation("permutation:epoch")
    for epoch in (0, 2):
        made = derive_corpus(["one", " ".join(words)], how, 3, language="eng", epoch=epoch).corpus
        wanted = how.derive(
            Sentence(words), 3, 1, epoch=epoch
        ).tokens  # one word is a sentence, too
        assert made.sentences == ["one", " ".join(wanted)]


def test_a_sentence_with_tags_is_one_and_a_marker_has_no_name():
    forms = "A dog . A cat .".split()
    spans = [(0, 1), (2, 5), (6, 7), (8, 9), (10, 13), (14, 15)]
    columns = {"ner": [["O"] * 6], "upos": [["X"] * 6]}
    corpus = Corpus("eng", [" ".join(forms)], ["0"], "toy", [spans], columns)
    assert derive_corpus(corpus, "inversion").corpus.sentences == [". cat A . dog A"]
    for tags in ("raw", "consistent"):
        made = derive_corpus(corpus, "no-reversal", tags=tags).corpus.annotations
        assert sorted(made["ner"][0]) == ["O"] * 7 and sorted(made["upos"][0]) == ["X"] * 6 + ["_"]
