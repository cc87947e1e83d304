"""Models on disk: any encoder that transformers loads, and the project's own."""
