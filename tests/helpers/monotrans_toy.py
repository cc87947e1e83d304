"""Settings of a MonoTrans that takes a second or two."""

SMALL = {
    "model": 32,
    "encoder.hidden_size": 16,
    "encoder.heads": 2,
    "encoder.ffn_size": 24,
    "encoder.layers": 2,
    "encoder.max_positions": 32,
    "encoder.dropout": 0.1,
    "max_length": 32,
    "steps": 5,
    "batch_tokens": 256,
    "save_every": 2,
    "vocabulary.size": 90,
    "vocabulary.sentences": 300,
    "vocabulary.kind": "bpe",
    "optimisation.weight_decay": 0.3,
    "optimisation.peak_rate": 1e-2,
}
