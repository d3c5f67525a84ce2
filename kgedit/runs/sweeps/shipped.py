"""Built-in specs of sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kgedit.errors import SpecError
from kgedit.near_names import did_you_mean

_FOLDER = Path(__file__).parent / "specs"


@dataclass(frozen=True, slots=True)
class ShippedSweep:
    """A built-in spec.

    Attributes:
        name: Name of the file, without its suffix.
        about: First line of the file: its purpose.
        command: Second line: the command that runs it.
        path: Path of the file.
    """

    name: str
    about: str
    command: str
    path: Path


def shipped_sweeps() -> Sequence[ShippedSweep]:
    """All built-in specs, by name."""
    return [_read(path) for path in sorted(_FOLDER.glob("*.yaml"))]


def find_sweep(name: str | Path) -> Path:
    """Path of a user's file, or of the built-in spec of that name.

    Raises:
        SpecError: if neither exists.
    """
    path = Path(name)
    if path.is_file():
        return path
    known = {sweep.name: sweep.path for sweep in shipped_sweeps()}
    if str(name) in known:
        return known[str(name)]
    hint = did_you_mean(str(name), known)
    raise SpecError([f"there is no file {name}, nor a sweep of that name.{hint} Known: {', '.join(known)}"])


def _read(path: Path) -> ShippedSweep:
    about, command, *_ = (line.removeprefix("#").strip() for line in path.read_text(encoding="utf-8").splitlines())
    return ShippedSweep(path.stem, about, command, path)
