"""A page for each kind of run."""
