"""The structure of the package: one map, and one name for each class."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import kgedit

PACKAGE = Path(kgedit.__file__).parent
ROOT = PACKAGE.parent


def test_the_map_in_contributing_lists_every_package_in_the_order_of_the_import_contract() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    mapped = re.findall(r"^(\w+) +\S", text.partition("```text\n")[2].partition("```")[0], re.MULTILINE)
    assert set(mapped) == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    floors = {
        name.strip().removeprefix("kgedit."): floor for floor, names in enumerate(layers) for name in names.split("|")
    }
    assert [floors[name] for name in mapped] == sorted(floors[name] for name in mapped)


def test_the_paths_in_the_tables_of_contributing_exist() -> None:
    rows = [line for line in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    named = {
        path for row in rows for path in re.findall(r"`((?:kgedit|tests|loaders|cypher|prompts|docs)/[^` ]+)`", row)
    }
    assert len(named) > 20
    assert [path for path in sorted(named) if not list(ROOT.glob(re.sub("<[a-z]+>", "*", path.rstrip("/"))))] == []


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """Syntax trees of all modules, by name, for tests that only read them: parsing takes seconds."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
            path.read_text(encoding="utf-8")
        )
        for path in PACKAGE.rglob("*.py")
    }


@pytest.fixture(scope="module")
def loaders() -> dict[str, ast.Module]:
    """Syntax trees of the loaders outside the package; the package kgedit.loaders looks for modules there too."""
    files = (ROOT / "loaders").glob("*.py")
    return {f"kgedit.loaders.{path.stem}": ast.parse(path.read_text(encoding="utf-8")) for path in files}


def _imports(nodes: Iterable[ast.AST]) -> set[str]:
    """Modules of kgedit that statements import, and the names that they import from them."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "kgedit":
            found |= {str(node.module), *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def test_functions_of_commands_import_only_what_is_not_loaded_anyway(trees: dict[str, ast.Module]) -> None:
    """An import inside a function delays its cost; if the module is loaded with the file, it only hides an arrow."""
    at_once = {name: _imports(tree.body) & trees.keys() for name, tree in trees.items()}
    wrong = []
    for name in (one for one in trees if one.startswith(("kgedit.cli", "kgedit.verbs"))):
        loaded, waiting = {name}, [name]
        while waiting:
            fresh = at_once[waiting.pop()] - loaded
            loaded |= fresh
            waiting += fresh
        functions = [node for node in ast.walk(trees[name]) if isinstance(node, ast.FunctionDef)]
        inside = {one for function in functions for one in _imports(ast.walk(function)) & trees.keys()}
        wrong += [f"{name}: {one}" for one in sorted(inside & loaded)]
    assert wrong == []


def test_no_modules_import_one_another_in_a_circle(trees: dict[str, ast.Module]) -> None:
    """Also counts imports inside functions and those for type checkers, which only hide that two files are one."""
    names = trees.keys() - {"kgedit"}  # the public API names everything
    sorter = TopologicalSorter({name: _imports(ast.walk(trees[name])) & names for name in sorted(names)})
    sorter.prepare()  # raises CycleError, which names the modules


def test_no_two_classes_have_one_name(trees: dict[str, ast.Module], loaders: dict[str, ast.Module]) -> None:
    every = (*trees.values(), *loaders.values())
    names = Counter(node.name for tree in every for node in tree.body if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1 and not name.startswith("_")] == []


def test_no_two_test_files_outside_packages_have_one_name() -> None:
    """pytest imports such files by their name alone and refuses the second one."""
    files = Counter(
        path.name for path in (ROOT / "tests").rglob("test_*.py") if not (path.parent / "__init__.py").exists()
    )
    assert [name for name, count in files.items() if count > 1] == []


def test_folders_of_unit_tests_mirror_the_package() -> None:
    unit = ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")}
    assert [folder for folder in folders - {Path("docs")} if not (PACKAGE / folder).is_dir()] == []


def test_what_benchmarks_documentation_and_notebooks_import_exists(
    trees: dict[str, ast.Module], loaders: dict[str, ast.Module]
) -> None:
    """No other test runs all of them."""
    every = trees | loaders
    files = [path for room in ("benchmarks", "docs", "examples") for path in (ROOT / room).rglob("*.py")]
    missing = [
        f"{path.relative_to(ROOT)}: {node.module}.{one.name}"
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "kgedit"
        for one in node.names
        if f"{node.module}.{one.name}" not in every and one.name not in _defined(every.get(node.module or ""))
    ]
    assert missing == []


def _defined(module: ast.Module | None) -> set[str]:
    """Names that a module defines or imports outside functions."""
    nodes = [inner for node in (module.body if module else ()) for inner in (node, *_not_in_functions(node))]
    names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    aliases = [one for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for one in node.names]
    return names | {(one.asname or one.name).split(".")[0] for one in aliases}


def _not_in_functions(node: ast.AST) -> Iterable[ast.AST]:
    return () if isinstance(node, ast.FunctionDef | ast.ClassDef) else ast.walk(node)
