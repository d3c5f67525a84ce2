"""docs/how-to/fresh-data.md: its monthly script makes a timestep of two days, without any dump and without a graph."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from world.dumps import Json
from world.endpoints import Answer, serving
from world.how_to import block
from world.two_days import NEW, OLD
from world.updates import SCHEMA, VALUES, article, said

from kgedit.timesteps.timestep import Timestep

STEADY = said("P31", "Q120")
BEFORE = article("Q1001", said("P6", "Q101", start="2015"), STEADY)
AFTER = article("Q1001", said("P6", "Q102", start="2022-05"), STEADY)
WORLD: dict[str, Json] = {one["id"]: one for one in [*SCHEMA, *VALUES]}
ITEMS = ("Q1001", "Q101", "Q102", "Q120", "Q999")
"""Q999 was merged into Q101."""


def site(path: str, headers: dict[str, str], body: bytes) -> Answer:
    """Revision 1 of everything is of the older day, revision 2 of the newer one."""
    asked = urlsplit(path)
    query = {name: values[0] for name, values in parse_qs(asked.query).items()}
    if asked.path == "/w/api.php":
        number = 2 if query["rvstart"][:10] >= NEW else 1
        return 200, {}, json.dumps({"query": {"pages": [{"revisions": [{"revid": number}]}]}}).encode()
    name = asked.path.rpartition("/")[2].removesuffix(".json")
    name = "Q101" if name == "Q999" else name
    town = AFTER if query.get("revision") == "2" else BEFORE
    made = town if name == "Q1001" else WORLD.get(name, article(name))
    return 200, {}, json.dumps({"entities": {name: made}}).encode()


@pytest.mark.slow
def test_the_monthly_script_makes_the_next_snapshot_and_the_timestep_since_the_last_one(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "kgedit"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kgedit "$@"\n', encoding="utf-8")
    (tmp_path / "monthly.sh").write_text(block("fresh-data.md", "sh"), encoding="utf-8")
    for script in (command, tmp_path / "monthly.sh"):
        script.chmod(0o755)
    (tmp_path / "items.txt").write_text("\n".join(ITEMS), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "KGEDIT_HOME"}
    environment |= {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(root)}
    with serving(site) as server:
        for day in (OLD, NEW, NEW):
            ran = subprocess.run(
                ["./monthly.sh", day], cwd=tmp_path, env=environment | {"SITE": server.address},
                capture_output=True, text=True, timeout=300, check=False,
            )  # fmt: skip
            assert ran.returncode == 0, ran.stderr
    made = Timestep.open(tmp_path / "kgedit-data" / "timesteps" / "20210104_20230227_wikifactdiff")
    assert [(case.fact.subject, case.fact.property, case.fact.object) for case in made.cases()] == [
        ("Q1001", "P6", "Q102")
    ]
    assert [snapshot["redirected"] for snapshot in made.manifest["snapshots"]] == [1, 1]
    assert (tmp_path / "last-day").read_text().strip() == NEW
