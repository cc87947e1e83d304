"""Windows over questions and contexts: answers come back from tokens, whatever the tokeniser."""

import numpy as np
import pytest
from question_tokenisers import KINDS, encoder_of, learnt, wrapped
from transformers import AutoTokenizer

from crosslens.corpus import Corpus
from crosslens.errors import InputError
from crosslens.models.finetuning.answer_windows import answer_windows, unreachable
from crosslens.models.finetuning.examples import QuestionExamples
from crosslens.models.saved.loading import load_encoder
from crosslens.readers.questions import Answer, read_questions
from crosslens.recipes.quickstart import DATA

LANGUAGES = ("en", "de", "es", "hi", "zh")
CONTEXTS = {  # answers are between * and *
    "en": "The *Panthers* defense gave up  *just 308*\tpoints (*sixth* place); *½* of them “*late*”.",
    "de": "Die *Straße* nach *Köln* – *12,5 km* – führt über *die „Brücke“*. A\u030angstro\u0308m: *e\u0301te\u0301*.",
    "es": "¿*Quién*? *El niño* pequeño,\u00a0de *2015*: *Núñez*.",
    "hi": "*पैंथर्स* डिफ़ेंस ने *308* अंक दिए, और *गिरीशु* जी को *दिल्ली की* *कि* पसंद है। *हिन्दी*।",
    "zh": "*黑豹队*的防守只丢了 *308* 分，在联赛中排名*第六*。*𠮷野* 👩🏽‍🚀 *ＮＦＬ*。",
}


def marked(text):
    parts, plain, answers = text.split("*"), "", []
    for number, part in enumerate(parts):
        if number % 2:
            answers.append(Answer(part, len(plain)))
        plain += part
    return plain, answers


def asked_of(texts, language="mul", question="Where is it ?"):
    """A question for each marked answer."""
    told = [(plain, one) for plain, some in map(marked, texts) for one in some]
    ids = [str(number) for number in range(len(told))]
    contexts = Corpus(language, [plain for plain, _ in told], ids, "toy")
    questions = Corpus(language, [question] * len(told), ids, "toy")
    return QuestionExamples(questions, contexts, [[one] for _, one in told])


EVERY = asked_of([f"{text} {text}" for text in CONTEXTS.values()])


@pytest.fixture(scope="module")
def made():
    texts = [marked(text)[0] for text in CONTEXTS.values()]
    return {kind: learnt(kind, texts * 20, 420) for kind in KINDS}


def inside_a_token(tokenizer, context, place):
    """Whether a token has characters, and no white space alone, on both sides of a place."""
    encoding = tokenizer(["?"], [context]).encodings[0]
    spans = [
        span
        for span, side in zip(encoding.offsets, encoding.sequence_ids, strict=True)
        if side == 1
    ]
    return any(
        context[start:place].strip() and context[place:end].strip()
        for start, end in spans
        if start < place < end
    )


def check(tokenizer, examples, windows):
    """Each answer is reached, or has a border within a token; returns how many are."""
    missed = unreachable(examples, windows)
    for one in missed:
        context, (answer, *_) = examples.second.sentences[one.number], examples.answers[one.number]
        assert one.answer == answer.text and one.answer in one.nearest, one
        borders = (answer.start, answer.end)
        assert any(inside_a_token(tokenizer, context, place) for place in borders), one
    return len(examples) - len(missed)


@pytest.mark.parametrize("kind", KINDS)
def test_answers_come_back_or_have_a_border_within_a_token(made, kind):
    windows = answer_windows(encoder_of(made[kind], 96), EVERY, stride=16)
    reached = check(made[kind], EVERY, windows)
    assert reached > 0.4 * len(EVERY), kind
    assert kind != "WordPiece, cased" or reached == len(EVERY)


def test_marks_that_a_vocabulary_leaves_out_are_those_of_the_token_before(made):
    """Without accents the vowel sign u and a nukta are gone, at the end of a word as well."""
    tokenizer = made["WordPiece, uncased"]
    examples = asked_of(["*गिरीशु* जी *क़* है। *e\u0301te\u0301* *ن\u064b*"])
    assert tokenizer.tokenize("शु")[0] == tokenizer.tokenize("श")[0]
    assert unreachable(examples, answer_windows(encoder_of(tokenizer), examples)) == []


def test_windows_begin_every_stride_and_have_every_token_of_the_context():
    letters = " ".join("abcdefghijklmnopqrstuvwxyz")
    tokenizer = learnt("WordPiece, cased", [letters], 100)
    examples = asked_of([letters.replace("m n", "*m n*")], question="q r s t u")
    encoder = encoder_of(tokenizer)
    windows = answer_windows(encoder, examples, max_length=15, stride=3, max_question=2)
    told = [tokenizer.decode(window.ids) for window in windows]
    assert told[0] == "[CLS] q r [SEP] a b c d e f g h i j [SEP]"
    assert told[1] == "[CLS] q r [SEP] d e f g h i j k l m [SEP]"
    assert [text.split()[4] for text in told] == ["a", "d", "g", "j", "m", "p", "s"][: len(told)]
    assert told[-1].split()[-2] == "z" and len(told) == 7
    assert {len(window.ids) for window in windows[:-1]} == {15}
    held = [window.targets for window in windows]
    assert held == [[(0, 0)], [(0, 0)], [(10, 11)], [(7, 8)], [(4, 5)], [(0, 0)], [(0, 0)]]
    for window in windows:
        assert (window.starts[:4] == -1).all() and window.ends[-1] == -1
        assert window.segments.tolist() == [0] * 4 + [1] * (len(window.ids) - 4)
    # a stride beyond the room would pass over tokens
    wide = answer_windows(encoder, examples, max_length=15, stride=100, max_question=2)
    assert [tokenizer.decode(window.ids).split()[4] for window in wide] == ["a", "k", "u"]
    assert all(window.cut for window in windows)
    (whole,) = answer_windows(encoder, examples)
    assert not whole.cut
    assert not any(w.cut for w in answer_windows(encoder, examples, max_length=15, max_question=5))
    assert tokenizer.decode(whole.ids[:7]) == "[CLS] q r s t u [SEP]"
    short = encoder_of(tokenizer, 12)  # the encoder's own longest input
    assert max(len(w.ids) for w in answer_windows(short, examples, max_question=2)) == 12


def test_an_answer_that_no_window_holds_is_unreachable():
    letters = " ".join("abcdefghijklmnopqrstuvwxyz")
    tokenizer = learnt("WordPiece, cased", [letters], 100)
    examples = asked_of([letters.replace("c d e f g h i j", "*c d e f g h i j*")])
    windows = answer_windows(encoder_of(tokenizer), examples, 12, 4, 1)
    (one,) = unreachable(examples, windows)
    assert (one.answer, one.nearest) == ("c d e f g h i j", "")


def test_any_gold_answer_will_do_and_the_first_is_named(made):
    plain, (whole,) = marked("Im *Kölner* Dom")
    asked, there = (Corpus("deu", [text], ["0"], "toy") for text in ("Wo?", plain))
    tokenizer = wrapped(made["WordPiece, cased"].backend_tokenizer)
    examples = QuestionExamples(asked, there, [[Answer("Kölne", 3), whole]])
    windows = answer_windows(encoder_of(tokenizer), examples)
    assert unreachable(examples, windows) == [] and len(windows[0].targets) == 2
    unknown = QuestionExamples(asked, there)
    assert unreachable(unknown, answer_windows(encoder_of(tokenizer), unknown)) == []


def test_encoders_that_are_loaded_are_read_alike(originals):
    for path in (DATA / "tiny-encoder", originals["bert"], originals["xlm-roberta"]):
        encoder = load_encoder(path)
        windows = answer_windows(encoder, EVERY, max_length=40, stride=8)
        assert max(len(window.ids) for window in windows) <= 40
        assert len({window.number for window in windows}) == len(EVERY)
        for window in windows:
            assert (window.starts < window.ends)[window.starts >= 0].all()


@pytest.mark.parametrize("name", ["max_length", "stride", "max_question"])
def test_numbers_below_1_are_refused(made, name):
    with pytest.raises(InputError, match=f"{name}: expected 1 or more subwords, got 0"):
        answer_windows(encoder_of(made["byte-level BPE"]), EVERY, **{name: 0})


def test_no_room_and_no_token_are_refused(made):
    with pytest.raises(InputError, match="room for a token of the context beside the question"):
        answer_windows(encoder_of(made["WordPiece, cased"], 6), EVERY)
    with pytest.raises(InputError, match=r"raise max_length \(--max-length\), to 64 at most"):
        answer_windows(encoder_of(made["WordPiece, cased"], 64), EVERY, max_length=6)
    asked, there = (Corpus("eng", [text], ["0"], "toy") for text in ("Who?", "\u200b"))
    with pytest.raises(InputError, match="question 0: expected a context with at least one token"):
        answer_windows(encoder_of(made["WordPiece, cased"]), QuestionExamples(asked, there))


def test_examples_that_do_not_fit_are_refused():
    asked, there = (Corpus("eng", [text], ["0"], "toy") for text in ("Who?", "It is me."))
    for answers, match in (
        ([[]], "one to each question, got none to 0"),
        ([[Answer("me", 5)]], "what stands at character 5 of the context, got 'me'"),
        ([[Answer("me", 6)]] * 2, "answers: expected 1 of them"),
    ):
        with pytest.raises(InputError, match=match):
            QuestionExamples(asked, there, answers)
    one = QuestionExamples(asked, there, [[Answer("me", 6)]])
    assert one.content != QuestionExamples(asked, there, [[Answer("is", 3)]]).content


# -- XQuAD


@pytest.fixture(scope="module")
def xquad(shared_data):
    found = {}
    for language in LANGUAGES:
        some = read_questions(shared_data / "xquad" / f"xquad.{language}.json.gz")
        ids = [one.id for one in some]
        asked = Corpus(language, [one.question for one in some], ids, "XQuAD")
        there = Corpus(language, [one.context for one in some], ids, "XQuAD")
        found[language] = QuestionExamples(asked, there, [one.answers for one in some])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, "real"])
def test_xquad_s_answers_come_back(xquad, kind, request):
    if kind == "real":
        tokenizer = AutoTokenizer.from_pretrained(request.getfixturevalue("real_encoder"))
    else:
        sides = [(one.corpus, one.second) for one in xquad.values()]
        texts = [text for side in sides for one in side for text in dict.fromkeys(one.sentences)]
        tokenizer = learnt(kind, texts, 16_000)
    reached = {
        language: check(tokenizer, examples, answer_windows(encoder_of(tokenizer), examples))
        for language, examples in xquad.items()
    }
    print(kind, reached)
    least = 1185 if kind.startswith("WordPiece") else 800 if "replaced" in kind else 1080
    assert min(reached.values()) >= least and np.mean([*reached.values()]) < 1190
