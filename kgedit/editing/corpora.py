"""Text that statistics of a model are built from: known facts, prose or files, and the rows of tokens made of it.

Text is packed into rows of equal length: in rows as short as single facts the first token, whose activations are
outliers in most models, would outweigh all others.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgedit.errors import ModelError
from kgedit.hparams.locate_then_edit import KNOWN_FACTS, PROSE
from kgedit.llm.language_model import LanguageModel
from kgedit.records.cases import KnownFact

_MOST_LENGTH = 4096
_PROSE_FILE = Path(__file__).parents[1] / "data" / "prose.txt"


@dataclass(frozen=True, slots=True)
class Corpus:
    """Text that statistics are built from.

    Attributes:
        name: Name to show.
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
    """How much text is read.

    Attributes:
        tokens: Most tokens read.
        length: Tokens of a row; attention does not cross rows.
    """

    tokens: int = 40_000
    length: int = 128


def corpus_of_facts(known: Iterable[KnownFact]) -> Corpus:
    """Facts of the older snapshot in words: each as a question with its answer and as a statement."""
    texts = [text for fact in known for text in (f"{fact.question} {fact.answer}", f"{fact.cloze} {fact.answer}.")]
    return Corpus("known facts", tuple(dict.fromkeys(texts)))


def corpus_of_files(paths: Sequence[Path]) -> Corpus:
    """Every line of text files that is not empty.

    Raises:
        ModelError: if a file cannot be read as UTF-8 text.
    """
    lines: list[str] = []
    for path in paths:
        try:
            lines += [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ModelError(f"The text {path} cannot be read: {reason}. Give UTF-8 text files.") from error
    return Corpus(", ".join(path.name for path in paths), tuple(lines))


def corpus_of(names: str, known: Iterable[KnownFact]) -> Corpus:
    """The text that a setting names: known facts, prose, text files, or several of these with commas between.

    Raises:
        ModelError: if a file cannot be read as UTF-8 text.
    """
    parts = [names] if Path(names).is_file() else [name.strip() for name in names.split(",") if name.strip()]
    read = [
        corpus_of_facts(known)
        if name == KNOWN_FACTS
        else corpus_of_files([_PROSE_FILE if name == PROSE else Path(name)])
        for name in parts
    ]
    texts = dict.fromkeys(text for corpus in read for text in corpus.texts)
    return Corpus(", ".join(corpus.name for corpus in read), tuple(texts)) if len(read) != 1 else read[0]


def pack(model: LanguageModel, corpus: Corpus, budget: TextBudget) -> list[list[int]]:
    """Rows of token ids: the texts in a fixed shuffled order, concatenated and cut into equal lengths."""
    if not corpus.texts:
        raise ModelError(
            "There is no text to build statistics from. Give some: kgedit stats --text FILE, then "
            "--set corpus=FILE; or export the timestep again with known facts."
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
