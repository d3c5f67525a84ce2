"""Everything that the documentation names exists, and its generated parts are current."""

from __future__ import annotations

import dataclasses
import re
import runpy
import tomllib
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import click
import pytest
import yaml

from kgedit.cli import COMMANDS
from kgedit.editing import METHODS
from kgedit.editing.hparams.settings import meanings
from kgedit.timesteps.chains import CHAIN_QUERIES
from kgedit.timesteps.export import QUERIES

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_the_reference_of_commands_is_current() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "commands.py"))["reference"]()
    assert (ROOT / "docs" / "commands.md").read_text(encoding="utf-8") == written, "run: make docs"


def test_the_questions_of_an_export_are_all_shown_in_both_languages() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "questions_reference.py"))
    page = (ROOT / "docs" / "reference" / "questions.md").read_text(encoding="utf-8")
    assert page == written["reference"](), "run: make docs"
    questions = written["QUESTIONS"]
    of_wikifactdiff = {"changed_statements", "nearest_entities"}
    assert {name for *_, cypher, _ in questions for name in cypher} == {*QUERIES, *CHAIN_QUERIES} | of_wikifactdiff
    assert {name for *_, sql in questions for name in sql} == {
        path.stem for path in (ROOT / "kgedit/timesteps/engines/sql").iterdir()
    }


def test_the_table_of_deviations_is_current() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "methods_reference.py"))
    page = (ROOT / "docs" / "reference" / "deviations.md").read_text(encoding="utf-8")
    assert page.count(written["BEGIN"]) == page.count(written["END"]) == 1
    assert written["with_deviations"](page) == page, "run: make docs"
    comparison = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    assert comparison.count(written["MISSING_BEGIN"]) == comparison.count(written["MISSING_END"]) == 1
    assert written["with_missing"](comparison) == comparison, "run: make docs"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert written["counted"](readme) == readme, "run: make docs"


def test_every_method_has_its_deviations_and_each_says_something_different() -> None:
    found = runpy.run_path(str(ROOT / "docs" / "methods_reference.py"))["read_deviations"]()
    assert set(found) == set(METHODS)
    for name, declared in found.items():
        differing = [row.what for row in declared.rows]
        assert len(set(differing)) == len(differing), name
        assert all(text.strip() for row in declared.rows for text in dataclasses.astuple(row)), name


def test_every_shared_deviation_is_of_several_methods() -> None:
    families = yaml.safe_load((ROOT / "kgedit/editing/deviations.yaml").read_text(encoding="utf-8"))
    for family, given in families.items():
        used = Counter(row for rows in given["methods"].values() for row in rows if isinstance(row, str))
        assert all(used[name] > 1 for name in given.get("shared", {})), family


def test_deviations_are_rows_or_a_reason_why_there_are_none() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "methods_reference.py"))
    row = written["Deviation"](what="a", published="b", ours="c", why="d")
    assert row.effect == "not measured"
    for given in ({}, {"rows": (row,), "none_because": "of this"}):
        with pytest.raises(ValueError, match="either"):
            written["Deviations"](**given)


def test_no_command_is_missing_from_the_reference() -> None:
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        command = COMMANDS[name]
        inner = [f"{name} {one}" for one in command.commands] if isinstance(command, click.Group) else []
        for path in (name, *inner):
            assert f"## kgedit {path}\n" in text
            assert f"Usage: kgedit {path} " in text


def test_the_reference_of_methods_is_current() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "methods_reference.py"))["reference"]()
    assert (ROOT / "docs" / "reference" / "methods.md").read_text(encoding="utf-8") == written, "run: make docs"


def test_no_method_nor_setting_is_missing_from_the_reference() -> None:
    text = (ROOT / "docs" / "reference" / "methods.md").read_text(encoding="utf-8")
    sections = {part.partition("\n")[0]: part for part in text.split("\n## ")[1:]}
    assert set(sections) == set(METHODS)
    for name, section in sections.items():
        for setting in meanings(METHODS[name].settings_type):
            assert f"| `{setting}` |" in section, f"{name}: {setting}"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"**Editing** with {len(METHODS) - 1} methods" in readme, "run: make docs"


def test_every_detail_of_the_papers_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_/]+/test_[a-z_]+\.py)`", text)
    assert len(named) > 40
    assert [name for name in named if not (ROOT / "tests" / "unit" / name).is_file()] == []


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_and_module_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    files = re.findall(r"`((?:kgedit|cypher|prompts|loaders|benchmarks)/[\w/.-]+)`", text)
    assert [name for name in files if not (ROOT / name).exists()] == []
    modules = re.findall(r"^from (kgedit[\w.]*) import", text, re.MULTILINE)
    assert [name for name in modules if find_spec(name) is None] == []


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


def test_readme_counts_every_method_but_none() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    counts = re.findall(r"(\d+)\s+editing methods|\*\*Editing\*\* with (\d+) methods", readme)
    assert [int(first or second) for first, second in counts] == [len(list(METHODS)) - 1] * 2
