"""Sphinx configuration."""

from importlib.metadata import version as installed_version

project = "jitgrad"
author = "jitgrad developers"
copyright = f"2026, {author}"
release = installed_version("jitgrad")
version = ".".join(release.split(".")[:2])

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

# The pages are notebooks, executed at each build: a cache would be keyed on the page alone, and so would
# hide a change of the library.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 180
nb_merge_streams = True
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autosummary_imported_members = False
# `jitgrad.tensor` and `jitgrad.Tensor` would be one file where names do not distinguish case.
autosummary_filename_map = {"jitgrad.Tensor": "jitgrad.Tensor-class"}
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "jitgrad"
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
}
