"""Lists what there is to choose from (methods, models, presets), and copies and checks hyperparameter files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from kgedit.cli.command_groups import CommandGroup, examples
from kgedit.cli.formats import print_json, print_result, print_rows, result_format, rows_format, wants_json
from kgedit.cli.verb_command import verb_command
from kgedit.verbs.configs import ConfigSchema, CopyConfig, ListConfigs, ValidateConfigs


@click.command(epilog=examples("kgedit methods", "kgedit methods --format json"))
@rows_format
def methods(form: str) -> None:
    """List the editing methods.

    Prints each method's name, what it changes, its source and a sentence on how it works. docs/reference/methods.md has
    the settings; `kgedit configs cp METHOD/default` writes them to a file.
    """
    from kgedit.editing import METHODS, method_summary

    print_rows([method_summary(name) for name in METHODS], form)


@click.command(epilog=examples("kgedit models"))
@rows_format
def models(form: str) -> None:
    """List the models that need no download.

    Any other causal language model of transformers is given as a folder or by its name on the Hugging Face hub.
    """
    from kgedit.llm.loading import MEANINGS

    print_rows([{"model": name, "about": about} for name, about in MEANINGS.items()], form)


@click.command(epilog=examples("kgedit presets"))
@rows_format
def presets(form: str) -> None:
    """List the presets: named ways to evaluate a model.

    A preset is a named choice of context, generation, truncation and metric. A spec may define further ones
    (docs/how-to/sweeps.md).
    """
    from dataclasses import asdict

    from kgedit.llm.presets import MEANINGS, PRESETS

    shown = ("name", "context", "generation", "truncation", "max_new_tokens", "metric")
    rows = [{key: asdict(preset)[key] for key in shown} for preset in PRESETS.values()]
    print_rows([row | {"about": MEANINGS[str(row["name"])]} for row in rows], form)


@click.group("configs", cls=CommandGroup, epilog=examples("kgedit configs ls"))
def configs() -> None:
    """List, copy and check hyperparameter files."""


@verb_command(
    ListConfigs,
    name="ls",
    group=configs,
    more=(result_format,),
    examples=("kgedit configs ls", "kgedit configs ls --method memit"),
)
def ls(given: ListConfigs) -> None:
    """Print the list."""
    found = given.run()
    width = max(len(one.name) for one in found)
    print_result([asdict(one) for one in found], text="\n".join(f"{one.name:{width}}  {one.models}" for one in found))


@verb_command(
    CopyConfig,
    name="cp",
    group=configs,
    more=(result_format,),
    examples=(
        "kgedit configs cp memit/gpt2-xl",
        "kgedit configs cp ft_m/default my-ft_m.yaml",
        "kgedit configs cp grace/default -",
    ),
)
def cp(given: CopyConfig) -> None:
    """Write the spec and print its path, or print the spec."""
    if given.file == Path("-"):
        text = given.text()
        print_result({"spec": text}, text=text.removesuffix("\n"))
        return
    file = given.run()
    print_result({"file": file}, text=file)


@verb_command(
    ValidateConfigs,
    name="validate",
    group=configs,
    more=(result_format,),
    examples=(
        "kgedit configs validate memit-gpt2-xl.yaml",
        "kgedit configs validate spec.yaml hparams/ROME/gpt2-xl.yaml",
    ),
)
def validate(given: ValidateConfigs) -> None:
    """Print the problems, and set the exit code."""
    checked = given.run()
    for file, found in checked.items():
        for note in found.notes:
            click.echo(f"{file}: ignored: {note}", err=True)
        if found.unchecked:
            fields = ", ".join(found.unchecked)
            click.echo(f"{file}: not checked without torch (pip install 'kgedit[models]'): {fields}", err=True)
        for problem in found.problems:
            click.echo(f"{file}: {problem}", err=True)
        if not found.problems and not wants_json():
            click.echo(f"ok {file}: {found.kind}")
    print_result(
        [
            {"file": file, "kind": found.kind, "problems": found.problems, "ignored": found.notes}
            | {"not_checked": found.unchecked}
            for file, found in checked.items()
        ]
    )
    click.get_current_context().exit(1 if any(found.problems for found in checked.values()) else 0)


_ONLY_JSON = click.option(
    "--format", type=click.Choice(("json",)), default="json", expose_value=False, help="A schema is JSON."
)


@verb_command(
    ConfigSchema,
    name="schema",
    group=configs,
    more=(_ONLY_JSON,),
    examples=("kgedit configs schema > run-spec.schema.json", "kgedit configs schema --published memit"),
)
def schema(given: ConfigSchema) -> None:
    """Print the schema."""
    print_json(given.run())
