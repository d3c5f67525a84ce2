"""Citation of a published benchmark: kgedit's CITATION.cff, also as BibTeX."""

from __future__ import annotations

from typing import Any

import yaml

from kgedit.resources import citation_file


def citation_text() -> str:
    """Content of CITATION.cff."""
    return citation_file().read_text(encoding="utf-8")


def citation_bibtex() -> str:
    """CITATION.cff as a BibTeX entry."""
    cited: dict[str, Any] = yaml.safe_load(citation_text())
    fields = {
        "title": f"{{{cited['title']}}}",
        "author": " and ".join(map(_author, cited["authors"])),
        "version": str(cited["version"]),
        **({"year": str(cited["date-released"])[:4]} if "date-released" in cited else {}),
        **({"doi": cited["doi"]} if "doi" in cited else {}),
        **({"url": cited["repository-code"]} if "repository-code" in cited else {}),
    }
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@misc{{{cited['title']},\n{lines}\n}}"


def _author(author: dict[str, str]) -> str:
    """A person by family name and given names; braces keep an organisation's name whole."""
    if "family-names" in author:
        return ", ".join(author[part] for part in ("family-names", "given-names") if part in author)
    return f"{{{author['name']}}}"
