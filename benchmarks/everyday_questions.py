"""Questions in everyday wording with the facts that they need, and texts that need none.

tests/everyday/*.txt describe their form. The hash of a text puts it into the part that the memory
is tuned on or into the part that is only measured, so that adding lines moves none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

UNDIVIDED = (
    "check",
    "blind",
    "blind_pat",
    "fresh",
    "fresh_pat",
    "fifth",
    "fifth_pat",
    "sixth",
    "sixth_pat",
    "seventh",
    "seventh_pat",
    "eighth",
    "eighth_pat",
    "tuning",
    "tuning_pat",
    "de",
    "fr",
    "es",
)
FOLDER = Path(__file__).parent.parent / "tests" / "everyday"
BETWEEN_TURNS = " || "


@dataclass(frozen=True, slots=True)
class EverydayQuestion:
    """A text and the facts that it needs.

    Attributes:
        kind: Title of the section.
        turns: Turns of the conversation, user and assistant in turn; the last is the question.
        needed: Facts that are all needed, each with the facts that answer equally well as (subject label, PID).
        value: Label of a value that must be given; "" if none is named.
    """

    kind: str
    turns: tuple[str, ...]
    needed: tuple[frozenset[tuple[str, str]], ...]
    value: str = ""

    @property
    def text(self) -> str:
        """The last turn."""
        return self.turns[-1]

    @property
    def is_two_hops(self) -> bool:
        """Whether the section asks for two facts, one about the other's value."""
        return self.kind.endswith("two hops")

    @property
    def is_tuned_on(self) -> bool:
        """Whether the text belongs to the part that the memory is tuned on."""
        return hashlib.sha256(BETWEEN_TURNS.join(self.turns).encode()).digest()[0] % 2 == 0


def read_questions(name: str) -> list[EverydayQuestion]:
    """Questions of one file: for the memory of "sample" or "pat", or one of the undivided sets."""
    found = []
    for kind, line in _lines(f"{name}.txt"):
        text, _, rest = line.partition(" => ")
        facts, _, value = rest.partition(" = ")
        found.append(EverydayQuestion(kind, tuple(text.split(BETWEEN_TURNS)), _needed(facts), value.strip()))
    return found


def read_nothing(name: str) -> list[EverydayQuestion]:
    """Texts that must get no fact, of the sections of the same name; "sample" and "pat" share those of "both"."""
    sections = (name, "both") if name in ("sample", "pat") else (name,)
    return [
        EverydayQuestion(kind.partition(": ")[2], (line.replace(r"\n", "\n"),), ())
        for file in ("nothing.txt", "tuning_nothing.txt")
        for kind, line in _lines(file)
        if kind.partition(": ")[0] in sections
    ]


def _needed(facts: str) -> tuple[frozenset[tuple[str, str]], ...]:
    return tuple(
        frozenset(
            (label.strip(), relation.strip())
            for label, _, relation in (fact.rpartition(":") for fact in each.split("|"))
        )
        for each in facts.split(";")
    )


def _lines(name: str) -> Iterator[tuple[str, str]]:
    """Lines with their section's title."""
    kind = ""
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            kind = line.removeprefix("## ")
        elif line and not (line.startswith("#") and not kind):
            yield kind, line
