"""``kgedit configs``: list, copy and check hyperparameter files."""

from __future__ import annotations

from pathlib import Path

import click

from kgedit.cli import completion
from kgedit.cli.command_groups import CommandGroup
from kgedit.cli.examples import examples
from kgedit.cli.formats import print_json, print_result, result_format, wants_json


@click.group("configs", cls=CommandGroup, epilog=examples("kgedit configs ls"))
def configs() -> None:
    """List, copy and check hyperparameter files."""


@configs.command("ls", epilog=examples("kgedit configs ls", "kgedit configs ls --method memit"))
@click.option("--method", metavar="NAME", shell_complete=completion.methods, help="Only configs of this method.")
@result_format
def ls(method: str | None) -> None:
    """List published configs and defaults.

    Each line shows a METHOD/MODEL and the models that it applies to.
    """
    from kgedit.editing import METHODS
    from kgedit.errors import UnknownNameError
    from kgedit.hparams.published import published_configs

    names = [method] if method else list(METHODS)
    if method is not None and method not in METHODS:
        raise UnknownNameError("editing method", method, METHODS)
    rows = []
    for name in names:
        known = published_configs(name)
        rows += [
            (f"{name}/{config.model}", ", ".join(f"{field} {value}" for field, value in config.applies_to.items()))
            for config in known
        ]
        rows.append((f"{name}/default", "any other model" if known else "any model"))
    width = max(len(name) for name, _ in rows)
    document = [{"name": name, "models": models} for name, models in rows]
    print_result(document, text="\n".join(f"{name:{width}}  {models}" for name, models in rows))


@configs.command(
    "cp",
    epilog=examples(
        "kgedit configs cp memit/gpt2-xl",
        "kgedit configs cp ft_m/default my-ft_m.yaml",
        "kgedit configs cp grace/default -",
    ),
)
@click.argument("name", metavar="METHOD/MODEL", shell_complete=completion.configs)
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
@result_format
def cp(name: str, file: Path | None, *, overwrite: bool) -> None:
    """Write a run spec with every setting of a method.

    Each line has the setting's value and meaning. FILE defaults to METHOD-MODEL.yaml; - means stdout.
    """
    from kgedit.editing import settings_type_of
    from kgedit.files import replace_file
    from kgedit.hparams.settings import DEFAULT, spec_text

    method, _, model = name.partition("/")
    kind = settings_type_of(method)
    target = file or Path(f"{method}-{model or DEFAULT}.yaml")
    if file == Path("-"):
        text = spec_text(kind, method, model, file=f"{method}-{model or DEFAULT}.yaml")
        print_result({"spec": text}, text=text.removesuffix("\n"))
        return
    text = spec_text(kind, method, model, file=str(target))
    if target.exists() and not overwrite:
        raise click.ClickException(f"{target} is there already. Replace it: --overwrite")
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_file(target, text)
    print_result({"file": target}, text=target)


@configs.command(
    "validate",
    epilog=examples(
        "kgedit configs validate memit-gpt2-xl.yaml", "kgedit configs validate spec.yaml hparams/ROME/gpt2-xl.yaml"
    ),
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@result_format
@click.pass_context
def validate(context: click.Context, files: tuple[Path, ...]) -> None:
    """Check run specs and hyperparameter files.

    Reports every problem of run specs, of published configs and of EasyEdit's hyperparameter files. A run spec may lack
    model and timesteps. Valid files get one line each on stdout; problems go to stderr and set the exit code to 1.
    """
    from kgedit.runs.spec_files import check

    wrong = 0
    checked = []
    for file in files:
        found = check(file)
        for note in found.notes:
            click.echo(f"{file}: ignored: {note}", err=True)
        if found.unchecked:
            fields = ", ".join(found.unchecked)
            click.echo(f"{file}: not checked without torch (pip install 'kgedit[models]'): {fields}", err=True)
        for problem in found.problems:
            click.echo(f"{file}: {problem}", err=True)
        if found.problems:
            wrong += 1
        elif not wants_json():
            click.echo(f"ok {file}: {found.kind}")
        checked.append(
            {"file": file, "kind": found.kind, "problems": found.problems, "ignored": found.notes}
            | {"not_checked": found.unchecked}
        )
    print_result(checked)
    context.exit(1 if wrong else 0)


@configs.command(
    "schema", epilog=examples("kgedit configs schema > run-spec.schema.json", "kgedit configs schema --published memit")
)
@click.option("--published", metavar="METHOD", help="Print the schema of a method's published configs instead.")
@click.option("--format", type=click.Choice(("json",)), default="json", expose_value=False, help="A schema is JSON.")
def schema(published: str | None) -> None:
    """Print the JSON schema of run specs, for editors and other tools."""
    from kgedit.runs.spec import spec_schema
    from kgedit.runs.spec_files import published_schema

    print_json(published_schema(published) if published else spec_schema())
