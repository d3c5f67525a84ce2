"""What the documentation says is there is there, and the generated part of it is current."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import click
import pytest
import yaml

from kgedit.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_the_reference_of_commands_is_current() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "commands.py"))["reference"]()
    assert (ROOT / "docs" / "commands.md").read_text(encoding="utf-8") == written, "run: make docs"


def test_no_command_is_missing_from_the_reference() -> None:
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        command = COMMANDS[name]
        inner = [f"{name} {one}" for one in command.commands] if isinstance(command, click.Group) else []
        for path in (name, *inner):
            assert f"## kgedit {path}\n" in text
            assert f"Usage: kgedit {path} " in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target
    headings = {re.sub(r"[^\w -]", "", line.lstrip("# ")).replace(" ", "-").lower() for line in text.splitlines()}
    for anchor in re.findall(r"\]\(#([^)]+)\)", text):
        assert anchor in headings


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_a_page_shows_exists(page: Path) -> None:
    shown = re.findall(r"\bkgedit ((?:graph |configs )?[a-z]+(?:-[a-z]+)*)\b", _code_of(page))
    for name in shown:
        first, _, second = name.partition(" ")
        assert first in COMMANDS, name
        command = COMMANDS[first]
        if second and isinstance(command, click.Group):
            assert second in command.commands, name


def _code_of(page: Path) -> str:
    """Lines of a page's code blocks that begin with a command of ours."""
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return "\n".join(
        line for block in blocks for line in block.splitlines() if re.match(r"\s*(\$ |srun )?kgedit ", line)
    )


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (citation["title"], citation["version"]) == (project["name"], project["version"])
    assert (citation["license"], citation["keywords"]) == (project["license"], project["keywords"])
