"""Keys by which facts of edits and questions are compared: subject and property, whatever the object.

Many files of edits give no ids. Those made of rows (`edited_fact`, `nearby_fact`) name other facts in another file, so
such facts are compared by their words: the subject's label with the property, and the question.
"""

from __future__ import annotations

from collections.abc import Iterable

from kgedit.records.cases import Case, Fact, KnownFact, Probe
from kgedit.timesteps.edit_files.contract import is_made_of_row
from kgedit.wikidata.ids import is_property

FactKey = tuple[str, ...]


def keys_of_edit(case: Case) -> set[FactKey]:
    """Keys under which an edit is found by `keys_sought`: ids or words of its fact, and its questions."""
    own = _by_ids(case.fact) if has_ids(case.fact) else _by_label(case.fact)
    return own | _by_questions(case.question, case.cloze)


def keys_of_cases(cases: Iterable[Case]) -> set[FactKey]:
    """Keys under which `keys_sought` finds the edits and the facts that their probes ask for."""
    found = set[FactKey]()
    for case in cases:
        asked = [(case.fact, _by_questions(case.question, case.cloze))]
        for probe in case.probes:
            asked += [(fact, _by_questions(*_asked_alone(probe))) for fact in probe.facts]
        for fact, questions in asked:
            found |= _by_ids(fact) if has_ids(fact) else _by_label(fact) | questions
    return found


def keys_sought(fact: Fact, *questions: str) -> set[FactKey]:
    """Keys of the edits of a fact. Facts with ids are found by ids, and by their label among edits without.

    Args:
        fact: The fact.
        questions: Questions that ask for it, which count if it has no ids.
    """
    if has_ids(fact):
        return _by_ids(fact) | _by_label(fact)
    return _by_label(fact) | _by_questions(*questions)


def keys_of_known(known: KnownFact) -> set[FactKey]:
    """Keys that `keys_sought` returns for a known fact."""
    return keys_sought(known.fact, known.question, known.cloze)


def keys_of_probe(probe: Probe, fact: Fact, case: Case) -> set[FactKey]:
    """Keys that `keys_sought` returns for one of a probe's facts, with the questions that ask for this fact alone."""
    if fact == case.fact:
        return keys_sought(fact, case.question, case.cloze)
    return keys_sought(fact, *_asked_alone(probe))


def _asked_alone(probe: Probe) -> tuple[str, ...]:
    """Wordings of a probe that ask for one fact."""
    return (probe.question, probe.cloze) if len(probe.facts) == 1 else ()


def has_ids(fact: Fact) -> bool:
    """Whether the subject and relation have ids that other files share."""
    return is_property(fact.property) and not is_made_of_row(fact.subject)


def same_object(one: Fact, other: Fact) -> bool:
    """Whether two facts have the same object, compared by label if one of the ids is made of a row."""
    if is_made_of_row(one.object) or is_made_of_row(other.object):
        return normal(one.object_label) == normal(other.object_label)
    return one.object == other.object


def normal(text: str) -> str:
    """Normalize a text for comparison: case and surrounding whitespace do not matter.

    >>> normal(" Peru ") == normal("peru")
    True
    """
    return text.strip().casefold()


def _by_ids(fact: Fact) -> set[FactKey]:
    return {(fact.subject, fact.property)}


def _by_label(fact: Fact) -> set[FactKey]:
    label = normal(fact.subject_label)
    return {("label", label, fact.property)} if label and is_property(fact.property) else set()


def _by_questions(*questions: str) -> set[FactKey]:
    return {("question", asked) for asked in map(normal, questions) if asked}
