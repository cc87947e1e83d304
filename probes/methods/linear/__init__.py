"""Linear classifiers and regressions for every layer at once, and their solver."""
