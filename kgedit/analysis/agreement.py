"""Agreement between a judge and the rules on stored answers."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.analysis.cells import Estimate
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import METHOD, Column, Table


def agreement_table(runs: Sequence[Run]) -> Table | None:
    """One row per run, preset and rule; None if no answer was judged."""
    rows = tuple(
        (
            *(number, run.spec.method, item.preset, item.rule, item.n),
            *(Estimate(item.share, item.low, item.high, item.n), item.kappa, run.scores.judging.judge),
        )
        for number, run in enumerate(runs, start=1)
        if run.scores.judging
        for item in run.scores.judging.agreement
    )
    if not rows:
        return None
    columns = (
        *METHOD,
        Column("preset", key=True),
        Column("rule", key=True),
        Column("n", "count"),
        Column("agreement", "percent", heading="agreement [95 %]"),
        Column("kappa", "plain"),
        Column("judge"),
    )
    note = (
        "Share of the free answers, over all axes and stages, on which the judge and the rule agree, with the 95 % "
        "interval clustered by relation, and Cohen's kappa, which is 0 for chance agreement and missing if either "
        "gives all answers the same verdict. token_f1 counts as right from 0.5."
    )
    return Table("Judge agreement", columns, rows, note)
