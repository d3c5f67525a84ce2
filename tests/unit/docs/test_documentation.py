"""Everything that the documentation names exists, its generated parts are current, and its pages list all there is."""

from __future__ import annotations

import dataclasses
import re
import runpy
import tomllib
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import click
import duckdb
import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner

import kgedit
from kgedit.cli import COMMANDS, main
from kgedit.editing import METHODS
from kgedit.editing.hparams.settings import meanings
from kgedit.llm.contexts import CHAT, context_names
from kgedit.llm.presets import MEANINGS, PRESETS, STOPS
from kgedit.metrics import METRICS
from kgedit.sample.generate import write_world
from kgedit.store.digests import ENTITIES_KEPT
from kgedit.store.schemas import CLAIMS_KEPT, FACTS
from kgedit.timesteps.chain_paths import CHAIN_QUERIES
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


PEERS_PAGE = (Path(__file__).resolve().parents[3] / "docs" / "peers.md").read_text(encoding="utf-8")


def test_the_queries_find_the_numbers_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_world(tmp_path / "sample")
    for date in ("2021-01-04", "2023-02-27"):
        dump = f"sample/{date.replace('-', '')}.json.gz"
        kgedit.Home("kgedit-data").load_dump(dump, date, redirects="sample/redirects.tsv", graph=False)
    on_dumps, on_facts = re.findall(r"^```sql\n(.*?)^```", PEERS_PAGE, re.DOTALL | re.MULTILINE)
    connection = duckdb.connect()
    of_dumps = set(connection.sql(on_dumps).fetchall())
    of_facts = set(connection.sql(on_facts).fetchall())
    assert f"This finds {len(of_dumps)} in the [sample]" in PEERS_PAGE
    assert f"This finds {len(of_facts)}." in PEERS_PAGE
    assert of_facts < of_dumps
    assert len(of_dumps - of_facts) == 6, "the other six"
    assert ("Q145", "Q272201") in of_dumps - of_facts, "Liz Truss"


SNAPSHOT_PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "snapshot.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "schema"), [("facts", FACTS), ("claims", CLAIMS_KEPT), ("entities", ENTITIES_KEPT)])
def test_every_column_is_described(name: str, schema: pa.Schema) -> None:
    section = SNAPSHOT_PAGE.partition(f"## `{name}.parquet`")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    described = [column for cells in rows for column in re.findall(r"`(\w+)`", cells)]
    assert sorted(described) == sorted(schema.names)


DOCS = Path(__file__).resolve().parents[3] / "docs"
EVALUATION_PAGE = "".join(
    (DOCS / page).read_text(encoding="utf-8") for page in ("evaluation.md", "reference/metrics.md")
)


def _row(name: str) -> list[str]:
    (line,) = [line for line in EVALUATION_PAGE.splitlines() if line.startswith(f"| `{name}` |")]
    return [cell.strip() for cell in line.strip("| ").split("|")]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_its_row(name: str) -> None:
    preset, row = PRESETS[name], _row(name)
    generation = preset.generation.replace("_", " ")
    assert row[1:3] + row[4:5] == [f"`{preset.context}`", generation, f"`{preset.metric}`"]


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_has_its_row(name: str) -> None:
    assert _row(name)[-1] == METRICS[name].generation.replace("_", " ")


def test_contexts_and_truncations_are_named() -> None:
    assert [name for name in (*context_names(), CHAT) if f"`{name}`" not in EVALUATION_PAGE] == []
    assert [name for name in STOPS if name not in EVALUATION_PAGE] == []


def test_the_help_of_run_edit_describes_every_preset() -> None:
    shown = CliRunner().invoke(main, ["run-edit", "--help"]).output
    assert [name for name in PRESETS if name not in shown or MEANINGS[name] not in shown] == []
