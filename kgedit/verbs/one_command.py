"""The whole pipeline in one call: from two states of Wikidata to an edited model, its scores and their page.

Complete results from the same inputs are not computed again, so an interrupted call resumes at any point.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgedit.errors import TimestepError
from kgedit.extras import names_extra
from kgedit.verbs.home import Date, Home, Steps, folder_of
from kgedit.verbs.live_progress import step_line

if TYPE_CHECKING:
    from kgedit.verbs.up_inputs import UpInputs


@dataclass(frozen=True, slots=True)
class StepTaken:
    """One step of a call.

    Attributes:
        number: Number of the step, from 1.
        of: Total number of steps.
        name: Name of the step.
        state: "begun" when it begins; then "made", or "kept" if its result already existed.
        seconds: Wall time that it took.
    """

    number: int
    of: int
    name: str
    state: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, repr=False)
class Outcome:
    """Result of `up`.

    Attributes:
        sentences: What changed, what the models knew before, what they answer after, damage, and paths of the pages.
        page: Path of the page of results.
        changes_page: Path of the page of changes.
        timestep: Folder of the timestep.
        runs: Folders of the runs.
        numbers: Numbers in the sentences, and some answers in words, as in summary.json next to the page.
        note: Sentence on models or methods left out of the runs; "" if none were.
        steps: Steps, made or kept.
    """

    sentences: tuple[str, ...]
    page: Path
    changes_page: Path
    timestep: Path
    runs: tuple[Path, ...]
    numbers: Mapping[str, Any]
    note: str
    steps: tuple[StepTaken, ...]

    def __repr__(self) -> str:
        return f"<Outcome of {len(self.runs)} runs: {str(self.page)!r}>"

    def _repr_html_(self) -> str:
        """The sentences, for notebooks."""
        return "".join(f"<p>{escape(sentence)}</p>" for sentence in self.sentences)


@names_extra
def up(
    older: str | Path | Date | None = None,
    newer: str | Path | Date | None = None,
    *,
    model: str | Iterable[str] | None = None,
    methods: str | Iterable[str] | None = None,
    older_date: Date | None = None,
    newer_date: Date | None = None,
    redirects: str | Path | None = None,
    profile: str = "wikibigedit",
    graph: bool = True,
    only_failed: bool = True,
    spec: Mapping[str, Any] | None = None,
    home: Home | str | Path | None = None,
    overwrite: bool = False,
    track: str | None = None,
    told: Callable[[StepTaken], None] | None = None,
    progress: Steps | None = None,
) -> Outcome:
    """Load, compare, export, evaluate, edit, evaluate again and report; the same call resumes an interrupted one.

    Args:
        older: A dump, or the day of a loaded snapshot; without `older` and `newer` the bundled sample is used.
        newer: A later dump or day.
        model: Name or folder, or several. None means `tiny`; on the sample, without `methods`, also SmolLM2.
        methods: Editing methods, with one run for each method and model. None means the default of each model: `tiny`
            is edited with locft_bf for 200 epochs in the contexts of the presets beside 50 known facts, and on the
            sample also with ft_m; any other model with graph_rag.
        older_date: Day of the older dump, if its name does not contain it.
        newer_date: Day of the newer dump, if its name does not contain it.
        redirects: Tab-separated file of redirects for both dumps.
        profile: Definition of a change; see `Home.export_timestep`.
        graph: Whether the graph is updated and finds the changes; otherwise the store does, and no server is started.
        only_failed: Whether to leave out cases that the unedited model already answers correctly.
        spec: Further fields of the run specs, such as sample, seed, device or presets. Each setting goes to the methods
            that have it.
        home: Home folder for all results; None means `$KGEDIT_HOME`, else `./kgedit-data`.
        overwrite: Whether to replace snapshots, timesteps and runs that were created with other options.
        track: Tracker for metrics of the runs: "trackio" or "wandb".
        told: Called when a step begins, and when it is made or kept.
        progress: Called with progress within a step.

    Raises:
        KgeditError: any error of the steps; finished results are kept.
    """
    from kgedit.verbs.up_inputs import read_inputs

    inputs = read_inputs(
        Home(folder_of(home)).path,
        older,
        newer,
        older_date=older_date,
        newer_date=newer_date,
        models=_several(model),
        methods=_several(methods),
        run={**(spec or {}), "only_failed": only_failed},
        redirects=None if redirects is None else Path(redirects),
        profile=profile,
        graph=graph,
    )
    return carry_out(inputs, overwrite=overwrite, track=track, told=told, progress=progress)


def _several(names: str | Iterable[str] | None) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names or ())


def carry_out(
    inputs: UpInputs,
    *,
    overwrite: bool = False,
    track: str | None = None,
    told: Callable[[StepTaken], None] | None = None,
    progress: Steps | None = None,
) -> Outcome:
    """Carry out every step without a result; the arguments are those of `up`.

    Raises:
        KgeditError: any error of the steps.
    """
    from kgedit.verbs.up_checks import check_inputs
    from kgedit.verbs.up_steps import read_summary, run_folders, steps_of

    check_inputs(inputs, track=track, overwrite=overwrite)
    tell, taken = told or (lambda _taken: None), list[StepTaken]()
    steps = steps_of(inputs, overwrite=overwrite, track=track)
    for number, step in enumerate(steps, start=1):
        begun = time.monotonic()
        is_done = step.is_done()
        if not is_done:
            tell(StepTaken(number, len(steps), step.name, "begun"))
            step.carry_out(progress or step_line)
        taken.append(StepTaken(number, len(steps), step.name, "kept" if is_done else "made", time.monotonic() - begun))
        tell(taken[-1])
    numbers = read_summary(inputs)
    if numbers is None:
        raise TimestepError(f"{inputs.report} was changed while it was made. Give the same command again.")
    return Outcome(
        sentences=tuple(numbers["sentences"]),
        page=Path(numbers["page"]),
        changes_page=Path(numbers["changes_page"]),
        timestep=inputs.timestep,
        runs=tuple(run_folders(inputs)),
        numbers=numbers,
        note=inputs.note,
        steps=tuple(taken),
    )
