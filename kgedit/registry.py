"""Registry of parts of one kind: loaders, methods, metrics, exporters.

A registry maps names to ``"module:attribute"``; a module is imported only when its part is used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar, cast

from kgedit.errors import KgeditError, UnknownNameError, extra_of

Part = TypeVar("Part")


class Registry(Mapping[str, Part], Generic[Part]):
    """Names of parts of one kind, each imported on first use.

    Args:
        kind: Kind of the parts, as in messages ("editing method").
        targets: "module:attribute" by name.
        group: Entry-point group through which other packages add parts, or None.
    """

    def __init__(self, kind: str, targets: Mapping[str, str], *, group: str | None = None) -> None:
        self.kind = kind
        self._own = dict(targets)
        self._group = group

    def _targets(self) -> dict[str, str]:
        if self._group is None:
            return self._own
        return {name: entry.value for name, entry in _installed(self._group, tuple(sys.path)).items()} | self._own

    def __getitem__(self, name: str) -> Part:
        """Import and return the part.

        Raises:
            UnknownNameError: with the nearest names, if there is no such part.
            KgeditError: if the part of another package cannot be imported.
        """
        # Entry points are searched on disk: only for names of other packages.
        targets = self._own if name in self._own else self._targets()
        if name not in targets:
            raise UnknownNameError(self.kind, name, targets)
        module, _, attribute = targets[name].partition(":")
        try:
            return cast(Part, getattr(import_module(module), attribute))
        except (ImportError, AttributeError) as error:
            if self._group is None or name in self._own or extra_of(error.name):
                raise
            entry = _installed(self._group, tuple(sys.path))[name]
            package = f"package '{entry.dist.name}'" if entry.dist else "another package"
            raise KgeditError(
                f"The {self.kind} '{name}' cannot be imported: {error}. It is the entry point {name} = {entry.value} "
                f"({self._group}) of {package}: install that package again, or uninstall it."
            ) from error

    def __contains__(self, name: object) -> bool:
        # Mapping's implementation would import the part.
        return name in self._own or name in self._targets()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._targets()))

    def __len__(self) -> int:
        return len(self._targets())


@cache
def _installed(group: str, _path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Entry points of other packages, searched once per ``sys.path``: a search takes 20 ms."""
    return {entry.name: entry for entry in entry_points(group=group)}
