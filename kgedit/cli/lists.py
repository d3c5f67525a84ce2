"""``kgedit methods``, ``models`` and ``presets``: what there is to choose from, a line each."""

from __future__ import annotations

import click

from kgedit.cli.examples import examples
from kgedit.cli.formats import print_rows, rows_format


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
