"""Two snapshots of a hand-made world and their changes, without a server."""

from __future__ import annotations

import datetime
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

import pyarrow as pa
from world.dumps import Json, entity, entity_value, load, snak, statement, write_dump

from kgedit.store.snapshots import Snapshot, open_snapshot, snapshot_folder
from kgedit.store.window import Window
from kgedit.timesteps.engines.store import StoreEngine

OLD, NEW = "2021-01-04", "2023-02-27"


def item(name: str, *statements: Json, label: str | None = None, aliases: tuple[str, ...] = ()) -> Json:
    """An item or a property with an English label."""
    named = [{"language": "en", "value": alias} for alias in aliases]
    return entity(name, *statements, label=label or f"Item {name}", aliases={"en": named} if named else {})


def about(property_id: str, object_id: str) -> Json:
    return statement(snak(property_id, entity_value(object_id)))


def two_snapshots(folder: Path, old: list[Json], new: list[Json], *, redirects: str = "") -> tuple[Snapshot, Snapshot]:
    """Both snapshots, loaded into a store in the folder, which also has their dumps (DATE.json).

    Args:
        redirects: Redirects of the newer one, "Q2 Q3" a line.
    """
    return _copy_of(folder, OLD, old), _copy_of(folder, NEW, new, redirects)


def _copy_of(folder: Path, date: str, items: list[Json], redirects: str = "") -> Snapshot:
    write_dump(folder / f"{date}.json", items)
    home, day = folder / "it's a home", datetime.date.fromisoformat(date)
    target = snapshot_folder(home, day)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(_loaded(date, json.dumps(items), redirects).folder, target, copy_function=shutil.copyfile)
    return open_snapshot(home, day)


@cache
def _loaded(date: str, items: str, redirects: str) -> Snapshot:
    """A snapshot in a home of the process. Most tests of a file use the same world, and a load takes 0.1 s."""
    folder = Path(tempfile.mkdtemp(dir=_homes().name))
    (folder / "redirects.tsv").write_text(redirects.replace(" ", "\t"))
    file = folder / "redirects.tsv" if redirects else None
    return load(folder, write_dump(folder / f"{date}.json", json.loads(items)), date, redirects=file)


@cache
def _homes() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="kgedit-worlds-")


def changed_edges(old: Snapshot, new: Snapshot) -> pa.Table:
    """Changed facts, as used by an export, ordered by subject and property."""
    with Window(old, new, spill=old.folder / "spill") as window:
        edges = pa.concat_tables(StoreEngine().changed_edges(window))
    return edges.sort_by([("subject", "ascending"), ("property", "ascending")])
