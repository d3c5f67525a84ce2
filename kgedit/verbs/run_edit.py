"""Carries out runs, reads finished runs, and returns scores as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgedit.extras import names_extra
from kgedit.resources import use_home
from kgedit.verbs.home import Home, folder_of
from kgedit.verbs.live_progress import stage_line

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
    """Edit a model and evaluate it before and after; the same call resumes an interrupted run.

    Args:
        spec: A YAML file as written by `kgedit configs cp`, or its content as a mapping.
        out: Folder of the run; None means a folder under `runs` in the home, the same one for the same spec.
        home: Home folder for that folder and for data that later runs reuse: answers of the unedited model, statistics,
            trained networks, `tiny`. None means `$KGEDIT_HOME`, else `./kgedit-data`.
        overwrite: Whether to start over if the folder contains a run.
        save_model: Folder for the edited model.
        backend_budget: Maximum cost in dollars of the server of the backend openai in this call; None means no limit.
        backend_prices: YAML file of prices that replaces the built-in one.
        track: "trackio" or "wandb": logs metrics there at checkpoints, after evaluations and at the end (requires
            kgedit[track] or kgedit[wandb]). Not part of the spec.
        progress: Called with the stage, the number of its finished steps, and their total. None shows a progress line
            in a notebook or a terminal.

    Raises:
        SpecError: listing all errors of the spec.
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
    """Read a finished run.

    Raises:
        TimestepError: if the folder contains no run, or an unfinished one.
    """
    from kgedit.runs.run_files import read_runs

    return read_runs([Path(folder)])[0]


@names_extra
def scores(runs: Run | str | Path | Iterable[Run | str | Path]) -> pa.Table:
    """Read scores of finished runs, one row each; `main` marks a preset's own metric, low and high its 95 % interval.

    Raises:
        TimestepError: if a folder contains no finished run.
    """
    from kgedit.analysis.runs import Run
    from kgedit.analysis.score_table import score_table

    given = [runs] if isinstance(runs, Run | str | Path) else runs
    return score_table([one if isinstance(one, Run) else read_run(one) for one in given])
