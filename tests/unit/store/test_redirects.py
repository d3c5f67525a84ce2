"""Redirects of redirects end where their chain ends; what goes round in a cycle is counted and followed no more."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from world.dumps import entity, load, write_dump

from kgedit.store.snapshots import Snapshot


def redirected(tmp_path: Path, *pairs: str) -> Snapshot:
    dump = write_dump(tmp_path / "dump.json", [entity("Q1", label="one"), entity("Q12", label="twelve")])
    (tmp_path / "redirects.tsv").write_text("".join("\t".join(pair.split()) + "\n" for pair in pairs))
    return load(tmp_path, dump, "2021-01-04", redirects=tmp_path / "redirects.tsv")


def targets(snapshot: Snapshot) -> dict[str, str]:
    query = f"SELECT id, redirect_target FROM '{snapshot.entities}' WHERE redirect_target IS NOT NULL"
    return dict(duckdb.sql(query).fetchall())


@pytest.mark.parametrize("pairs", [("Q10 Q11", "Q11 Q12"), ("Q11 Q12", "Q10 Q11")])
def test_case_31_a_redirect_of_a_redirect_is_one_entity(tmp_path: Path, pairs: tuple[str, ...]) -> None:
    assert targets(redirected(tmp_path, *pairs)) == {"Q10": "Q12", "Q11": "Q12"}


def test_case_31_a_long_chain_ends_at_its_end(tmp_path: Path) -> None:
    pairs = [f"Q{number} Q{number + 1}" for number in range(100, 400)]
    snapshot = redirected(tmp_path, *pairs, "Q400 Q1")
    assert set(targets(snapshot).values()) == {"Q1"}
    assert snapshot.manifest["redirected"] == 301


def test_case_31_a_cycle_is_counted_and_not_followed_for_ever(tmp_path: Path) -> None:
    snapshot = redirected(tmp_path, "Q20 Q21", "Q21 Q20", "Q22 Q20", "Q23 Q23", "Q10 Q1")
    assert targets(snapshot) == {"Q10": "Q1"}
    assert snapshot.manifest["left_out"]["redirect in a cycle"] == 4


def test_a_chain_ends_at_an_entity_that_the_dump_holds(tmp_path: Path) -> None:
    """Q12 is an entity of the dump: that it redirects elsewhere is not believed."""
    assert targets(redirected(tmp_path, "Q10 Q12", "Q12 Q1")) == {"Q10": "Q12"}
