"""Nearest neighbours: cosine, CSLS and other hubness-corrected retrieval."""
