"""SQL that makes a template's verbs agree with a plural name: "the Chicago Bulls are ...".

Templates are written in the singular. A verb agrees with {subject} if it directly precedes it ("is {subject}") or
directly follows it in its own clause ("{subject} plays", "the league in which {subject} plays"), but not after a
preposition ("the coach of {subject} is").
"""

from __future__ import annotations

from kgedit.wording.names import name_rules

_VERBS = (("is", "are"), ("was", "were"), ("has", "have"), ("does", "do"))
_CLAUSE = r"(^|, |\b(?:where|which|that|whom|what|why|how) )\{subject\} "
_REGULAR = (
    (_CLAUSE + r"([a-z]{2,})ies\b", r"\1{subject} \2y"),
    (_CLAUSE + r"([a-z]+(?:sh|ch|ss|x|go))es\b", r"\1{subject} \2"),
    (_CLAUSE + r"([a-z]+[b-rt-z]|[a-z]+e)s\b", r"\1{subject} \2"),
    (r"\bits\b", "their"),
)


def agreed(wording: str, name: str) -> str:
    """SQL of a template's wording whose verbs agree with a name.

    Args:
        wording: SQL of a text with {subject}.
        name: SQL of the text that replaces {subject}, as made by kgedit.wording.names.
    """
    rules = name_rules()
    plural = (
        f"regexp_matches({name}, {_quoted(rules.plural)}) AND NOT regexp_matches({name}, {_quoted(rules.singular)})"
    )
    return f"CASE WHEN {plural} THEN {_in_plural(wording)} ELSE {wording} END"


def _in_plural(wording: str) -> str:
    for singular, plural in _VERBS:
        wording = _replaced(wording, rf"^{singular.capitalize()} \{{subject\}}", f"{plural.capitalize()} {{subject}}")
        wording = _replaced(wording, rf"\b{singular} \{{subject\}}", f"{plural} {{subject}}")
        wording = _replaced(wording, rf"{_CLAUSE}{singular}\b", rf"\1{{subject}} {plural}")
    for pattern, said in _REGULAR:
        wording = _replaced(wording, pattern, said)
    return wording


def _replaced(wording: str, pattern: str, said: str) -> str:
    return f"regexp_replace({wording}, {_quoted(pattern)}, {_quoted(said)}, 'g')"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
