"""How the documentation is built: ``sphinx-build -W docs docs/build`` (extra ``docs``)."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "site"))

from reference_pages import modules, reference_pages, task_pages, write_pages  # noqa: E402

import crosslens  # noqa: E402
from crosslens.probes.tasks.catalogue import cards  # noqa: E402

project = "crosslens"
version = release = crosslens.__version__
author = copyright = "The crosslens maintainers"

extensions = ["myst_parser", "sphinx.ext.autodoc", "reference_docstrings"]
exclude_patterns = ["build"]
myst_heading_anchors = 4
nitpicky = True  # a name that a docstring links and that is not there is a warning

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
add_module_names = False
maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"crosslens {version}"
html_static_path = ["site/style.css"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sphinx = False

# Written before the build from the installed package; both folders are ignored by git.
write_pages(HERE / "reference", reference_pages(modules()))
write_pages(HERE / "tasks", task_pages(cards()))
