"""Shell completion: names and dates, looked up without importing a library."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

import click
from click.shell_completion import CompletionItem

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _offer(find: Callable[[click.Context], Iterable[str]]) -> Complete:
    """Completion that offers the names that begin with the given word."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's signature
        return [CompletionItem(name) for name in find(context) if name.startswith(incomplete)]

    return complete


def _names_in(module: str, names: str) -> Complete:
    """Completion that offers the names in a registry or a list of a module."""
    return _offer(lambda _: getattr(import_module(module), names))


methods = _names_in("kgedit.editing", "METHODS")
presets = _names_in("kgedit.llm.presets", "PRESETS")
metrics = _names_in("kgedit.metrics", "METRICS")
protocols = _names_in("kgedit.records.runs", "PROTOCOLS")
source_formats = _names_in("kgedit.loaders", "LOADERS")
kinds = _names_in("kgedit.timesteps.kinds", "KINDS")
export_forms = _names_in("kgedit.exporters", "EXPORTERS")


@_offer
def configs(_: click.Context) -> Iterable[str]:
    """METHOD/MODEL and METHOD/default."""
    from kgedit.editing import METHODS
    from kgedit.editing.hparams.settings import published_configs

    for method in METHODS:
        yield from (f"{method}/{config.model}" for config in published_configs(method))
        yield f"{method}/default"


@_offer
def sweeps(_: click.Context) -> Iterable[str]:
    """Built-in specs of sweeps."""
    from kgedit.runs.sweeps import shipped_sweeps

    return [sweep.name for sweep in shipped_sweeps()]


@_offer
def queries(_: click.Context) -> Iterable[str]:
    """Query files of cypher/read."""
    from kgedit.graph.queries import read_queries

    return read_queries()


@_offer
def query_parameters(context: click.Context) -> Iterable[str]:
    """Parameters of the given query, each with its equals sign."""
    from kgedit.graph.queries import read_queries

    # Click has not parsed the arguments yet when an option still lacks its value.
    named = context.params.get("name") or next(iter(context.args), "")
    query = read_queries().get(named)
    return [f"{parameter.name}=" for parameter in query.parameters] if query else []


@_offer
def snapshot_dates(_: click.Context) -> Iterable[str]:
    """Dates of the snapshots in the store."""
    from kgedit.resources import home

    days = sorted(path.parent.name for path in (home() / "snapshots").glob("[0-9]*/manifest.json"))
    return [f"{day[:4]}-{day[4:6]}-{day[6:]}" for day in days]


def _paths_of(marker: str, *folders: str, by_name: bool = False) -> Complete:
    """Completion of folders that contain a file, next to the given word and in the home.

    Args:
        marker: Name of the file.
        folders: Folders of the home with such subfolders.
        by_name: Whether the command also accepts the name of a folder of the home, which is then offered.
    """

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's signature
        from glob import escape

        from kgedit.resources import home

        begun = Path(f"{incomplete}x").parent
        near = Path().glob(f"{escape(str(begun))}/*/{marker}") if not begun.is_absolute() else begun.glob(f"*/{marker}")
        own = [path.parent for folder in folders for path in (home() / folder).glob(f"*/{marker}")]
        names_do = by_name and "/" not in incomplete
        found = sorted({*(str(path.parent) for path in near), *(one.name if names_do else str(one) for one in own)})
        items = [CompletionItem(name) for name in found if name.startswith(incomplete)]
        # Other folders are completed by the shell.
        return items or [CompletionItem(incomplete, type="dir")]

    return complete


runs = _paths_of("spec.yaml", "runs")
"""Folders of runs."""

timesteps = _paths_of("timestep.json", "timesteps", "benchmark", by_name=True)
"""Folders of timesteps, and the names of those in the home."""


def properties(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Properties of the built-in templates, each with its label."""
    from kgedit.resources import data_folder
    from kgedit.wording.catalogues import read_catalogue

    found: dict[str, str] = {}
    for path in sorted((data_folder("prompts") / "templates" / "en").glob("*.yaml")):
        entries = read_catalogue(path).get("templates", {})
        found |= {name: str(entry.get("label", "")) for name, entry in entries.items()}
    names = sorted((name for name in found if name.startswith(incomplete)), key=lambda name: (len(name), name))
    return [CompletionItem(name, help=found[name]) for name in names]


@_offer
def models(_: click.Context) -> Iterable[str]:
    """Models that need no download."""
    return ("smollm2-135m", "tiny")


@_offer
def breakdowns(_: click.Context) -> Iterable[str]:
    """Breakdowns of scores in reports."""
    return (
        *("relation", "tag", "kind", "scenario", "year", "cutoff", "category", "popularity"),
        *("subject_views", "object_views", "subject_count", "object_count", "locality_basis", "hops"),
        *("neighbour_similarity", "neighbour_popularity", "two_hop_count", "two_hop_views"),
    )
