"""Multi-hop questions by number of hops, compared with the single-hop questions about their facts.

MQuAKE (Zhong et al. 2023, section 4) counts a chain as answered if any of its wordings is; hop-wise accuracy counts a
chain if all of its facts are answered individually.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.analysis.answers import estimate_of, rows_of
from kgedit.analysis.cells import Cell, Estimate, MeanChange
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import METHOD, Column, Table, metrics_of, preset_scale, preset_unit

HOPS = "hops"
"""Name of the breakdown."""


@dataclass(frozen=True, slots=True)
class _Chain:
    """A chain at one stage: whether any wording is answered, and whether each of its facts is answered individually."""

    relation: str
    answered: bool
    hops: bool | None


def hops_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Multi-hop scores before and after by number of hops; None if no run evaluated any."""
    rows: list[tuple[Cell, ...]] = []
    for number, run in enumerate(runs, start=1):
        before, after = (rows_of(run, stage, "mhop", preset) for stage in ("before", "own"))
        singles = {row["question"]: row["right"] for row in _columns(rows_of(run, "own", "hop", preset))}
        for hops in sorted(pc.unique(after["hops"]).drop_null().to_pylist()):
            asked = after.filter(pc.field("hops") == hops)
            earlier = _estimate(run, before.filter(pc.field("hops") == hops), preset)
            change = MeanChange(None if earlier is None else earlier.mean, _estimate(run, asked, preset))
            rows.append((number, run.spec.method, hops, len(asked), change, *_chain_cells(asked, singles)))
    if not rows:
        return None
    columns = (
        *METHOD,
        Column("hops", "count", key=True),
        Column("n", "count"),
        Column("mhop", preset_unit(runs, preset)),
        Column("chains", "count"),
        *(Column(name, "percent") for name in ("any wording", "all hops", "shortcuts")),
    )
    note = (
        f"mhop: {metrics_of(runs, preset)}, before any edit → right after a timestep's own edits; 95 % intervals "
        "clustered by relation. Of chains asked in several wordings: any wording: those with one answered right; all "
        "hops: those whose facts are all answered right when asked for alone; shortcuts: of the chains answered right, "
        "those with a fact answered wrong. n: questions."
    )
    return Table(f"By hops, preset {preset}", columns, tuple(rows), note)


def _chain_cells(asked: pa.Table, singles: dict[int, bool | None]) -> tuple[Cell, ...]:
    chains = _chains(asked, singles)
    judged = [chain for chain in chains if chain.hops is not None]
    solved = [chain for chain in judged if chain.answered]
    shortcuts = sum(not chain.hops for chain in solved) / len(solved) if solved else None
    return (
        len(chains) or None,
        _share([chain.answered for chain in chains], chains),
        _share([bool(chain.hops) for chain in judged], judged),
        shortcuts,
    )


def _chains(asked: pa.Table, singles: dict[int, bool | None]) -> list[_Chain]:
    """Chains among the rows of one stage whose wordings could be scored."""
    found: dict[int, _Chain] = {}
    for row in _columns(asked.filter(pc.field("chain").is_valid() & pc.field("right").is_valid())):
        known = [singles.get(question) for question in row["hop_questions"]]
        hops = all(known) if len(known) == row["hops"] and None not in known else None
        earlier = found.get(row["chain"])
        answered = row["right"] or (earlier is not None and earlier.answered)
        found[row["chain"]] = _Chain(row["relation"], answered, hops)
    return list(found.values())


def _columns(rows: pa.Table) -> list[dict[str, Any]]:
    names = ["question", "right", "relation", "chain", "hops", "hop_questions"]
    picked: list[dict[str, Any]] = rows.select(names).to_pylist()
    return picked


def _share(values: Sequence[bool], chains: Sequence[_Chain]) -> Estimate | None:
    relations = np.array([chain.relation for chain in chains], dtype=np.str_)
    return estimate_of(np.array(values, dtype=np.float64), relations)


def _estimate(run: Run, rows: pa.Table, preset: str) -> Estimate | None:
    judged = rows.filter(pc.field("value").is_valid())
    relations = np.array(judged["relation"].to_pylist(), dtype=np.str_)
    return estimate_of(judged["value"].to_numpy(), relations, preset_scale([run], preset))
