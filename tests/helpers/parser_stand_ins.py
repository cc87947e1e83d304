"""Stand-ins for spaCy and Stanza: modules of the shape that is used of them, whose pipelines know the
trees of a few sentences."""

import types

KNOWN = {
    "the red car stopped.": (
        "the/DET/3/det red/ADJ/3/amod car/NOUN/4/nsubj stopped/VERB/0/root ./PUNCT/4/punct"
    ),
    "a small dog slept!": (
        "a/DET/3/det small/ADJ/3/amod dog/NOUN/4/nsubj slept/VERB/0/root !/PUNCT/4/punct"
    ),
    "two roots": "two/NUM/0/root roots/NOUN/0/root",
    "old labels": "old/ADJ/2/pobj labels/NOUN/0/root",
    "no tags": "no/DT/2/det tags/NOUN/0/root",
    "a circle": "a/DET/2/det circle/NOUN/1/nsubj",
    "du pain": "de/ADP/3/case le/DET/3/det pain/NOUN/0/root",
}
"""Sentence, white space aside -> form/upos/head/relation of its words."""


def _rows(text):
    return [word.split("/") for word in KNOWN[text].split()]


def spacy_module(
    folder="none", labels=("ROOT", "det", "amod", "nsubj:pass", "dep"), pipes=("tagger", "parser")
):
    """What ``import spacy`` gives; ``spacy.load`` knows "toy" alone, and counts the texts that it
    reads in ``spacy.read``. folder: where its files lie."""

    def load(name):
        if name != "toy":
            raise OSError(f"[E050] Can't find model '{name}'.\nIt is no package.")
        return pipeline

    def make_doc(text):
        assert text == " ".join(text.split()), "white space would be words"
        words = [
            types.SimpleNamespace(i=i, text=row[0], is_sent_start=None, row=row)
            for i, row in enumerate(_rows(text))
        ]
        return words

    def pipe(documents):
        for words in documents:
            module.read.append([word.text for word in words])
            assert all(word.is_sent_start is False for word in words[1:]), "more than one sentence"
            for word in words:
                _, word.pos_, head, relation = word.row
                word.head = words[int(head) - 1] if head != "0" else word
                word.dep_ = "ROOT" if relation == "root" else relation
                word.lemma_, word.tag_, word.morph = word.text.lower(), "", ""
            yield words

    made = [(name, types.SimpleNamespace(labels=labels)) for name in pipes]
    meta = {"lang": "en", "name": "toy", "version": "1.0"}
    pipeline = types.SimpleNamespace(
        path=folder,
        pipeline=made,
        pipe_names=[*pipes],
        meta=meta,
        make_doc=make_doc,
        pipe=pipe,
    )
    module = types.SimpleNamespace(load=load, __version__="3.8", read=[])
    return module


def stanza_module(model="none"):
    """What ``import stanza`` gives; what its pipeline is asked lies in ``stanza.asked``. model: the
    file of its weights."""

    class Pipeline:
        def __init__(self, lang, **asked):
            module.asked = {"lang": lang, **asked}
            self.config = {"lang": lang, "pos_model_path": str(model), "pos_charlm_path": None}
            if lang != "fr":
                raise FileNotFoundError("resources.json is not there.\nTry to download it.")

        def __call__(self, text):
            parts = text.split(" | ")
            return types.SimpleNamespace(sentences=[_sentence(part, text) for part in parts])

    module = types.SimpleNamespace(Pipeline=Pipeline, __version__="1.15.0", asked={})
    return module


def _sentence(part, text):
    words = [
        types.SimpleNamespace(
            text=form, lemma=form, upos=upos, xpos=None, feats=None, head=int(head), deprel=relation
        )
        for form, upos, head, relation in _rows(part)
    ]
    groups = [words[:2], words[2:]] if part == "du pain" else [[word] for word in words]
    tokens, at = [], text.index(part)
    for group in groups:
        form = "du" if len(group) == 2 else group[0].text
        start = text.index(form, at)
        at = start + len(form)
        tokens.append(types.SimpleNamespace(start_char=start, end_char=at, words=group))
    return types.SimpleNamespace(tokens=tokens)
