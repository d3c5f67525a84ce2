"""``kgedit run-edit`` and ``sweep``: edit a model and evaluate it before and after, once or as a grid of runs."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli import completion
from kgedit.cli.formats import print_json, print_result, print_summary, print_tables, result_format, wants_json
from kgedit.cli.progress import say, stages
from kgedit.cli.verb_command import FlagOption, Given, pairs, verb_command, with_parameters
from kgedit.errors import KgeditError
from kgedit.llm.presets import MEANINGS, PRESETS
from kgedit.runs.given_run import GivenRun
from kgedit.verbs.run_edit import SPEC_FLAGS, RunEdit
from kgedit.verbs.sweep import RunSweep

if TYPE_CHECKING:
    from kgedit.analysis.runs import Run
    from kgedit.analysis.tables import Table
    from kgedit.verbs.sweep import Sweep


_PRESETS = "\n".join(
    f"  {preset.name:14} {preset.context:17} {preset.generation:16} {preset.metric}\n  {'':14} {MEANINGS[preset.name]}"
    for preset in PRESETS.values()
)
_BEFORE = f"""\
Presets, with context, generation and metric:
{_PRESETS}

SPEC has the same fields; options override it:
  timesteps: [kgedit-data/timesteps/20211230_20231230]
  model: smollm2-135m
  method: ft_m
  settings: {{steps: 25, learning_rate: 5e-4}}
  presets: [synthetic, wild]
  train_context: question_only

A context is question_only, question_answer, instruction or a file's path; chat
is the bare question as a user's turn in the chat template of the model's
tokenizer, and chat:instruction the instruction as one."""

_MOST_FAILURES = _MOST_NAMED = 5


def spec_options(names: Collection[str] = SPEC_FLAGS.keys()) -> list[FlagOption]:
    """Flags of fields of a run spec; the values are texts, which the spec checks with all other fields."""
    found = []
    for name, info in GivenRun.model_fields.items():
        shown = SPEC_FLAGS[name]
        if not shown.is_shown or name not in names:
            continue
        several = name in ("timesteps", "presets", "ability", "settings")
        meaning = f"{info.description} Repeat for several." if several else info.description
        attributes: dict[str, Any] = {"multiple": True} if several else {"is_flag": True, "default": None}
        if not several and shown.metavar is not None:
            attributes = {"metavar": shown.metavar}
        elif several:
            attributes["metavar"] = shown.metavar
        if shown.complete:
            attributes["shell_complete"] = getattr(completion, shown.complete)
        flags = shown.names or (f"--{name.replace('_', '-')}",)
        found.append(FlagOption([*flags, name], group=shown.group, rare=shown.rare, help=meaning, **attributes))
    return found


def edits_option() -> FlagOption:
    """Flag for files of edits, which are run after the timesteps."""
    return FlagOption(
        ["--edits"], group="What", multiple=True, metavar="FILE", help="Published file of edits; after timesteps."
    )


def _add_spec_options(command: Any) -> Any:
    spec = click.Argument(["spec"], required=False, type=click.Path(path_type=Path, dir_okay=False))
    return with_parameters(command, spec, *spec_options(), edits_option())


@verb_command(
    RunEdit,
    name="run-edit",
    several=True,
    more=(_add_spec_options, result_format),
    before_examples=_BEFORE,
    examples=(
        "kgedit run-edit --timestep A --timestep B --model smollm2-135m --method lora_merge --evaluate-earlier",
        "kgedit run-edit --timestep A --model tiny --method ft_m --protocol single --limit 20 --set steps=50",
        "kgedit run-edit --edits counterfact-edit.json --model smollm2-135m --method grace --preset few_shot",
        "kgedit run-edit --timestep A --model smollm2-135m --method ft_m --sample 9 --stratify relation --only-failed",
        "kgedit run-edit --timestep A --model smollm2-135m --method lora --train-context asked --preset few_shot:5:1",
        "kgedit run-edit hparams/MEMIT/gpt2-xl.yaml --model gpt2-xl --edits counterfact-edit.json --limit 20",
        "kgedit run-edit --timestep A --model ./llama --method rag --preset wild_chat "
        "--backend openai --backend-url http://127.0.0.1:8000/v1",
        "kgedit run-edit spec.yaml --seed 1 --out runs/ft_m-seed1",
        "kgedit run-edit --timestep 20210104_20230227 --model tiny --method ft_m",
    ),
)
def run_edit(
    given: Given,
    *,
    spec: Path | None,
    timesteps: tuple[str, ...],
    edits: tuple[str, ...],
    presets: tuple[str, ...],
    ability: tuple[str, ...],
    settings: tuple[str, ...],
    **flags: Any,
) -> None:
    """Carry out the run, and print its folder and scores."""
    ignore_renamed_functions()
    from kgedit.runs.spec import read_spec

    in_file_spec = read_spec(spec) if spec else None
    for note in in_file_spec.notes if in_file_spec else ():
        click.echo(f"{spec}: ignored: {note}", err=True)
    raw = dict(in_file_spec.raw) if in_file_spec else {}
    raw |= {name: value for name, value in flags.items() if value is not None}
    several = {"timesteps": timesteps + edits, "presets": presets, "ability": ability}
    raw |= {name: list(values) for name, values in several.items() if values}
    in_file = raw.get("settings") or {}
    if settings and isinstance(in_file, dict):  # invalid settings are reported with all other problems
        raw["settings"] = {**in_file, **pairs(settings)}
    _tell_unused(raw.get("timesteps"))
    with stages() as progress:
        finished = given.with_values(spec=raw).make(RunEdit, progress=progress).run()
    _tell_left_out(finished.folder)
    _tell_failures(finished.folder)
    print_result(_document(finished), text=finished.folder)


def _document(run: Run) -> dict[str, Any]:
    """The run's folder and its main scores over all timesteps."""
    scores = run.scores
    return {
        "folder": run.folder,
        "edits": scores.edits.edits,
        "failed": scores.edits.failed,
        "answers": scores.answers,
        "scores": [
            {name: getattr(score, name) for name in ("stage", "axis", "preset", "metric", "n", "mean", "low", "high")}
            for score in scores.scores
            if score.main and score.timestep is None
        ],
    }


def _tell_unused(paths: object) -> None:
    """Print parts of files of edits that no case uses; a file that cannot be read is reported by the run."""

    from kgedit.timesteps.edit_files import EditFile

    for path in map(Path, map(str, paths if isinstance(paths, list) else [])):
        with suppress(KgeditError):
            for note in EditFile.open(path).notes() if path.is_file() else ():
                click.echo(f"{path}: not used: {note}", err=True)


def _tell_left_out(folder: Path) -> None:
    """Print named cases that do not exist, edits that are shared or conflict, and questions that are not asked."""
    from kgedit.runs.run_files import read_selection

    selection = read_selection(folder)
    if unknown := list(dict.fromkeys(name for one in selection for name in one.unknown_names)):
        shown = ", ".join(name.replace("\t", " ") for name in unknown[:_MOST_NAMED])
        more = ", ..." if len(unknown) > _MOST_NAMED else ""
        click.echo(f"Named cases that are in no timestep of the run: {len(unknown):,}: {shown}{more}", err=True)
    for one in selection:
        if one.repeated:
            click.echo(f"{one.timestep}: edits shared by instances, each made once: {one.repeated:,} repeats", err=True)
        if one.contradicted:
            why = "another instance's edit changes one of their facts"
            click.echo(f"{one.timestep}: {one.contradicted:,} questions not asked: {why}", err=True)
        if one.edited_before:
            why = "because an edit of this or an earlier timestep edits their fact"
            click.echo(f"{one.timestep}: locality questions not asked, {why}: {one.edited_before:,}", err=True)
        if one.conflicting:
            why = "of which one may undo the other"
            click.echo(f"{one.timestep}: edits of one fact to different answers, {why}: {one.conflicting:,}", err=True)


def _tell_failures(folder: Path) -> None:
    from kgedit.runs.run_files import read_edit_costs

    reasons = {(cost.timestep, item.case_id): item.reason for cost in read_edit_costs(folder) for item in cost.failures}
    for (_, case_id), reason in list(reasons.items())[:_MOST_FAILURES]:
        click.echo(f"Not edited: {case_id}: {reason}", err=True)
    if len(reasons) > _MOST_FAILURES:
        click.echo(f"Not edited: {len(reasons) - _MOST_FAILURES} more, see {folder}/edits.jsonl", err=True)


def ignore_renamed_functions() -> None:
    """Hide warnings about functions that transformers renames and peft still calls, which no user can change."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")


_PARTS_OF_SPEC = """\
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
    before_examples=_PARTS_OF_SPEC,
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
        _list_shipped()
        return
    if spec is None:
        raise click.UsageError("Missing argument 'SPEC'. See what comes with kgedit: kgedit sweep --list")
    if print_spec:
        from kgedit.runs.sweeps import find_sweep

        text = find_sweep(spec).read_text(encoding="utf-8")
        print_result({"spec": text}, text=text.removesuffix("\n"))
        return
    base = {name: value for name, value in flags.items() if value is not None}
    base |= {"timesteps": [*timesteps, *edits]} if timesteps or edits else {}
    done = _sweep(given.with_values(spec=spec, base=base))
    for run in done.failed:
        say(f"Failed: {run.name}: {run.error}")
    click.get_current_context().exit(1 if done.failed else 0)


def _list_shipped() -> None:
    from kgedit.runs.sweeps import shipped_sweeps

    found = shipped_sweeps()
    document = [{"name": one.name, "about": one.about, "command": one.command} for one in found]
    print_result(document, text="\n".join(f"{one.name:20} {one.about}\n{'':20} {one.command}" for one in found))


def _sweep(given: Given) -> Sweep:
    """Run the sweep with progress, and print its runs or its report."""
    ignore_renamed_functions()
    with stages() as progress:
        done = given.make(RunSweep, progress=progress).run()
    if wants_json():
        print_json(_sweep_document(done))
    elif given.values["dry_run"]:
        print_tables([_runs_table(done)])
    elif done.report:
        print_summary(done.report)
        for path in done.report.files:
            say(f"Written: {path}")
    return done


def _sweep_document(done: Sweep) -> dict[str, Any]:
    fields = ("edits", "unedited", "new", "edited")
    runs = [
        {"name": run.name, "state": run.state, "error": run.error}
        | {field: getattr(run.count, field) if run.count else None for field in fields}
        for run in done.runs
    ]
    files = [str(path) for path in done.report.files] if done.report else []
    return {"folder": str(done.folder), "runs": runs, "report": files}


def _runs_table(planned: Sweep) -> Table:
    from kgedit.analysis.tables import Cell, Column, Table

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
    left_out = f" Excluded combinations: {planned.excluded}." if planned.excluded else ""
    left_out += f" Combinations that are the same run as another: {planned.repeated}." if planned.repeated else ""
    note = (
        "before: questions to the unedited model; new: of these, the ones that are not yet in the answer cache; after: "
        "questions to the edited model. With only_failed these are the most. "
        f"Folder: {planned.folder}.{left_out}"
    )
    return Table(f"{len(planned.runs)} runs", columns, tuple(rows), note)
