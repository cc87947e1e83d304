"""Words: bilingual lexicons, links within sentences, token embeddings."""
