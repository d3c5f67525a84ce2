"""Verdict of a report in sentences: gains, damage, and limits of the numbers.

Every sentence follows from numbers by a rule in this file; sentences with missing numbers are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from kgedit.analysis.answers import judged_questions
from kgedit.analysis.comparisons import SURE, PairedResult, limits_of_tests, paired_result
from kgedit.analysis.overviews import UNKNOWN_KIND, kinds_of
from kgedit.clustered_statistics import holm
from kgedit.pages.charts import estimate_text, percent
from kgedit.pages.report_views import MethodView, View
from kgedit.records.cases import Axis

FALL = 0.2
"""Minimum difference between teacher-forced and free scores that is reported."""

_SMALL = 100
"""Questions below which one answer is more than a point in %."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a sentence.

    Attributes:
        text: The text.
        role: Colour role that refers to the charts, or "".
    """

    text: str
    role: str = ""


@dataclass(frozen=True, slots=True)
class VerdictSentence:
    """A sentence with its headline.

    Attributes:
        title: The claim.
        text: The numbers that support it.
        section: Section of the page with the evidence.
    """

    title: str
    text: str
    section: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Summary at the top of a report.

    Attributes:
        lead: The first sentences.
        findings: At most four further sentences.
        cautions: Limits of the numbers.
    """

    lead: tuple[Piece, ...]
    findings: tuple[VerdictSentence, ...]
    cautions: tuple[str, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of it as plain text, the most important first."""
        lead = "".join(piece.text for piece in self.lead).strip()
        found = (lead, *(f"{one.title} {one.text}" for one in self.findings), *self.cautions)
        return tuple(sentence for sentence in found if sentence)


def verdict_of(view: View) -> Verdict:
    """Verdict on one view."""
    updates, damage = _update_tests(view), _damage_tests(view)
    findings = [*_updates(view, updates), *_damages(damage)]
    findings += [finding for make in (_wear, _emptiness, _retrieval, _forgetting) for finding in make(view)]
    cautions = [*_cautions(view), limits_of_tests(test.result for test in (*updates, *damage))]
    return Verdict(tuple(_lead(view, damage)), tuple(findings[:4]), tuple(caution for caution in cautions if caution))


@dataclass(frozen=True, slots=True)
class _Test:
    """Comparison of two methods on the same questions.

    Attributes:
        first: The method with the higher mean.
        second: The other method.
        result: First minus second.
        p: P-value, corrected by Holm's method over the tests of the same kind.
    """

    first: MethodView
    second: MethodView
    result: PairedResult
    p: float

    @property
    def is_significant(self) -> bool:
        return self.p < SURE


def _update_tests(view: View) -> list[_Test]:
    """The method with the highest update score, compared with each other method."""
    return _tests([(view.edited[0], other) for other in view.edited[1:]], view.shown_preset, "update", "value")


def _damage_tests(view: View) -> list[_Test]:
    """Every pair of methods, compared by unchanged unrelated answers."""
    return _tests(list(combinations(view.edited, 2)), view.shown_preset, "locality", "unchanged")


def _tests(pairs: Sequence[tuple[MethodView, MethodView]], preset: str, axis: Axis, column: str) -> list[_Test]:
    found = []
    for first, second in pairs:
        if first.run is None or second.run is None:
            continue
        one, other = (judged_questions(run, "own", axis, preset, column=column) for run in (first.run, second.run))
        result = paired_result(other, one)
        if result.n and result.difference.mean >= 0:
            found.append((first, second, result))
        elif result.n:
            found.append((second, first, paired_result(one, other)))
    corrected = holm([result.p for _, _, result in found])
    return [_Test(*one, p) for one, p in zip(found, corrected, strict=True)]


def _lead(view: View, damage: Sequence[_Test]) -> Iterator[Piece]:
    if not view.edited:
        baseline = view.methods[0] if view.methods else None
        asked = baseline.shown.get("update") if baseline else None
        if not asked or not asked.after:
            yield Piece("No run changed an answer.")
        else:
            yield Piece("No run changed an answer: the unedited model answers ")
            yield Piece(_share(asked.after.mean, asked.after.n), "free" if view.free else "forced")
            yield Piece(" of the updates.")
        return
    best = view.edited[0]
    if view.free and view.forced:
        yield from _two_ways(best, view.edited)
    else:
        yield from _one_way(best, view)
    yield from _damage(view, best, damage)


def _two_ways(best: MethodView, methods: Sequence[MethodView]) -> Iterator[Piece]:
    falls = [(fall, method) for method in methods if (fall := _fall(method)) is not None]
    fall, method = max(falls, key=lambda one: one[0], default=(0.0, best))
    forced, free = method.forced.get("update"), method.free.get("update")
    if fall >= FALL and forced and forced.after and free and free.after:
        yield Piece(f"{method.name} reaches ")
        yield Piece(_share(forced.after.mean, forced.after.n), "forced")
        yield Piece(" under teacher forcing, but ")
        yield Piece(_share(free.after.mean, free.after.n), "free")
        yield Piece(" with free generation.")
        if method is best and (free.after.mean or len(methods) == 1):
            return
        yield Piece(" ")
    asked = best.free.get("update")
    if asked and asked.after and asked.after.mean:
        others = [one.free["update"].after for one in methods[1:] if "update" in one.free]
        is_most = len(methods) > 1 and all(other is None or other.mean < asked.after.mean for other in others)
        yield Piece(f"{best.name} answers ")
        yield Piece(_share(asked.after.mean, asked.after.n), "free")
        yield Piece(" of the updates with free generation" + (", the most of all." if is_most else "."))
    elif asked and asked.after:
        yield Piece("No method answers any update with free generation.")


def _fall(method: MethodView) -> float | None:
    forced, free = method.forced.get("update"), method.free.get("update")
    return forced.after.mean - free.after.mean if forced and free and forced.after and free.after else None


def _one_way(best: MethodView, view: View) -> Iterator[Piece]:
    asked = best.shown.get("update")
    if asked and asked.after:
        way = "with free generation" if view.free else "under teacher forcing, the only preset here"
        yield Piece(f"{best.name} answers ")
        yield Piece(_share(asked.after.mean, asked.after.n), "free" if view.free else "forced")
        yield Piece(f" of the updates {way}.")


def _damage(view: View, best: MethodView, damage: Sequence[_Test]) -> Iterator[Piece]:
    kept = best.kept
    if kept is None or kept.n is None:
        return
    yield Piece(f" {best.name} left ")
    yield Piece(f"{round(kept.mean * kept.n):,} of {kept.n:,}", "good" if kept.mean >= 0.9 else "bad")
    yield Piece(" unrelated answers unchanged" + (" with free generation" if view.free and view.forced else ""))
    fewer = [test.first.name for test in damage if test.second is best and test.is_significant]
    yield Piece(f"; {_names(fewer)} left significantly more unchanged." if fewer else ".")


def _names(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{len(names)} other methods"


def _updates(view: View, tests: Sequence[_Test]) -> Iterator[VerdictSentence]:
    """The highest update score, compared with the others."""
    if not tests:
        return
    best = view.edited[0]
    asked = best.shown.get("update")
    if not asked or not asked.after:
        return
    if not asked.after.mean:
        yield VerdictSentence(
            "No method answers any update.", f"The highest score is {estimate_text(asked.after)}.", "comparison"
        )
        return
    nearest, significant = tests[0], sum(test.is_significant and test.first is best for test in tests)
    text = (
        f"Updates: {estimate_text(asked.after)}; {nearest.first.name} less {nearest.second.name}: "
        f"{_difference(nearest)}{_counts(nearest.result)}, {_probability(nearest.p)} after Holm."
    )
    if not significant:
        text += f" {best.name} has the highest score; no difference is significant."
        yield VerdictSentence("No significant difference in updates.", text, "comparison")
        return
    others = "the other method" if len(tests) == 1 else f"{significant} of {len(tests)} other methods"
    text += f" Significantly higher than {others}."
    yield VerdictSentence(f"{best.name} has the highest update score.", text, "comparison")


def _counts(result: PairedResult) -> str:
    """Questions that only one of two methods answers; the first method of a test is the second one of its result."""
    if result.only_first is None or result.only_second is None:
        return ""
    return f" ({result.only_second} right that the other misses, {result.only_first} the other way round)"


def _damages(tests: Sequence[_Test]) -> Iterator[VerdictSentence]:
    """Differences in unchanged unrelated answers between methods."""
    if not tests or not any(test.result.difference.mean for test in tests):
        return
    significant = [test for test in tests if test.is_significant]
    largest = max(significant or tests, key=lambda test: test.result.difference.mean)
    kept = [f"{one.name} {estimate_text(one.kept)}" for one in (largest.first, largest.second)]
    text = (
        f"Unrelated answers unchanged: {kept[0]}; {kept[1]}. Difference {_difference(largest)}, "
        f"{_probability(largest.p)} after Holm."
    )
    if len(tests) > 1:
        text += f" {len(significant)} of {len(tests)} pairs of methods differ significantly."
    title = "The methods differ in damage." if significant else "No significant difference in damage."
    yield VerdictSentence(title, text, "tradeoff")


def _difference(test: _Test) -> str:
    """Difference in percentage points, with its interval."""
    found = test.result.difference
    ends = "" if found.low is None or found.high is None else f" [{100 * found.low:+.0f}, {100 * found.high:+.0f}]"
    return f"{100 * found.mean:+.1f} points{ends}"


def _wear(view: View) -> Iterator[VerdictSentence]:
    """Compares the same method with each edit undone and with accumulated edits."""
    by_name: dict[str, dict[str, MethodView]] = {}
    for method in view.edited:
        if method.run:
            by_name.setdefault(method.run.spec.method, {})[method.run.spec.protocol] = method
    for name, protocols in by_name.items():
        single = protocols.get("single")
        piled = protocols.get("sequential") or protocols.get("per_timestep")
        if not single or not piled or not piled.run:
            continue
        found = [(one.forced or one.free).get("update") for one in (single, piled)]
        alone, together = (asked.after if asked else None for asked in found)
        if alone and together and alone.mean - together.mean >= 0.1:
            edits = piled.run.scores.edits.edits
            text = (
                f"{name} scores {_share(alone.mean, alone.n)} with each edit alone and "
                f"{_share(together.mean, together.n)} after {edits:,} edits"
                f"{' under teacher forcing' if piled.forced else ''}."
            )
            yield VerdictSentence("Sequential edits overwrite one another.", text, "comparison")
            return


def _emptiness(view: View) -> Iterator[VerdictSentence]:
    """Empty answers: the model does not follow the format, or no longer does."""
    worst = max(view.edited, key=lambda one: one.empty.after.mean if one.empty.after else 0.0, default=None)
    if worst is None or not worst.empty.after or worst.empty.after.mean < 0.1:
        return
    before = worst.empty.before
    share = _share(worst.empty.after.mean, worst.empty.after.n)
    had = f", {_share(before.mean, before.n)} before any edit" if before else ""
    title = "Some answers are empty." if worst.empty.after.mean < 0.5 else "Most answers are empty."
    yield VerdictSentence(title, f"{worst.name} returns an empty answer for {share} of the updates{had}.", "answers")


def _retrieval(view: View) -> Iterator[VerdictSentence]:
    for method in view.edited:
        items = [
            item
            for item in (method.run.scores.retrieval if method.run else ())
            if (item.preset, item.axis) == (view.shown_preset, "update") and item.timestep == item.last_timestep
        ]
        if items:
            item = items[-1]
            used = (
                ""
                if item.accuracy_when_found is None
                else f" Where it was, {_share(item.accuracy_when_found, item.n)} are right."
            )
            title = (
                "The fact is found, and not always used." if item.first_hop > 0.8 else "The fact is often not found."
            )
            if item.accuracy_when_found is not None and item.accuracy_when_found > 0.9 and item.first_hop > 0.8:
                title = "The fact is found and used."
            text = (
                f"{method.name} put the fact into the prompt of {_share(item.first_hop, item.n)} of update questions."
            )
            yield VerdictSentence(title, text + used, "retrieval")
            return


def _forgetting(view: View) -> Iterator[VerdictSentence]:
    found = [
        (item.forgetting, method.name)
        for method in view.edited
        for item in (method.run.scores.retention if method.run else ())
        if (item.axis, item.preset) == ("update", view.shown_preset) and item.forgetting is not None
    ]
    if found:
        most, name = max(found)
        title = "Later timesteps undo earlier ones." if most >= 0.05 else "Later timesteps leave earlier ones intact."
        yield VerdictSentence(
            title, f"{name} forgets {100 * most:.1f} points of its best score on average.", "forgetting"
        )


def _cautions(view: View) -> Iterator[str]:
    kinds = next((kinds for run in view.runs if (kinds := kinds_of(run))), UNKNOWN_KIND)
    if kinds != UNKNOWN_KIND:
        yield f"Kinds of change of the edits: {kinds}." + (
            ""
            if kinds == "update"
            else " A model may know values of the other kinds; export with --kinds update for updates alone."
        )
    asked = [one for method in view.methods for one in (method.shown.get("update"),) if one and one.after]
    counts = [one.after.n for one in asked if one.after and one.after.n]
    if counts and min(counts) < _SMALL:
        n = min(counts)
        yield (
            f"{n} update question{'' if n == 1 else 's'}: a difference of {100 / n:.0f} points is one answer."
            if n < 50
            else (f"{n} update questions: one answer is {100 / n:.1f} points.")
        )
    seeds = {method.run.spec.seed for method in view.edited if method.run}
    if len(seeds) == 1:
        yield "One seed: intervals cover the choice of relations, not the variation between training runs."
    baseline = next((method for method in view.methods if method.is_baseline), None)
    before = baseline.shown.get("update") if baseline else None
    if view.free and before and before.after and before.after.mean == 0:
        yield "The unedited model answers no update with free generation, so 0 is a floor, not a finding."


def _probability(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _share(mean: float, n: int | None) -> str:
    return f"{percent(mean, n=n)} %"
