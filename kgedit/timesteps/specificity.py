"""Specificity of cases: page views of the subject and the object, and their counts in a corpus.

Source: WikiBigEdit, section 3.3 and appendix B.4 ("specificity"); lower numbers mean higher specificity. Page views are
those of the year before the newer snapshot, from Wikimedia's monthly files (``pageviews-YYYYMM-user``, plain or .bz2 or
.gz): project, title, page id, access, views of the month, and views of each day, separated by spaces.

Counts come from a table, or are counted in texts, which are read once, in memory that depends on the names alone. A
name is counted if its words are consecutive and have the same capitals, similar to how infini-gram counts a corpus.
Names may overlap: "New York" also counts for "York". Punctuation and line breaks between words are ignored. In a script
without spaces, a name is found only if no letter is next to it.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from kgedit.checksums import sha256_of
from kgedit.errors import SourceError, TimestepError
from kgedit.records.cases import SPECIFICITY

MONTHS = 12
"""The year before the newer snapshot, over which WikiFactDiff measures popularity."""

_NAME = re.compile(r"pageviews-(\d{4})(\d\d)-user(\.[a-z0-9]+)?")
_COLUMNS = ["project", "title", "page", "access", "views", "days"]


def months_before(date: int, months: int = MONTHS) -> list[int]:
    """Months before that of a day number, as yyyymm, oldest first.

    >>> months_before(20230227, 3)
    [202211, 202212, 202301]
    """
    last = date // 10000 * 12 + date // 100 % 100 - 1
    return [month // 12 * 100 + month % 12 + 1 for month in range(last - months, last)]


def month_of(path: Path) -> int:
    """Month of a file of page views, as yyyymm.

    Raises:
        TimestepError: if its name contains none.
    """
    match = _NAME.fullmatch(path.name)
    if match is None or not 1 <= int(match[2]) <= 12:
        raise TimestepError(
            f"{path} is not a file of page views. Its name must be pageviews-YYYYMM-user, as Wikimedia's."
        )
    return int(match[1] + match[2])


def project_of(wiki: str) -> str:
    """Name of a Wikipedia in the files: enwiki is en.wikipedia.

    Raises:
        TimestepError: if it is not a Wikipedia.
    """
    if not re.fullmatch(r"[a-z_]+wiki", wiki):
        raise TimestepError(f"Page views are those of a Wikipedia; the snapshots know articles of '{wiki}'.")
    return wiki.removesuffix("wiki").replace("_", "-") + ".wikipedia"


def read_page_views(path: Path, project: str) -> tuple[pa.Table, dict[str, int]]:
    """Read the views of the articles of a project in one month.

    Args:
        path: A file of page views, read as a stream.
        project: Project, such as "en.wikipedia".

    Returns:
        Columns title (with spaces) and views, one row per title and type of access; and rows read, kept and unreadable.

    Raises:
        SourceError: if the file cannot be read.
    """
    unreadable = 0

    def skip(_row: pcsv.InvalidRow) -> str:
        nonlocal unreadable
        unreadable += 1
        return "skip"

    options = {
        "read_options": pcsv.ReadOptions(column_names=_COLUMNS, use_threads=False),
        "parse_options": pcsv.ParseOptions(delimiter=" ", quote_char=False, invalid_row_handler=skip),
        "convert_options": pcsv.ConvertOptions(
            column_types=dict.fromkeys(_COLUMNS, pa.string()), include_columns=["project", "title", "views"]
        ),
    }
    kept, read = [], 0
    try:
        with pa.input_stream(str(path)) as stream:
            for batch in pcsv.open_csv(stream, **options):
                read += batch.num_rows
                own = batch.filter(pc.equal(batch["project"], project))
                counted = own.filter(pc.match_substring_regex(own["views"], r"^\d{1,15}$"))
                unreadable += own.num_rows - counted.num_rows
                titles = pc.replace_substring(counted["title"], "_", " ")
                kept.append(pa.table({"title": titles, "views": counted["views"].cast(pa.int64())}))
    except (OSError, pa.ArrowInvalid) as error:
        raise SourceError(f"The page views {path} cannot be read: {error}. Get the file again.") from error
    empty = pa.table({"title": pa.array([], pa.string()), "views": pa.array([], pa.int64())})
    table = pa.concat_tables([empty, *kept])
    return table, {"read": read, "kept": table.num_rows, "unreadable": unreadable}


def read_viewed(
    connection: duckdb.DuckDBPyConnection, files: Sequence[Path], *, items: str, wiki: str, date: int
) -> dict[str, object]:
    """Create ``viewed`` (month, id, views) and ``viewed_month`` (month): views of the articles of items.

    Args:
        connection: Connection for the tables.
        files: One per month; those outside the year before `date` are left out.
        items: SQL relation of the items: id and wiki_title.
        wiki: Wiki of the titles in the snapshots, such as "enwiki".
        date: Day number of the newer snapshot.

    Returns:
        Months used, files left out, and rows read, kept and unreadable.

    Raises:
        TimestepError: if a month is given twice, or a file's name has no month.
        SourceError: if a file cannot be read.
    """
    months = {month_of(path): path for path in files}
    if len(months) < len(files):
        raise TimestepError("Two files of page views are of one month. Give each month once.")
    wanted = [month for month in months_before(date) if month in months]
    rows = {"read": 0, "kept": 0, "unreadable": 0}
    connection.execute("CREATE TABLE viewed (month INTEGER, id VARCHAR, views BIGINT)")
    connection.execute("CREATE TABLE viewed_month AS SELECT unnest(?::INTEGER[]) AS month", [wanted])
    for month in wanted:
        table, counts = read_page_views(months[month], project_of(wiki))
        rows = {name: rows[name] + counts[name] for name in rows}
        connection.register("views", table)
        connection.execute(
            f"INSERT INTO viewed SELECT ?, id, sum(views) FROM views JOIN {items} ON wiki_title = title GROUP BY id",
            [month],
        )
        connection.unregister("views")
    return {"months": wanted, "files left out": len(files) - len(wanted), "rows": rows}


def measure_specificity(
    connection: duckdb.DuckDBPyConnection, cases: pa.Table, *, counts: Path | None
) -> tuple[pa.Table, dict[str, Any]]:
    """Compute the columns of SPECIFICITY for cases.

    Args:
        connection: Connection with ``known`` (id, wiki_title) and, if page views were given, ``viewed`` and
            ``viewed_month`` (kgedit.timesteps.specificity).
        cases: Cases with case_id, subject, object and their labels.
        counts: Counts of a corpus, or its texts (kgedit.timesteps.specificity); None leaves counts null.

    Returns:
        case_id and the four columns, in the order of cases, null if unknown; and for the manifest the number of cases
        with each, empty if nothing was measured.
    """
    sides = cases.select(["case_id", "subject", "subject_label", "object", "object_label"])
    corpus = _read_counts(counts, sides)
    counted = pa.table(
        {"name": pa.array(list(corpus), pa.string()), "count": pa.array(list(corpus.values()), pa.int64())}
    )
    connection.register("sides", sides)
    connection.register("counted", counted)
    try:
        found: pa.Table = connection.sql(_SPECIFICITY.format(views=_views(connection))).to_arrow_table()
    finally:
        connection.unregister("sides")
        connection.unregister("counted")
    return found, {
        name: len(found) - found[name].null_count for name in SPECIFICITY if found[name].null_count < len(found)
    }


def read_case_views(
    connection: duckdb.DuckDBPyConnection, cases: pa.Table, files: Sequence[Path], *, wiki: str, date: int
) -> dict[str, object]:
    """Create ``viewed`` and ``viewed_month`` for the subjects and objects of cases; see `read_viewed` for arguments."""
    connection.register("sides", cases.select(["subject", "object"]))
    try:
        connection.execute(
            "CREATE TABLE case_item AS SELECT id, wiki_title FROM known "
            "WHERE id IN (SELECT subject FROM sides UNION SELECT object FROM sides)"
        )
    finally:
        connection.unregister("sides")
    return read_viewed(connection, files, items="case_item", wiki=wiki, date=date)


def specificity_provenance(pageviews: Mapping[str, str] | None, counts: Path | None) -> dict[str, Any]:
    """Settings for a manifest: files of page views and of counts with their hashes, each only if given."""
    found: dict[str, Any] = {} if not pageviews else {"pageviews": dict(pageviews)}
    return found | ({"counts": corpus_version(counts)} if counts else {})


def _read_counts(counts: Path | None, sides: pa.Table) -> Mapping[str, int]:
    if counts is None:
        return {}
    labels = {label for side in ("subject", "object") for label in sides[f"{side}_label"].to_pylist() if label}
    return corpus_counts(counts, sorted(labels))


def _views(connection: duckdb.DuckDBPyConnection) -> str:
    """SQL of id and views in all months; 0 for an article without views. No rows without files."""
    there = connection.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'viewed'").fetchall()[0][0]
    if not there:
        return "SELECT NULL::VARCHAR AS id, NULL::BIGINT AS views WHERE false"
    return """
        SELECT k.id, coalesce(sum(v.views), 0)::BIGINT AS views FROM known k LEFT JOIN viewed v USING (id)
        WHERE k.wiki_title IS NOT NULL AND EXISTS (FROM viewed_month)
        AND k.id IN (SELECT subject FROM sides UNION SELECT object FROM sides) GROUP BY k.id
    """


_SPECIFICITY = """
    WITH views AS ({views})
    SELECT case_id, s.views AS subject_views, o.views AS object_views,
           coalesce(si."count", sl."count") AS subject_count, coalesce(oi."count", ol."count") AS object_count
    FROM (SELECT *, row_number() OVER () AS place FROM sides) c
    LEFT JOIN views s ON s.id = c.subject LEFT JOIN views o ON o.id = c.object
    LEFT JOIN counted si ON si.name = c.subject LEFT JOIN counted sl ON sl.name = c.subject_label
    LEFT JOIN counted oi ON oi.name = c.object LEFT JOIN counted ol ON ol.name = c.object_label
    ORDER BY place
"""


def corpus_counts(path: Path, labels: Collection[str]) -> dict[str, int]:
    """Counts by label or id.

    Args:
        path: A table of counts (`read_counts`), or texts: a file or a folder of .txt, .jsonl or .parquet.
        labels: Labels to count in texts; a table is read whole.

    Raises:
        TimestepError: if a file cannot be read, or a folder has no texts.
    """
    if path.is_dir() or is_text(path):
        return count_in_texts(text_files(path), labels)
    return read_counts(path)


def corpus_version(path: Path) -> dict[str, str]:
    """File name -> SHA-256 of a table of counts, or of each text."""
    if path.is_dir():
        return {file.relative_to(path).as_posix(): sha256_of(file) for file in text_files(path)}
    return {path.name: sha256_of(path)}


def read_counts(path: Path) -> dict[str, int]:
    """Read counts by label or id.

    Args:
        path: A JSON object, or a file with one pair per line: "label<tab>count", or CSV with the count last. A first
            line whose count is not a number is a header.

    Raises:
        TimestepError: if a line is not such a pair; the message names the first.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TimestepError(f"The counts {path} cannot be read: {error}.") from error
    if path.suffix == ".json":
        return _from_json(text, path)
    lines = text.split("\n")  # not splitlines(), which also breaks at U+2028 within a label
    # Quotation marks belong to a label between tabs, as in '"Heroes" (album)'; CSV has them around labels with commas.
    rows = (line.rstrip("\r").split("\t") for line in lines) if "\t" in text else csv.reader(lines)
    counts: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        if not any(row):
            continue
        try:
            counts[row[0]] = int(row[-1]) if len(row) > 1 else int("no count")
        except ValueError as error:
            if number > 1:
                raise _no_pair(path, f"line {number}") from error
    return counts


def _from_json(text: str, path: Path) -> dict[str, int]:
    try:
        counts = json.loads(text)
    except json.JSONDecodeError as error:
        raise _no_pair(path, f"line {error.lineno}") from error
    if not isinstance(counts, dict) or not all(type(count) is int for count in counts.values()):
        raise _no_pair(path, "the object")
    return counts


def _no_pair(path: Path, where: str) -> TimestepError:
    return TimestepError(
        f"{where.capitalize()} of {path} is not a label with a whole number. Give a line for each: label, tab, count."
    )


_FORMS = (".txt", ".jsonl", ".parquet")
_COMPRESSED = (".gz", ".bz2", ".zst")  # decompressed by pyarrow.input_stream according to the file's name
_BETWEEN_WORDS = r"[^\p{L}\p{M}\p{N}]+"
_BLOCK = 4_000_000
"""Number of characters that are split into words at a time, which takes about 100 MB."""

_NO_WORD = -1
"""Id of a word that is in no name, and of the end of a text."""

_Ids = np.ndarray[Any, np.dtype[np.int64]]


def is_text(path: Path) -> bool:
    """Whether a file name is that of a text."""
    name = path.name.removesuffix(path.suffix) if path.suffix in _COMPRESSED else path.name
    return name.endswith(_FORMS)


def text_files(path: Path) -> list[Path]:
    """A text, or all texts below a folder, ordered by path.

    Raises:
        TimestepError: if a folder contains none.
    """
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if file.is_file() and is_text(file))
    if not found:
        raise TimestepError(f"{path} has no texts. Give a folder of {', '.join(_FORMS)} files.")
    return found


def count_in_texts(paths: Iterable[Path], names: Collection[str]) -> dict[str, int]:
    """Number of occurrences of each name in texts; a name without a word is left out.

    Args:
        paths: Texts: .txt, .jsonl with a field "text", or .parquet with a column "text"; the first two may be
            compressed (.gz, .bz2, .zst).
        names: Names to count.

    Raises:
        TimestepError: if a text cannot be read.
    """
    counter = _Counter(dict.fromkeys(names))
    for path in paths:
        try:
            for texts, ends in _blocks(path):
                counter.read(texts, ends=ends)
        except (OSError, ValueError, KeyError, TypeError) as error:  # those of Arrow and UTF-8 are ValueErrors
            raise TimestepError(
                f'The text {path} cannot be read: {error}. Give UTF-8 text, JSON lines with a field "text", or Parquet '
                'with a column "text".'
            ) from error
    return counter.counts()


class _Counter:
    """Trie of the names' words, along which all positions of a block are followed at once.

    A node is a number, 0 the root. An edge from a node by a word has the key node * words + word, in a sorted array.
    """

    def __init__(self, names: Iterable[str]) -> None:
        named = list(names)
        words, parents = _words(pa.array(named, pa.large_string()))
        self._vocabulary = words.unique()
        ids = self._ids(words)
        lengths = np.bincount(parents, minlength=len(named))
        self._longest = int(lengths.max()) if named else 0
        starts = np.cumsum(lengths) - lengths
        at = np.zeros(len(named), dtype=np.int64)
        edges, ends, nodes = [], [], 1
        for depth in range(self._longest):
            deeper = lengths > depth
            keys = at[deeper] * len(self._vocabulary) + ids[starts[deeper] + depth]
            found, which = np.unique(keys, return_inverse=True)
            at[deeper] = nodes + which
            edges.append(found)
            ends.append(nodes + np.arange(len(found)))
            nodes += len(found)
        unsorted = np.concatenate([np.zeros(0, np.int64), *edges])
        order = np.argsort(unsorted)
        self._edges, self._ends = unsorted[order], np.concatenate([np.zeros(0, np.int64), *ends])[order]
        self._names = {name: int(node) for name, node in zip(named, at, strict=True) if node}
        self._counts = np.zeros(nodes, dtype=np.int64)
        self._rest = np.zeros(0, dtype=np.int64)

    def read(self, texts: pa.Array, *, ends: bool) -> None:
        """Count names in a block.

        Args:
            texts: Texts in order; a name does not continue from one into the next.
            ends: Whether the last text ends here.
        """
        words, parents = _words(texts)
        ids = self._ids(words)
        ids = np.insert(ids, np.flatnonzero(np.diff(parents)) + 1, _NO_WORD)
        ids = np.concatenate([self._rest, ids, [_NO_WORD] * ends])
        # A name may begin in the last words of a block and end in the next one.
        begin = len(ids) if ends else max(0, len(ids) - self._longest + 1)
        self._count(ids, begin)
        self._rest = ids[begin:]

    def counts(self) -> dict[str, int]:
        """Name -> number of occurrences."""
        return {name: int(self._counts[node]) for name, node in self._names.items()}

    def _count(self, ids: _Ids, begin: int) -> None:
        """Count the names that begin in the first `begin` words."""
        places, at = np.arange(begin), np.zeros(begin, dtype=np.int64)
        for depth in range(self._longest):
            inside = places + depth < len(ids)
            places, at = places[inside], at[inside]
            words = ids[places + depth]
            keys = np.where(words == _NO_WORD, _NO_WORD, at * len(self._vocabulary) + words)
            edge = np.minimum(np.searchsorted(self._edges, keys), len(self._edges) - 1)
            known = self._edges[edge] == keys
            places, at = places[known], self._ends[edge[known]]
            self._counts += np.bincount(at, minlength=len(self._counts))

    def _ids(self, words: pa.Array) -> _Ids:
        ids: _Ids = pc.fill_null(pc.index_in(words, self._vocabulary), _NO_WORD).to_numpy().astype(np.int64)
        return ids


def _words(texts: pa.Array) -> tuple[pa.Array, _Ids]:
    """The words of texts, and the text of each."""
    lists = pc.split_pattern_regex(texts, _BETWEEN_WORDS)
    words, parents = pc.list_flatten(lists), pc.list_parent_indices(lists)
    there = pc.not_equal(words, "")
    return words.filter(there), parents.filter(there).to_numpy()


def _blocks(path: Path) -> Iterator[tuple[pa.Array, bool]]:
    """Yield batches of texts, and whether the last of each batch ends in it."""
    if path.suffix == ".parquet":
        for batch in pq.ParquetFile(path).iter_batches(batch_size=1000, columns=["text"]):
            yield batch["text"].cast(pa.large_string()), True
        return
    with pa.input_stream(str(path)) as stream, io.TextIOWrapper(stream, encoding="utf-8") as text:
        if ".jsonl" in path.suffixes:
            while lines := text.readlines(_BLOCK):
                texts = [json.loads(line)["text"] for line in lines if line.strip()]
                yield pa.array(texts, pa.large_string()), True
            return
        rest = ""
        while block := text.read(_BLOCK):
            block = rest + block
            end = max(block.rfind(" "), block.rfind("\n")) + 1 or len(block)
            rest = block[end:]
            yield pa.array([block[:end]], pa.large_string()), False
        yield pa.array([rest], pa.large_string()), True
