"""Takes what changed between two snapshots of a large store, and what the four questions need, as two small snapshots.

A part contains whole pairs of subject and property: all facts and statements of a pair in both snapshots, or none. A
fact of the part therefore changes if and only if it changes in the whole. Measures that need all facts, such as how
functional a relation is and which subjects are similar, are taken along.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.checksums import write_checksums
from kgedit.errors import StoreError
from kgedit.progress import step
from kgedit.store.bucket_files import RowGroups, bucket_file
from kgedit.store.closures import CONTAINMENT, PARTS, above, subclass_links
from kgedit.store.digests import ENTITIES_KEPT
from kgedit.store.disk import disk_errors
from kgedit.store.engine import listed, literal
from kgedit.store.files import only_writer, replace_folder, write_json
from kgedit.store.schemas import CLAIMS_KEPT, FACTS
from kgedit.store.snapshots import RELATIONS, SIMILAR_FACTS, Snapshot, list_snapshots, read_snapshot
from kgedit.store.window import Window
from kgedit.timesteps.engines.functionality import current_relations, stated_relations
from kgedit.timesteps.engines.store import StoreEngine, read_sql
from kgedit.timesteps.export import WikiBigEditSettings
from kgedit.timesteps.kinds.properties import BEGINNINGS, ENDINGS
from kgedit.timesteps.kinds.snapshot_tables import MAX_DEPTH
from kgedit.timesteps.locality import CANDIDATES, RELATION_SAMPLE, related_relations
from kgedit.wikidata.ids import COUNTRY, INSTANCE_OF, JURISDICTION, SUBCLASS_OF
from kgedit.wikidata.times import not_before
from kgedit.wording.names import name_rules

_MEMORY = "1GB"
"""DuckDB's memory on two cores; the rest spills to disk."""

_ROWS_AT_ONCE = 100_000

_STEPS = 4


def take_changes(home: Path, old: Snapshot, new: Snapshot) -> tuple[Snapshot, Snapshot]:
    """Write the parts of two snapshots of another store that an export between them reads.

    Exports of the profile wikibigedit from the parts have the same tables as exports from the whole snapshots, with
    settings up to the defaults of `max_df` and `pool`, without chains of more than two facts, and without earlier
    snapshots.

    Args:
        home: Home folder for the parts, without other snapshots.
        old: The older snapshot.
        new: The newer one.

    Returns:
        The two parts. Existing parts of the same snapshots are kept; an interrupted call is repeated.

    Raises:
        StoreError: if the dates are reversed, the snapshots are parts themselves, or the home contains other snapshots.
        DamagedFileError: if a file of the other store is damaged.
    """
    if old.date >= new.date:
        raise StoreError(not_before(old.name, new.name))
    if old.is_part or new.is_part:
        raise StoreError(f"{old.folder.parent} contains only what changed. Give the store with the whole snapshots.")
    folder = home / "snapshots"
    folder.mkdir(parents=True, exist_ok=True)
    with disk_errors(home), only_writer(folder / ".changes.lock", of="what changed"):
        wanted = [_part_of(snapshot, old, new) for snapshot in (old, new)]
        identities = [_identity(manifest) for manifest in wanted]
        there = list_snapshots(home)
        if other := [snapshot.name for snapshot in there if _identity(snapshot.manifest) not in identities]:
            raise StoreError(
                f"{home} already contains other snapshots ({', '.join(other)}). What changed is compared with no other "
                "snapshot. Choose another home with $KGEDIT_HOME, or remove them: kgedit drop-snapshot DAY"
            )
        if len(there) < len(wanted):
            asides = [folder / f".{snapshot.folder.name}.changes" for snapshot in (old, new)]
            with Window(old, new, spill=folder / ".changes.spill", memory=_MEMORY) as window:
                _Taking(window).write(asides, wanted)
            for aside, snapshot in zip(asides, (old, new), strict=True):
                replace_folder(aside, folder / snapshot.folder.name)
        older, newer = (read_snapshot(folder / snapshot.folder.name) for snapshot in (old, new))
        return older, newer


def _part_of(snapshot: Snapshot, old: Snapshot, new: Snapshot) -> dict[str, Any]:
    """Manifest of a part, without its counts."""
    defaults = WikiBigEditSettings()
    whole = {name: snapshot.manifest[name] for name in _COUNTS}
    similar = {"max_df": defaults.max_df, "k": CANDIDATES, "pool": defaults.pool}
    part = {"between": [old.name, new.name], "similar": similar, "whole": whole}
    return snapshot.manifest | {"part": part, "buckets": 1}


def _identity(manifest: dict[str, Any]) -> dict[str, Any]:
    return {name: content for name, content in manifest.items() if name not in _COUNTS}


_COUNTS = ("entities", "redirected", "claims", "claims_with_value", "facts")

_CHANGED_PAIRS = """
    INSERT INTO changed_pair
    WITH touched AS MATERIALIZED (
        SELECT id FROM changed_entities
    ), old AS MATERIALIZED (
        SELECT subject, property, object FROM old_facts WHERE subject IN (FROM touched)
    ), new AS MATERIALIZED (
        SELECT subject, property, object FROM new_facts WHERE subject IN (FROM touched)
    )
    SELECT subject, property FROM old ANTI JOIN new USING (subject, property, object)
    UNION
    SELECT subject, property FROM new ANTI JOIN old USING (subject, property, object)
"""

_BOTH = "(SELECT * FROM old_facts UNION ALL SELECT * FROM new_facts)"

_EDITS = """
    SELECT subject || ':' || property AS case_id, subject, property FROM edges
    WHERE subject[1] = 'Q' AND subject_in_old AND subject_in_new AND item_valued AND len(new_objects) = 1
"""
"""Changes that can become cases: filters of kgedit.timesteps.changes that depend on no setting."""


class _Taking:
    """Finds the pairs and entities of the parts, in tables of a window's connection, and writes the files."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._engine = StoreEngine()

    def write(self, folders: list[Path], manifests: list[dict[str, Any]]) -> None:
        """Write both parts into folders, which are emptied first."""
        window = self._window
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        window.run("CREATE TABLE pair (subject VARCHAR, property VARCHAR); CREATE TABLE changed_pair AS FROM pair")
        step("finding changes", 0, _STEPS)
        window.run_by_bucket(_CHANGED_PAIRS)
        for part in self._engine.changed_edges(window):
            window.add("edges", part)
        edits = window.select(_EDITS)
        step("finding similar subjects", 1, _STEPS)
        similar = self._add_similar(edits)
        step("finding what questions need", 2, _STEPS)
        self._add_two_hops()
        self._add_relations(edits)
        self._add_descriptions()
        self._add_containers()
        self._find_entities()
        step("writing the files", 3, _STEPS)
        for folder, manifest, name, snapshot in zip(
            folders, manifests, ("old", "new"), (window.old, window.new), strict=True
        ):
            counts = self._write_tables(folder, name, snapshot)
            if name == "new":
                pq.write_table(similar, folder / f"{SIMILAR_FACTS}.parquet", compression="zstd")
            with Window(snapshot, snapshot, spill=folder.with_suffix(".spill"), memory=_MEMORY) as alone:
                pq.write_table(_relations(alone), folder / f"{RELATIONS}.parquet", compression="zstd")
            write_json(folder / "manifest.json", manifest | counts)
            write_checksums(folder)

    def _add(self, pairs: str, **tables: pa.Table) -> None:
        self._window.run(f"INSERT INTO pair {pairs}", **tables)

    def _add_similar(self, edits: pa.Table) -> pa.Table:
        """Changed pairs, their similar subjects and the first unchanged facts; returns the measure SIMILAR_FACTS."""
        defaults = WikiBigEditSettings()
        found = self._engine.similar_subjects(
            self._window, edits, max_df=defaults.max_df, k=CANDIDATES, pool=defaults.pool
        )
        window = self._window
        for part in found.similar:
            window.add("alike", part)
        window.add("static", found.static)
        window.run("CREATE TABLE described AS SELECT DISTINCT subject FROM changed_pair")
        for table in ("alike", "static"):
            window.run(f"INSERT INTO described SELECT DISTINCT subject FROM {table}")
            self._add(f"SELECT DISTINCT subject, property FROM {table}")
        self._add("FROM changed_pair")
        return window.select(
            """
            SELECT e.subject, property, s.subject AS subject_like, object, score,
                   row_number() OVER (PARTITION BY case_id ORDER BY score DESC, s.subject) AS place
            FROM alike s JOIN edits e USING (case_id, property) ORDER BY property, e.subject, place
            """,
            edits=edits,
        )

    def _add_two_hops(self) -> None:
        """Facts by which an end of two hops follows without the edit (kgedit.timesteps.two_hops.find_shortcuts)."""
        chains = self._engine.two_hops(self._window)
        self._add(
            """
            SELECT DISTINCT bridge, second_property FROM (
                SELECT unnest(old_objects) AS bridge, second_property FROM chains c
                JOIN edges e ON e.subject = c.subject AND e.property = c.first_property
            )
            """,
            chains=chains,
        )
        self._add(
            f"""
            SELECT f.subject, f.property FROM {_BOTH} f
            SEMI JOIN chains c ON f.subject = c.subject AND f.object = c.object
            UNION
            SELECT f.subject, f.property FROM {_BOTH} f
            SEMI JOIN chains c ON f.subject = c.object AND f.object = c.subject
            WHERE f.property IN {JURISDICTION}
            """,
            chains=chains,
        )

    def _add_relations(self, edits: pa.Table) -> None:
        """Statements of properties, and facts by which relations are compared (kgedit.timesteps.locality)."""
        window = self._window
        for name in ("old", "new"):
            self._add(f"SELECT DISTINCT subject, property FROM {name}_claims WHERE subject[1] = 'P'")
        window.run(
            f"""
            CREATE TABLE sample AS
            WITH relation AS (SELECT DISTINCT property FROM related WHERE property IN (SELECT property FROM edits)
                              AND other IN (SELECT property FROM edits))
            SELECT subject, property, object FROM old_facts SEMI JOIN relation USING (property)
            QUALIFY row_number() OVER (PARTITION BY property ORDER BY md5(subject || object)) <= {RELATION_SAMPLE}
            """,
            related=related_relations(window),
            edits=edits.select(["property"]),
        )
        self._add("SELECT DISTINCT subject, property FROM sample")

    def _add_descriptions(self) -> None:
        """Classes of all subjects and objects with all classes above, and what names and dates subjects."""
        window, rules = self._window, name_rules()
        evidence = {INSTANCE_OF, COUNTRY, *(name for names in rules.evidence.values() for name in names)}
        window.run(
            f"""
            CREATE OR REPLACE TABLE pair AS SELECT DISTINCT subject, property FROM pair;
            CREATE TABLE mentioned AS SELECT DISTINCT subject AS id FROM pair;
            INSERT INTO mentioned
            SELECT DISTINCT object FROM {_BOTH} SEMI JOIN pair USING (subject, property) WHERE kind = 'item';
            INSERT INTO mentioned SELECT DISTINCT target FROM new_redirects SEMI JOIN mentioned USING (id);
            CREATE TABLE class AS
            SELECT subject AS id, object AS class_id FROM {_BOTH}
            WHERE property = '{INSTANCE_OF}' AND subject IN (FROM mentioned)
            """
        )
        self._add(f"SELECT DISTINCT id, '{INSTANCE_OF}' FROM class")
        self._add(
            f"""
            SELECT subject, property FROM {_BOTH}
            WHERE property IN {listed(sorted(evidence))} AND subject IN (FROM described)
            UNION
            SELECT subject, property FROM {_BOTH}
            WHERE property IN {listed([*BEGINNINGS, *ENDINGS])} AND subject IN (SELECT subject FROM changed_pair)
            """
        )
        classes = above("SELECT DISTINCT class_id FROM class", f"({subclass_links(_BOTH)})")
        self._add(f"SELECT id, '{SUBCLASS_OF}' FROM ({classes})")

    def _add_containers(self) -> None:
        """Add the containers of changed values, as far as kgedit.timesteps.kinds follows them."""
        window = self._window
        window.run(
            f"""
            CREATE TABLE container AS
            SELECT DISTINCT subject, property, object, property IN {listed(PARTS)} AS inward FROM {_BOTH}
            WHERE property IN {listed([*CONTAINMENT, *PARTS])} AND kind = 'item';
            CREATE TABLE inside AS
            SELECT DISTINCT object AS id, 0 AS depth FROM {_BOTH} SEMI JOIN changed_pair USING (subject, property)
            WHERE kind = 'item';
            INSERT INTO inside SELECT DISTINCT target, 0 FROM new_redirects SEMI JOIN inside USING (id);
            INSERT INTO inside SELECT DISTINCT class_id, 1 FROM class JOIN inside USING (id)
            """
        )
        for depth in range(MAX_DEPTH):
            window.run(
                f"""
                CREATE OR REPLACE TABLE outer_one AS
                SELECT object AS id FROM container c JOIN inside i ON c.subject = i.id
                WHERE NOT inward AND depth = {depth}
                UNION
                SELECT subject FROM container c JOIN inside i ON c.object = i.id WHERE inward AND depth = {depth};
                INSERT INTO inside
                SELECT id, {depth + 1} FROM outer_one ANTI JOIN (FROM inside WHERE depth <= {depth + 1}) USING (id)
                """
            )
        self._add(
            """
            SELECT subject, property FROM container SEMI JOIN inside ON subject = id WHERE NOT inward
            UNION
            SELECT subject, property FROM container SEMI JOIN inside ON object = id WHERE inward
            """
        )

    def _find_entities(self) -> None:
        """Create the final ``pair``, and ``entity``: ids of all that facts and statements of the pairs mention.

        Of an item whose label other items have, two of these are included, because a question then needs a hint.
        """
        window, old = self._window, literal(self._window.old.entities)
        chosen = "SEMI JOIN pair USING (subject, property)"
        window.run(
            """
            CREATE OR REPLACE TABLE pair AS SELECT DISTINCT subject, property FROM pair;
            CREATE TABLE entity AS SELECT subject AS id FROM pair UNION SELECT property FROM pair
            """
        )
        # One at a time: together, their hash tables of all pairs would be in memory at once.
        for ids in (
            *(f"SELECT DISTINCT object FROM {name}_facts {chosen} WHERE object[1] <> 'V'" for name in ("old", "new")),
            *(
                f"SELECT DISTINCT object FROM {name}_claims {chosen} WHERE object IS NOT NULL"
                for name in ("old", "new")
            ),
            *(f"SELECT id FROM {name}_entities WHERE kind = 'property'" for name in ("old", "new")),
            f"SELECT DISTINCT redirect_target FROM {old} SEMI JOIN entity USING (id) WHERE redirect_target IS NOT NULL",
            "SELECT DISTINCT target FROM new_redirects SEMI JOIN entity USING (id)",
            """
            SELECT id FROM new_entities WHERE kind = 'item' AND label IN (
                SELECT label FROM old_entities SEMI JOIN described ON id = subject
                UNION SELECT label FROM new_entities SEMI JOIN described ON id = subject)
            QUALIFY row_number() OVER (PARTITION BY label ORDER BY id) <= 2
            """,
        ):
            window.run(f"INSERT INTO entity {ids}")
        window.run("CREATE OR REPLACE TABLE entity AS SELECT DISTINCT id FROM entity")

    def _write_tables(self, folder: Path, name: str, snapshot: Snapshot) -> dict[str, int]:
        """Write the rows of one part; returns its counts."""
        chosen = "SEMI JOIN pair USING (subject, property)"
        queries = {
            "claims": f"FROM {name}_claims {chosen} ORDER BY subject, property, statement_id, version, restricted",
            "facts": f"FROM {name}_facts {chosen} ORDER BY subject, property, object",
            "entities": f"FROM {literal(snapshot.entities)} SEMI JOIN entity USING (id) "
            "ORDER BY redirect_target IS NOT NULL, id",
        }
        for (table, query), schema in zip(queries.items(), (CLAIMS_KEPT, FACTS, ENTITIES_KEPT), strict=True):
            with RowGroups(folder / bucket_file(table, 0, 1), schema) as file:
                reader = self._window.connection.sql(f"SELECT {', '.join(schema.names)} {query}").to_arrow_reader(
                    _ROWS_AT_ONCE
                )
                for batch in reader:
                    file.write(pa.Table.from_batches([batch]))
        counts = {
            "entities": "entities WHERE redirect_target IS NULL",
            "redirected": "entities WHERE redirect_target IS NOT NULL",
            "claims": "claims",
            "claims_with_value": "claims WHERE snak = 'value'",
            "facts": "facts",
        }
        found = {}
        for count, rows in counts.items():
            table, _, condition = rows.partition(" ")
            path = literal(folder / bucket_file(table, 0, 1))
            found[count] = self._window.select(f"SELECT count(*) AS n FROM {path} {condition}")["n"][0].as_py()
        return found


def _relations(window: Window) -> pa.Table:
    """The measure RELATIONS of the newer snapshot."""
    facts = window.select(current_relations(window))
    counts = window.select_by_bucket(read_sql("functional_counts"), asked=facts.select(["property"]))
    return window.select(
        f"""
        SELECT property, coalesce(subjects, 0) AS subjects, coalesce(single, 0) AS single,
               coalesce(stated, 0) AS stated, coalesce(dated, 0) AS dated,
               coalesce(facts, 0) AS facts, coalesce(dated_facts, 0) AS dated_facts
        FROM (
            SELECT property, sum(subjects)::BIGINT AS subjects, sum(single)::BIGINT AS single
            FROM counts GROUP BY property
        ) FULL JOIN ({stated_relations(window)}) USING (property) FULL JOIN facts USING (property)
        ORDER BY property
        """,
        counts=counts,
        facts=facts,
    )
