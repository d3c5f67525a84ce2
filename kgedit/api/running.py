"""Runs: a spec carried out, a finished run read again, and scores as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgedit.api.home import Home, folder_of
from kgedit.api.live_progress import stage_line
from kgedit.extras import names_extra
from kgedit.resources import use_home

if TYPE_CHECKING:
    import pyarrow as pa

    from kgedit.analysis.runs import Run
    from kgedit.llm.remote.prices import Spending


@names_extra
def run(
    spec: str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    home: Home | str | Path | None = None,
    overwrite: bool = False,
    save_model: str | Path | None = None,
    backend_budget: float | None = None,
    backend_prices: str | Path | None = None,
    track: str | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Run:
    """Edit a model and evaluate it before and after; what was stopped resumes with the same call.

    Args:
        spec: A YAML file as `kgedit configs cp` writes it, or its content as a mapping.
        out: The run's folder; None for one under `runs` in the home, which the same spec always finds again.
        home: Where that folder goes, and what further runs use again: answers of the unedited model, statistics,
            trained networks, `tiny`. None for `$KGEDIT_HOME`, else `./kgedit-data`.
        overwrite: Begin afresh where the folder holds a run.
        save_model: Folder for the edited model.
        backend_budget: Most dollars that the server of the backend openai may be paid in this call; None for no limit.
        backend_prices: YAML of prices, instead of the shipped one.
        track: "trackio" or "wandb": log metrics there at checkpoints, after evaluations and at the end (needs
            kgedit[track] or kgedit[wandb]). No part of the spec.
        progress: Called with the stage, how many of its steps are done, and how many there are. None shows a line in
            a notebook or a terminal.

    Raises:
        SpecError: naming everything that is wrong with the spec.
        ModelError: if the model cannot be loaded.
        TimestepError: if a timestep cannot be read.
    """
    from kgedit.runs import runner
    from kgedit.runs.scoring import write_scores
    from kgedit.runs.spec import read_spec, resolve
    from kgedit.runs.tracking import Tracking

    tracking = Tracking(track)
    raw = spec if isinstance(spec, Mapping) else read_spec(Path(spec)).raw
    with use_home(folder_of(home)):
        folder = runner.run(
            resolve(raw),
            None if out is None else Path(out),
            overwrite=overwrite,
            save_model=None if save_model is None else Path(save_model),
            spending=_spending(backend_budget, backend_prices),
            tracking=tracking,
            progress=progress or stage_line(),
        )
    write_scores(folder)
    tracking.finish()
    return read_run(folder)


def _spending(budget: float | None, prices: str | Path | None) -> Spending | None:
    from kgedit.llm.remote.prices import SHIPPED, Spending

    if budget is None and prices is None:
        return None
    return Spending(budget=budget, prices=SHIPPED if prices is None else Path(prices))


@names_extra
def read_run(folder: str | Path) -> Run:
    """A finished run.

    Raises:
        TimestepError: if the folder holds no run, or one that is not finished.
    """
    from kgedit.runs.run_files import read_runs

    return read_runs([Path(folder)])[0]


@names_extra
def scores(runs: Run | str | Path | Iterable[Run | str | Path]) -> pa.Table:
    """Scores of finished runs, one row each; `main` marks a preset's own metric, low and high its 95 % interval.

    Raises:
        TimestepError: if a folder holds no finished run.
    """
    from kgedit.analysis.runs import Run
    from kgedit.analysis.score_table import score_table

    given = [runs] if isinstance(runs, Run | str | Path) else runs
    return score_table([one if isinstance(one, Run) else read_run(one) for one in given])
