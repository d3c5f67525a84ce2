"""A stream: the timesteps between consecutive snapshots, and links between them, in a separate folder.

Links point to later timesteps, and a timestep must keep the same bytes when a later snapshot is loaded. So links are
stored in files of the stream, never in those of a timestep. ``stream.json`` is written last.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgedit import __version__
from kgedit.checksums import check_folder, decoding, write_checksums
from kgedit.errors import TimestepError
from kgedit.html_tables import html_table
from kgedit.store.engine import select
from kgedit.store.files import replace_folder, working_folder, write_json
from kgedit.store.snapshots import Snapshot
from kgedit.store.window import Window
from kgedit.timesteps.timestep import Timestep, read_manifest, table_checksums
from kgedit.timesteps.wikifactdiff import has_own_tables, own_table

Pair = tuple[Snapshot, Snapshot]
"""The older and the newer snapshot of a timestep."""

_STRINGS = pa.list_(pa.string())

EDITED_AGAIN = pa.schema(
    [
        ("timestep", pa.string()),
        ("case_id", pa.string()),
        ("subject", pa.string()),
        ("property", pa.string()),
        ("object", pa.string()),
        ("earlier_timesteps", _STRINGS),
        ("earlier_case_ids", _STRINGS),
        ("returns", pa.bool_()),
    ]
)
"""edited_again.parquet: edits of a subject and property that an earlier timestep edited too, oldest first.

earlier_timesteps and earlier_case_ids are parallel lists, oldest first. returns: whether an earlier edit had the same
object. case_id and object are null if the profile wikifactdiff has an update and no case.
"""

_PROBE = [
    ("timestep", pa.string()),
    ("table", pa.string()),
    ("case_id", pa.string()),
    ("edited_subject", pa.string()),
    ("edited_property", pa.string()),
    ("subject", pa.string()),
    ("property", pa.string()),
    ("object", pa.string()),
]
"""An unchanged fact that is probed in a timestep.

table is "locality", or "neighbours" in the profile wikifactdiff, whose rows have no case_id. edited_*: the edit that
the probe belongs to.
"""

EDITED_PROBES = pa.schema([*_PROBE, ("earlier_timesteps", _STRINGS), ("earlier_case_ids", _STRINGS)])
"""edited_probes.parquet: unchanged facts probed in a timestep that earlier timesteps edited.

earlier_timesteps and earlier_case_ids as in EDITED_AGAIN. A model that keeps these edits answers such probes
differently from the unedited model.
"""

EXPIRING_PROBES = pa.schema([*_PROBE, ("expires", pa.string()), ("expires_by_case_id", pa.string())])
"""expiring_probes.parquet: unchanged facts probed in a timestep whose current values change in a later one.

expires: the first later timestep in which the values change; expires_by_case_id: its case that edits them, null if they
change without a case.
"""

_WRITE_AGAIN = "Write the stream again: kgedit export-timestep --all --overwrite"

LINKS = {"edited_again": EDITED_AGAIN, "edited_probes": EDITED_PROBES, "expiring_probes": EXPIRING_PROBES}


@dataclass(frozen=True, slots=True, repr=False)
class Stream:
    """A finished stream.

    Attributes:
        folder: Folder of the stream's own files.
        manifest: Content of stream.json: the timesteps in order with their folders, counts, hashes.
    """

    folder: Path
    manifest: dict[str, Any]

    @classmethod
    def open(cls, folder: str | Path) -> Stream:
        """Open a finished stream.

        Raises:
            TimestepError: if the folder is not a stream.
            DamagedFileError: if a file differs from what was written.
        """
        folder = Path(folder)
        path = folder / "stream.json"
        if not path.is_file():
            raise TimestepError(f"{folder} is not a stream. Make one: kgedit export-timestep --all")
        manifest = read_manifest(path, key="timesteps", fix=_WRITE_AGAIN)
        check_folder(folder, fix=_WRITE_AGAIN, also=table_checksums(manifest))
        return cls(folder, manifest)

    def __repr__(self) -> str:
        return f"<Stream of {len(self.manifest['timesteps'])} timesteps in {str(self.folder)!r}>"

    def _repr_html_(self) -> str:
        """The timesteps, for notebooks."""
        columns = ("timestep", "edits", "edited_again", "probes", "edited_probes", "expiring_probes")
        rows = [tuple(row[name] for name in columns) for row in self.manifest["timesteps"]]
        return html_table("Stream", columns, rows, note=str(self.folder))

    def timesteps(self) -> list[Timestep]:
        """Open its timesteps, oldest first.

        Raises:
            TimestepError: if one is missing.
        """
        return [Timestep.open((self.folder / row["folder"]).resolve()) for row in self.manifest["timesteps"]]

    def table(self, name: str) -> pa.Table:
        """Read one of LINKS."""
        path = self.folder / f"{name}.parquet"
        with decoding(path, fix=_WRITE_AGAIN):
            return pq.read_table(path, schema=LINKS[name])


def write_stream(timesteps: Sequence[Timestep], pairs: Sequence[Pair], folder: Path) -> Stream:
    """Link timesteps, and write the stream's files to a temporary folder that is then renamed.

    Args:
        timesteps: Timesteps, oldest first.
        pairs: The snapshots of each timestep.
        folder: Output folder; an existing one is replaced.
    """
    with working_folder(folder) as aside:
        write_json(aside / "stream.json", _write_links(timesteps, pairs, folder, aside))
        write_checksums(aside)
        replace_folder(aside, folder)
    return Stream.open(folder)


def _write_links(timesteps: Sequence[Timestep], pairs: Sequence[Pair], folder: Path, aside: Path) -> dict[str, Any]:
    """Write the tables of links to `aside`; returns the manifest of the stream in `folder`."""
    # Links stay names, except for the stream's own: ".." leads out of the folder behind it.
    absolute = [one.folder.absolute() for one in timesteps]  # "." has no name
    places = [path.parent.resolve() / path.name for path in absolute]
    edits = pa.concat_tables([_edits(timestep, turn) for turn, timestep in enumerate(timesteps)])
    probes = pa.concat_tables([_probes(timestep, turn) for turn, timestep in enumerate(timesteps)])
    names = pa.table({"turn": pa.array(range(len(timesteps))), "timestep": [one.name for one in timesteps]})
    links = {
        "edited_again": find_edited_again(edits, names),
        "edited_probes": find_edited_probes(probes, edits, names),
        "expiring_probes": find_expiring_probes(probes, edits, names, pairs, spill=aside / "spill"),
    }
    rows = [
        {
            "timestep": timestep.name,
            "folder": os.path.relpath(places[turn], os.path.realpath(folder)),
            "sha256": timestep.sha256,
            "edits": _count(edits, "turn", turn),
            "edited_again": _count(links["edited_again"], "timestep", timestep.name),
            "probes": _count(probes, "turn", turn),
            "edited_probes": _count(links["edited_probes"], "timestep", timestep.name),
            "expiring_probes": _count(links["expiring_probes"], "timestep", timestep.name),
        }
        for turn, timestep in enumerate(timesteps)
    ]
    return {
        "profile": timesteps[0].manifest["profile"],
        "kgedit": __version__,
        "projected": [new.name for new in _snapshots(pairs) if new.is_projected],
        "timesteps": rows,
        "tables": _write_tables(links, aside),
    }


def find_edited_again(edits: pa.Table, names: pa.Table) -> pa.Table:
    """Find edits whose subject and property an earlier timestep edited, with the schema EDITED_AGAIN.

    Args:
        edits: Columns turn, subject, property, case_id and object; each subject and property once per turn.
        names: Columns turn and timestep.
    """
    return select(
        """
        WITH linked AS (
            SELECT e.*, timestep, list(timestep) OVER before AS earlier_timesteps,
                   list(case_id) OVER before AS earlier_case_ids, list(object) OVER before AS earlier_objects
            FROM edits e JOIN names USING (turn)
            WINDOW before AS (PARTITION BY subject, property ORDER BY turn
                              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        )
        SELECT timestep, case_id, subject, property, object, earlier_timesteps, earlier_case_ids,
               coalesce(list_contains(earlier_objects, object), false) AS returns
        FROM linked WHERE len(earlier_timesteps) > 0 ORDER BY turn, subject, property, case_id
        """,
        edits=edits,
        names=names,
    ).cast(EDITED_AGAIN)


def find_edited_probes(probes: pa.Table, edits: pa.Table, names: pa.Table) -> pa.Table:
    """Find probes whose subject and property an earlier timestep edited, with the schema EDITED_PROBES.

    Args:
        probes: See find_expiring_probes.
        edits: See find_edited_again.
        names: See find_edited_again.
    """
    return select(
        """
        SELECT own.timestep, p."table", p.case_id, edited_subject, edited_property, p.subject, p.property, p.object,
               list(earlier.timestep ORDER BY e.turn) AS earlier_timesteps,
               list(e.case_id ORDER BY e.turn) AS earlier_case_ids
        FROM probes p JOIN edits e ON e.subject = p.subject AND e.property = p.property AND e.turn < p.turn
        JOIN names own ON own.turn = p.turn JOIN names earlier ON earlier.turn = e.turn
        GROUP BY p.turn, own.timestep, p."table", p.case_id, edited_subject, edited_property, p.subject, p.property,
                 p.object
        ORDER BY p.turn, "table", edited_subject, edited_property, p.subject, p.property, p.object, p.case_id
        """,
        probes=probes,
        edits=edits,
        names=names,
    ).cast(EDITED_PROBES)


def find_expiring_probes(
    probes: pa.Table, edits: pa.Table, names: pa.Table, pairs: Sequence[Pair], *, spill: Path
) -> pa.Table:
    """Find probes whose values change after their own timestep, with the schema EXPIRING_PROBES.

    Args:
        probes: Columns turn, table, case_id, edited_subject, edited_property, subject, property and object.
        edits: See find_edited_again.
        names: See find_edited_again.
        pairs: The snapshots of each timestep.
        spill: Folder for data that does not fit in memory.
    """
    changed = []
    for turn, (old, new) in enumerate(pairs[1:], start=1):
        asked = probes.filter(pc.less(probes["turn"], turn)).select(["subject", "property"])
        with Window(old, new, spill=spill) as window:
            found = window.select(_CHANGED, asked=asked)
        changed.append(found.append_column("turn", pa.array([turn] * found.num_rows, pa.int64())))
    return select(
        """
        WITH expiry AS (
            SELECT p.*, min(c.turn) AS expires_turn
            FROM probes p JOIN changed c
                ON c.subject = p.subject AND c.property = p.property AND c.turn > p.turn GROUP BY ALL
        )
        SELECT own.timestep, p."table", p.case_id, edited_subject, edited_property, p.subject, p.property, p.object,
               later.timestep AS expires, e.case_id AS expires_by_case_id
        FROM expiry p JOIN names own ON own.turn = p.turn JOIN names later ON later.turn = p.expires_turn
        LEFT JOIN edits e ON e.turn = p.expires_turn AND e.subject = p.subject AND e.property = p.property
        ORDER BY p.turn, "table", edited_subject, edited_property, p.subject, p.property, p.object, p.case_id
        """,
        probes=probes,
        changed=pa.concat_tables(changed) if changed else _NOTHING_CHANGED,
        edits=edits,
        names=names,
    ).cast(EXPIRING_PROBES)


_CHANGED = """
    WITH question AS (
        SELECT DISTINCT subject, property FROM asked WHERE subject IN (SELECT id FROM new_entities)
    ), old_values AS (
        SELECT subject, property, list_sort(list(DISTINCT coalesce(target, object))) AS objects
        FROM old_facts SEMI JOIN question USING (subject, property) LEFT JOIN new_redirects ON id = object GROUP BY ALL
    ), new_values AS (
        SELECT subject, property, list_sort(list(DISTINCT coalesce(target, object))) AS objects
        FROM new_facts SEMI JOIN question USING (subject, property) LEFT JOIN new_redirects ON id = object GROUP BY ALL
    )
    SELECT subject, property FROM question
    LEFT JOIN old_values o USING (subject, property) LEFT JOIN new_values n USING (subject, property)
    WHERE o.objects IS DISTINCT FROM n.objects ORDER BY subject, property
"""
"""Values of an item that the newer snapshot lacks are unknown there, not changed."""

_NOTHING_CHANGED = pa.schema([("subject", pa.string()), ("property", pa.string()), ("turn", pa.int64())]).empty_table()


def _edits(timestep: Timestep, turn: int) -> pa.Table:
    cases = timestep.table("cases").select(["subject", "property", "case_id", "object"])
    if has_own_tables(timestep):
        updates = own_table(timestep, "updates").select(["subject", "property"])
        cases = select(
            "SELECT * FROM updates LEFT JOIN cases USING (subject, property) ORDER BY ALL", updates=updates, cases=cases
        )
    return cases.append_column("turn", pa.array([turn] * cases.num_rows, pa.int64()))


def _probes(timestep: Timestep, turn: int) -> pa.Table:
    found = select(
        """
        SELECT 'locality' AS "table", case_id, c.subject AS edited_subject, c.property AS edited_property,
               l.subject, l.property, l.object FROM locality l JOIN cases c USING (case_id) ORDER BY ALL
        """,
        locality=timestep.table("locality"),
        cases=timestep.table("cases"),
    )
    if has_own_tables(timestep):
        neighbours = select(
            """
            SELECT DISTINCT 'neighbours' AS "table", NULL::VARCHAR AS case_id, subject AS edited_subject,
                   property AS edited_property, neighbour AS subject, neighbour_property AS property, object
            FROM neighbours ORDER BY ALL
            """,
            neighbours=own_table(timestep, "neighbours"),
        )
        found = pa.concat_tables([found, neighbours])
    return found.append_column("turn", pa.array([turn] * found.num_rows, pa.int64()))


def _count(table: pa.Table, column: str, value: int | str) -> int:
    return int(pc.sum(pc.equal(table[column], value)).as_py() or 0)


def _snapshots(pairs: Sequence[Pair]) -> list[Snapshot]:
    return [pairs[0][0], *(new for _, new in pairs)]


def _write_tables(links: dict[str, pa.Table], folder: Path) -> dict[str, Any]:
    written = {}
    for name, table in links.items():
        path = folder / f"{name}.parquet"
        pq.write_table(table, path, compression="zstd")
        written[name] = {"rows": table.num_rows, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    return written
