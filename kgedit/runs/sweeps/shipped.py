"""The specs of sweeps that come with kgedit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kgedit.errors import SpecError
from kgedit.near_names import did_you_mean

_FOLDER = Path(__file__).parent / "specs"


@dataclass(frozen=True, slots=True)
class ShippedSweep:
    """A spec that comes with kgedit.

    Attributes:
        name: The file's, without its ending.
        about: Its first line: what it is.
        command: Its second: the command that runs it.
        path: The file.
    """

    name: str
    about: str
    command: str
    path: Path


def shipped_sweeps() -> Sequence[ShippedSweep]:
    """All of them, by name."""
    return [_read(path) for path in sorted(_FOLDER.glob("*.yaml"))]


def find_sweep(name: str | Path) -> Path:
    """A file of the user's, or the spec of that name.

    Raises:
        SpecError: if there is neither.
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
