"""Which neighbours an update gets, and which of them become locality probes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from world.dumps import Json
from world.two_days import two_snapshots
from world.updates import SCHEMA, article, said

from kgedit.exporters.wikifactdiff import export as wikifactdiff
from kgedit.timesteps.audit import audit_edits
from kgedit.timesteps.edit_files import open_edits
from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.wikifactdiff import own_table
from kgedit.timesteps.wikifactdiff.export import WikiFactDiffSettings, export_timestep

CHANGED = range(1, 8)
UNCHANGED = range(21, 25)


def town(number: int, head: int, start: str, *, county: int = 900) -> Json:
    facts = said("P6", f"Q{head}", start=start), said("P131", f"Q{county}", start="1990")
    return article(f"Q{number}", *facts, label=f"Town number {number}")


def worlds() -> tuple[list[Json], list[Json]]:
    """Towns of one county: seven change their heads, four keep them; Kalmar changes its county."""
    people = [article(f"Q{100 + n}", label=f"Person {n}") for n in [*CHANGED, *UNCHANGED]]
    heirs = [article(f"Q{200 + n}", label=f"Heir {n}") for n in CHANGED]
    land = said("P17", "Q910")
    places = [
        article("Q900", label="County"),
        article("Q901", said("P131", "Q900", start="1990"), land, label="Old County"),
        article("Q903", label="Arvika"),
        article("Q904", label="Lund"),
        article("Q905", said("P131", "Q903", start="1990"), land, label="Falun"),
        article("Q910", label="Norway"),
    ]
    steady = [*SCHEMA, article("P131", label="lies in"), article("P17", label="country"), *people, *heirs, *places]
    steady += [town(n, 100 + n, "2015") for n in UNCHANGED]
    before = [*steady, *(town(n, 100 + n, "2015") for n in CHANGED)]
    after = [*steady, *(town(n, 200 + n, "2022-05-01") for n in CHANGED)]
    lay, lies = said("P131", "Q904", start="2015"), said("P131", "Q904", start="2015", end="2022-04-30")
    before.append(article("Q902", lay, land, label="Kalmar"))
    after.append(article("Q902", lies, said("P131", "Q903", start="2022-05-01"), land, label="Kalmar"))
    return before, after


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Timestep]:
    """Timesteps by seed."""
    folder = tmp_path_factory.mktemp("neighbours")
    old, new = two_snapshots(folder, *worlds())
    return {
        seed: export_timestep(
            old, new, folder / str(seed), settings=WikiFactDiffSettings(seed=seed), writers=(wikifactdiff,)
        )
        for seed in (0, 1)
    }


def neighbours(timestep: Timestep) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = own_table(timestep, "neighbours").to_pylist()
    return rows


@pytest.mark.slow
def test_a_triple_serves_three_cases_at_most(made: dict[int, Timestep]) -> None:
    probes = made[0].table("locality").to_pylist()
    uses = Counter((row["subject"], row["property"]) for row in probes)
    assert len(probes) >= len(CHANGED)
    assert max(uses.values()) <= 3
    assert {row["subject"] for row in probes if row["property"] == "P6"} <= {f"Q{n}" for n in UNCHANGED}


@pytest.mark.slow
def test_equally_similar_neighbours_are_ordered_by_the_seed(made: dict[int, Timestep]) -> None:
    orders = []
    for timestep in made.values():
        near = [row for row in neighbours(timestep) if row["basis"] == "nearest" and row["property"] == "P6"]
        orders.append([row["neighbour"] for row in near])
        assert sorted(set(orders[-1])) == [f"Q{n}" for n in UNCHANGED]
    assert orders[0] != orders[1]


@pytest.mark.slow
def test_each_neighbour_is_asked_in_a_cloze_that_is_drawn_by_the_seed(made: dict[int, Timestep]) -> None:
    """The paper picks one of the relation's templates at random for each neighbour."""
    town = "Town number 21"
    drawn = {}
    for seed, timestep in made.items():
        rows = [row for row in neighbours(timestep) if (row["neighbour"], row["property"]) == ("Q21", "P6")]
        drawn[seed] = {(row["subject"], row["basis"]): row["cloze"].replace(town, "{}") for row in rows}
    update = own_table(made[0], "updates").to_pylist()[0]
    templates = {cloze.replace(update["subject_label"], "{}") for cloze in update["clozes"]}
    assert set(drawn[0].values()) <= templates
    assert len(set(drawn[0].values())) > 1
    common = drawn[0].keys() & drawn[1].keys()
    assert {key: drawn[0][key] for key in common} != {key: drawn[1][key] for key in common}


@pytest.mark.slow
def test_no_neighbour_names_its_answer_or_a_value_of_the_update(made: dict[int, Timestep]) -> None:
    rows = neighbours(made[0])
    of_kalmar = [row for row in rows if row["subject"] == "Q902"]
    near = {row["neighbour"] for row in of_kalmar if row["basis"] == "nearest"}
    assert "Q905" in near
    assert "Q901" not in near  # Old County lies in County: the question would say it
    drawn = {row["object"] for row in of_kalmar if row["basis"] == "random"}
    assert drawn
    assert "Q903" not in drawn  # Falun lies in Arvika, where Kalmar lies now
    assert "Q903" in {row["object"] for row in rows if row["basis"] == "random"}


@pytest.mark.slow
def test_the_published_form_passes_the_audit(made: dict[int, Timestep], tmp_path: Path) -> None:
    timestep = made[0]
    old, new = two_snapshots(tmp_path, *worlds())
    for path in (timestep.folder, timestep.folder / "wikifactdiff.jsonl"):
        audit = audit_edits(open_edits(path), old, new, spill=tmp_path / "spill")
        assert set(audit.rows["verdict"].to_pylist()) == {"valid"}
