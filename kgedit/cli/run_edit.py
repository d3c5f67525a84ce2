"""`kgedit run-edit`: edits a model with a timestep's facts, and evaluates it before and after."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli import completion
from kgedit.cli.formats import print_result, result_format
from kgedit.cli.progress import stages
from kgedit.cli.verb_command import FlagOption, Given, verb_command, with_parameters
from kgedit.errors import KgeditError, SpecError
from kgedit.llm.presets import MEANINGS, PRESETS
from kgedit.runs.given_run import GivenRun
from kgedit.verbs.run_edit import SPEC_FLAGS, RunEdit

if TYPE_CHECKING:
    from kgedit.analysis.runs import Run

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

_MOST_FAILURES = 5


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

    # Peft still calls functions that transformers renames, which no user can change.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
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
    _tell_merged(finished.folder)
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


def _tell_merged(folder: Path) -> None:
    """Print shared edits of instances, and questions that another instance's edit contradicts; nothing without any."""
    from kgedit.runs.run_files import read_selection

    for one in read_selection(folder):
        if one.repeated:
            click.echo(f"{one.timestep}: edits shared by instances, each made once: {one.repeated:,} repeats", err=True)
        if one.contradicted:
            why = "another instance's edit changes one of their facts"
            click.echo(f"{one.timestep}: {one.contradicted:,} questions not asked: {why}", err=True)


def _tell_failures(folder: Path) -> None:
    from kgedit.runs.run_files import read_edit_costs

    reasons = {(cost.timestep, item.case_id): item.reason for cost in read_edit_costs(folder) for item in cost.failures}
    for (_, case_id), reason in list(reasons.items())[:_MOST_FAILURES]:
        click.echo(f"Not edited: {case_id}: {reason}", err=True)
    if len(reasons) > _MOST_FAILURES:
        click.echo(f"Not edited: {len(reasons) - _MOST_FAILURES} more, see {folder}/edits.jsonl", err=True)


def pairs(texts: tuple[str, ...]) -> dict[str, str]:
    """Parse the values of --set.

    Raises:
        SpecError: listing every text that is not KEY=VALUE.
    """
    problems = [f"--set takes KEY=VALUE, not '{text}'" for text in texts if "=" not in text]
    if problems:
        raise SpecError(problems)
    return {key: value for key, _, value in (text.partition("=") for text in texts)}
