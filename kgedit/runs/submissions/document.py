"""A leaderboard as one JSON document: groups with standings, runs with provenance, and what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kgedit import __version__
from kgedit.analysis.cells import Estimate, as_values
from kgedit.analysis.ranking import Placed
from kgedit.analysis.standings import MEASURES, Standing, Standings
from kgedit.runs.submissions.board import Board, BoardRun

LEADERBOARD_FORMAT = "kgedit-leaderboard-1"


def leaderboard_document(board: Board, standings: Sequence[Standings]) -> dict[str, Any]:
    """Build the document; shares are fractions of 1, unknown values are null."""
    return {
        "format": LEADERBOARD_FORMAT,
        "kgedit": __version__,
        "measures": dict(MEASURES),
        "groups": [_group(one) for one in standings],
        "runs": [_run(one) for one in board.runs],
        "left_out": [{"name": path.name, "reasons": list(reasons)} for path, reasons in board.left_out.items()],
    }


def _group(one: Standings) -> dict[str, Any]:
    return {
        "key": one.key,
        "group": one.group,
        "model": one.model,
        "protocol": one.protocol,
        "trained_in": one.train_context,
        "cases_sha256": one.cases_sha256,
        "preset": one.preset.name,
        "metric": one.preset.metric,
        "free_preset": one.free,
        "rows": [_row(row, one) for row in one.rows],
        "before_any_edit": {measure: as_values(estimate) for measure, estimate in one.before.items()},
    }


def _row(row: Standing, standings: Standings) -> dict[str, Any]:
    return {
        "name": row.name,
        "method": row.variant.runs[0].spec.method,
        "runs": [run.folder.name for run in row.variant.runs],
        "seeds": [run.spec.seed for run in row.variant.runs],
        "measures": {measure: _placed(placed) for measure, placed in row.cells.items()},
        "significantly_less_damage": list(standings.less_damage[row.name]),
    }


def _placed(placed: Placed) -> dict[str, Any]:
    estimate: Estimate = placed.estimate
    return {**as_values(estimate), "first_rank": placed.first, "last_rank": placed.last}


def _run(one: BoardRun) -> dict[str, Any]:
    run, env, said = one.run, one.environment, one.statement
    return {
        "name": one.name,
        "method": run.spec.method,
        "model": run.model,
        "model_fingerprint": env.model.fingerprint if env else None,
        "model_revision": env.model.revision if env else None,
        "protocol": run.spec.protocol,
        "seed": run.spec.seed,
        "edits": run.scores.edits.edits,
        "failed": run.scores.edits.failed,
        "submitter": said.submitter if said else None,
        "date": said.date if said else None,
        "note": said.note if said else "",
        "kgedit": env.packages.get("kgedit") if env else None,
        "git_commit": env.git_commit if env else None,
        "device": env.device if env else None,
        "answers_sha256": run.scores.answers_sha256,
        "cases_sha256": run.scores.cases_sha256,
        "timesteps": [{"name": step.name, "sha256": step.sha256} for step in env.timesteps] if env else [],
        "report": str(one.report) if isinstance(one.report, str) else None,
    }
