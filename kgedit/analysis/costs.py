"""Cost of evaluation, and general ability before and after editing."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.analysis.runs import Run
from kgedit.analysis.tables import METHOD, Column, Table, dates
from kgedit.records.runs import UNEDITED
from kgedit.records.scores import AbilityScore


def speed_table(runs: Sequence[Run]) -> Table | None:
    """Forward time under each preset, separately before and after editing; None if no run evaluated anything."""
    rows = tuple(
        (
            *(number, run.spec.method, speed.preset, "after" if speed.edited else "before", speed.questions),
            speed.cached,
            *(_each(total, speed.questions) for total in (1000 * speed.seconds, speed.prompt_tokens, speed.new_tokens)),
        )
        for number, run in enumerate(runs, start=1)
        for speed in run.scores.speed
    )
    if not rows:
        return None
    columns = (
        *METHOD,
        Column("preset", key=True),
        Column("asked", key=True),
        *(Column(name, "count") for name in ("questions", "from cache")),
        *(Column(name, "rate") for name in ("ms each", "prompt tokens each", "new tokens each")),
    )
    note = (
        "Wall time of the model per question, before any edit and after. Replies from the cache, which took no time, "
        "are counted in their own column only."
    )
    return Table("Forward time", columns, rows, note)


def _each(total: float, questions: int) -> float | None:
    return total / questions if questions else None


def ability_table(runs: Sequence[Run]) -> Table | None:
    """Perplexity on a text unrelated to the edits, before and after; None if not measured."""
    rows = [
        (
            *(number, run.spec.method, dates(score.model_state.timestep or "")),
            *(first.perplexity if first else None, score.perplexity),
            *(score.perplexity / first.perplexity if first else None, score.bits_per_byte),
            *(score.measured, score.worst_perplexity),
        )
        for number, run in enumerate(runs, start=1)
        for score, first in _with_unedited(run)
    ]
    if not rows:
        return None
    columns = (
        *METHOD,
        Column("after", key=True),
        *(Column(name, "plain") for name in ("perplexity before", "perplexity", "ratio", "bits/byte")),
        Column("edits measured", "count"),
        Column("worst", "plain"),
    )
    texts = ", ".join(dict.fromkeys(score.text for run in runs for score in run.scores.ability))
    note = (
        f"Text: {texts}. Perplexity by token, lower is better. Bits per byte do not depend on the tokenizer, so that "
        "models compare."
    )
    if all(row[-2] == 1 for row in rows):
        return Table("General ability", columns[:-2], tuple(row[:-2] for row in rows), note)
    note += " Under the protocol single after each edit: the median, and the worst."
    return Table("General ability", columns, tuple(rows), note)


def tasks_table(runs: Sequence[Run]) -> Table | None:
    """Tasks of lm-evaluation-harness before and after; None if not measured."""
    rows = []
    for number, run in enumerate(runs, start=1):
        scores = run.scores.ability_tasks
        before = {(score.task, score.metric): score for score in scores if score.model_state == UNEDITED}
        for score in scores:
            first = before.get((score.task, score.metric))
            if score.model_state != UNEDITED:
                rows.append(
                    (
                        *(number, run.spec.method, dates(score.model_state.timestep or ""), score.task, score.metric),
                        *(score.n, first.value if first else None, score.value),
                        *(score.value - first.value if first else None, score.error),
                        *(score.measured, score.worst),
                    )
                )
    if not rows:
        return None
    columns = (
        *METHOD,
        *(Column(name, key=True) for name in ("after", "task", "metric")),
        Column("n", "count"),
        *(Column(name, "plain") for name in ("value before", "value", "difference", "standard error")),
        Column("edits measured", "count"),
        Column("worst", "plain"),
    )
    note = (
        "lm-evaluation-harness's own values, in its units, over n documents. Standard error: of the value, over "
        "documents; that of the difference is smaller, since the documents are the same."
    )
    if all(row[-2] == 1 for row in rows):
        return Table("General ability: tasks", columns[:-2], tuple(row[:-2] for row in rows), note)
    note += " Under the protocol single after each edit: the mean, and the worst."
    return Table("General ability: tasks", columns, tuple(rows), note)


def _with_unedited(run: Run) -> list[tuple[AbilityScore, AbilityScore | None]]:
    """Each score after editing, with the unedited model's score on the same text."""
    before = {score.text_sha256: score for score in run.scores.ability if score.model_state == UNEDITED}
    return [(score, before.get(score.text_sha256)) for score in run.scores.ability if score.model_state != UNEDITED]
