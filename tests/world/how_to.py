"""Packages that how-to pages show, laid out as pip would leave them in a site folder."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

_PAGES = Path(__file__).resolve().parents[2] / "docs" / "how-to"


def block(page: str, language: str) -> str:
    """The first code block of a language on a page."""
    text = (_PAGES / page).read_text(encoding="utf-8")
    found = re.search(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def install(page: str, group: str, site: Path) -> tuple[str, str]:
    """Lay out a page's package in a folder of sys.path; returns its entry point's name and its module."""
    project = tomllib.loads(block(page, "toml"))["project"]
    ((name, target),) = project["entry-points"][group].items()
    module = target.partition(":")[0]
    (site / f"{module}.py").write_text(block(page, "python"), encoding="utf-8")
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8"
    )
    info.joinpath("entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n", encoding="utf-8")
    return name, module
