"""Readers of source formats. In a checkout their files lie in the top-level folder ``loaders/``."""

from pathlib import Path

_checkout = Path(__file__).parent.parent.parent / "loaders"
if _checkout.is_dir() and (_checkout / "wikidata_json.py").is_file():
    __path__.append(str(_checkout))
