"""Several processes and several threads."""
