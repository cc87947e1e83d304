"""One file per format: bytes to items, nothing more."""
