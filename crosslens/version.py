"""The version, for all floors: what a run notes and what is to be cited."""

__all__ = ["__version__"]

__version__ = "0.1.0"
