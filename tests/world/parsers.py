"""Both parsers of JSON dumps: the one in Python, and the compiled one if ``make native`` has installed it."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from unittest.mock import patch

from kgedit.loaders.wikidata_json import JsonParser

from kgedit.store.schemas import LoaderOptions

HAS_COMPILED = find_spec("kgedit_native") is not None
PARSERS = ("python", "compiled") if HAS_COMPILED else ("python",)


def python_parser(options: LoaderOptions) -> JsonParser:
    """A loader that parses in processes even if the compiled parser is installed; worker processes can make it too."""
    return make_parser("python", options)


def make_parser(parser: str, options: LoaderOptions | None = None) -> JsonParser:
    """A loader that uses the parser of this name."""
    with patch.dict(sys.modules, {} if parser == "compiled" else {"kgedit_native": None}):
        made = JsonParser(options or LoaderOptions())
    assert made.parses_in_threads == (parser == "compiled")
    return made
