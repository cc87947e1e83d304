"""Made-up sentences and a small size for studies of several trainings."""

import numpy as np

KEPT = 60
SMALL = {
    "tokens": 256 * 3,
    "validate_every": 3,
    "save_every": 2,
    "log_every": 2,
    "batch_tokens": 256,
    "vocabulary.size": 80,
    "vocabulary.sentences": 1000,
    "validation": 30,
    "encoder.hidden_size": 16,
    "encoder.ffn_size": 32,
    "optimisation.warmup": 1,
}


def sentences(n: int = 1300) -> list[str]:
    rng = np.random.default_rng(0)
    words = (
        "cat dog mat sun sea red big old new sees eats runs sits finds the a on in by and".split()
    )
    return [
        " ".join(words[i] for i in rng.integers(len(words), size=rng.integers(6, 10)))
        for _ in range(n)
    ]
