"""Sphinx: the documentation as a site that opens from a folder. `docs/site/build.py` gathers its pages."""

from importlib.metadata import version as installed

project = "glassformer"
author = "The glassformer authors"
project_copyright = author
release = version = installed("glassformer")

extensions = ["myst_nb", "sphinx_design", "sphinx_copybutton", "sphinx.ext.viewcode"]
nitpicky = True
highlight_language = "text"
suppress_warnings = ["mystnb.unknown_mime_type"]

# Lessons are shown with the outputs that they are stored with; the tests run them.
nb_execution_mode = "off"
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]
viewcode_follow_imported_members = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "glassformer"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = False
html_show_search_summary = False  # it is fetched, which a browser refuses for a page that is a file
html_theme_options = {"navigation_with_keys": True}
# The prompt of a shell and the marks of a terminal are not copied.
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True
