"""Installs packages shown on how-to pages."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

_PAGES = Path(__file__).resolve().parents[2] / "docs" / "how-to"


class Installed(NamedTuple):
    """An installed package: name of its entry point, its module, and the folder for sys.path."""

    name: str
    module: str
    site: Path


def blocks(page: str, language: str) -> list[str]:
    """All code blocks of a language on a page."""
    text = (_PAGES / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def block(page: str, language: str) -> str:
    """The first code block of a language on a page."""
    return blocks(page, language)[0]


def install(page: str, group: str, folder: Path) -> Installed:
    """Build a page's package from its text and install it with pip as on the page, without downloads.

    Args:
        page: Name of the file in docs/how-to.
        group: Entry-point group of the package.
        folder: An empty folder for the project and for the folder added to sys.path.
    """
    text = block(page, "toml")
    ((name, target),) = tomllib.loads(text)["project"]["entry-points"][group].items()
    module = target.partition(":")[0]
    project, site = folder / "project", folder / "site"
    project.mkdir()
    (project / "pyproject.toml").write_text(text, encoding="utf-8")
    (project / f"{module}.py").write_text(block(page, "python"), encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    ran = subprocess.run(
        [*pip, "--no-deps", "--no-build-isolation", "--target", site, "."],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return Installed(name, module, site)
