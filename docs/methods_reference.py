"""Writes what documents say about all methods, from the methods themselves: ``make docs``.

docs/reference/methods.md has every method with its settings, docs/reference/deviations.md a table of what differs from
papers and their code (kgedit/editing/deviations.yaml), docs/methods.md the names of methods that its measurements lack,
README.md the number of methods.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from kgedit.editing import METHODS
from kgedit.editing.editor import Capabilities, Editor
from kgedit.editing.hparams.settings import Settings, defaults, meanings, published_configs

FILE = Path(__file__).parent / "reference" / "methods.md"
DEVIATIONS = Path(__file__).parent / "reference" / "deviations.md"
COMPARISON = Path(__file__).parent / "methods.md"
README = Path(__file__).parents[1] / "README.md"
DECLARED = Path(__file__).parents[1] / "kgedit" / "editing" / "deviations.yaml"

BEGIN = "<!-- Deviations: written by docs/methods_reference.py (make docs). Changes made here are lost. -->"
END = "<!-- End of the deviations. -->"
MISSING_BEGIN = "<!-- Methods without measurements: written by docs/methods_reference.py (make docs). -->"
MISSING_END = "<!-- End of the methods without measurements. -->"

_HEAD = """\
<!-- Written by docs/methods_reference.py from the methods themselves (make docs). Changes made here are lost. -->

# Methods

Choose one with `kgedit run-edit --method NAME`, change a setting with `--set KEY=VALUE`, and write all settings to a
file with `kgedit configs cp NAME/default`. A setting is what you give; else what is published for the model at hand;
else its default, or what is derived from the model's depth or width ("derived").
[The comparison of methods](../methods.md) shows what they do to the same edits.
"""

_PROTOCOLS = "Protocols, the first by default"


def reference() -> str:
    """The whole file: an overview by family, then a section for each method."""
    families: dict[str, list[str]] = {}
    for name in METHODS:
        families.setdefault(_family(METHODS[name]), []).append(name)
    ordered = [name for family in sorted(families) for name in families[family]]
    rows = "\n".join(
        f"| [`{name}`](#{name}) | {_family(METHODS[name])} | {_cell(_about(METHODS[name]).partition(chr(10) * 2)[0])} "
        f"| {METHODS[name].capabilities.changes} |"
        for name in ordered
    )
    sections = "\n".join("\n".join(_section(name, METHODS[name])) for name in ordered)
    return f"{_HEAD}\n| Method | Family | In short | Changes |\n| :-- | :-- | :-- | :-- |\n{rows}\n\n{sections}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One difference of a method from its paper or published code.

    Attributes:
        what: What differs.
        published: Behaviour in the paper or its code; names which of them if the two differ.
        ours: Default behaviour here.
        why: The reason.
        effect: Measured effect of the difference, with model and data.
    """

    what: str
    published: str
    ours: str
    why: str
    effect: str = "not measured"


@dataclass(frozen=True, slots=True)
class Deviations:
    """All known differences of one method.

    Attributes:
        rows: The differences.
        none_because: Reason why there are none; "" if there are any.

    Raises:
        ValueError: if both or neither are given.
    """

    rows: tuple[Deviation, ...] = ()
    none_because: str = ""

    def __post_init__(self) -> None:
        if bool(self.rows) == bool(self.none_because):
            raise ValueError("give either the deviations or the reason for none")


@cache
def read_deviations() -> dict[str, Deviations]:
    """Read the deviations of each of kgedit's methods, by its name; methods of other packages are not included.

    Raises:
        KeyError: if a method lists a row that its family does not have.
    """
    found: dict[str, Deviations] = {}
    families: dict[str, dict[str, Any]] = yaml.safe_load(DECLARED.read_text(encoding="utf-8"))
    for family in families.values():
        shared = {name: Deviation(**row) for name, row in family.get("shared", {}).items()}
        found |= {method: _deviations(given, shared) for method, given in family["methods"].items()}
    return found


def _deviations(given: dict[str, str] | list[Any], shared: Mapping[str, Deviation]) -> Deviations:
    """Deviations of a method: a list of rows and names of shared ones, or a mapping with none_because."""
    if isinstance(given, dict):
        return Deviations(none_because=given["none_because"])
    return Deviations(tuple(shared[row] if isinstance(row, str) else Deviation(**row) for row in given))


def deviations() -> str:
    """The table of deviations: one row for each, with the methods that share it."""
    by_method = read_deviations()
    sharing: dict[Deviation, list[str]] = {}
    own = [name for name in METHODS if name in by_method]  # methods of other packages have no entry
    for name in own:
        for row in by_method[name].rows:
            sharing.setdefault(row, []).append(name)
    rows = [
        "| " + " | ".join([", ".join(f"`{name}`" for name in names), *map(_cell, astuple(row))]) + " |"
        for row, names in sharing.items()
    ]
    none = [f"`{name}`, since {why}" for name in own if (why := by_method[name].none_because)]
    head = "| Method | What | Published | Here, by default | Why | Measured effect |"
    return "\n".join([head, "| :-- | :-- | :-- | :-- | :-- | :-- |", *rows, "", f"None: {'; '.join(none)}."])


def with_deviations(page: str) -> str:
    """The page of deviations with the table of today."""
    return _between(page, BEGIN, END, deviations())


def missing(page: str) -> str:
    """Sentence that names the methods without a row in the page's tables of measurements."""
    measured = set(re.findall(r"^\| `(\w+)`, (?:one by one|all at once) \|", page, re.MULTILINE))
    names = [f"`{name}`" for name in METHODS if name not in {*measured, "none"}]
    return f"Not measured here: {', '.join(names)}." if names else "Every method is measured here."


def with_missing(page: str) -> str:
    """The comparison with the names of the methods that it has no measurements of."""
    return _between(page, MISSING_BEGIN, MISSING_END, missing(page))


def counted(readme: str) -> str:
    """README.md with the number of methods of today, without `none`."""
    return re.sub(r"(\*\*Editing\*\* with )\d+( methods)", rf"\g<1>{len(METHODS) - 1}\g<2>", readme)


def _between(page: str, begin: str, end: str, text: str) -> str:
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}"


def _family(method: type[Editor[Any]]) -> str:
    """The folder of a method's file, in words."""
    path = method.__module__.split(".")
    if path[:2] != ["kgedit", "editing"]:
        return "other packages"
    return path[2].replace("_", " ") if len(path) > 3 else "none"


def _cell(text: str) -> str:
    """A text on one line, fit for a table's cell."""
    return " ".join(text.split()).replace("|", "\\|")


def _saved(capabilities: Capabilities) -> str:
    if capabilities.needs_memory:
        return "a memory that `kgedit.load_edited` puts on the base model"
    return "weights or an adapter that transformers and peft load" if capabilities.edits_anything else "nothing"


def _section(name: str, method: type[Editor[Any]]) -> Iterator[str]:
    capabilities = method.capabilities
    yield f"## {name}\n"
    yield f"{_about(method)}\n"
    yield f"- Changes: {capabilities.changes}."
    yield f"- {_PROTOCOLS}: {', '.join(capabilities.protocols)}."
    if capabilities.needs_known_facts:
        yield "- Uses facts of the older snapshot before the first edit."
    yield f"- `--save-model` writes {_saved(capabilities)}."
    if capabilities.resumes_calls:
        yield "- A call that was killed resumes from its last checkpoint."
    if capabilities.withdrawing:
        yield f"- {capabilities.withdrawing} ([measured](../lifelong.md#withdrawing-an-edit))."
    elif capabilities.edits_anything:
        yield "- Single edits cannot be withdrawn; `restore` undoes all."
    if capabilities.source:
        yield f"- Source: {capabilities.source}."
    if published := [config.model for config in published_configs(name)]:
        yield f"- Published values for: {', '.join(published)}."
    declared = read_deviations().get(name)
    if declared and (count := len(declared.rows)):
        yield f"- Differs from what is published in [{count} points](deviations.md)."
    yield f"- Code: `{method.__module__.replace('.', '/')}.py`.\n"
    yield from _settings(method.settings_type)


def _about(method: type[Editor[Any]]) -> str:
    """The docstring of the method's class, without the sections on arguments."""
    text = inspect.getdoc(method) or ""
    return re.split(r"\n\n(?:Args|Attributes):\n", text)[0]


def _settings(kind: type[Settings]) -> Iterator[str]:
    if not meanings(kind):
        yield "It has no settings.\n"
        return
    given = defaults(kind)
    yield "| Setting | Default | Meaning |\n| :-- | :-- | :-- |"
    for name, meaning in meanings(kind).items():
        default = f"`{_yaml(given[name])}`" if name in given else "derived"
        yield f"| `{name}` | {default} | {_cell(meaning)} |"
    yield ""


def _yaml(value: object) -> str:
    return yaml.safe_dump(value).removesuffix("...\n").strip()


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(reference(), encoding="utf-8")
    DEVIATIONS.write_text(with_deviations(DEVIATIONS.read_text(encoding="utf-8")), encoding="utf-8")
    COMPARISON.write_text(with_missing(COMPARISON.read_text(encoding="utf-8")), encoding="utf-8")
    README.write_text(counted(README.read_text(encoding="utf-8")), encoding="utf-8")
