"""Standings as one table per group and preset, and as one numeric table."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from kgedit.analysis.cells import Cell, Unit, as_values
from kgedit.analysis.comparisons import Placed
from kgedit.analysis.overviews import kinds_of
from kgedit.analysis.standings import MEASURES, Measure, Standing, Standings
from kgedit.analysis.tables import Column, Table, with_counts

HEADINGS: dict[Measure, str] = {
    "overall": "overall",
    "efficacy": "efficacy",
    "generalization": "generalization",
    "two_hops": "two hops",
    "locality": "locality",
    "damage": "damage",
    "free_decoding": "free decoding",
    "cost": "CPU s per edit",
}

_NUMBERS = (
    *("group", "model", "protocol", "trained_in", "cases_sha256", "preset", "name", "method", "runs", "seeds"),
    *("measure", "mean", "low", "high", "n", "first_rank", "last_rank"),
)


def standings_tables(standings: Sequence[Standings]) -> list[Table]:
    """One table per group and preset: every measure with its rank."""
    return [_table(one) for one in standings]


def title_of(standings: Standings) -> str:
    """Title: group, model, protocol, training format, preset."""
    trained = f", trained in {standings.train_context}" if standings.train_context else ""
    protocol = standings.protocol.replace("_", " ")
    return f"Group {standings.group}: {standings.model}, {protocol}{trained}, preset {standings.preset.name}"


def _table(standings: Standings) -> Table:
    shown = standings.measures
    columns = [Column("method", key=True), Column("runs", key=True)]
    for measure in shown:
        unit: Unit = "seconds" if measure == "cost" else "percent"
        columns.append(Column(measure, unit, heading=HEADINGS[measure]))
        if measure != "cost":
            columns.append(Column(f"{measure} rank", heading="rank"))
    rows = [_row(row, shown) for row in standings.rows]
    if standings.before:
        rows.append(_before(standings, shown))
    free = f" Free decoding: preset {standings.free}." if standings.free else ""
    limit = f" {standings.tests_limit}" if standings.tests_limit else ""
    kinds = kinds_of(standings.rows[0].variant.runs[0]) if standings.rows else ""
    kinds = f" ({kinds})" if kinds else ""
    note = (
        f"Cases {standings.cases_sha256[:8]}{kinds}; {standings.preset.metric} in % right after the edits, with the "
        "95 % interval clustered by relation. Damage: unrelated answers that changed. Overall: harmonic mean of "
        "efficacy, generalization (where asked) and unchanged unrelated answers. Ranks: paired permutation tests over "
        "relations, "
        f"corrected by Holm; a range where differences are not significant.{limit}{free}"
    )
    return with_counts(Table(title_of(standings), tuple(columns), tuple(rows), note))


def _row(row: Standing, shown: Sequence[Measure]) -> tuple[Cell, ...]:
    cells: list[Cell] = [row.name, str(len(row.variant.runs))]
    for measure in shown:
        placed = row.cells.get(measure)
        cells += [_value(measure, placed), *([] if measure == "cost" else [placed.rank if placed else None])]
    return tuple(cells)


def _value(measure: Measure, placed: Placed | None) -> Cell:
    if placed is None:
        return None
    return placed.estimate.mean if measure == "cost" else placed.estimate


def _before(standings: Standings, shown: Sequence[Measure]) -> tuple[Cell, ...]:
    cells: list[Cell] = ["before any edit", ""]
    for measure in shown:
        cells += [standings.before.get(measure), *([] if measure == "cost" else [""])]
    return tuple(cells)


def standings_csv(standings: Sequence[Standings]) -> str:
    """One line per measure, row, group and preset; shares as fractions of 1."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(_NUMBERS)
    for one in standings:
        group = (one.group, one.model, one.protocol, one.train_context or "", one.cases_sha256, one.preset.name)
        for row in one.rows:
            runs = row.variant.runs
            seeds = " ".join(str(run.spec.seed) for run in runs)
            who = (row.name, runs[0].spec.method, " ".join(run.folder.name for run in runs), seeds)
            for measure in MEASURES:
                if (placed := row.cells.get(measure)) is not None:
                    values = as_values(placed.estimate)
                    numbers = (values["mean"], values["low"], values["high"], values["n"], placed.first, placed.last)
                    writer.writerow([*group, *who, measure, *("" if value is None else value for value in numbers)])
    return lines.getvalue()
