"""Requirements of a wording, and the check of texts with the final filters (kgedit.timesteps.final_filters).

A model also repeats the answer, which must be the object's label or an alias of it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from kgedit.timesteps.final_filters import FACTS, QUESTIONS, find_faults

ANSWER_DIFFERS = "the answer is not the object's label or alias"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Requirements of a question.

    Attributes:
        subject: Name that must occur.
        relations: Stems by which each relation may be expressed; two for a two-hop question. An empty set is not
            checked.
        answer: Label of the object.
        accepted: Aliases of the object.
        hidden: Label and then aliases of the entity in the middle.
        unlike: Questions that must not be repeated.
    """

    subject: str
    relations: tuple[frozenset[str], ...]
    answer: str
    accepted: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    unlike: tuple[str, ...] = ()


def faults_of(records: Sequence[tuple[Asking, Sequence[str]]]) -> list[list[str | None]]:
    """First final filter that each text fails, by record and in order; None for a text that passes all."""
    facts, questions = [], []
    stems: dict[str, frozenset[str]] = {}
    for index, (asking, texts) in enumerate(records):
        relations = [f"{index}:{place}" for place in range(len(asking.relations))]
        stems.update(zip(relations, asking.relations, strict=True))
        names = {name: getattr(asking, name) for name in FACTS.names if name != "fact"}
        facts.append({"fact": str(index), **names})
        questions += [
            {"fact": str(index), "number": number, "relations": relations, "question": text}
            for number, text in enumerate(texts)
        ]
    judged = find_faults(
        pa.Table.from_pylist(questions, schema=QUESTIONS),
        pa.Table.from_pylist(facts, schema=FACTS),
        lambda relation, _: stems[relation],
    )
    found: list[list[str | None]] = [[None] * len(texts) for _, texts in records]
    for row in judged.select(["fact", "number", "reason"]).to_pylist():
        found[int(row["fact"])][row["number"]] = row["reason"]
    return found


def is_answer(text: str, asking: Asking) -> bool:
    """Whether a text is the answer or another name of it, ignoring case and punctuation."""
    return letters(text) in {letters(name) for name in (asking.answer, *asking.accepted)}


def letters(text: str) -> str:
    """A text normalized as names are compared: lower case, single spaces, no punctuation."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.findall(r"\w+", plain)) or plain.strip()
