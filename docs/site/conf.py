"""Sphinx's settings for the pages that make.sh gathers. HGA_VERSION and HGA_COMMIT say what they are of, HGA_SITE_VERSIONS which sites stand beside this one."""

import gc
import os

gc.disable()  # hundreds of small pages: collecting them takes a third of the time

project = "hga"
version = release = os.environ["HGA_VERSION"]
author = "the hga contributors"
copyright = f"{author}; commit {os.environ['HGA_COMMIT']}"
extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
root_doc = "index"
myst_heading_anchors = 4
myst_ref_domains = ["std"]
smartquotes = False
primary_domain = None
highlight_language = "none"
nitpicky = False

html_theme = "furo"
html_title = f"hga {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["live"]
templates_path = ["templates"]
# Below the table of contents: the versions, each a folder beside this site's.
html_sidebars = {"**": ["sidebar/brand.html", "sidebar/search.html", "sidebar/scroll-start.html", "sidebar/navigation.html", "versions.html", "sidebar/scroll-end.html"]}
html_context = {"versions": os.environ.get("HGA_SITE_VERSIONS", "").split() or [release]}
html_show_sphinx = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
html_theme_options = {"navigation_with_keys": True}
