"""Encoders with another vocabulary: new embeddings below a body that stays as it is."""
