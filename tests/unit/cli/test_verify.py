"""`kgedit verify`: what is damaged in a home, what is fine, and what has no checksum."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from world.submitted_runs import write_hashed_timestep, write_submittable

from kgedit.checksums import SUMS, write_checksums
from kgedit.cli import main
from kgedit.sample.generate import write_world

DATES = ("2021-01-04", "2023-02-27")


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), env={"KGEDIT_HOME": str(home)})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two snapshots, a timestep and a run."""
    home = tmp_path_factory.mktemp("home")
    for path in write_world(tmp_path_factory.mktemp("dumps")):
        for date in (date for date in DATES if path.name.startswith(date.replace("-", ""))):
            loaded = run(home, "load-dump", str(path), "--date", date, "--no-graph")
            assert loaded.exit_code == 0, loaded.output
    timestep = write_hashed_timestep(home / "timesteps" / "20200101_20210101")
    write_checksums(timestep.folder)
    write_submittable(home / "runs" / "ft", timestep)
    return home


@pytest.fixture
def home(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "home"))


def states(result: Result) -> dict[str, str]:
    return {row["part"]: row["state"] for row in json.loads(result.stdout)}


def flip(path: Path, *, keep_time: bool = False) -> None:
    content, found = bytearray(path.read_bytes()), path.stat()
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    if keep_time:
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def test_a_whole_home_is_fine(home: Path) -> None:
    result = run(home, "verify", "--json")
    assert result.exit_code == 0, result.output
    assert states(result) == {
        "snapshots/20210104": "fine",
        "snapshots/20230227": "fine",
        "timesteps/20200101_20210101": "fine",
        "runs/ft": "fine",
    }


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("snapshots/20210104/facts.parquet", "kgedit load-dump PATH --date 2021-01-04 --overwrite"),
        ("snapshots/20230227/manifest.json", "kgedit load-dump PATH --date 2023-02-27 --overwrite"),
        (f"snapshots/20230227/{SUMS}", "kgedit load-dump PATH --date 2023-02-27 --overwrite"),
        ("timesteps/20200101_20210101/two_hops.parquet", "kgedit export-timestep with --overwrite"),
        ("timesteps/20200101_20210101/timestep.json", "kgedit export-timestep with --overwrite"),
        ("runs/ft/answers.jsonl", "kgedit report --rescore"),
    ],
)
def test_a_flipped_bit_is_found_in_every_file_even_if_size_and_time_are_the_same(
    home: Path, name: str, fix: str
) -> None:
    flip(home / name, keep_time=True)
    result = run(home.parent, "verify", str(home))
    assert result.exit_code == 1
    part = name.rpartition("/")[0]
    assert (f"{part}/" if SUMS in name else f"{name}: ") in result.stdout
    assert fix in result.stdout
    assert {part: "damaged"} == {
        one: state for one, state in states(run(home, "verify", "--json")).items() if state != "fine"
    }


def test_caches_have_no_checksums_and_nothing_to_record(tmp_path: Path) -> None:
    (tmp_path / "answers").mkdir()
    done = run(tmp_path.parent, "verify", str(tmp_path))
    assert "answers" in done.stdout
    assert "kgedit verify --record" not in done.stdout


def test_checksums_of_an_earlier_versions_home_are_recorded_on_request(home: Path) -> None:
    for folder in (home / "snapshots" / "20210104", home / "timesteps" / "20200101_20210101"):
        (folder / SUMS).unlink()
    assert states(run(home, "verify", "--json"))["snapshots/20210104"] == "no checksum"
    assert run(home, "relations", "--date", "2021-01-04").exit_code == 0
    assert set(states(run(home, "verify", "--record", "--json")).values()) == {"fine"}
    flip(home / "snapshots" / "20210104" / "facts.parquet")
    flip(home / "timesteps" / "20200101_20210101" / "timestep.json")
    assert list(states(run(home, "verify", "--json")).values()).count("damaged") == 2


def test_checksums_are_not_recorded_for_what_cannot_be_decoded(home: Path) -> None:
    folder = home / "snapshots" / "20210104"
    (folder / SUMS).unlink()
    (folder / "claims.parquet").write_bytes((folder / "claims.parquet").read_bytes()[:-100])
    result = run(home, "verify", "--record")
    assert result.exit_code == 1
    assert "claims.parquet: it cannot be decoded" in result.stdout
    assert not (folder / SUMS).exists()


def test_a_damaged_snapshot_is_refused_by_load_dump_too_until_it_is_loaded_again(home: Path, tmp_path: Path) -> None:
    dump = next(path for path in write_world(tmp_path / "dumps") if path.name.startswith("20210104"))
    load = ["load-dump", str(dump), "--date", "2021-01-04", "--no-graph"]
    flip(home / "snapshots" / "20210104" / "claims.parquet")
    refused = run(home, *load)
    assert refused.exit_code == 1
    assert "claims.parquet is damaged" in refused.stderr
    assert "--overwrite" in refused.stderr
    assert run(home, *load, "--overwrite").exit_code == 0
    assert run(home, "verify").exit_code == 0


def test_a_damaged_snapshot_can_be_dropped(home: Path) -> None:
    (home / "snapshots" / "20210104" / "manifest.json").write_text('{"half')
    assert "manifest.json is damaged" in run(home, "snapshots").stderr
    assert run(home, "drop-snapshot", "2021-01-04", "--no-graph").exit_code == 0
    assert run(home, "verify").exit_code == 0
