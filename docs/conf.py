"""The site: `sphinx-build -W -b html docs FOLDER`. Needs the extra `docs`; loads no heavy package."""

from __future__ import annotations

import logging
from importlib.metadata import version as installed_version

project = "rir-gym"
author = "The rir-gym authors"
project_copyright = "The rir-gym authors, Apache-2.0"
version = release = installed_version("rir-gym")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
root_doc = "index"
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
templates_path: list[str] = []

# Pages read the same on a code host: headings are anchors, links go to files.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

# A pattern of docs/index.md may match nothing: not every family of pages is there in every version. (Sphinx gives this
# warning no type by which ``suppress_warnings`` could name it.)
logging.getLogger("sphinx.sphinx.directives.other").addFilter(lambda record: "glob pattern" not in str(record.msg))

autodoc_mock_imports = [
    "accelerate",
    "alfworld",
    "datasets",
    "gguf",
    "jericho",
    "llguidance",
    "minari",
    "minigrid",
    "peft",
    "py4j",
    "pyarrow",
    "scienceworld",
    "textarena",
    "textworld",
    "textworld_express",
    "tokenizers",
    "torch",
    "transformers",
    "zstandard",
]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "show-inheritance": True}
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
maximum_signature_line_length = 100

html_theme = "furo"
html_title = "rir-gym"
html_show_sphinx = False
html_copy_source = False
pygments_style = "default"
pygments_dark_style = "monokai"
