"""Small XLM models for tests: random weights in the layout of xlm-mlm-tlm-xnli15-1024 and its
like."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from toy_models import lively
from transformers import XLMConfig, XLMModel, XLMTokenizer, XLMWithLMHeadModel

SPECIAL = ["<s>", "</s>", "<pad>", "<unk>", *(f"<special{i}>" for i in range(10))]
_TEXT = (
    "l ' homme a dit oui non the cat sat on the mat it ' s a dog 's naive ete là été 1 000 . . . "
    '" , ! ? ( ) - : ; Été'
)


def save_xlm(
    folder: Path,
    *,
    languages=("en", "fr", "zh"),
    embedded=True,
    lower=True,
    head=False,
    listed=True,
) -> Path:
    """A model folder: config.json, model.safetensors, vocab.json, merges.txt,
    tokenizer_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    learnt = Tokenizer(models.BPE())
    learnt.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(vocab_size=130, end_of_word_suffix="</w>", show_progress=False)
    learnt.train_from_iterator([_TEXT, _TEXT], trainer)
    found = json.loads(learnt.to_str())["model"]
    singles = sorted({char for char in _TEXT if char != " "})
    pieces = dict.fromkeys(
        [*SPECIAL, *singles, *(char + "</w>" for char in singles), *found["vocab"]]
    )
    (folder / "vocab.json").write_text(
        json.dumps({piece: i for i, piece in enumerate(pieces)}), encoding="utf-8"
    )
    lines = [f"{first} {second} 7\n" for first, second in found["merges"]]
    (folder / "merges.txt").write_text("".join(lines), encoding="utf-8")
    names = (
        {
            "lang2id": {name: i for i, name in enumerate(languages)},
            "id2lang": dict(enumerate(languages)),
        }
        if listed
        else {}
    )
    config = XLMConfig(
        vocab_size=len(pieces),
        emb_dim=24,
        n_layers=3,
        n_heads=3,
        n_langs=len(languages),
        use_lang_emb=embedded,
        max_position_embeddings=48,
        **names,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        lively((XLMWithLMHeadModel if head else XLMModel)(config)).save_pretrained(folder)
    settings = {
        "do_lowercase_and_remove_accent": lower,
        "tokenizer_class": "XLMTokenizer",
        "model_max_length": 48,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def reference(folder: Path, text: str, language: str) -> tuple[list[int], list[torch.Tensor]]:
    """Token ids and hidden states, by transformers alone; the language's rules are asked for where
    transformers has them."""
    tokenizer, model = XLMTokenizer.from_pretrained(folder), XLMModel.from_pretrained(folder).eval()
    pieces = tokenizer._tokenize(text, lang=language)
    ids = tokenizer.build_inputs_with_special_tokens(tokenizer.convert_tokens_to_ids(pieces))
    number = model.config.lang2id[language] if model.config.use_lang_emb else 0
    with torch.inference_mode():
        given = torch.tensor([ids])
        found = model(
            input_ids=given, langs=torch.full_like(given, number), output_hidden_states=True
        )
    return ids, [state[0] for state in found.hidden_states]
