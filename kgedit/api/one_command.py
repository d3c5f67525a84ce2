"""Everything in one call: two states of Wikidata in, an edited model, its scores and their page out.

What is there, whole and made of the same inputs is not made again: a call that was stopped anywhere resumes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgedit.api.home import Date, Home, Steps, folder_of
from kgedit.api.live_progress import step_line
from kgedit.errors import TimestepError
from kgedit.extras import names_extra

if TYPE_CHECKING:
    from kgedit.api.up_inputs import UpInputs


@dataclass(frozen=True, slots=True)
class StepTaken:
    """One step of a call.

    Attributes:
        number: From 1.
        of: Number of steps.
        name: What it does.
        state: "begun" when it begins; then "made", or "kept" where its result was there.
        seconds: Wall time that it took.
    """

    number: int
    of: int
    name: str
    state: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, repr=False)
class Outcome:
    """What came of everything.

    Attributes:
        sentences: What changed; what the models knew before; what they answer after; damage; where the pages are.
        page: The page of results.
        changes_page: The page of changes.
        timestep: Folder of the timestep.
        runs: Folders of the runs.
        numbers: The numbers of the sentences, and some answers in words, as in summary.json beside the page.
        note: Sentence on what was left out of the runs; "" if nothing was.
        steps: What was made and what was there.
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
        """For notebooks: the sentences."""
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
    """Load, compare, export, ask, edit, ask again and report; the same call resumes one that was stopped.

    Args:
        older: A dump, or the day of a snapshot that is loaded; without `older` and `newer` the bundled sample.
        newer: The same, later.
        model: Name or folder, or several. None for `tiny`; on the sample, without `methods`, also SmolLM2.
        methods: Editing methods, a run for each with every model. None for the default of each model: `tiny` is edited
            with locft_bf for 200 epochs in the contexts of the presets, any other model with graph_rag.
        older_date: Day of the older dump, where its name does not tell it.
        newer_date: Day of the newer one.
        redirects: Tab-separated file of redirects for both dumps.
        profile: What counts as a change, as for `Home.export_timestep`.
        graph: Whether the graph is brought up to date and finds the changes; without it the store does, and no
                server is started.
        only_failed: Leave out what the unedited model answers right already.
        spec: Further fields of the run specs, such as sample, seed, device or presets. Each of its settings goes to
            the methods that have it.
        home: Where everything goes; None for `$KGEDIT_HOME`, else `./kgedit-data`.
        overwrite: Whether snapshots, timesteps and runs that were made otherwise are replaced.
        track: Tracker that metrics of the runs are logged to: "trackio" or "wandb".
        told: Told when a step begins, and when it is made or was there.
        progress: Told of progress within a step.

    Raises:
        KgeditError: what the steps raise; what was finished stays.
    """
    from kgedit.api.up_inputs import read_inputs

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
    """Take every step whose result is not there; the arguments are those of `up`.

    Raises:
        KgeditError: what the steps raise.
    """
    from kgedit.api.up_checks import check_inputs
    from kgedit.api.up_steps import read_summary, run_folders, steps_of

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
