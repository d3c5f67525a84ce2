"""Creates the options of a load from what a loader declares."""

from __future__ import annotations

import datetime
from functools import partial
from pathlib import Path

from kgedit.loaders import LOADERS
from kgedit.store.builds import Load
from kgedit.store.schemas import LoaderOptions


def load_with(
    name: str,
    options: LoaderOptions,
    *,
    date: datetime.date,
    limit: int | None = None,
    redirects: Path | None = None,
    max_error_rate: float = 0.01,
    slice_of: str | None = None,
) -> Load:
    """Create the options of a load with a loader of the registry.

    Raises:
        UnknownNameError: if there is no such loader.
    """
    loader = LOADERS[name]
    return Load(
        date=date,
        loader=name,
        loader_version=loader.version,
        make_loader=partial(loader, options),
        options={"languages": list(options.languages), "wiki": options.wiki},
        limit=limit,
        redirects=redirects,
        bad_lines=loader.bad_lines,
        bad_statements=loader.bad_statements,
        notes=loader.notes,
        max_error_rate=max_error_rate,
        framing=loader.framing,
        lacks=loader.lacks,
        datatypes_by_property=loader.datatypes_by_property,
        slice_of=slice_of,
    )
