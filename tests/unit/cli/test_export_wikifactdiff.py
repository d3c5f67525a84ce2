"""`kgedit export-timestep --profile wikifactdiff` on the sample world, without a graph server."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from world.documented_scenarios import cells, documented
from world.dumps import hashes

import kgedit
from kgedit.cli import main
from kgedit.errors import DamagedFileError, TimestepError
from kgedit.runs.selection import choose_cases
from kgedit.runs.spec import resolve
from kgedit.sample import read_world
from kgedit.sample.generate import write_world
from kgedit.timesteps.edit_files import open_edits
from kgedit.timesteps.stream import Stream
from kgedit.timesteps.wikifactdiff import own_table
from kgedit.wording.grammar import ANSWERS

STEPS = (("2021-01-04", "2023-02-27"), ("2023-02-27", "2024-06-03"))


def command(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), env={"KGEDIT_HOME": str(home)})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("sample")
    *dumps, redirects = write_world(folder / "dumps")
    for dump in dumps:
        day = f"{dump.name[:4]}-{dump.name[4:6]}-{dump.name[6:8]}"
        given = ["load-dump", str(dump), "--date", day, "--redirects", str(redirects), "--no-graph"]
        loaded = command(folder / "home", *given)
        assert loaded.exit_code == 0, loaded.output
    return folder / "home"


@pytest.fixture(scope="module")
def results(home: Path) -> list[Result]:
    return [
        command(home, "export-timestep", "--from", older, "--to", newer, "--profile", "wikifactdiff")
        for older, newer in STEPS
    ]


@pytest.mark.slow
def test_it_prints_the_folder_and_tells_the_funnel(home: Path, results: list[Result]) -> None:
    folder = home / "timesteps" / "20210104_20230227_wikifactdiff"
    assert results[0].stdout == f"{folder}\n"
    manifest = json.loads((folder / "timestep.json").read_text(encoding="utf-8"))
    assert f"{manifest['funnel']['changed']} changed subjects and relations" in results[0].stderr
    assert f"{manifest['funnel']['kept']} updates (" in results[0].stderr
    assert (folder / "wikifactdiff.jsonl").is_file()
    assert not (folder / "wikibigedit.json").exists()


@pytest.mark.slow
def test_the_sample_world_has_every_scenario_where_it_says(home: Path, results: list[Result]) -> None:
    assert [result.exit_code for result in results] == [0, 0]
    found: dict[str, set[str]] = {}
    for older, newer in STEPS:
        timestep = kgedit.Home(home).timestep(older, newer, profile="wikifactdiff")
        for row in own_table(timestep, "updates").to_pylist():
            for name in (row["subject"], f"{row['subject']}:{row['property']}"):
                found.setdefault(name, set()).add(row["scenario"])
    expected = read_world().scenarios
    assert {
        name: [place for place in places if name not in found.get(place, ())] for name, places in expected.items()
    } == {name: [] for name in expected}
    assert set(expected) == {"ReplaceObject", "Archive", "AddObject", "AddRelation", "AddEntity", "Other"}


def test_the_documented_table_is_what_is_found(home: Path, results: list[Result]) -> None:
    found = [
        ["sample", older, newer, *cells(kgedit.Home(home).timestep(older, newer, profile="wikifactdiff").manifest)]
        for older, newer in STEPS
    ]
    assert documented("sample") == found


def test_cases_hold_their_answer_its_type_and_the_dates_of_their_statement(home: Path, results: list[Result]) -> None:
    rows = kgedit.Home(home).timestep("2021-01-04", "2023-02-27", profile="wikifactdiff").table("cases").to_pylist()
    assert [row["answer"] for row in rows] == [row["object_label"] for row in rows]
    assert {row["answer_type"] for row in rows} <= set(ANSWERS)
    (mayor,) = (row for row in rows if row["case_id"] == "Q100:P6:Q16202473")
    assert (mayor["answer"], mayor["answer_type"]) == ("Michelle Wu", "person")
    assert (mayor["start_time"], mayor["point_in_time"]) == ("2021-11-16", None)
    assert any(row["point_in_time"] for row in rows)


def test_the_replacement_set_is_the_same_in_the_timestep_and_in_its_published_form(
    home: Path, results: list[Result]
) -> None:
    timestep = kgedit.Home(home).timestep("2021-01-04", "2023-02-27", profile="wikifactdiff")
    chosen = {
        (row["subject"], row["property"])
        for row in own_table(timestep, "updates").to_pylist()
        if row["in_replacement_set"]
    }
    assert chosen
    for edits in (timestep, open_edits(timestep.folder / "wikifactdiff.jsonl")):
        for case in edits.cases():
            assert case.in_replacement_set == ((case.fact.subject, case.fact.property) in chosen)
    spec = resolve({"timesteps": [str(timestep.folder)], "model": "tiny", "method": "none", "population": "repl"})
    (cases,) = choose_cases([timestep], spec)[0].values()
    assert {(case.fact.subject, case.fact.property) for case in cases} <= chosen
    assert 0 < len(cases) < len(list(timestep.cases()))


@pytest.mark.slow
def test_a_published_timestep_is_read_by_datasets_and_mlcroissant_on_every_axis(
    home: Path, results: list[Result], tmp_path: Path
) -> None:
    import datasets
    import mlcroissant

    timestep = kgedit.Home(home).timestep("2021-01-04", "2023-02-27", profile="wikifactdiff")
    name = timestep.folder.name
    published = command(home, "publish", str(tmp_path / "changes"), "--timestep", str(timestep.folder))
    assert published.exit_code == 0, published.output
    asked = Counter(probe.axis for case in timestep.cases() for probe in case.probes)
    assert asked["random_locality"] > 0
    loaded = datasets.load_dataset(str(tmp_path / "changes"), name, cache_dir=str(tmp_path / "cache"))
    assert {axis: rows.num_rows for axis, rows in loaded.items()} == asked
    croissant = mlcroissant.Dataset(jsonld=tmp_path / "changes" / "croissant.json")
    assert croissant.metadata.ctx.issues.errors == set()
    assert len(list(croissant.records(f"{name}_random_locality"))) == asked["random_locality"]


def test_an_option_of_another_profile_is_refused_with_a_sentence(home: Path) -> None:
    window = ["--from", "2021-01-04", "--to", "2023-02-27"]
    ran = command(home, "export-timestep", *window, "--compat", "wikifactdiff-2024")
    assert ran.exit_code == 1
    said = "The profile wikibigedit has no --compat. Leave it out, or add --profile wikifactdiff, which has it."
    assert ran.stderr == f"Error: {said}\n"
    with pytest.raises(TimestepError, match="There is no profile 'wikifact'"):
        kgedit.Home(home).export_timestep("2021-01-04", "2023-02-27", profile="wikifact")


@pytest.mark.slow
def test_all_timesteps_of_a_stream_are_the_same_bytes_as_each_alone(
    home: Path, results: list[Result], tmp_path: Path
) -> None:
    shutil.copytree(home / "snapshots", tmp_path / "home" / "snapshots")
    stream = ["export-timestep", "--all", "--profile", "wikifactdiff"]
    made = command(tmp_path / "home", *stream)
    folder = tmp_path / "home" / "timesteps" / "stream_wikifactdiff"
    assert (made.exit_code, made.stdout) == (0, f"{folder}\n"), made.output
    # A slow machine reports steps in between.
    written = [line for line in made.stderr.splitlines() if line.endswith(": written")]
    assert written[:2] == ["20210104_20230227: written", "20230227_20240603: written"]
    alone, together = hashes(home / "timesteps"), hashes(tmp_path / "home" / "timesteps")
    assert {name: digest for name, digest in together.items() if not name.startswith("stream")} == alone

    # One timestep is lost: it is written again; the other one and the links between them are kept.
    shutil.rmtree(tmp_path / "home" / "timesteps" / "20210104_20230227_wikifactdiff")
    resumed = command(tmp_path / "home", *stream)
    assert resumed.stderr.splitlines()[:2] == ["20210104_20230227: written", "20230227_20240603: kept"]
    assert hashes(tmp_path / "home" / "timesteps") == together

    opened = Stream.open(folder)
    assert [timestep.name for timestep in opened.timesteps()] == ["20210104_20230227", "20230227_20240603"]
    counted = [(row["edited_again"], row["expiring_probes"]) for row in opened.manifest["timesteps"]]
    assert counted == [
        (0, opened.table("expiring_probes").num_rows),
        (opened.table("edited_again").num_rows, 0),
    ]
    assert all(later > 0 for later in (counted[0][1], counted[1][0]))
    probed_again = opened.table("edited_probes").num_rows
    assert [row["edited_probes"] for row in opened.manifest["timesteps"]] == [0, probed_again]
    assert probed_again > 0

    refused = command(tmp_path / "home", *stream, "--known-facts", "5")
    assert (refused.exit_code, "made with other settings" in refused.stderr) == (1, True)
    assert hashes(tmp_path / "home" / "timesteps") == together
    with pytest.raises(TimestepError, match="needs two snapshots"):
        kgedit.Home(tmp_path / "empty").export_all(profile="wikifactdiff")


def test_two_dates_or_all_and_not_both(home: Path) -> None:
    for given in ([], ["--from", "2021-01-04"], ["--all", "--to", "2023-02-27"]):
        refused = command(home, "export-timestep", *given)
        assert (refused.exit_code, "Give --from and --to, or --all." in refused.stderr) == (2, True)


@pytest.mark.slow
def test_a_form_that_is_added_later_has_a_checksum_too(home: Path, results: list[Result]) -> None:
    window = ["--from", "2023-02-27", "--to", "2024-06-03", "--profile", "wikifactdiff"]
    assert command(home, "export-timestep", *window, "--form", "easyedit").exit_code == 0
    form = Path(results[1].stdout.strip()) / "easyedit.json"
    form.write_bytes(form.read_bytes()[:-1])
    with pytest.raises(DamagedFileError, match=r"easyedit\.json is damaged"):
        kgedit.Timestep.open(form.parent)
    form.unlink()
    assert command(home, "export-timestep", *window, "--overwrite").exit_code == 0


@pytest.mark.slow
def test_a_folder_with_another_timestep_is_replaced_only_when_asked(home: Path, results: list[Result]) -> None:
    window = ["--from", "2021-01-04", "--to", "2023-02-27", "--profile", "wikifactdiff"]
    again = command(home, "export-timestep", *window)  # the same: it is kept
    assert (again.exit_code, again.stdout) == (0, results[0].stdout)
    refused = command(home, "export-timestep", *window, "--known-facts", "5")
    assert (refused.exit_code, "add --overwrite" in refused.stderr) == (1, True)
    assert command(home, "export-timestep", *window, "--overwrite", "--known-facts", "5").exit_code == 0
    timestep = kgedit.Home(home).timestep("2021-01-04", "2023-02-27", profile="wikifactdiff")
    assert timestep.manifest["known_facts"] == 5
