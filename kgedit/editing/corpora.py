"""Text for statistics of a model (known facts, prose or files), and its conversion to rows of tokens.

Text is packed into rows of equal length: in rows as short as single facts, the first token, whose activations are
outliers in most models, would dominate.
"""

from __future__ import annotations

import gzip
import hashlib
import heapq
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.editing.hparams.locate_then_edit import KNOWN_FACTS, PROSE, SAMPLE
from kgedit.errors import ModelError
from kgedit.llm.language_model import LanguageModel
from kgedit.records.cases import KnownFact
from kgedit.timesteps.known_facts import sample_facts

_MOST_LENGTH = 4096
"""Maximum tokens of a row: the attention of one row takes memory with the square of its length."""

_TEXT = "text"
"""Field of JSON lines and column of Parquet files that contains the text, as in most published corpora."""

_MOST_CHARACTERS = 64_000_000
"""Maximum size of file texts in memory: at least 10 million tokens, while methods read 40,000 to 400,000."""

_PARQUET_ROWS = 1024
"""Number of rows read at once."""

_PROSE_FILE = Path(__file__).parents[1] / "data" / "prose.txt"


@dataclass(frozen=True, slots=True)
class Corpus:
    """Text from which statistics are built.

    Attributes:
        name: Display name.
        texts: Texts, in order.
    """

    name: str
    texts: tuple[str, ...]

    @property
    def sha256(self) -> str:
        """Hash of the texts."""
        return hashlib.sha256(json.dumps(self.texts, ensure_ascii=False).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class TextBudget:
    """Amount of text to read.

    Attributes:
        tokens: Maximum number of tokens.
        length: Number of tokens per row; attention does not cross rows.
    """

    tokens: int = 40_000
    length: int = 128


def corpus_of_facts(known: Iterable[KnownFact], *, name: str = "known facts") -> Corpus:
    """Build a corpus from facts: each as a question with its answer and as a statement."""
    texts = [text for fact in known for text in (f"{fact.question} {fact.answer}", f"{fact.cloze} {fact.answer}.")]
    return Corpus(name, tuple(dict.fromkeys(texts)))


def corpus_of_files(paths: Sequence[Path], *, most_characters: int = _MOST_CHARACTERS) -> Corpus:
    """Read the texts of files: lines of text, the field `text` of JSON lines, or the column `text` of Parquet.

    The file extension determines the format (.jsonl or .json, .parquet, all others are lines of text); text and JSON
    lines may be compressed (.gz). Larger files are reduced to a sample that does not depend on the order of the texts.

    Args:
        most_characters: Maximum number of characters in memory.

    Raises:
        ModelError: if a file cannot be read in its form.
    """
    texts = _sample((text for path in paths for text in _texts_of(path)), most_characters)
    return Corpus(", ".join(path.name for path in paths), tuple(texts))


def _texts_of(path: Path) -> Iterator[str]:
    """Texts of one file, stripped and non-empty."""
    endings = [ending.lower() for ending in path.suffixes[-2:]]
    try:
        found = _parquet_texts(path) if endings[-1:] == [".parquet"] else _lines(path, endings)
        for text in found:
            if stripped := text.strip():
                yield stripped
    except (OSError, EOFError, ValueError, KeyError, pa.ArrowException) as error:
        if isinstance(error, UnicodeDecodeError):
            reason = "it is not UTF-8"
        else:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ModelError(
            f"The text {path} cannot be read: {reason}. Give UTF-8 text files, JSON lines or Parquet with '{_TEXT}'."
        ) from error


def _lines(path: Path, endings: Sequence[str]) -> Iterator[str]:
    compressed = endings[-1:] == [".gz"]
    as_json = (endings[:-1] if compressed else endings)[-1:] in ([".jsonl"], [".json"])
    with gzip.open(path, "rt", encoding="utf-8") if compressed else path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not as_json or not line.strip():
                yield line
                continue
            row = json.loads(line)
            text = row.get(_TEXT) if isinstance(row, dict) else None
            if not isinstance(text, str):
                raise ValueError(f"line {number} has no text in '{_TEXT}'")
            yield text


def _parquet_texts(path: Path) -> Iterator[str]:
    with pq.ParquetFile(path) as file:
        if _TEXT not in file.schema_arrow.names:
            raise ValueError(f"its columns are {', '.join(file.schema_arrow.names)}, without '{_TEXT}'")
        for batch in file.iter_batches(batch_size=_PARQUET_ROWS, columns=[_TEXT]):
            yield from (text for text in batch.column(0).cast(pa.string()).to_pylist() if text is not None)


def _sample(texts: Iterable[str], most_characters: int) -> list[str]:
    """All texts in order, or if they have more characters, those with the lowest hashes that fit, in order."""
    kept: list[tuple[int, int, str]] = []
    size = 0
    for number, text in enumerate(texts):
        digest = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
        heapq.heappush(kept, (-digest, number, text))
        size += len(text)
        while size > most_characters and len(kept) > 1:
            size -= len(heapq.heappop(kept)[2])
    return [text for _, _, text in sorted(kept, key=lambda entry: entry[1])]


def corpus_of(names: str, known: Iterable[KnownFact]) -> Corpus:
    """Build the corpus named by a setting: known facts, prose, files, or several of these separated by commas.

    Raises:
        ModelError: if a file cannot be read in its form.
    """
    parts = [names] if Path(names).is_file() else [name.strip() for name in names.split(",") if name.strip()]
    read = [_corpus_named(name, known) for name in parts]
    texts = dict.fromkeys(text for corpus in read for text in corpus.texts)
    return Corpus(", ".join(corpus.name for corpus in read), tuple(texts)) if len(read) != 1 else read[0]


def _corpus_named(name: str, known: Iterable[KnownFact]) -> Corpus:
    if name == KNOWN_FACTS:
        return corpus_of_facts(known)
    if name == SAMPLE:
        return corpus_of_facts(sample_facts(), name="facts of the sample")
    return corpus_of_files([_PROSE_FILE if name == PROSE else Path(name)])


def pack(model: LanguageModel, corpus: Corpus, budget: TextBudget) -> list[list[int]]:
    """Convert texts to rows of token ids: shuffled in a fixed order, concatenated and split into equal lengths."""
    if not corpus.texts:
        raise ModelError(
            "There is no text to build statistics from: the edits come without known facts, as in UnKE's files. Use "
            "kgedit's own text with --set corpus=prose, or another one with --set corpus=FILE; or export the timestep "
            "again with known facts."
        )
    texts = list(corpus.texts)
    random.Random(0).shuffle(texts)
    lead = model.leading_ids()
    room = max(1, min(budget.length, _MOST_LENGTH, model.positions or _MOST_LENGTH) - len(lead))
    ids: list[int] = []
    for text in texts:
        ids += model.tokenizer.encode(f"{text}\n", add_special_tokens=False)
        if len(ids) >= budget.tokens:
            break
    ids = ids[: budget.tokens]
    return [[*lead, *ids[start : start + room]] for start in range(0, len(ids), room)]
