"""Differences between a loaded snapshot and a requested load: the dump or the options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_NONE = "none"


def load_differences(manifest: Mapping[str, Any], identity: Mapping[str, Any], *, as_of: bool) -> list[str]:
    """Differences in dump and options, each with the value of the snapshot and the requested one.

    Does not compare the content of the dumps.

    Args:
        manifest: Manifest of the snapshot.
        identity: Identity of the load (`kgedit.store.builds.Load.identity`).
        as_of: Whether the load projects the dump to an earlier day.
    """
    return [
        *_of_dump(manifest["source"], identity["source"]),
        *_of_options(manifest, identity),
        *_of_projection("projected" in manifest, as_of),
    ]


def content_difference(loaded: str | None, requested: str) -> str:
    """Message for dumps of the same size with different SHA-256."""
    return f"dump: the same size, other content (SHA-256 {(loaded or 'unknown')[:12]}… then, {requested[:12]}… now)"


def _of_dump(loaded: Mapping[str, Any], requested: Mapping[str, Any]) -> Iterator[str]:
    if loaded["size"] != requested["size"]:
        then, now = (f"{one['name']} with {one['size']:,} bytes" for one in (loaded, requested))
        yield f"dump: {then} then, {now} now"


def _of_options(manifest: Mapping[str, Any], identity: Mapping[str, Any]) -> Iterator[str]:
    then, now = (_options(one) for one in (manifest, identity))
    for name in dict.fromkeys([*then, *now]):
        if then.get(name) != now.get(name):
            yield f"{name}: {_written(then.get(name))} then, {_written(now.get(name))} now"


def _options(described: Mapping[str, Any]) -> dict[str, Any]:
    """Options, keyed by the names that users know."""
    loader = dict(described.get("loader") or {})
    return {
        "source format": loader.pop("name", None),
        "version of the loader (kgedit was updated)": loader.pop("version", None),
        **loader,
        "limit": described.get("limit"),
        "redirects": described.get("redirects"),
        "slice of": described.get("slice_of"),
    }


def _of_projection(loaded: bool, requested: bool) -> Iterator[str]:
    if loaded != requested:
        kinds = {True: "projected from a later dump", False: "a dump of this day"}
        yield f"kind: {kinds[loaded]} then, {kinds[requested]} now"


def _written(value: Any) -> str:
    if value is None:
        return _NONE
    if isinstance(value, Mapping):
        return f"{value.get('name')} (SHA-256 {str(value.get('sha256'))[:12]}…)"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
