"""Counts of entities in a corpus: from a table of counts, or counted in texts.

Texts are read once, in memory that depends on the names alone. A name is counted if its words are consecutive and have
the same capitals, similar to how infini-gram counts a corpus (WikiBigEdit, section 3.3). Names may overlap: "New York"
also counts for "York". Punctuation and line breaks between words are ignored. In a script without spaces, a name is
found only if no letter is next to it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgedit.checksums import sha256_of
from kgedit.errors import TimestepError


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
    lines = text.splitlines()
    rows = csv.reader(lines, delimiter="\t" if "\t" in text else ",")
    counts: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        if not row:
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
