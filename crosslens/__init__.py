"""Train, take apart, align, compare and probe multilingual language models.

Importing this package loads nothing heavy: each room (``crosslens.models``,
``crosslens.alignment``, ``crosslens.probes``) is imported when it is named.
"""

from crosslens.errors import CrosslensError

__version__ = "0.1.0"

__all__ = ["CrosslensError", "__version__"]
