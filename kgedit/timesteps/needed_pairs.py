"""Finds the pairs of subject and property that an export between two snapshots reads, and the entities they mention.

Whatever grows with the dump is a table of the window's connection, which can spill, and is read by bucket where it
concerns one subject at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from kgedit.store.bucket_files import RowGroups, bucket_file
from kgedit.store.closures import CONTAINMENT, PARTS, make_above, subclass_links
from kgedit.store.engine import listed, literal
from kgedit.store.window import Window
from kgedit.timesteps.engines.store import StoreEngine, keep_two_hops
from kgedit.timesteps.export import WikiBigEditSettings
from kgedit.timesteps.kinds.snapshot_tables import BEGINNINGS, ENDINGS, MAX_DEPTH
from kgedit.timesteps.labels import SAID_ALIKE, items_named
from kgedit.timesteps.locality import CANDIDATES, RELATION_SAMPLE, related_relations
from kgedit.wikidata.ids import COUNTRY, INSTANCE_OF, JURISDICTION, SUBCLASS_OF
from kgedit.wording.names import name_rules

_ROWS_AT_ONCE = 100_000

_TABLES = """
    CREATE TABLE pair (subject VARCHAR, property VARCHAR);
    CREATE TABLE changed_pair AS FROM pair;
    CREATE TABLE described (subject VARCHAR);
    CREATE TABLE alike (
        subject VARCHAR, property VARCHAR, subject_like VARCHAR, object VARCHAR, score DOUBLE, place BIGINT);
    CREATE TABLE mentioned (id VARCHAR);
    CREATE TABLE class (id VARCHAR, class_id VARCHAR);
    CREATE TABLE subclass (inner_id VARCHAR, outer_id VARCHAR);
    CREATE TABLE container (subject VARCHAR, object VARCHAR, property VARCHAR, inward BOOLEAN);
    CREATE TABLE changed_value (id VARCHAR);
    CREATE TABLE entity (id VARCHAR);
    CREATE TABLE described_label (label VARCHAR);
    CREATE TABLE labelled (label VARCHAR, id VARCHAR);
    CREATE TABLE namesake (label VARCHAR, id VARCHAR);
    CREATE TABLE hint (label VARCHAR, hint VARCHAR, id VARCHAR)
"""

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

_SIMILAR = pa.schema(
    [
        ("subject", pa.string()),
        ("property", pa.string()),
        ("subject_like", pa.string()),
        ("object", pa.string()),
        ("score", pa.float64()),
        ("place", pa.int64()),
    ]
)


def write_needed(
    window: Window, folder: Path, similar: Path, *, settings: WikiBigEditSettings, begin: Callable[[str], None]
) -> None:
    """Write the pairs and the entities, each in a file per bucket of the window, sorted and without repetitions.

    Args:
        window: Both snapshots; tables are created in its connection.
        folder: Gets the files ``pairs`` (subject and property) and ``entities`` (id), named by `bucket_file`.
        similar: File of the measure SIMILAR_FACTS (kgedit.store.snapshots), to write.
        settings: With the `max_df` and `pool` of the measure.
        begin: Called with the name of each step.
    """
    finding = _Finding(window)
    begin("finding changes")
    finding.add_changes()
    begin("finding similar subjects")
    finding.add_similar(settings)
    finding.write_similar(similar)
    begin("finding what questions need")
    finding.add_two_hops()
    finding.add_relations()
    finding.add_descriptions()
    finding.add_containers()
    finding.add_namesakes()
    finding.write_pairs(folder)
    finding.write_entities(folder)


class _Finding:
    """Fills the tables of a window's connection, one kind of needed pairs after the other."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._engine = StoreEngine()
        window.run(_TABLES)

    def add_changes(self) -> None:
        """Changed pairs, and the table ``edges``."""
        window = self._window
        window.run_by_bucket(_CHANGED_PAIRS)
        for part in self._engine.changed_edges(window):
            window.add("edges", part)
        window.run("INSERT INTO pair FROM changed_pair; INSERT INTO described SELECT DISTINCT subject FROM pair")

    def add_similar(self, settings: WikiBigEditSettings) -> None:
        """Similar subjects of each edit, in the table ``alike``, and the first unchanged facts of its relation."""
        window = self._window
        found = self._engine.similar_subjects(window, _EDITS, max_df=settings.max_df, k=CANDIDATES, pool=settings.pool)
        for part in found.similar:
            # A part has all rows of its edits.
            window.run(
                """
                INSERT INTO alike
                SELECT split_part(case_id, ':', 1), property, subject, object, score,
                       row_number() OVER (PARTITION BY case_id ORDER BY score DESC, subject)
                FROM part
                """,
                part=part,
            )
        for table in ("(SELECT subject_like AS subject, property FROM alike)", "static"):
            window.run(
                f"""
                INSERT INTO described SELECT DISTINCT subject FROM {table};
                INSERT INTO pair SELECT DISTINCT subject, property FROM {table}
                """,
                static=found.static,
            )

    def write_similar(self, path: Path) -> None:
        """Write the measure SIMILAR_FACTS."""
        rows = self._window.connection.sql("FROM alike ORDER BY property, subject, place")
        with RowGroups(path, _SIMILAR) as file:
            for batch in rows.to_arrow_reader(_ROWS_AT_ONCE):
                file.write(pa.Table.from_batches([batch]))
        self._window.drop("alike")

    def add_two_hops(self) -> None:
        """Facts by which an end of two hops follows without the edit (kgedit.timesteps.chains.find_shortcuts)."""
        window = self._window
        keep_two_hops(window)
        window.run(
            """
            INSERT INTO pair
            SELECT DISTINCT bridge, second_property FROM (
                SELECT unnest(old_objects) AS bridge, second_property FROM two_hop c
                JOIN edges e ON e.subject = c.subject AND e.property = c.first_property
            );
            CREATE TABLE two_ends AS
            SELECT DISTINCT subject, object, false AS backward FROM two_hop
            UNION ALL SELECT DISTINCT object, subject, true FROM two_hop;
            -- Facts of merged items are changed pairs. Those about them may be in both snapshots.
            INSERT INTO two_ends
            SELECT subject, id, backward FROM two_ends JOIN new_redirects ON target = object
            """
        )
        window.run_by_bucket(
            f"""
            INSERT INTO pair
            SELECT DISTINCT subject, property FROM {_BOTH} JOIN two_ends USING (subject, object)
            WHERE NOT backward OR property IN {JURISDICTION}
            """,
            divided={"two_ends": "subject"},
        )
        window.drop("two_hop", "two_ends")

    def add_relations(self) -> None:
        """Statements of properties, and facts by which relations are compared (kgedit.timesteps.locality)."""
        window = self._window
        for name in ("old", "new"):
            window.run(f"INSERT INTO pair SELECT DISTINCT subject, property FROM {name}_claims WHERE subject[1] = 'P'")
        window.run(
            f"""
            INSERT INTO pair
            WITH relation AS (
                SELECT DISTINCT property FROM related
                WHERE property IN (FROM edited) AND other IN (FROM edited)
            ), sample AS (
                -- The least of all, instead of a window, which would hold every fact of the relations.
                SELECT property,
                       unnest(min(struct_pack(place := md5(subject || object), subject), {RELATION_SAMPLE})) AS fact
                FROM old_facts SEMI JOIN relation USING (property) GROUP BY property
            )
            SELECT DISTINCT fact.subject, property FROM sample
            """,
            related=related_relations(window),
            edited=window.select(f"SELECT DISTINCT property FROM ({_EDITS})"),
        )
        window.drop("edges")

    def add_descriptions(self) -> None:
        """Classes of all subjects and objects with all classes above, and what names and dates subjects."""
        window, rules = self._window, name_rules()
        evidence = {INSTANCE_OF, COUNTRY, *(name for names in rules.evidence.values() for name in names)}
        window.run_by_bucket(
            f"""
            INSERT INTO mentioned SELECT DISTINCT subject FROM pair;
            INSERT INTO mentioned
            SELECT DISTINCT object FROM {_BOTH} SEMI JOIN pair USING (subject, property) WHERE kind = 'item';
            INSERT INTO changed_value
            SELECT DISTINCT object FROM {_BOTH} SEMI JOIN changed_pair USING (subject, property) WHERE kind = 'item';
            INSERT INTO subclass SELECT DISTINCT * FROM ({subclass_links(_BOTH)});
            INSERT INTO container
            SELECT DISTINCT subject, object, property, property IN {listed(PARTS)} FROM {_BOTH}
            WHERE property IN {listed([*CONTAINMENT, *PARTS])} AND kind = 'item'
            """,
            divided={"pair": "subject", "changed_pair": "subject"},
        )
        window.run("INSERT INTO mentioned SELECT DISTINCT target FROM new_redirects SEMI JOIN mentioned USING (id)")
        window.run_by_bucket(
            f"""
            INSERT INTO class
            SELECT DISTINCT subject, object FROM {_BOTH}
            WHERE property = '{INSTANCE_OF}' AND subject IN (FROM mentioned);
            INSERT INTO main.pair
            SELECT subject, property FROM {_BOTH}
            WHERE property IN {listed(sorted(evidence))} AND subject IN (FROM described)
            UNION
            SELECT subject, property FROM {_BOTH}
            WHERE property IN {listed([*BEGINNINGS, *ENDINGS])} AND subject IN (SELECT subject FROM changed_pair)
            """,
            divided={"mentioned": "id", "described": "subject", "changed_pair": "subject"},
        )
        make_above(window.connection, ids="SELECT class_id FROM class", links="subclass")
        window.run(
            f"""
            INSERT INTO pair SELECT DISTINCT id, '{INSTANCE_OF}' FROM class;
            INSERT INTO pair SELECT id, '{SUBCLASS_OF}' FROM above
            """
        )
        window.drop("mentioned", "subclass", "above", "changed_pair")

    def add_containers(self) -> None:
        """Containers of changed values, as far as kgedit.timesteps.kinds follows them."""
        window = self._window
        window.run(
            """
            CREATE TABLE inside AS SELECT DISTINCT id, 0 AS depth FROM changed_value;
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
        window.run(
            """
            INSERT INTO pair
            SELECT subject, property FROM container SEMI JOIN inside ON subject = id WHERE NOT inward
            UNION
            SELECT subject, property FROM container SEMI JOIN inside ON object = id WHERE inward
            """
        )
        window.drop("changed_value", "inside", "outer_one", "container", "class")

    def add_namesakes(self) -> None:
        """Of the items with the label of a described subject, two with each country and with each description, with
        their countries: by them, an export finds which hints are shared (kgedit.timesteps.labels)."""
        window = self._window
        labels = " UNION ".join(
            f"SELECT label FROM {name}_entities SEMI JOIN described ON id = subject" for name in ("old", "new")
        )
        window.run_by_bucket(f"INSERT INTO described_label {labels}", divided={"described": "subject"})
        window.run(f"INSERT INTO labelled SELECT label, id FROM ({items_named('FROM described_label')})")
        window.run_by_bucket(
            """
            INSERT INTO main.namesake
            SELECT label, id FROM labelled
            SEMI JOIN (SELECT label FROM labelled GROUP BY label HAVING min(id) <> max(id)) USING (label)
            """,
            divided={"labelled": "label"},
        )
        window.run_by_bucket(
            f"""
            INSERT INTO main.hint
            SELECT label, '', id FROM namesake
            UNION
            SELECT label, object, id FROM {_BOTH} JOIN namesake ON subject = id WHERE property = '{COUNTRY}'
            UNION
            SELECT n.label, {SAID_ALIKE}, id
            FROM (SELECT id, description FROM old_entities UNION ALL SELECT id, description FROM new_entities)
            JOIN namesake n USING (id) WHERE description IS NOT NULL
            """,
            divided={"namesake": "id"},
        )
        window.run_by_bucket(
            f"INSERT INTO main.pair SELECT unnest(min(id, 2)), '{COUNTRY}' FROM hint GROUP BY label, hint",
            divided={"hint": "label"},
        )
        window.drop("described", "described_label", "labelled", "namesake", "hint")

    def write_pairs(self, folder: Path) -> None:
        """Write the pairs by bucket, and find ids that their facts and statements mention."""
        window, chosen = self._window, "SEMI JOIN pair USING (subject, property)"
        ids = [
            "SELECT subject FROM pair UNION SELECT property FROM pair",
            *(f"SELECT DISTINCT object FROM {name}_facts {chosen} WHERE object[1] <> 'V'" for name in ("old", "new")),
            *(
                f"SELECT DISTINCT object FROM {name}_claims {chosen} WHERE object IS NOT NULL"
                for name in ("old", "new")
            ),
            *(f"SELECT id FROM {name}_entities WHERE kind = 'property'" for name in ("old", "new")),
        ]
        for group in window.buckets({"pair": "subject"}):
            path = folder / bucket_file("pairs", group.number, group.of)
            window.run(f"COPY (SELECT DISTINCT * FROM pair ORDER BY ALL) TO {literal(path)} (FORMAT parquet)")
            # One at a time: together, their hash tables of all pairs would be in memory at once.
            for found in ids:
                window.run(f"INSERT INTO entity {found}")
        window.drop("pair")

    def write_entities(self, folder: Path) -> None:
        """Write the ids of all that facts and statements of the pairs mention, by bucket."""
        window = self._window
        for ids in (
            f"""
            SELECT DISTINCT redirect_target FROM {literal(window.old.entities)} SEMI JOIN entity USING (id)
            WHERE redirect_target IS NOT NULL
            """,
            "SELECT DISTINCT target FROM new_redirects SEMI JOIN entity USING (id)",
        ):
            window.run(f"INSERT INTO entity {ids}")
        for group in window.buckets({"entity": "id"}):
            path = folder / bucket_file("entities", group.number, group.of)
            window.run(f"COPY (SELECT DISTINCT id FROM entity ORDER BY id) TO {literal(path)} (FORMAT parquet)")
