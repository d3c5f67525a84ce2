"""Two snapshots of a hand-made world and their changes, without a server."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from world.dumps import Json, entity, entity_value, load, snak, statement, write_dump

from kgedit.engines.store import StoreEngine
from kgedit.store.snapshots import Snapshot
from kgedit.store.window import Window

OLD, NEW = "2021-01-04", "2023-02-27"


def item(name: str, *statements: Json, label: str | None = None, aliases: tuple[str, ...] = ()) -> Json:
    """An item or a property with an English label."""
    named = [{"language": "en", "value": alias} for alias in aliases]
    return entity(name, *statements, label=label or f"Item {name}", aliases={"en": named} if named else {})


def about(property_id: str, object_id: str) -> Json:
    return statement(snak(property_id, entity_value(object_id)))


def two_snapshots(folder: Path, old: list[Json], new: list[Json]) -> tuple[Snapshot, Snapshot]:
    """Both snapshots, loaded into a store in the folder."""
    home = folder / "it's a home"
    before, after = (
        load(home, write_dump(folder / f"{date}.json", items), date, overwrite=True)
        for date, items in ((OLD, old), (NEW, new))
    )
    return before, after


def changed_edges(old: Snapshot, new: Snapshot) -> pa.Table:
    """Changed facts, as used by an export."""
    with Window(old, new, spill=old.folder / "spill") as window:
        return StoreEngine().changed_edges(window)
