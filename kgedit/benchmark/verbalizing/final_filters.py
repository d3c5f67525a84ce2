"""The final filters: what every question must be, whoever worded it (WikiBigEdit, section 3, step 7).

A question names the subject, expresses the relation and does not give the answer away; the answer that a model repeats
is the object's label or an alias of it. The first filter that a text fails is its reason.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from kgedit.benchmark.verbalizing.relations import stems

FEWEST_WORDS = 3
MOST_WORDS = 60
MOST_CHARACTERS = 400
"""Of a question, besides the names in it."""

_SECOND_QUESTION = re.compile(
    r"\band (?:also )?(?:who|whom|whose|what|where|when|which|how|why)\b(?!\W*$)", re.IGNORECASE
)
"""A clause of its own; "..., and which?" ends the same one."""

ANSWER_DIFFERS = "the answer is not the object's label or alias"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What a question has to ask.

    Attributes:
        subject: As it must be named.
        relations: Stems by which each relation may be expressed; two for a two-hop question. One without stems is not
            looked for.
        answer: The object's label.
        accepted: Its aliases.
        hidden: Label and aliases of the entity in the middle.
        unlike: Questions that it must not repeat.
    """

    subject: str
    relations: tuple[frozenset[str], ...]
    answer: str
    accepted: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    unlike: tuple[str, ...] = ()


def fault_of(question: str, asking: Asking) -> str | None:
    """The first filter that a question fails, None if it passes all."""
    return next((reason for reason, fails in FILTERS if fails(question, asking)), None)


def is_answer(text: str, asking: Asking) -> bool:
    """Whether a text is the answer or another name of it, whatever its case and punctuation."""
    return letters(text) in {letters(name) for name in (asking.answer, *asking.accepted)}


def letters(text: str) -> str:
    """A text as names are compared: lower case, single spaces, no punctuation."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.findall(r"\w+", plain)) or plain.strip()


def _is_not_plain(question: str, asking: Asking) -> bool:
    rest = question.replace(asking.subject, " ")
    return not question.isprintable() or bool(re.search(r"[{}<>\[\]\\`|]|https?:", rest))


def _is_no_question(question: str, _: Asking) -> bool:
    return not question.endswith("?")


def _asks_twice(question: str, asking: Asking) -> bool:
    rest = question.replace(asking.subject, " ")
    return rest.count("?") > 1 or bool(_SECOND_QUESTION.search(rest))


def _has_no_fit_length(question: str, asking: Asking) -> bool:
    rest = question.replace(asking.subject, "S")
    return not FEWEST_WORDS <= len(rest.split()) <= MOST_WORDS or len(rest) > MOST_CHARACTERS


def _lacks_subject(question: str, asking: Asking) -> bool:
    return letters(asking.subject) not in letters(question)


def _lacks_relation(question: str, asking: Asking) -> bool:
    rest = re.sub(re.escape(asking.subject), " ", question, flags=re.IGNORECASE)
    said = stems([rest])
    return any(relation and not said & relation for relation in asking.relations)


def _gives_answer_away(question: str, asking: Asking) -> bool:
    return _names(question, asking.answer, fewest=1) or any(
        _names(question, name) for name in asking.accepted if not _names(asking.subject, name)
    )


def _names_middle(question: str, asking: Asking) -> bool:
    return "masked" in question.casefold() or any(
        _names(question, name) for name in asking.hidden if not _names(asking.subject, name)
    )


def _holds_id(question: str, asking: Asking) -> bool:
    return bool(re.search(r"\b[PQL]\d+\b", question.replace(asking.subject, " ")))


def _repeats(question: str, asking: Asking) -> bool:
    return letters(question) in {letters(other) for other in asking.unlike}


def _names(text: str, name: str, *, fewest: int = 3) -> bool:
    """Whether a name stands in a text as whole words; an alias of one or two letters says nothing."""
    wanted = letters(name)
    return len(wanted) >= fewest and f" {wanted} " in f" {letters(text)} "


FILTERS: tuple[tuple[str, Callable[[str, Asking], bool]], ...] = (
    ("it is not plain text", _is_not_plain),
    ("it does not end in a question mark", _is_no_question),
    ("it asks more than one question", _asks_twice),
    ("it is too short or too long", _has_no_fit_length),
    ("the subject is missing", _lacks_subject),
    ("the relation is not expressed", _lacks_relation),
    ("it gives the answer away", _gives_answer_away),
    ("it names the entity in the middle", _names_middle),
    ("it holds the id of an entity", _holds_id),
    ("it repeats another question of the case", _repeats),
)
"""Reason, and whether a question fails; in this order."""
