"""What asking cost, and general ability before and after."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.analysis.cells import Cell
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import METHOD, Column, Table, dates
from kgedit.records.runs import UNEDITED


def speed_table(runs: Sequence[Run]) -> Table | None:
    """Forward time under each preset, before and after the edits apart; None where no run asked anything."""
    rows = tuple(
        (
            *(number, run.spec.method, speed.preset, "after" if speed.edited else "before", speed.questions),
            *(speed.cached, *_per_question(speed.seconds, speed.questions), speed.prompt_tokens, speed.new_tokens),
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
        Column("ms per question", "rate"),
        Column("questions per second", "rate"),
        *(Column(name, "count") for name in ("prompt tokens", "new tokens")),
    )
    note = (
        "Wall time of the model under each preset, before any edit and after. Replies from the cache, which took no "
        "time, are counted and stand in no other column."
    )
    return Table("Forward time", columns, rows, note)


def _per_question(seconds: float, questions: int) -> tuple[float | None, float | None]:
    return (1000 * seconds / questions, questions / seconds) if questions and seconds else (None, None)


def ability_table(runs: Sequence[Run]) -> Table | None:
    """Perplexity on a text that has nothing to do with the edits, before and after; None where no run measured it."""
    rows: list[tuple[Cell, ...]] = []
    for number, run in enumerate(runs, start=1):
        before = {score.text_sha256: score for score in run.scores.ability if score.model_state == UNEDITED}
        for score in run.scores.ability:
            if score.model_state == UNEDITED:
                continue
            first = before.get(score.text_sha256)
            ratio = score.perplexity / first.perplexity if first else None
            rows.append(
                (
                    *(number, run.spec.method, dates(score.model_state.timestep or ""), score.text, score.measured),
                    *(first.perplexity if first else None, score.perplexity, ratio, score.worst_perplexity),
                    *(first.bits_per_byte if first else None, score.bits_per_byte),
                )
            )
    if not rows:
        return None
    columns = (
        *METHOD,
        *(Column(name, key=True) for name in ("after", "text")),
        Column("measured", "count"),
        *(Column(name, "plain") for name in ("perplexity before", "perplexity", "ratio", "worst", "bits/byte before")),
        Column("bits/byte", "plain"),
    )
    note = (
        "Perplexity by token, lower is better; under the protocol single the median over the edits, and the worst of "
        "them. Bits per byte do not depend on the tokenizer, so that models compare."
    )
    return Table("General ability", columns, tuple(rows), note)
