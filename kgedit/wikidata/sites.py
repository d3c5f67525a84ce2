"""Addresses of Wikimedia's wikis by database name."""

from __future__ import annotations

import re

_SPECIAL = {
    "commonswiki": "commons.wikimedia.org",
    "specieswiki": "species.wikimedia.org",
    "metawiki": "meta.wikimedia.org",
    "wikidatawiki": "www.wikidata.org",
    "mediawikiwiki": "www.mediawiki.org",
    "sourceswiki": "wikisource.org",
    "be_x_oldwiki": "be-tarask.wikipedia.org",
}
_PROJECTS = ("wikibooks", "wikinews", "wikiquote", "wikisource", "wikiversity", "wikivoyage", "wiktionary", "wiki")
_NAME = re.compile(f"([a-z0-9_]+?)({'|'.join(_PROJECTS)})")


def site_address(name: str) -> str:
    """Address of a wiki; an unknown name gives an address that cannot be resolved.

    >>> site_address("enwiki"), site_address("zh_yuewiki"), site_address("dewikiquote")
    ('https://en.wikipedia.org/', 'https://zh-yue.wikipedia.org/', 'https://de.wikiquote.org/')
    """
    match = _NAME.fullmatch(name)
    if name in _SPECIAL:
        return f"https://{_SPECIAL[name]}/"
    if match is None:
        return f"https://{name}.invalid/"
    project = "wikipedia" if match[2] == "wiki" else match[2]
    return f"https://{match[1].replace('_', '-')}.{project}.org/"
