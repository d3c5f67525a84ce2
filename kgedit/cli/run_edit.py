"""`kgedit run-edit`: edits a model with a timestep's facts, and evaluates it before and after."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli import completion
from kgedit.cli.examples import examples
from kgedit.cli.formats import print_result, result_format
from kgedit.cli.interrupts import ResumableCommand
from kgedit.cli.progress import stages
from kgedit.cli.timesteps import TIMESTEP, TIMESTEP_FORMS
from kgedit.editing import METHODS
from kgedit.errors import SpecError
from kgedit.llm.presets import MEANINGS, PRESETS

if TYPE_CHECKING:
    from kgedit.analysis.runs import Run

_PRESETS = "\n".join(
    f"  {preset.name:14} {preset.context:17} {preset.generation:16} {preset.metric}\n  {'':14} {MEANINGS[preset.name]}"
    for preset in PRESETS.values()
)
_EPILOG = examples(
    "kgedit run-edit --timestep kgedit-data/timesteps/20211230_20231230 --model tiny --method ft_m",
    "kgedit run-edit --timestep A --timestep B --model smollm2-135m --method lora_merge --evaluate-earlier",
    "kgedit run-edit --timestep A --model tiny --method ft_m --protocol single --limit 20 --set steps=50",
    "kgedit run-edit --edits counterfact-edit.json --model smollm2-135m --method grace --limit 20 --preset few_shot",
    "kgedit run-edit spec.yaml --seed 1 --out runs/ft_m-seed1",
    "kgedit run-edit --timestep A --model smollm2-135m --method ft_m --sample 100 --stratify relation --only-failed",
    "kgedit run-edit --timestep A --model smollm2-135m --method lora --train-context asked --preset few_shot:5:1",
    "kgedit run-edit hparams/MEMIT/gpt2-xl.yaml --model gpt2-xl --edits counterfact-edit.json --limit 20",
    "kgedit run-edit --timestep A --model ./llama --method rag --preset wild_chat --backend openai "
    "--backend-url http://127.0.0.1:8000/v1",
    before=f"""\
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
tokenizer, and chat:instruction the instruction as one.""",
)

_MOST_FAILURES = 5


@click.command("run-edit", cls=ResumableCommand, epilog=_EPILOG)
@click.argument("spec", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--timestep", "timesteps", multiple=True, metavar=TIMESTEP, shell_complete=completion.timesteps,
              help=f"Exported timestep: {TIMESTEP_FORMS}; repeat in order.")  # fmt: skip
@click.option("--edits", multiple=True, metavar="FILE", help="Published file of edits; after timesteps.")
@click.option("--model", metavar="NAME", shell_complete=completion.models,
              help="smollm2-135m, tiny, a folder, or a name on the Hugging Face hub.")  # fmt: skip
@click.option("--method", metavar="NAME", shell_complete=completion.methods, help=f"{', '.join(METHODS)}.")
@click.option(
    "--protocol",
    metavar="NAME",
    shell_complete=completion.protocols,
    help="single, sequential or per_timestep; default: the method's.",
)
@click.option("--batch-size", metavar="N", help="Number of edits applied together with 'sequential'. Default 1.")
@click.option(
    "--preset",
    "presets",
    multiple=True,
    metavar="NAME",
    shell_complete=completion.presets,
    help="One of those below; repeat. Default: synthetic and wild, or wild_chat for a model with a chat template.",
)
@click.option(
    "--train-context",
    metavar="NAME",
    help="Format that edits are trained in: a context, default question_only, or asked for those of the presets.",
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A hyperparameter of the method.")
@click.option(
    "--archive-as",
    metavar="TEXT",
    help="What archived facts of a WikiFactDiff file are edited to, such as nobody. Default: they are left out.",
)
@click.option(
    "--neighbours",
    metavar="N",
    help="Of a WikiFactDiff timestep, ask N nearest and N random neighbours of each case. Default 1.",
)
@click.option(
    "--two-hop-rephrases",
    is_flag=True,
    default=None,
    help="Also ask reworded two-hop questions, on a separate axis.",
)
@click.option("--population", metavar="all|repl", help="repl: only WikiFactDiff's replacement set, WFD_repl.")
@click.option("--limit", metavar="N", help="At most N cases of each timestep.")
@click.option("--sample", metavar="N", help="N cases of each timestep, drawn by --seed.")
@click.option("--stratify", metavar="relation", help="A sample with each relation's share.")
@click.option(
    "--only-failed",
    is_flag=True,
    default=None,
    help="Leave out what the unedited model answers right, by the first preset's metric.",
)
@click.option(
    "--only-cases",
    metavar="FILE",
    help="Only these case ids, one per line, as in edited_cases.txt of another run.",
)
@click.option(
    "--order",
    metavar="random|file",
    help="Order of a timestep's edits: by --seed, or the file's. Default random, under 'single' file.",
)
@click.option("--evaluate-earlier", is_flag=True, default=None, help="Ask earlier timesteps again after each one.")
@click.option("--evaluate-every", metavar="N", help="Ask all edits so far after every N edits ('sequential').")
@click.option("--checkpoint-every", metavar="N", help="Edits between two checkpoints. Default 50.")
@click.option(
    "--batch-tokens", metavar="N", help="Maximum number of tokens per batch of questions. Default 4096, on a GPU 32768."
)
@click.option(
    "--ability",
    multiple=True,
    metavar="prose|FILE|lm-eval:TASK",
    help="Measure before and after: perplexity of the prose that kgedit has or of a text file; a task of "
    "lm-evaluation-harness by name or YAML file; repeat.",
)
@click.option("--ability-limit", metavar="N", help="Maximum number of documents per task. Default all.")
@click.option("--seed", metavar="N", help="Source of all randomness. Default 0.")
@click.option("--device", metavar="NAME", help="auto, cpu, cuda, cuda:N, cuda:all or mps. Default auto.")
@click.option("--dtype", metavar="NAME", help="auto, float32, bfloat16 or float16. Default auto.")
@click.option(
    "--max-memory", metavar="SIZES", help="Maximum memory of weights with cuda:all: 0=20GiB,1=40GiB,cpu=100GiB."
)
@click.option(
    "--trust-remote-code",
    is_flag=True,
    default=None,
    help="Run code that comes with the model. It can do whatever its author wants.",
)
@click.option("--quantize", metavar="4bit", help="Round weights to 4 bits (bitsandbytes); for lora, grace, prompts.")
@click.option("--backend", metavar="NAME", help="What answers: transformers, vllm or openai. Default transformers.")
@click.option("--backend-url", metavar="URL", help="The server of the backend openai, as http://127.0.0.1:8000/v1.")
@click.option(
    "--backend-budget",
    metavar="USD",
    type=click.FloatRange(min=0),
    help="Stop before the server of the backend openai costs more. Not part of the spec.",
)
@click.option(
    "--backend-prices",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="YAML of prices for that server, instead of the built-in one.",
)
@click.option(
    "--track", type=click.Choice(("trackio", "wandb")), help="Log metrics there at checkpoints and at the end."
)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Run folder; default: under KGEDIT_HOME.")
@click.option(
    "--save-model",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Folder for the edited model; its README.md explains how to load it.",
)
@click.option("--overwrite", is_flag=True, help="Start over if the folder contains a run.")
@result_format
def run_edit(
    spec: Path | None,
    timesteps: tuple[str, ...],
    edits: tuple[str, ...],
    presets: tuple[str, ...],
    ability: tuple[str, ...],
    settings: tuple[str, ...],
    out: Path | None,
    save_model: Path | None,
    backend_budget: float | None,
    backend_prices: Path | None,
    track: str | None,
    overwrite: bool,
    **flags: Any,
) -> None:
    """Edit a model, and evaluate it before and after.

    SPEC is a YAML file, as written by `kgedit configs cp`, or EasyEdit's hyperparameters of a method; options can
    replace it. Prints the run folder, which contains spec.yaml, environment.json, selection.json, edited_cases.txt,
    prepared.json, cases.parquet, answers.jsonl, edits.jsonl, ability.jsonl, checkpoints, answers.parquet and
    scores.json. The same command resumes an interrupted run.
    """
    import warnings

    # Peft still calls functions that transformers renames, which no user can change.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    from kgedit.runs.spec import read_spec
    from kgedit.verbs.run_edit import run

    given = read_spec(spec) if spec else None
    for note in given.notes if given else ():
        click.echo(f"{spec}: ignored: {note}", err=True)
    raw = dict(given.raw) if given else {}
    raw |= {name: value for name, value in flags.items() if value is not None}
    several = {"timesteps": timesteps + edits, "presets": presets, "ability": ability}
    raw |= {name: list(values) for name, values in several.items() if values}
    in_file = raw.get("settings") or {}
    if settings and isinstance(in_file, dict):  # invalid settings are reported with all other problems
        raw["settings"] = {**in_file, **pairs(settings)}
    _tell_unused(raw.get("timesteps"))
    with stages() as progress:
        finished = run(
            raw,
            out=out,
            overwrite=overwrite,
            save_model=save_model,
            backend_budget=backend_budget,
            backend_prices=backend_prices,
            track=track,
            progress=progress,
        )
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
    from contextlib import suppress

    from kgedit.errors import KgeditError
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
