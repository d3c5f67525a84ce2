"""Questions rephrased by rules of word order; a question that no rule fits is framed, and marked as such.

A rule may only move words: the new question must contain the subject verbatim, or the rule does not apply.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kgedit.resources import data_folder
from kgedit.wording.catalogues import read_catalogue, refuse

FRAME = "frame"
"""Rule of questions that no other rule fits: the same question after an introductory sentence, which tests little."""

_FIELD = re.compile(r"\{(?:(\w+):)?(\w+)\}")
_OPENERS = frozenset(
    ("The", "A", "An", "In", "On", "At", "From", "To", "For", "By", "With", "During", "After", "Before")
)
_SUBJECT = "\ua66e"
"""A letter that occurs in no question and replaces the subject, so that all patterns are compiled once."""

_LEADING = re.compile(r"(?:the|a|an) ", re.IGNORECASE)
_ARTICLE = r"(?:(?:the|a|an) )?"
_NOUN = r"(?!(?:is|was|are|were|has|had|have|did|does|do)\b)[\w'’.-]+"
_NOUNS = rf"(?:{_NOUN} ){{0,5}}{_NOUN}"


@dataclass(frozen=True, slots=True)
class Rephrasing:
    """A rephrased question.

    Attributes:
        text: The new question.
        rule: Its origin: a rule's name, FRAME, or "model".
    """

    text: str
    rule: str


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    when: re.Pattern[str]
    say: str


class Rephraser:
    """Rephrases questions.

    Args:
        catalogue: Rules, a frame and verbs, as in prompts/qaedit/rephrasings.yaml.
    """

    def __init__(self, catalogue: Mapping[str, Any]) -> None:
        listed = {name: "|".join(sorted(catalogue[name].split())) for name in ("verbs", "participles")}
        self._rules = [
            _Rule(rule["name"], _pattern(rule["when"], **listed), rule["say"]) for rule in catalogue["rules"]
        ]
        self._frame: str = catalogue["frame"]
        past = dict(catalogue["past"])
        self._doubled, self._adverbs = frozenset(past.pop("double")), frozenset(past.pop("adverbs"))
        self._past: Mapping[str, str] = past

    def rephrase(self, question: str, subject: str) -> Rephrasing:
        """Rephrase a question so that its answer stays the same.

        Args:
            question: Question that ends in a question mark.
            subject: Part of the question.
        """
        body = question.rstrip(" ?")
        # The article is not part of the subject: rules look for "the first", "the only".
        core = _LEADING.sub("", subject, count=1) if _LEADING.match(subject) else subject
        held = body.replace(core, _SUBJECT, 1)
        for rule in self._rules:
            found = rule.when.fullmatch(held)
            text = self._say(rule, found) if found else None
            if text and _SUBJECT in text and text.rstrip("?.").lower() != held.lower():
                whole = text.replace(_SUBJECT, core).replace(" ?", "?").replace("..", ".")
                whole = whole[:1].upper() + whole[1:]
                if subject in whole:
                    return Rephrasing(whole, rule.name)
        return Rephrasing(self._frame.replace("{question}", question), FRAME)

    def _say(self, rule: _Rule, found: re.Match[str]) -> str | None:
        """Text of a rule; None if a verb has no known past tense."""
        words = {name: text or "" for name, text in found.groupdict().items()}
        if any(words[name].lower() in self._adverbs for how, name in _FIELD.findall(rule.say) if how == "past"):
            return None
        text = _FIELD.sub(lambda field: self._word(field[1], words[field[2]]), rule.say)
        return text[:1].upper() + text[1:]

    def _word(self, how: str | None, text: str) -> str:
        if how == "past":
            return self.past_of(text)
        if how == "be":
            return "were" if text.lower().endswith("s") and not text.lower().endswith(("ss", "us", "is")) else "was"
        if how == "low":
            first = text.partition(" ")[0]
            return first.lower() + text[len(first) :] if first in _OPENERS else text
        if how == "own":
            return f"{text}'" if text.endswith("s") else f"{text}'s"
        return text

    def past_of(self, verb: str) -> str:
        """The past tense of a verb in its base form."""
        word = verb.lower()
        if word in self._past:
            return self._past[word]
        if word in self._past.values() or word.endswith("ed"):
            return word
        if word.endswith("e"):
            return f"{word}d"
        if word.endswith("y") and word[-2:-1] not in tuple("aeiou"):
            return f"{word[:-1]}ied"
        return f"{word}{word[-1]}ed" if word in self._doubled else f"{word}ed"


@cache
def english_rephraser() -> Rephraser:
    """Rephraser with the shipped rules."""
    path = data_folder("prompts") / "qaedit" / "rephrasings.yaml"
    content = read_catalogue(path)
    refuse(path, _problems(content.get("rules") or []))
    return Rephraser(content)


def _problems(rules: Sequence[Mapping[str, Any]]) -> list[str]:
    """Problems of rules, as text: an invalid expression, a slot without a group."""
    found = []
    for number, rule in enumerate(rules, start=1):
        name = rule.get("name") or f"rule {number}"
        if not all(isinstance(rule.get(key), str) for key in ("name", "when", "say")):
            found.append(f"{name}: needs name, when and say")
            continue
        try:
            groups = re.compile(
                rule["when"].replace("<S>", "x").replace("<V>", "x").replace("<N>", "x").replace("<P>", "x")
            ).groupindex
        except re.error as error:
            found.append(f"{name}: {error}")
            continue
        found += [f"{name}: no group '{slot}'" for _, slot in _FIELD.findall(rule["say"]) if slot not in groups]
    return found


def _pattern(when: str, *, verbs: str, participles: str) -> re.Pattern[str]:
    filled = when.replace("<S>", _ARTICLE + _SUBJECT).replace("<N>", _NOUNS).replace("<V>", f"(?:{verbs})")
    filled = filled.replace("<P>", rf"(?:(?:\w+ly|first|last|also) )?(?:\w+ed|{participles})\b")
    return re.compile(filled, re.IGNORECASE)
