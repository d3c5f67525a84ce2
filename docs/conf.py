"""Settings of the site: ``make docs`` builds it from these pages into ``site/``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import kgedit  # noqa: E402  (the checkout that the pages belong to, wherever kgedit is installed)

project = "kgedit"
author = "The kgedit authors"
copyright = author
release = version = kgedit.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
highlight_language = "none"
# Pygments' Cypher and SQL lexers do not know everything that Neo4j and DuckDB accept; such a block is still coloured.
suppress_warnings = ["misc.highlighting_failure"]

# Docstrings are in Google style, with Markdown's single backticks for code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_use_rtype = False

html_theme = "furo"
html_title = "kgedit"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
# The colours of kgedit's own pages (kgedit/pages).
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {
        "color-background-primary": "#fcfcfb",
        "color-brand-primary": "#0072b2",
        "color-brand-content": "#0072b2",
        "code-font-size": "75%",
    },
    "dark_css_variables": {
        "color-background-primary": "#15171a",
        "color-brand-primary": "#56b4e9",
        "color-brand-content": "#56b4e9",
    },
}


class PublicNames(SphinxDirective):
    """``public-names``: the docstring of everything in ``kgedit.__all__``, so that no name can be missing."""

    def run(self) -> list[nodes.Node]:
        """Sections of functions, classes and errors."""
        public = [name for name in kgedit.__all__ if not name.startswith("_")]
        kinds = {name: _kind(getattr(kgedit, name)) for name in public}
        lines = []
        for title, kind in (("Functions", "function"), ("Classes", "class"), ("Errors", "exception")):
            lines += ["", title, "-" * len(title), ""]
            for name in (name for name in public if kinds[name] == kind):
                lines += [f".. auto{kind}:: kgedit.{name}", *(["   :members:"] if kind == "class" else []), ""]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def _kind(named: object) -> str:
    if not isinstance(named, type):
        return "function"
    return "exception" if issubclass(named, Exception) else "class"


def _only_titles(toc: nodes.bullet_list) -> nodes.bullet_list:
    """A page's title and the pages below it, without its sections."""
    toc = toc.deepcopy()
    for entry in toc.children:
        if len(entry) > 1:
            below = list(entry.findall(addnodes.toctree))
            entry[1:] = [nodes.bullet_list("", *below)] if below else []
    return toc


def _shorten_contents(app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: object) -> None:
    """Make the navigation from tables of contents without sections.

    Sphinx copies all sections of all pages for each page, and then removes them: a sixth of the time of a build.
    """
    env, whole = app.env, context["toctree"]

    def toctree(**options: Any) -> str:
        if not options.get("titles_only"):
            return str(whole(**options))
        if not _titles:
            _titles.update({name: _only_titles(toc) for name, toc in env.tocs.items()})
        sections, env.tocs = env.tocs, _titles
        try:
            return str(whole(**options))
        finally:
            env.tocs = sections

    context["toctree"] = toctree


_titles: dict[str, nodes.bullet_list] = {}
"""By page, made when the first page is written, after all were read."""


def setup(app: Sphinx) -> None:
    """Register the directive, and the navigation before the theme (of priority 500) takes it."""
    app.add_directive("public-names", PublicNames)
    app.connect("html-page-context", _shorten_contents, priority=400)
