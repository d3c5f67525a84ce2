"""Options for the scope of the graph: the part of the snapshot store that it contains."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from kgedit.cli import completion
from kgedit.store.scope import Scope


def scope_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a graph's scope to a command, as one argument `scope`: None if none of them was given."""

    @click.option("--evidence/--no-evidence", default=None, help="With or without the versions of statements behind "
                  "the facts. Default: with.")  # fmt: skip
    @click.option(
        "--facts", "objects", type=click.Choice(["all", "items"]), help="All facts, or item-valued ones only."
    )
    @click.option("--property", "properties", multiple=True, metavar="PID", shell_complete=completion.properties,
                  help="Only facts of this property; repeat.")  # fmt: skip
    @click.option("--around-changes/--everything", default=None, help="Only what is near a change, or everything.")
    @click.option("--changed-pairs/--all-pairs", default=None, help="Only facts of a changed subject and property: the "
                  "smallest graph.")  # fmt: skip
    @functools.wraps(command)
    def with_scope(
        *arguments: Any,
        evidence: bool | None,
        objects: str | None,
        properties: tuple[str, ...],
        around_changes: bool | None,
        changed_pairs: bool | None,
        **options: Any,
    ) -> Any:
        given = bool(properties or objects) or not {evidence, around_changes, changed_pairs} <= {None}
        scope = Scope(
            evidence=evidence is not False,
            items_only=objects == "items",
            properties=properties,
            around_changes=bool(around_changes),
            changed_pairs=bool(changed_pairs),
        )
        return command(*arguments, scope=scope if given else None, **options)

    return with_scope
