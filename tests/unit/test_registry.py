"""Registries find parts by name, and suggest near names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kgedit.errors import KgeditError, UnknownNameError, did_you_mean, near_names
from kgedit.registry import Registry

PARTS: Registry[object] = Registry("part", {"colour": "colorsys:rgb_to_hsv", "wave": "wave:open"})


def test_a_part_is_imported_when_it_is_used_and_not_before() -> None:
    sys.modules.pop("colorsys", None)
    assert "colour" in PARTS
    assert list(PARTS) == ["colour", "wave"]
    assert "colorsys" not in sys.modules
    assert PARTS["colour"] is sys.modules["colorsys"].rgb_to_hsv


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match=r"no part 'color'. Did you mean 'colour'\? Known: colour, wave"):
        PARTS["color"]


def test_it_is_a_mapping_like_any_other() -> None:
    assert PARTS.get("nothing") is None
    assert len(PARTS) == 2


def test_a_part_of_another_package_that_cannot_be_imported_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kgedit_parts-0.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: kgedit-parts\nVersion: 0.1\n")
    entries = ("lost = no_such_module:X", "empty = wave:no_such_part", "needy = of_an_extra:X")
    (folder / "entry_points.txt").write_text("\n".join(("[kgedit.parts]", *entries)))
    (tmp_path / "of_an_extra.py").write_text("import torch\n")
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.syspath_prepend(tmp_path)
    parts: Registry[object] = Registry("part", {"own": "no_such_module:X"}, group="kgedit.parts")
    for name, reason in (("lost", "No module named 'no_such_module'"), ("empty", "no attribute 'no_such_part'")):
        with pytest.raises(KgeditError, match=rf"The part '{name}' .*{reason}.* of package 'kgedit-parts': install"):
            parts[name]
    for name in ("own", "needy"):  # the command line says how to install the extra
        with pytest.raises(ModuleNotFoundError):
            parts[name]


METHODS = ("alphaedit", "ft_l", "ft_m", "lora", "lora_merge", "memit", "r_rome", "rome")
COMMANDS = ("drop-snapshot", "explore", "export-timestep", "graph", "load-dump", "run-edit")


@pytest.mark.parametrize(
    ("given", "names", "near"),
    [
        ("MEMIT", METHODS, ["memit"]),
        ("FT-M", METHODS, ["ft_m"]),
        ("R-ROME", METHODS, ["r_rome"]),
        ("lora-mrge", METHODS, ["lora_merge"]),
        ("alpha", METHODS, ["alphaedit"]),
        ("smollm2", ("smollm2-135m", "tiny"), ["smollm2-135m"]),
        ("lod-dump", COMMANDS, ["load-dump"]),
        ("loaddump", COMMANDS, ["load-dump"]),
        ("load", COMMANDS, ["load-dump"]),
        ("dump", COMMANDS, ["load-dump"]),
        ("timestep", COMMANDS, ["export-timestep"]),
        ("rouge", ("judge", "fluency", "token_f1"), []),
        ("f1", ("judge", "fluency", "token_f1"), ["token_f1"]),
        ("export", (*COMMANDS, "report"), ["export-timestep"]),
        ("", COMMANDS, []),
    ],
)
def test_the_nearest_names_are_those_that_a_user_means(given: str, names: tuple[str, ...], near: list[str]) -> None:
    assert near_names(given, names)[: len(near) or 1] == near


def test_a_hint_is_given_only_where_a_name_is_near() -> None:
    assert did_you_mean("memitt", METHODS) == " Did you mean 'memit'?"
    assert did_you_mean("xyz", METHODS) == ""
