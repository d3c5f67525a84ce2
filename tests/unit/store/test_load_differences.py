from __future__ import annotations

from typing import Any

import pytest

from kgedit.store.ingest import content_difference, load_differences

LOADED: dict[str, Any] = {
    "source": {"name": "old.json", "size": 1000, "sha256": "ab" * 32},
    "loader": {"name": "wikidata_json", "version": "3", "languages": ["en", "mul"], "wiki": "enwiki"},
    "limit": None,
    "redirects": None,
    "slice_of": None,
}


@pytest.mark.parametrize(
    ("changes", "differences"),
    [
        ({}, []),
        ({"source": {"name": "copy.json", "size": 1000}}, []),
        (
            {"source": {"name": "new.json", "size": 2000}},
            ["dump: old.json with 1,000 bytes then, new.json with 2,000 bytes now"],
        ),
        ({"limit": 5}, ["limit: none then, 5 now"]),
        ({"slice_of": "towns"}, ["slice of: none then, towns now"]),
        (
            {"redirects": {"name": "redirects.tsv", "sha256": "cd" * 32}},
            ["redirects: none then, redirects.tsv (SHA-256 cdcdcdcdcdcd…) now"],
        ),
        (
            {"loader": LOADED["loader"] | {"languages": ["de"], "version": "4"}},
            ["version of the loader (kgedit was updated): 3 then, 4 now", "languages: en, mul then, de now"],
        ),
        (
            {"loader": {"name": "kgtk", "version": "3", "languages": ["en", "mul"], "wiki": "dewiki"}},
            ["source format: wikidata_json then, kgtk now", "wiki: enwiki then, dewiki now"],
        ),
    ],
)
def test_each_difference_has_its_old_and_its_new_value(changes: dict[str, Any], differences: list[str]) -> None:
    assert load_differences(LOADED, LOADED | changes, as_of=False) == differences


def test_a_projection_differs_from_the_dump_of_a_day() -> None:
    assert load_differences(LOADED, LOADED, as_of=True) == [
        "kind: a dump of this day then, projected from a later dump now"
    ]
    assert load_differences(LOADED | {"projected": {}}, LOADED, as_of=True) == []


def test_equal_sizes_with_other_content_are_told_apart_by_hash() -> None:
    assert content_difference("ab" * 32, "cd" * 32).endswith("(SHA-256 abababababab… then, cdcdcdcdcdcd… now)")
