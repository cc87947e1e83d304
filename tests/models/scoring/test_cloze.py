"""Cloze scores: equal to plain loops of transformers, for models of many families."""

import json
from importlib import resources

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from toy_models import bert, lively
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
    DistilBertConfig,
    DistilBertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    ModernBertConfig,
    ModernBertForMaskedLM,
    PreTrainedTokenizerFast,
    XLMRobertaConfig,
    XLMRobertaForMaskedLM,
)

from crosslens.errors import InputError
from crosslens.models.network.encoder import EncoderConfig, MaskedLM
from crosslens.models.saved.interop import export_model
from crosslens.models.scoring.cloze import ClozeScorer, load_scorer
from crosslens.models.scoring.cloze_model import LanguageModel
from crosslens.probes.methods.minimal_pairs import score_sentences, score_words
from crosslens.readers.minimal_pairs import MinimalPair

MASKED = ["bert", "roberta", "xlm-roberta", "distilbert", "modernbert", "ours", "ours, plain"]
SENTENCES = [
    "The cat sat on the mat.",
    "the dog ran",
    "the dogs and the cats ran on the mat.",
    "the dog ran",
    "кот и собака",
]
# float32 in products of other shapes; scores are of the order of 10
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture(scope="module")
def folders(originals, toy_tokenizer, tmp_path_factory):
    """Kind to the folder of a small language model with its head."""
    base = tmp_path_factory.mktemp("language-models")
    found = {kind: originals[kind] for kind in ("bert", "roberta", "ours")}

    def save(kind, model, like):
        tokenizer = AutoTokenizer.from_pretrained(originals[like])
        lively(model(len(tokenizer))).save_pretrained(base / kind)
        tokenizer.save_pretrained(base / kind)
        found[kind] = base / kind

    small = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
    }
    save(
        "xlm-roberta",
        lambda n: XLMRobertaForMaskedLM(
            XLMRobertaConfig(vocab_size=n, max_position_embeddings=42, **small)
        ),
        "xlm-roberta",
    )
    distilled = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}
    save(
        "distilbert",
        lambda n: DistilBertForMaskedLM(DistilBertConfig(vocab_size=n, **distilled)),
        "distilbert",
    )
    ids = {
        "pad_token_id": 0,
        "bos_token_id": None,
        "eos_token_id": None,
        "cls_token_id": None,
        "sep_token_id": None,
    }
    local = {"local_attention": 4, "global_attn_every_n_layers": 2}
    save(
        "modernbert",
        lambda n: ModernBertForMaskedLM(ModernBertConfig(vocab_size=n, **small, **ids, **local)),
        "bert",
    )
    shape = EncoderConfig(
        vocab_size=toy_tokenizer.get_vocab_size(),
        hidden_size=16,
        layers=2,
        heads=4,
        ffn_size=64,
        max_positions=32,
        head="plain",
    )
    export_model(lively(MaskedLM(shape)), toy_tokenizer, base / "plain")
    found["ours, plain"] = base / "plain"
    turns = {
        "n_embd": 16,
        "n_layer": 2,
        "n_head": 2,
        "n_positions": 40,
        "bos_token_id": 0,
        "eos_token_id": 2,
    }
    # its tokeniser adds <s> and </s>
    save("gpt2", lambda n: GPT2LMHeadModel(GPT2Config(vocab_size=n, **turns)), "roberta")
    bare = Tokenizer.from_file(str(originals["roberta"] / "tokenizer.json"))
    bare.post_processor = None
    found["gpt2, bare"] = base / "gpt2-bare"
    AutoModelForCausalLM.from_pretrained(base / "gpt2").save_pretrained(found["gpt2, bare"])
    PreTrainedTokenizerFast(
        tokenizer_object=bare, eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(found["gpt2, bare"])
    return found


@pytest.fixture(scope="module")
def scorers(folders):
    return {kind: load_scorer(str(folder)) for kind, folder in folders.items()}


@pytest.fixture(scope="module")
def references(folders):
    """Kind to tokeniser and model, as transformers loads them."""
    made = {
        kind: AutoModelForCausalLM if kind.startswith("gpt2") else AutoModelForMaskedLM
        for kind in folders
    }
    return {
        kind: (
            AutoTokenizer.from_pretrained(folder),
            made[kind].from_pretrained(folder, dtype=torch.float32).eval(),
        )
        for kind, folder in folders.items()
    }


def log_probabilities(model, ids):
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)


def word_of_each(tokenizer, sentence):
    """A word ends where the tokeniser's own does, and at white space."""
    found = tokenizer(sentence, return_offsets_mapping=True)
    special = tokenizer(sentence, return_special_tokens_mask=True)["special_tokens_mask"]
    return [
        # a piece that is only a space belongs to what follows
        None if added else (number, len(f"{sentence[:end]}x".split()))
        for number, (_, end), added in zip(
            found.word_ids(), found["offset_mapping"], special, strict=True
        )
    ]


def masked_loop(reference, sentence, *, later_pieces):
    """One piece at a time through the whole model, as anybody would write it."""
    tokenizer, model = reference
    ids, words, scores = tokenizer(sentence)["input_ids"], word_of_each(tokenizer, sentence), []
    for place, word in enumerate(words):
        if word is not None:
            hidden = [
                i
                for i, other in enumerate(words)
                if i == place or (later_pieces and i > place and other == word)
            ]
            masked = [tokenizer.mask_token_id if i in hidden else one for i, one in enumerate(ids)]
            scores.append(float(log_probabilities(model, masked)[place, ids[place]]))
    return scores


@pytest.mark.parametrize("later_pieces", [False, True])
@pytest.mark.parametrize("kind", MASKED)
def test_pseudo_log_likelihood_equals_a_loop(kind, later_pieces, references, scorers):
    found = scorers[kind].score_sentences(SENTENCES, "pll_word_l2r" if later_pieces else "pll")
    for i, sentence in enumerate(SENTENCES):
        expected = masked_loop(references[kind], sentence, later_pieces=later_pieces)
        np.testing.assert_allclose(found.by_piece[i], expected, **CLOSE)
        assert found.pieces[i] == len(expected)
        if references[kind][0].unk_token_id in references[kind][0](sentence)["input_ids"]:
            assert np.isnan(found.total[i])
        else:
            np.testing.assert_allclose(found.total[i], sum(expected), **CLOSE)


@pytest.mark.parametrize("kind", MASKED)
def test_the_two_variants_differ_in_words_of_several_pieces_only(kind, scorers):
    plain, variant = (
        scorers[kind].score_sentences(SENTENCES, method) for method in ("pll", "pll_word_l2r")
    )
    several = 0
    for words, one, other in zip(plain.words, plain.by_piece, variant.by_piece, strict=True):
        last = np.append(words[1:] != words[:-1], True)  # the last piece of each word
        np.testing.assert_allclose(one[last], other[last], **CLOSE)
        several += int((np.abs(one - other)[~last] > 1e-3).sum())
    assert several > 0


@pytest.mark.parametrize("kind", ["gpt2", "gpt2, bare"])
def test_log_likelihood_equals_a_loop_over_prefixes(kind, references, scorers):
    tokenizer, model = references[kind]
    found = scorers[kind].score_sentences(SENTENCES, "log_likelihood")
    start = 0 if kind == "gpt2" else 2  # BOS, or EOS where there is none
    for i, sentence in enumerate(SENTENCES):
        ids = tokenizer(sentence, add_special_tokens=False)["input_ids"]
        expected = [
            float(log_probabilities(model, [start, *ids[:n]])[-1, ids[n]]) for n in range(len(ids))
        ]
        np.testing.assert_allclose(found.by_piece[i], expected, **CLOSE)
        np.testing.assert_allclose(found.total[i], sum(expected), **CLOSE)


@pytest.mark.parametrize("kind", MASKED)
def test_a_single_mask_equals_a_loop(kind, references, scorers):
    model, scorer = references[kind][1], scorers[kind]
    texts = [one.ids for one in scorer.tokenise(SENTENCES)]
    places, candidates = [1, 2, 1, 2, 1], [(7, 9), (30, 12, 8), (5, 6), (8, 30), (9, 7)]
    found = scorer.score_candidates(texts, places, candidates)
    logits = scorer.score_candidates(texts, places, candidates, output="logit")
    for ids, place, some, scores, raw in zip(texts, places, candidates, found, logits, strict=True):
        masked = ids.tolist()
        masked[place] = scorer.model.tokenizer.mask_token_id
        np.testing.assert_allclose(
            scores, log_probabilities(model, masked)[place, list(some)], **CLOSE
        )
        np.testing.assert_allclose(np.diff(raw), np.diff(scores), **CLOSE)
    np.testing.assert_array_equal(found[1][[2, 0]], found[3])  # the same text twice


@pytest.mark.parametrize("kind", [*MASKED, "gpt2", "gpt2, bare"])
def test_the_head_apart_gives_what_the_whole_model_gives(kind, scorers, monkeypatch):
    assert scorers[kind].model.head_apart
    method = scorers[kind].methods[-1]
    expected = scorers[kind].score_sentences(SENTENCES, method).by_piece
    monkeypatch.setattr(scorers[kind].model, "head_apart", False)
    for one, two in zip(
        expected, scorers[kind].score_sentences(SENTENCES, method).by_piece, strict=True
    ):
        np.testing.assert_allclose(one, two, **CLOSE)


def test_a_head_that_wants_more_is_not_taken_apart(folders, references, monkeypatch):
    def wrong(self, answer, hidden):
        return torch.zeros(len(hidden), self.vocabulary)

    monkeypatch.setattr(LanguageModel, "_head", wrong)
    scorer = load_scorer(str(folders["bert"]))
    assert not scorer.model.head_apart
    expected = masked_loop(references["bert"], SENTENCES[0], later_pieces=False)
    np.testing.assert_allclose(scorer.score_sentences(SENTENCES[:1]).by_piece[0], expected, **CLOSE)


def test_equal_copies_go_through_the_encoder_once_and_none_is_padded(folders):
    scorer, seen = load_scorer(str(folders["bert"])), []

    def see(module, positional, named):
        if "input_ids" in named:  # not when the head is computed
            seen.append(named["input_ids"])

    scorer.model.encoder.model.register_forward_pre_hook(see, with_kwargs=True)
    pairs = ["the cat ran", "the dog ran", "the cat ran"]
    found = scorer.score_sentences(pairs)
    rows = [tuple(row) for batch in seen for row in batch.tolist()]
    words = [one.ids for one in scorer.tokenise(pairs[:2])]
    assert [len(one) for one in words] == [5, 5]  # three words of one piece
    # six, and the two with the differing word masked are equal
    assert len(rows) == len(set(rows)) == 5
    assert all(scorer.model.encoder.pad_id not in row for row in rows)
    np.testing.assert_array_equal(found.by_piece[0], found.by_piece[2])


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_sizes_of_batches_blocks_and_tables_make_no_difference(kind, apart, scorers, monkeypatch):
    scorer, method = scorers[kind], scorers[kind].methods[-1]
    expected = scorer.score_sentences(SENTENCES, method).by_piece
    monkeypatch.setattr(scorer.model, "head_apart", apart)
    for batch, block, table in [(1, 1, 1), (30, 100, 300), (10_000, 1 << 20, 1 << 24)]:
        monkeypatch.setattr(scorer, "_batch_tokens", batch)
        monkeypatch.setattr("crosslens.models.scoring.cloze._BLOCK_TOKENS", block)
        monkeypatch.setattr("crosslens.models.scoring.cloze_model._SCORES", table)
        for one, two in zip(
            scorer.score_sentences(SENTENCES, method).by_piece, expected, strict=True
        ):
            np.testing.assert_allclose(one, two, **CLOSE)


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("kind", ["bert", "xlm-roberta", "gpt2"])
def test_the_number_of_threads_makes_no_difference(kind, apart, scorers, monkeypatch):
    scorer, before, found = scorers[kind], torch.get_num_threads(), []
    monkeypatch.setattr(scorer.model, "head_apart", apart)
    monkeypatch.setattr(scorer, "_batch_tokens", 30)
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            found.append(
                [
                    score
                    for method in scorer.methods[-2:]
                    if method != "single_mask"
                    for score in scorer.score_sentences(SENTENCES, method).total
                ]
            )
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_scores_follow_their_sentences_and_heed_the_order_of_words(scorers):
    forth, back = (
        scorers["bert"].score_sentences(SENTENCES),
        scorers["bert"].score_sentences(SENTENCES[::-1]),
    )
    np.testing.assert_allclose(forth.total, back.total[::-1], **CLOSE)
    one, other = (
        scorers["bert"].score_sentences(["the dog and the mat", "the mat and the dog"]).total
    )
    assert abs(one - other) > 1e-3


def test_a_sentence_with_an_unknown_piece_has_no_score(scorers):
    found = scorers["bert"].score_sentences(["the cat", "the ζ cat", "the ζ"])
    assert np.isnan(found.total).tolist() == [False, True, True]
    assert scorers["bert"].tokenise(["the ζ cat"])[0].unknown.tolist() == [
        False,
        False,
        True,
        False,
        False,
    ]
    # bytes are never unknown
    assert not np.isnan(scorers["roberta"].score_sentences(["the ζ cat"]).total).any()


def test_word_scores_are_sums_over_their_pieces(scorers):
    for kind in ("bert", "roberta", "xlm-roberta"):
        sentence = "the dogs, and the cats"
        found = scorers[kind].score_sentences([sentence])
        words = {}
        for (_, end), number, score in zip(
            found.spans[0], found.words[0], found.by_piece[0], strict=True
        ):
            words[int(number)] = words.get(int(number), 0) + float(score)
            assert 0 < end <= len(sentence)
        np.testing.assert_allclose(found.by_word(0), list(words.values()), rtol=1e-6)
        assert len(words) >= 5


def test_words_outside_the_vocabulary_are_never_compared():
    """The coverage of a real vocabulary equals a count in the vocabulary itself, and UNK never
    meets UNK."""
    scorer = load_scorer(str(resources.files("crosslens") / "data" / "tiny-encoder"))
    vocabulary = scorer.model.tokenizer.get_vocab()
    words = [
        "is are",
        "knows know",
        "laughs laugh",
        "swims swim",
        "loves love",
        "himself themselves",
        "has have",
        "was were",
        "☃s ☃",
        "☃ ☂",
    ]
    pairs = [
        MinimalPair(f"the king {good}", f"the king {bad}", "toy", str(i), "")
        for i, (good, bad) in enumerate(map(str.split, words))
    ]
    found = score_words(pairs, scorer.tokenise, scorer.score_candidates, final_stop=True)
    expected = [all(f"▁{word}" in vocabulary for word in pair.split()) for pair in words]
    assert found.covered.tolist() == expected
    assert 2 <= sum(expected) <= 7
    assert found.reasons[-2:] == ("an unknown word", "an unknown word")
    assert (
        np.isnan(found.good).tolist()
        == np.isnan(found.bad).tolist()
        == [not one for one in expected]
    )
    whole = score_sentences(pairs, lambda sentences: scorer.score_sentences(sentences, "pll").total)
    assert whole.reasons == (*[""] * 8, "no score", "no score")


def test_a_random_copy_is_another_model_with_the_same_tokeniser(folders, scorers):
    control, again, other = (
        load_scorer(str(folders["bert"]), random_seed=seed) for seed in (1, 1, 2)
    )
    totals = [
        one.score_sentences(SENTENCES[:3]).total for one in (scorers["bert"], control, again, other)
    ]
    np.testing.assert_array_equal(totals[1], totals[2])
    assert np.abs(totals[0] - totals[1]).min() > 1e-3
    assert np.abs(totals[3] - totals[1]).min() > 1e-4
    assert control.model.fingerprint == again.model.fingerprint != scorers["bert"].model.fingerprint
    np.testing.assert_array_equal(
        control.tokenise(SENTENCES[:1])[0].ids, scorers["bert"].tokenise(SENTENCES[:1])[0].ids
    )


def test_inputs_are_not_written_to(scorers):
    ids = scorers["bert"].tokenise(["the cat ran"])[0].ids
    before = ids.copy()
    scorers["bert"].score_candidates([ids], [1], [(5, 6)])
    np.testing.assert_array_equal(ids, before)


def test_nothing_to_score_is_nothing(scorers):
    assert scorers["bert"].score_sentences([]).total.shape == (0,)
    assert scorers["bert"].score_candidates([], [], []) == []


@pytest.mark.parametrize("kind", ["xlm-roberta", "distilbert"])
def test_an_encoder_without_a_head_is_refused(kind, originals):
    with pytest.raises(
        InputError,
        match=(
            r"expected a masked language model with its head, got no weights for .* missing\); "
            r"only a"
        ),
    ):
        load_scorer(str(originals[kind]))


def test_refusals_of_sentences(scorers):
    scorer = scorers["bert"]
    with pytest.raises(InputError, match=r"sentence 1: .*got '  '"):
        scorer.score_sentences(["the cat", "  "])
    with pytest.raises(InputError, match=r"sentence 1: .*got \d+"):
        scorer.score_sentences(["the cat", "the " * 50])
    with pytest.raises(InputError, match=r"sentence 0: .*got the special"):
        scorer.score_sentences(["the [MASK] ran"])


def test_refusals_of_what_is_no_list_of_sentences(scorers):
    with pytest.raises(InputError, match=r"sentences: .*got a single text"):
        scorers["bert"].tokenise("the cat")


def test_refusals_of_methods_and_places(scorers):
    scorer, [one] = scorers["bert"], scorers["bert"].tokenise(["the cat"])
    with pytest.raises(InputError, match=r"method: .*got 'loss'"):
        scorer.score_sentences(["the cat"], "loss")
    with pytest.raises(InputError, match=r"method: .*got 'log_likelihood'"):
        scorer.score_sentences(["the cat"], "log_likelihood")
    with pytest.raises(InputError, match=r"method: .*got 'pll'"):
        scorers["gpt2"].score_sentences(["the cat"])
    with pytest.raises(InputError, match=r"method: .*got 'single_mask'"):
        scorers["gpt2"].score_candidates([one.ids], [1], [(1, 2)])
    with pytest.raises(InputError, match=r"output: .*got 'p'"):
        scorer.score_candidates([one.ids], [1], [(1, 2)], output="p")
    with pytest.raises(InputError, match=r"places: .*got 4"):
        scorer.score_candidates([one.ids], [4], [(1, 2)])
    longest = scorer.model.max_length
    with pytest.raises(InputError, match=rf"texts: expected at most {longest} tokens, got "):
        scorer.score_candidates([np.full(longest + 1, 5)], [1], [(1, 2)])
    for ids in ([5, 100_000, 5], [5, -1]):
        with pytest.raises(InputError, match=r"texts: expected token ids .*got others in text 1"):
            scorer.score_candidates([one.ids, np.array(ids)], [1, 1], [(1, 2), (1, 2)])
    with pytest.raises(InputError, match=r"candidates of text 0: .*got \[1, 100000\]"):
        scorer.score_candidates([one.ids], [1], [(1, 100_000)])
    with pytest.raises(InputError, match=r"places, candidates: .*got 2 places and"):
        scorer.score_candidates([one.ids], [1, 1], [(1, 2)])


def test_refusals_of_models(folders, originals, tmp_path):
    with pytest.raises(InputError, match=r"encoder: .*got '.*nowhere'"):
        load_scorer(str(tmp_path / "nowhere"))
    bert(tmp_path / "bert")
    settings = json.loads((tmp_path / "bert" / "tokenizer_config.json").read_text())
    (tmp_path / "bert" / "config.json").write_text(json.dumps({"model_type": "vit"}))
    with pytest.raises(InputError, match=r"encoder .*: .*got one of type"):
        load_scorer(str(tmp_path / "bert"))
    assert settings["mask_token"] == "[MASK]"


def test_a_causal_model_needs_a_token_to_begin_with(scorers):
    model = scorers["gpt2, bare"].model
    before = model.tokenizer.eos_token
    try:
        model.tokenizer.eos_token = None
        with pytest.raises(InputError, match=r"encoder .*: .*got none"):
            ClozeScorer(model)
    finally:
        model.tokenizer.eos_token = before
