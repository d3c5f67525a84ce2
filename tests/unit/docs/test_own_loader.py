"""The loader that the how-to page shows is found through its entry point, keeps the contract, and loads a dump."""

from __future__ import annotations

import datetime
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from world.how_to import Installed, block, install

import kgedit
from kgedit.loaders import LOADERS
from kgedit.loaders.detection import load_with
from kgedit.store.ingest import ingest
from kgedit.store.schemas import CLAIMS, ENTITIES, Loader, LoaderOptions
from kgedit.store.sources import DumpFile

PAGE = "own-loader.md"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(PAGE, "kgedit.loaders", tmp_path_factory.mktemp("package"))


@pytest.fixture
def loader(package: Installed, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The format's name, with its package on sys.path."""
    monkeypatch.syspath_prepend(package.site)
    yield package.name
    sys.modules.pop(package.module, None)


def test_it_keeps_the_contract(loader: str) -> None:
    made = LOADERS[loader]
    assert all(hasattr(made, attribute) for attribute in Loader.__annotations__)
    parsed = made(LoaderOptions()).parse(b'no JSON\n{"id": "Q1", "label": "one", "facts": {"P1": ["Q2", "text"]}}\n')
    assert (parsed.claims.schema, parsed.entities.schema) == (CLAIMS, ENTITIES)
    assert parsed.counts == {"lines": 2, "malformed JSON": 1, "statements": 2, "object is no item": 1}
    assert (parsed.claims.num_rows, parsed.entities.num_rows) == (1, 1)


def test_unusable_ids_are_counted(loader: str) -> None:
    lines = [
        {"id": name, "label": "x", "facts": {"P0": ["Q2"], "P1": ["Q", "Q2"]}} for name in ("nonsense", "Q042", "Q1")
    ]
    parsed = LOADERS[loader](LoaderOptions()).parse("\n".join(map(json.dumps, lines)).encode())
    assert parsed.entities["id"].to_pylist() == ["Q1"]
    assert parsed.counts == {
        "lines": 3, "unusable id": 2, "statements": 3, "unusable property id": 1, "object is no item": 1
    }  # fmt: skip


@pytest.mark.parametrize("block_bytes", [10, 1 << 20])
def test_of_an_entity_that_comes_twice_the_first_counts_wherever_blocks_are_cut(
    loader: str, tmp_path: Path, block_bytes: int
) -> None:
    lines = [{"id": "Q1", "label": label, "facts": {"P6": [item]}} for label, item in (("one", "Q2"), ("two", "Q3"))]
    (tmp_path / "facts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    order = load_with(loader, LoaderOptions(), date=datetime.date(2024, 6, 3))
    source = DumpFile(tmp_path / "facts.jsonl", block_bytes)
    made = ingest(tmp_path / "home", order, source, workers=1, overwrite=False)
    assert pq.read_table(made.facts)["object"].to_pylist() == ["Q2"]
    assert pq.read_table(made.entities)["label"].to_pylist() == ["one"]
    assert made.manifest["left_out"]["repeated entity"] == 1


def test_a_dump_in_its_format_becomes_a_snapshot_with_facts(loader: str, tmp_path: Path) -> None:
    lines = [json.loads(block(PAGE, "json")), {"id": "Q64", "label": "Berlin"}, {"id": "P6", "label": "head"}]
    dump = tmp_path / "facts.jsonl.gz"
    dump.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    home = kgedit.Home(tmp_path / "home")
    snapshot = home.load_dump(dump, "2024-06-03", source_format=loader, graph=False, workers=1)

    facts = pq.read_table(snapshot.facts).select(["subject", "property", "object"]).to_pylist()
    assert [tuple(fact.values()) for fact in facts] == [("Q183", "P6", "Q567"), ("Q183", "P36", "Q64")]
    assert snapshot.manifest["loader"] == {"name": loader, "version": "1", "languages": ["en", "mul"], "wiki": "enwiki"}
