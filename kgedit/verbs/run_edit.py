"""Carries out runs, reads finished runs, and returns scores as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from kgedit.errors import names_extra
from kgedit.progress import Listener
from kgedit.resources import use_home
from kgedit.verbs.home import folder_of
from kgedit.verbs.live_progress import stage_line
from kgedit.verbs.options import (
    AnyFile,
    AnyFolder,
    AnyPath,
    CommandLine,
    OneOf,
    Verb,
    flag,
    function_of,
    options,
    python_only,
)
from kgedit.verbs.shared_options import TRACKERS, InHome

if TYPE_CHECKING:
    import pyarrow as pa

    from kgedit.analysis.runs import Run
    from kgedit.llm.remote.prices import Spending


SPEC_FLAGS = {
    "timesteps": CommandLine(("--timestep",), metavar="TIMESTEP", complete="timesteps"),
    "limit": CommandLine(metavar="N"),
    "sample": CommandLine(metavar="N"),
    "stratify": CommandLine(metavar="relation", rare=True),
    "only_failed": CommandLine(),
    "only_cases": CommandLine(metavar="FILE", rare=True),
    "population": CommandLine(metavar="all|repl", rare=True),
    "archive_as": CommandLine(metavar="TEXT", rare=True),
    "order": CommandLine(metavar="random|file", rare=True),
    "model": CommandLine(group="Model", metavar="NAME", complete="models"),
    "method": CommandLine(group="Model", metavar="NAME", complete="methods"),
    "settings": CommandLine(("--set",), group="Model", metavar="KEY=VALUE"),
    "protocol": CommandLine(group="Model", metavar="NAME", complete="protocols"),
    "batch_size": CommandLine(group="Model", metavar="N"),
    "train_context": CommandLine(group="Model", metavar="NAME"),
    "quantize": CommandLine(group="Model", metavar="4bit", rare=True),
    "trust_remote_code": CommandLine(group="Model", rare=True),
    "backend": CommandLine(group="Model", metavar="NAME", rare=True),
    "backend_url": CommandLine(group="Model", metavar="URL", rare=True),
    "presets": CommandLine(("--preset",), group="Questions", metavar="NAME", complete="presets"),
    "thinking": CommandLine(group="Questions", metavar="on|off", rare=True),
    "thinking_tokens": CommandLine(group="Questions", metavar="N", rare=True),
    "neighbours": CommandLine(group="Questions", metavar="N", rare=True),
    "two_hop_rephrases": CommandLine(group="Questions", rare=True),
    "evaluate_earlier": CommandLine(group="Questions"),
    "evaluate_sample": CommandLine(group="Questions", metavar="N", rare=True),
    "evaluate_every": CommandLine(group="Questions", metavar="N"),
    "ability": CommandLine(group="Questions", metavar="prose|FILE|lm-eval:TASK"),
    "ability_limit": CommandLine(group="Questions", metavar="N", rare=True),
    "ability_tasks": CommandLine(is_shown=False),
    "seed": CommandLine(group="Machine", metavar="N"),
    "device": CommandLine(group="Machine", metavar="NAME"),
    "dtype": CommandLine(group="Machine", metavar="NAME", rare=True),
    "max_memory": CommandLine(group="Machine", metavar="SIZES", rare=True),
    "batch_tokens": CommandLine(group="Machine", metavar="N", rare=True),
    "checkpoint_every": CommandLine(group="Machine", metavar="N", rare=True),
}
"""Flags of the fields of a run spec (kgedit.runs.given_run.GivenRun), which has their types and meanings."""


@options
class RunEdit(InHome, Verb["Run"]):
    """Edit a model, and evaluate it before and after.

    SPEC is a YAML file, as written by `kgedit configs cp`, or EasyEdit's hyperparameters of a method; options can
    replace it. Prints the run folder, which contains spec.yaml, environment.json, selection.json, edited_cases.txt,
    prepared.json, cases.parquet, answers.jsonl, edits.jsonl, ability.jsonl, checkpoints, answers.parquet and
    scores.json. The same command resumes an interrupted run.
    """

    spec: str | Path | Mapping[str, Any] = python_only(
        kw_only=False, help="A YAML file as written by `kgedit configs cp`, or its content as a mapping."
    )
    out: AnyFolder | None = flag(
        default=None,
        group="Output",
        help="Run folder. Default: a folder under runs in the home, the same one for the same spec.",
    )
    save_model: AnyPath | None = flag(
        default=None,
        group="Output",
        metavar="FOLDER",
        help="Folder for the edited model; its README.md explains how to load it.",
    )
    overwrite: bool = flag(default=False, group="Output", help="Start over if the folder contains a run.")
    track: Annotated[str, OneOf(TRACKERS)] | None = flag(
        default=None,
        group="Output",
        help="Log metrics there at checkpoints and at the end (kgedit[track] or kgedit[wandb]).",
    )
    backend_budget: float | None = flag(
        default=None,
        ge=0,
        group="Model",
        rare=True,
        metavar="USD",
        help="Stop before the server of the backend openai costs more. Not part of the spec.",
    )
    backend_prices: AnyFile | None = flag(
        default=None,
        group="Model",
        rare=True,
        metavar="FILE",
        help="YAML of prices for that server, instead of the built-in one.",
    )
    progress: Listener | None = python_only(
        default=None,
        help="Called with the stage, the number of its finished steps, and their total. None shows a progress line in "
        "a notebook or a terminal.",
    )

    def run(self) -> Run:
        """Edit and evaluate; the same call resumes an interrupted run.

        Raises:
            SpecError: listing all errors of the spec.
            ModelError: if the model cannot be loaded.
            TimestepError: if a timestep cannot be read.
        """
        from kgedit.runs import runner
        from kgedit.runs.scoring import write_scores
        from kgedit.runs.spec import read_spec, resolve
        from kgedit.runs.tracking import Tracking

        tracking = Tracking(self.track)
        raw = self.spec if isinstance(self.spec, Mapping) else read_spec(Path(self.spec)).raw
        with use_home(folder_of(self.home)):
            folder = runner.run(
                resolve(raw),
                None if self.out is None else Path(self.out),
                overwrite=self.overwrite,
                save_model=None if self.save_model is None else Path(self.save_model),
                spending=_spending(self.backend_budget, self.backend_prices),
                tracking=tracking,
                progress=self.progress or stage_line(),
            )
        write_scores(folder)
        tracking.finish()
        return read_run(folder)


run = function_of(RunEdit, name="run")


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
    from kgedit.analysis.results_files import score_table
    from kgedit.analysis.runs import Run

    given = [runs] if isinstance(runs, Run | str | Path) else runs
    return score_table([one if isinstance(one, Run) else read_run(one) for one in given])
