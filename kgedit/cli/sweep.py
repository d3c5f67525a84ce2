"""``kgedit sweep``: runs a grid of runs from one spec, with one report."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli import completion
from kgedit.cli.formats import print_json, print_result, print_tables, result_format, wants_json
from kgedit.cli.progress import say, stages
from kgedit.cli.run_edit import edits_option, spec_options
from kgedit.cli.verb_command import FlagOption, Given, verb_command, with_parameters
from kgedit.verbs.sweep import RunSweep

if TYPE_CHECKING:
    from kgedit.analysis.tables import Table
    from kgedit.verbs.sweep import Sweep

_BEFORE = """\
SPEC has the fields of a run spec in its parts:
  presets: {my_preset: {context: ..., generation: ..., truncation: ..., metric: ...}}
  base:                        # fields of every run
    model: smollm2-135m
    timesteps: [kgedit-data/timesteps/20211230_20231230]
    presets: [synthetic, my_preset]
  grid:                        # a product of lists; or a list of such grids
    method: [rag]
    settings: {k: [1, 2, 10]}
    seed: [0, 1]
  runs:                        # additional single runs
    - {method: lora, settings: {rank: 64}}
  exclude:                     # combinations to leave out
    - {settings: {k: 10}, seed: 1}"""

_SPEC_FIELDS = ("timesteps", "model", "limit", "sample", "device", "dtype")
"""Fields of a run spec that are flags of `sweep` too, where they replace those of the base."""


def _more_options(command: Any) -> Any:
    spec = click.Argument(["spec"], required=False, shell_complete=completion.sweeps)
    shipped = FlagOption(
        ["--list", "list_shipped"], group="What", is_flag=True, help="List the specs that come with kgedit."
    )
    prints = FlagOption(["--print", "print_spec"], group="What", is_flag=True, help="Print a spec to edit and run.")
    return with_parameters(command, spec, shipped, prints, *spec_options(_SPEC_FIELDS), edits_option())


@verb_command(
    RunSweep,
    name="sweep",
    more=(_more_options, result_format),
    several=True,
    before_examples=_BEFORE,
    examples=(
        "kgedit sweep my-study.yaml --edits QAEdit_inter_1k.json --sample 20 --dry-run",
        "kgedit sweep my-study.yaml --edits QAEdit_inter_1k.json --sample 20 --only 'ft_m*' --out runs/study",
        "kgedit sweep module-study --print > my-study.yaml",
        "kgedit sweep --list",
        "kgedit sweep smoke",
    ),
)
def sweep(
    given: Given,
    *,
    spec: str | None,
    list_shipped: bool,
    print_spec: bool,
    timesteps: tuple[str, ...],
    edits: tuple[str, ...],
    **flags: Any,
) -> None:
    """Run the sweep, or list or print built-in specs."""
    if list_shipped:
        _list()
        return
    if spec is None:
        raise click.UsageError("Missing argument 'SPEC'. See what comes with kgedit: kgedit sweep --list")
    if print_spec:
        from kgedit.runs.sweeps.sweep_file import find_sweep

        text = find_sweep(spec).read_text(encoding="utf-8")
        print_result({"spec": text}, text=text.removesuffix("\n"))
        return
    base = {name: value for name, value in flags.items() if value is not None}
    base |= {"timesteps": [*timesteps, *edits]} if timesteps or edits else {}
    done = _sweep(given.with_values(spec=spec, base=base))
    for run in done.failed:
        say(f"Failed: {run.name}: {run.error}")
    click.get_current_context().exit(1 if done.failed else 0)


def _list() -> None:
    from kgedit.runs.sweeps.sweep_file import shipped_sweeps

    found = shipped_sweeps()
    document = [{"name": one.name, "about": one.about, "command": one.command} for one in found]
    print_result(document, text="\n".join(f"{one.name:20} {one.about}\n{'':20} {one.command}" for one in found))


def _sweep(given: Given) -> Sweep:
    """Run the sweep with progress, and print its runs or its report."""

    # Peft still calls functions that transformers renames, which no user can change.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")

    with stages() as progress:
        done = given.make(RunSweep, progress=progress).run()
    if wants_json():
        print_json(_document(done))
    elif given.values["dry_run"]:
        print_tables([_runs_table(done)])
    elif done.report:
        print_tables(done.report.tables)
        for path in done.report.files:
            say(f"Written: {path}")
    return done


def _document(done: Sweep) -> dict[str, Any]:
    fields = ("edits", "unedited", "new", "edited")
    runs = [
        {"name": run.name, "state": run.state, "error": run.error}
        | {field: getattr(run.count, field) if run.count else None for field in fields}
        for run in done.runs
    ]
    files = [str(path) for path in done.report.files] if done.report else []
    return {"folder": str(done.folder), "runs": runs, "report": files}


def _runs_table(planned: Sweep) -> Table:
    from kgedit.analysis.cells import Cell
    from kgedit.analysis.tables import Column, Table

    counts = [run.count for run in planned.runs]
    fields = ("edits", "unedited", "new", "edited")
    rows: list[tuple[Cell, ...]] = [
        (run.name, run.state, *(getattr(count, field) for field in fields))
        for run, count in zip(planned.runs, counts, strict=True)
    ]
    rows.append(("all", "", *(sum(getattr(count, field) for count in counts) for field in fields)))
    columns = (
        Column("run", key=True),
        Column("state"),
        *(Column(name, "count") for name in ("edits", "before", "new", "after")),
    )
    left_out = f" {planned.excluded} combinations are excluded." if planned.excluded else ""
    left_out += f" {planned.repeated} combinations are the same run as another." if planned.repeated else ""
    note = (
        "before: questions to the unedited model; new: of these, those that no earlier run contains (the others are "
        "in the answer cache); after: questions to the edited model. With only_failed these are the most. "
        f"Folder: {planned.folder}.{left_out}"
    )
    return Table(f"{len(planned.runs)} runs", columns, tuple(rows), note)
