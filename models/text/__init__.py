"""Text to token ids: tokenisers, vocabularies, and token files on disk."""
