"""The verdict of a report in sentences: what was gained, what it cost, and what the numbers do not show.

Every sentence follows from numbers by a rule of this file; a sentence whose numbers are missing is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kgedit.analysis.answers import judged_questions
from kgedit.analysis.comparisons import PairedResult, paired_result
from kgedit.pages.charts.scales import percent, told
from kgedit.pages.report_views import MethodView, View
from kgedit.resampling import holm

FALL = 0.2
"""From this difference on, a score under teacher forcing and that of free answers are called apart."""

_SMALL = 100
_SURE = 0.05


@dataclass(frozen=True, slots=True)
class Piece:
    """Words of a sentence.

    Attributes:
        said: The words.
        role: Colour that is the key to the charts, or "".
    """

    said: str
    role: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence with its headline.

    Attributes:
        title: The claim.
        said: Its numbers.
        section: Of the page, where its evidence is.
    """

    title: str
    said: str
    section: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a reader takes away.

    Attributes:
        lead: The first sentences.
        findings: At most four further ones.
        cautions: What the numbers cannot carry.
    """

    lead: tuple[Piece, ...]
    findings: tuple[Finding, ...]
    cautions: tuple[str, ...]


def verdict_of(view: View) -> Verdict:
    """The verdict on one view."""
    makers = (_ahead, _wear, _emptiness, _retrieval, _forgetting)
    findings = [finding for make in makers for finding in make(view)]
    return Verdict(tuple(_lead(view)), tuple(findings[:4]), tuple(_cautions(view)))


def _lead(view: View) -> Iterator[Piece]:
    if not view.edited:
        yield Piece("No run changed an answer: ")
        baseline = view.methods[0] if view.methods else None
        asked = baseline.shown.get("update") if baseline else None
        if asked and asked.after:
            yield Piece("the unedited model answers ")
            yield Piece(_share(asked.after.mean, asked.after.n), "free" if view.free else "forced")
            yield Piece(" of the updates.")
        return
    best = view.edited[0]
    if view.free and view.forced:
        yield from _two_ways(best, view.edited)
    else:
        yield from _one_way(best, view)
    yield from _damage(best)


def _two_ways(best: MethodView, methods: Sequence[MethodView]) -> Iterator[Piece]:
    falls = [(fall, method) for method in methods if (fall := _fall(method)) is not None]
    fall, method = max(falls, key=lambda one: one[0], default=(0.0, best))
    forced, free = method.forced.get("update"), method.free.get("update")
    if fall >= FALL and forced and forced.after and free and free.after:
        yield Piece(f"{method.name} reaches ")
        yield Piece(_share(forced.after.mean, forced.after.n), "forced")
        yield Piece(" under teacher forcing, but ")
        yield Piece(_share(free.after.mean, free.after.n), "free")
        yield Piece(" when the model answers freely.")
        if method is best and (free.after.mean or len(methods) == 1):
            return
        yield Piece(" ")
    asked = best.free.get("update")
    if asked and asked.after and asked.after.mean:
        others = [one.free["update"].after for one in methods[1:] if "update" in one.free]
        is_most = len(methods) > 1 and all(other is None or other.mean < asked.after.mean for other in others)
        yield Piece(f"{best.name} answers ")
        yield Piece(_share(asked.after.mean, asked.after.n), "free")
        yield Piece(" of the updates freely" + (", the most of all." if is_most else "."))
    elif asked and asked.after:
        yield Piece("No method answers any update freely.")


def _fall(method: MethodView) -> float | None:
    forced, free = method.forced.get("update"), method.free.get("update")
    return forced.after.mean - free.after.mean if forced and free and forced.after and free.after else None


def _one_way(best: MethodView, view: View) -> Iterator[Piece]:
    asked = best.shown.get("update")
    if asked and asked.after:
        way = "freely" if view.free else "under teacher forcing, the only way of asking here"
        yield Piece(f"{best.name} answers ")
        yield Piece(_share(asked.after.mean, asked.after.n), "free" if view.free else "forced")
        yield Piece(f" of the updates {way}.")


def _damage(best: MethodView) -> Iterator[Piece]:
    kept = best.kept
    if kept is None or kept.n is None:
        return
    count = round(kept.mean * kept.n)
    yield Piece(f" Of {kept.n:,} unrelated answers of {best.name}, ")
    yield Piece(f"{count:,} stayed the same", "good" if kept.mean >= 0.9 else "bad")
    yield Piece(".")


def _ahead(view: View) -> Iterator[Finding]:
    """The best method against each other one, on the same questions."""
    if len(view.edited) < 2:
        return
    best, *others = view.edited
    asked = best.shown.get("update")
    pairs = [(other, result) for other in others if (result := _paired(best, other, view.shown_preset))]
    if not pairs or not asked or not asked.after:
        return
    corrected = holm([result.p for _, result in pairs])
    apart = sum(_is_ahead(result, p) for (_, result), p in zip(pairs, corrected, strict=True))
    if not asked.after.mean:
        yield Finding("Nothing tells the methods apart.", f"The best of all has {told(asked.after)}.", "comparison")
        return
    second, result = pairs[0]
    counted = f"Updates: {told(asked.after)}"
    against = (
        f"against {second.name} it answers {result.only_first} that the other does not, and misses {result.only_second}"
        if result.only_first is not None
        else f"against {second.name} the difference is {100 * result.difference.mean:+.1f} points"
    )
    method_word = "method" if len(pairs) == 1 else "methods"
    if apart == len(pairs):
        title = f"{best.name} is ahead."
        why = f"Told apart from {'the other' if len(pairs) == 1 else f'each of the {len(pairs)} other'} {method_word}"
    elif apart:
        title = f"{best.name} is ahead of {apart} of {len(pairs)}."
        why = f"Told apart from {apart} of {len(pairs)} other methods"
    else:
        title = "No method is ahead for certain."
        why = f"{best.name} has the highest score; no difference is told apart from chance"
    yield Finding(title, f"{counted}; {against} ({_probability(corrected[0])} after Holm). {why}.", "comparison")


def _is_ahead(result: PairedResult, p: float) -> bool:
    """Whether test and interval agree: the one takes questions as independent, the other whole relations."""
    low = result.difference.low
    return p < _SURE and low is not None and low > 0


def _paired(best: MethodView, other: MethodView, preset: str) -> PairedResult | None:
    """The best against another, turned so that "first" is the best."""
    if best.run is None or other.run is None:
        return None
    first, second = (judged_questions(one.run, "own", "update", preset) for one in (best, other) if one.run)
    values = {*first.values.tolist(), *second.values.tolist()}
    found = paired_result(second, first, binary=values <= {0.0, 1.0})
    if not found.n:
        return None
    return PairedResult(found.n, found.difference, found.only_second, found.only_first, found.p)


def _wear(view: View) -> Iterator[Finding]:
    """The same method with each edit undone, and with edits piled up."""
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
            said = (
                f"{name} scores {_share(alone.mean, alone.n)} with each edit alone and "
                f"{_share(together.mean, together.n)} after {edits:,} edits"
                f"{' under teacher forcing' if piled.forced else ''}."
            )
            yield Finding("Edits in a row undo one another.", said, "comparison")
            return


def _emptiness(view: View) -> Iterator[Finding]:
    """Answers without a word: a format that the model does not follow, or one that it lost."""
    worst = max(view.edited, key=lambda one: one.empty.after.mean if one.empty.after else 0.0, default=None)
    if worst is None or not worst.empty.after or worst.empty.after.mean < 0.1:
        return
    before = worst.empty.before
    share = _share(worst.empty.after.mean, worst.empty.after.n)
    had = f", {_share(before.mean, before.n)} before any edit" if before else ""
    title = "Some answers are empty." if worst.empty.after.mean < 0.5 else "Most answers are empty."
    yield Finding(title, f"{worst.name} says nothing to {share} of the updates{had}.", "answers")


def _retrieval(view: View) -> Iterator[Finding]:
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
            said = (
                f"{method.name} put the fact into the prompt of {_share(item.first_hop, item.n)} of update questions."
            )
            yield Finding(title, said + used, "retrieval")
            return


def _forgetting(view: View) -> Iterator[Finding]:
    found = [
        (item.forgetting, method.name)
        for method in view.edited
        for item in (method.run.scores.retention if method.run else ())
        if (item.axis, item.preset) == ("update", view.shown_preset) and item.forgetting is not None
    ]
    if found:
        most, name = max(found)
        title = "Later timesteps undo earlier ones." if most >= 0.05 else "Later timesteps leave earlier ones."
        yield Finding(title, f"{name} forgets {100 * most:.1f} points of its best score on average.", "forgetting")


def _cautions(view: View) -> Iterator[str]:
    asked = [one for method in view.methods for one in (method.shown.get("update"),) if one and one.after]
    counts = [one.after.n for one in asked if one.after and one.after.n]
    if counts and min(counts) < _SMALL:
        n = min(counts)
        yield (
            f"{n} update questions: a difference of {100 / n:.0f} points is one answer."
            if n < 50
            else (f"{n} update questions: one answer is {100 / n:.1f} points.")
        )
    seeds = {method.run.spec.seed for method in view.edited if method.run}
    if len(seeds) == 1:
        yield "One seed: intervals say how sure a mean is over relations, nothing about another training."
    baseline = next((method for method in view.methods if method.is_baseline), None)
    before = baseline.shown.get("update") if baseline else None
    if view.free and before and before.after and before.after.mean == 0:
        yield "The unedited model answers no update freely, so 0 is a floor, not a finding."


def _probability(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _share(mean: float, n: int | None) -> str:
    return f"{percent(mean, n=n)} %"
