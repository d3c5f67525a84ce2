"""DuckDB tables for computing the signals of changes, from two snapshots and any earlier ones.

Rows of changes are found in all of the snapshots at once, in tables that can spill. Joining these to pairs of values
takes a dozen hash tables in memory together, and is done for one part of the changes after the other.

Some properties have values that rarely begin within a window, or date an entity; they are listed first, with Wikidata's
labels. A birthplace entered today was always true.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from kgedit.errors import TimestepError
from kgedit.store.closures import containment_links, make_reached
from kgedit.store.engine import listed, literal
from kgedit.store.facts import TERM
from kgedit.store.parts import keep_in_parts, of_part
from kgedit.store.snapshots import Snapshot
from kgedit.wikidata.ids import INSTANCE_OF

FIXED_AT_BEGINNING: dict[str, str] = {
    "P19": "place of birth",
    "P21": "sex or gender",
    "P22": "father",
    "P25": "mother",
    "P50": "author",
    "P53": "family",
    "P57": "director",
    "P58": "screenwriter",
    "P61": "discoverer or inventor",
    "P84": "architect",
    "P86": "composer",
    "P103": "native language",
    "P110": "illustrator",
    "P112": "founded by",
    "P136": "genre",
    "P144": "based on",
    "P162": "producer",
    "P170": "creator",
    "P171": "parent taxon",
    "P172": "ethnic group",
    "P279": "subclass of",
    "P364": "original language of film or TV show",
    "P407": "language of work or name",
    "P495": "country of origin",
    "P569": "date of birth",
    "P571": "inception",
    "P577": "publication date",
    "P676": "lyrics by",
    "P734": "family name",
    "P735": "given name",
    "P740": "location of formation",
    "P1071": "location of creation",
    "P1477": "birth name",
    "P3373": "sibling",
}
"""True since the entity began."""

FIXED_AT_END: dict[str, str] = {
    "P20": "place of death",
    "P119": "place of burial",
    "P157": "killed by",
    "P509": "cause of death",
    "P570": "date of death",
    "P576": "dissolved, abolished or demolished date",
    "P1196": "manner of death",
    "P4602": "date of burial or cremation",
}
"""True since the entity ended."""

SLOW: dict[str, str] = {
    "P27": "country of citizenship",
    "P31": "instance of",
    "P69": "educated at",
    "P101": "field of work",
    "P106": "occupation",
    "P140": "religion or worldview",
    "P155": "follows",
    "P413": "position played on team / speciality",
    "P512": "academic degree",
    "P641": "sport",
    "P1303": "instrument",
    "P1365": "replaces",
    "P1412": "languages spoken, written or signed",
}
"""True since some time in an entity's life, rarely within a window of a few months; mostly entered late."""

BEGINNINGS: dict[str, str] = {
    "P569": "date of birth",
    "P571": "inception",
    "P575": "time of discovery or invention",
    "P577": "publication date",
    "P580": "start time",
    "P585": "point in time",
    "P1619": "date of official opening",
    "P6949": "announcement date",
}
"""Start of an entity (WikiFactDiff, section 4.2); the earliest of several dates counts."""

ENDINGS: dict[str, str] = {
    "P570": "date of death",
    "P576": "dissolved, abolished or demolished date",
}
"""End of an entity."""


MAX_VALUES = 30
"""Maximum number of values per side that are compared; of more values, the first ones by id are used."""

MAX_DEPTH = 8
"""Maximum number of steps from a value to the places and classes that contain it."""


@dataclass(frozen=True, slots=True)
class WindowChanges:
    """Changes between two snapshots, and the snapshots that their kinds are determined from.

    Attributes:
        old: The older snapshot: its facts, claims and entities are read.
        new: The newer snapshot.
        earlier: All loaded snapshots older than `old`, in any order; without any, no change is a revert.
        changes: One row per subject and property with the columns CHANGES: ``subject``, ``property``, ``old_objects``
            and ``new_objects`` (lists of ids; a literal is the V... id that it has in facts.parquet). Other columns
            are ignored. Objects may be resolved by redirects or not.
    """

    old: Snapshot
    new: Snapshot
    earlier: Sequence[Snapshot]
    changes: pa.Table


def make_tables(connection: duckdb.DuckDBPyConnection, of: WindowChanges) -> None:
    """Create the tables change, old_held, new_held, old_stated, new_stated, held_earlier, subject_dates, contained and
    near, and those that `parts_of_pairs` reads.

    Args:
        connection: Connection with the macros.
        of: The changes, with columns CHANGES only, and their snapshots.

    Raises:
        TimestepError: if a subject and property occur twice.
    """
    _make_views(connection, of.old, of.new)
    _make_known(connection, (of.old, of.new))
    _make_changes(connection, of.changes)
    _make_held(connection, of.earlier)
    _make_stated(connection)
    _make_names(connection)
    _make_contained(connection)
    _make_subject_dates(connection)


_CHANGES_AT_ONCE = 20_000
"""Changes of a part: joining 140,000 of them at once takes more than 192 MB."""

_BY_SUBJECT = (
    *("change", "compared", "held_earlier", "subject_dates"),
    *(f"{name}_{rows}" for name in ("old", "new") for rows in ("held", "stated")),
)
_BY_ID = {
    **dict.fromkeys(("named", "redirect", "class_list", "around"), "id"),
    "contained": "inner_id",
    "near": "old_object",
}
"""Tables of entities -> their column of ids that changes mention."""


def parts_of_pairs(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Restrict the tables of `make_tables` to one part of the changes after the other, with their table ``pair``.

    Args:
        connection: Connection with these tables, which are dropped if there are several parts.
    """
    changes = connection.execute("SELECT count(*) FROM change").fetchall()[0][0]
    parts = max(1, -(-changes // _CHANGES_AT_ONCE))
    if parts == 1:
        _make_pairs(connection)
        yield
        return
    for name in _BY_SUBJECT:
        keep_in_parts(
            connection, f"{name}_in_parts", f"SELECT *, (hash(subject) % {parts})::INTEGER AS part FROM {name}"
        )
    connection.execute(
        """
        CREATE TABLE mentioned AS
        SELECT DISTINCT part, unnest([old_object, new_object, property]) AS mentioned FROM compared_in_parts
        """
    )
    for name, column in _BY_ID.items():
        rows = f"SELECT {name}.*, part FROM {name} JOIN mentioned ON mentioned = {column}"
        keep_in_parts(connection, f"{name}_in_parts", rows)
    for name in (*_BY_SUBJECT, *_BY_ID):
        connection.execute(f"DROP TABLE {name}")
    for part in range(parts):
        for name in (*_BY_SUBJECT, *_BY_ID):
            connection.execute(f"CREATE OR REPLACE TABLE {name} AS {of_part(f'{name}_in_parts', part)}")
        _make_pairs(connection)
        yield


def make_tables_of_values(
    connection: duckdb.DuckDBPyConnection, snapshots: Sequence[Snapshot], values: pa.Table
) -> None:
    """Create the tables pair, contained and near of pairs of values that need not be in any snapshot.

    Args:
        connection: Connection with the macros.
        snapshots: Sources of data about the values, in any order; the latest label is used.
        values: Columns VALUES and ``row_``; only ids in old_object and new_object are looked up.
    """
    _make_known(connection, sorted(snapshots, key=lambda snapshot: snapshot.date))
    connection.register("values_given", values)
    connection.execute("CREATE TABLE compared AS FROM values_given")
    connection.unregister("values_given")
    _make_names(connection)
    _make_contained(connection)
    words = ("text", "description", "classes")
    sides = ", ".join(f"{_side(side)}, {', '.join(f'k.{side}_{name}' for name in _LITERAL)}" for side in ("old", "new"))
    given = ", ".join(
        f"coalesce(k.{side}_{name}, p.{side}_{name}) AS {side}_{name}" for side in ("old", "new") for name in words
    )
    connection.execute(
        f"""
        CREATE TABLE pair AS
        WITH looked_up AS (
            SELECT k.row_, {sides} FROM compared k {_joins("old")} {_joins("new")})
        SELECT p.* REPLACE ({given}), k.subject, k.property, k.property_label, k.value_type
        FROM looked_up p JOIN compared k USING (row_)
        """
    )


def _make_views(connection: duckdb.DuckDBPyConnection, old: Snapshot, new: Snapshot) -> None:
    for name, snapshot in (("old", old), ("new", new)):
        for part, path in (("facts", snapshot.facts), ("claims", snapshot.claims), ("entities", snapshot.entities)):
            connection.execute(f"CREATE VIEW {name}_{part} AS SELECT * FROM {literal(path)}")


def _make_known(connection: duckdb.DuckDBPyConnection, snapshots: Sequence[Snapshot]) -> None:
    """Create views ``known_facts`` and ``known_entities`` of all snapshots, oldest first, and table ``redirect``."""
    facts = " UNION ALL ".join(
        f"SELECT subject, property, object FROM {literal(snapshot.facts)}" for snapshot in snapshots
    )
    entities = " UNION ALL ".join(
        f"SELECT id, label, description, aliases, redirect_target, {-number} AS age FROM {literal(snapshot.entities)}"
        for number, snapshot in enumerate(snapshots)
    )
    connection.execute(f"CREATE VIEW known_facts AS {facts}")
    connection.execute(f"CREATE VIEW known_entities AS {entities}")
    connection.execute(
        """
        CREATE TABLE redirect AS
        SELECT id, any_value(redirect_target ORDER BY age) AS target FROM known_entities
        WHERE redirect_target IS NOT NULL GROUP BY id
        """
    )


def _make_changes(connection: duckdb.DuckDBPyConnection, changes: pa.Table) -> None:
    connection.register("changes_given", changes)
    connection.execute(
        """
        CREATE TABLE change AS
        SELECT subject, property,
               list_sort(list_filter(old_objects, lambda x: NOT list_contains(new_objects, x))) AS gone_objects,
               list_sort(list_filter(new_objects, lambda x: NOT list_contains(old_objects, x))) AS added_objects
        FROM (SELECT subject, property, coalesce(old_objects, []) AS old_objects,
                     coalesce(new_objects, []) AS new_objects FROM changes_given)
        """
    )
    connection.unregister("changes_given")
    twice = connection.execute(
        "SELECT subject, property FROM change GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL LIMIT 1"
    ).fetchone()
    if twice is not None:
        raise TimestepError(f"The changes have two rows for {twice[0]} and {twice[1]}; give one row with all values.")
    connection.execute(
        f"""
        CREATE TABLE compared AS
        SELECT subject, property, unnest(CASE WHEN gone_objects = [] THEN [NULL] ELSE gone_objects[:{MAX_VALUES}] END)
               AS old_object, added_objects FROM change
        """
    )
    connection.execute(
        f"""
        CREATE OR REPLACE TABLE compared AS
        SELECT subject, property, old_object,
               unnest(CASE WHEN added_objects = [] THEN [NULL] ELSE added_objects[:{MAX_VALUES}] END) AS new_object
        FROM compared
        """
    )


def _make_held(connection: duckdb.DuckDBPyConnection, earlier: Sequence[Snapshot]) -> None:
    """Facts of the changed subjects and properties, with redirects resolved."""
    for name in ("old", "new"):
        connection.execute(
            f"""
            CREATE TABLE {name}_held AS
            WITH chosen AS (FROM {name}_facts SEMI JOIN change USING (subject, property)),
            stated AS (
                SELECT statement_place, unnest(coalesce(statement_places, [statement_place])) AS place FROM chosen
            ), ids AS (
                SELECT statement_place, list(statement_id) AS statement_ids,
                       any_value(statement_id) FILTER (place = statement_place) AS statement_id
                FROM stated JOIN (SELECT place, statement_id FROM {name}_claims) USING (place) GROUP BY ALL
            )
            SELECT f.* REPLACE (coalesce(r.target, f.object) AS object), statement_ids,
                   CASE WHEN value_type = 'time' THEN first_day(value, precision::BIGINT) END AS value_first,
                   CASE WHEN value_type = 'time' THEN last_day(value, precision::BIGINT) + 1 END AS value_until
            FROM chosen f JOIN ids USING (statement_place) LEFT JOIN redirect r ON r.id = f.object
            QUALIFY row_number() OVER (PARTITION BY subject, property, coalesce(r.target, f.object)
                                       ORDER BY statement_id) = 1
            """
        )
    # One scan of all files: a join for each snapshot keeps its own hash table, and 90 of them fill the memory.
    files = ", ".join(literal(snapshot.facts) for snapshot in earlier)
    facts = f"read_parquet([{files}])" if earlier else "(FROM old_facts LIMIT 0)"
    connection.execute(
        f"""
        CREATE TABLE held_earlier AS
        SELECT DISTINCT subject, property, coalesce(target, object) AS object
        FROM {facts} SEMI JOIN change USING (subject, property) LEFT JOIN redirect ON redirect.id = object
        """
    )


def _make_stated(connection: duckdb.DuckDBPyConnection) -> None:
    """All statements of the changed subjects and properties, current or not, by value."""
    for name in ("old", "new"):
        connection.execute(
            f"""
            CREATE TABLE {name}_stated AS
            SELECT subject, property, coalesce(target, term) AS object, bool_and(rank = 'deprecated') AS deprecated,
                   bool_or(rank = 'preferred') AS preferred,
                   max(end_first) AS end_first, max(end_until) AS end_until,
                   bool_or(end_precision IS NOT NULL) AS ended
            FROM (SELECT *, {TERM} AS term FROM {name}_claims SEMI JOIN change USING (subject, property))
            LEFT JOIN redirect ON redirect.id = term
            WHERE term IS NOT NULL GROUP BY ALL
            """
        )


def _make_names(connection: duckdb.DuckDBPyConnection) -> None:
    """Create ``class_of`` and ``named``: classes of the compared entities; labels of them, classes and properties."""
    connection.execute(
        f"""
        CREATE TABLE class_of AS
        SELECT DISTINCT subject AS id, object AS class_id FROM known_facts
        WHERE property = '{INSTANCE_OF}'
          AND subject IN (SELECT old_object FROM compared UNION SELECT new_object FROM compared)
        """
    )
    connection.execute(
        """
        CREATE TABLE named AS
        WITH needed AS (SELECT old_object AS id FROM compared UNION SELECT new_object FROM compared
                        UNION SELECT property FROM compared UNION SELECT class_id FROM class_of)
        SELECT id, any_value(label ORDER BY age) AS label, any_value(description ORDER BY age) AS description,
               any_value(aliases ORDER BY age) AS aliases
        FROM known_entities SEMI JOIN needed USING (id) GROUP BY id
        """
    )
    connection.execute(
        """
        CREATE TABLE class_list AS
        SELECT class_of.id, list(class_id ORDER BY class_id) AS class_ids,
               string_agg(label, chr(10) ORDER BY class_id) AS classes
        FROM class_of LEFT JOIN named ON named.id = class_id GROUP BY class_of.id
        """
    )


def _make_contained(connection: duckdb.DuckDBPyConnection) -> None:
    """Create ``reached`` (containers of each compared entity), ``contained`` (compared pairs among them) and ``near``.

    ``near`` has each compared pair with a common container: the number of common containers, the number of containers
    of either value, and the steps between both through the nearest one.
    """
    connection.execute(
        f"""
        CREATE TABLE container AS SELECT DISTINCT inner_id, outer_id FROM ({containment_links("known_facts")})
        """
    )
    first = """
        WITH start AS (SELECT old_object AS id FROM compared WHERE new_object IS NOT NULL
                       UNION SELECT new_object FROM compared WHERE old_object IS NOT NULL)
        SELECT inner_id, outer_id FROM (FROM container UNION ALL FROM class_of) AS step(inner_id, outer_id)
        WHERE inner_id IN (FROM start)
    """
    make_reached(connection, first=first, links="container", depth=MAX_DEPTH)
    connection.execute(
        """
        CREATE TABLE contained AS
        SELECT inner_id, outer_id, min(depth) AS depth FROM reached SEMI JOIN (
            SELECT new_object AS inner_id, old_object AS outer_id FROM compared
            UNION SELECT old_object, new_object FROM compared) USING (inner_id, outer_id)
        GROUP BY inner_id, outer_id
        """
    )
    connection.execute(
        """
        CREATE TABLE around AS
        SELECT inner_id AS id, count(*) AS containers, inner_id IN (SELECT inner_id FROM container) AS linked
        FROM reached GROUP BY inner_id;
        CREATE TABLE near AS
        SELECT old_object, new_object, count(*) AS shared, min(a.depth + b.depth) AS steps
        FROM (SELECT DISTINCT old_object, new_object FROM compared) k
        JOIN reached a ON a.inner_id = old_object JOIN reached b ON b.inner_id = new_object AND b.outer_id = a.outer_id
        GROUP BY ALL
        """
    )


_LITERAL = ("unit", "language", "precision", "calendar")


def _side(side: str, *, value: str = "NULL") -> str:
    """SQL of columns of one side of a pair that are looked up by its id, from the joins of _joins."""
    return f"""
        {side}_object, coalesce({side}_name.label, {value}) AS {side}_text,
        {side}_name.description AS {side}_description,
        list_transform(list_prepend({side}_name.label, coalesce({side}_name.aliases, [])), lambda x: name_of(x))
            AS {side}_names,
        coalesce({side}_class.class_ids, []) AS {side}_class_ids, {side}_class.classes AS {side}_classes,
        coalesce({side}_redirect.target, {side}_object) AS {side}_target,
        {side}_around.containers AS {side}_containers, coalesce({side}_around.linked, false) AS {side}_linked
    """


def _joins(side: str) -> str:
    return f"""
        LEFT JOIN named {side}_name ON {side}_name.id = {side}_object
        LEFT JOIN redirect {side}_redirect ON {side}_redirect.id = {side}_object
        LEFT JOIN class_list {side}_class ON {side}_class.id = {side}_object
        LEFT JOIN around {side}_around ON {side}_around.id = {side}_object
    """


def _make_pairs(connection: duckdb.DuckDBPyConnection) -> None:
    """Create ``pair``: each added value with each removed one, as text, and with the inputs of signals from both."""
    sides = ", ".join(
        f"{_side(side, value=f'{side}.value')}, {', '.join(f'{side}.{name} AS {side}_{name}' for name in _LITERAL)}"
        for side in ("old", "new")
    )
    joins = " ".join(
        f"""
        LEFT JOIN {side}_held {side} ON {side}.subject = k.subject AND {side}.property = k.property
                                    AND {side}.object = {side}_object
        {_joins(side)}
        """
        for side in ("old", "new")
    )
    connection.execute(
        f"""
        CREATE OR REPLACE TABLE pair AS
        SELECT k.subject, k.property, coalesce(property_name.label, k.property) AS property_label,
               CASE WHEN old_object[1] = 'Q' AND new_object[1] = 'Q' THEN 'item'
                    WHEN old.value_type = new.value_type THEN new.value_type END AS value_type, {sides}
        FROM compared k LEFT JOIN named property_name ON property_name.id = k.property {joins}
        """
    )


def _make_subject_dates(connection: duckdb.DuckDBPyConnection) -> None:
    """Create ``subject_dates``: start and end of each changed subject, from the newer snapshot."""
    dates = "first_day(value, precision::BIGINT) AS first, last_day(value, precision::BIGINT) + 1 AS until"
    connection.execute(
        f"""
        CREATE TABLE subject_dates AS
        WITH dated AS (
            SELECT subject, property IN {listed(ENDINGS)} AS is_end, {dates}
            FROM new_facts SEMI JOIN change USING (subject)
            WHERE value_type = 'time' AND property IN {listed([*BEGINNINGS, *ENDINGS])}
        )
        SELECT subject, min(first) FILTER (NOT is_end) AS began_first, min(until) FILTER (NOT is_end) AS began_until,
               max(first) FILTER (is_end) AS ended_first, max(until) FILTER (is_end) AS ended_until
        FROM dated GROUP BY subject
        """
    )
