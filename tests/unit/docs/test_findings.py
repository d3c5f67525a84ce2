"""docs/findings.md is what docs/findings.py writes from claims and stored results, and every claim has a sweep."""

from __future__ import annotations

import csv
import gzip
import json
import runpy
import subprocess
from pathlib import Path
from typing import Any

import findings
import findings_measures
import numpy as np
import pytest
import yaml
from world.small_models import save, small_model
from world.small_timestep import write_timestep
from world.submitted_runs import write_submittable

import kgedit
from kgedit.runs.run_files import write_run_checksums
from kgedit.timesteps.timestep import Timestep

DOCS = Path(__file__).resolve().parents[3] / "docs"
WRITTEN = yaml.safe_load((DOCS / "findings" / "claims.yaml").read_text(encoding="utf-8"))
CLAIMS: list[dict[str, Any]] = WRITTEN["claims"]
SPECS = sorted(path.stem for path in (DOCS / "findings").glob("*.yaml") if path.stem != "claims")


def test_the_page_is_what_the_script_writes() -> None:
    run = "run python docs/findings.py"
    assert findings.page() == (DOCS / "findings.md").read_text(encoding="utf-8"), run
    assert findings.figure(findings.stored_results()) == findings.FIGURE.read_text(encoding="utf-8"), run


def test_results_were_measured_by_versions_in_the_history() -> None:
    def git(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", "-C", str(DOCS), *command], capture_output=True, text=True, check=False)

    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("no git, or not the whole history")
    stored = findings.stored_results()
    commits = {name: one["environment"]["commit"] for name, one in stored.items()}
    commits |= {
        (name, key): run["commit"]
        for name, one in stored.items()
        for key, run in one["runs"].items()
        if "commit" in run
    }
    other = {name for name, commit in commits.items() if git("merge-base", "--is-ancestor", commit, "HEAD").returncode}
    assert other == set(), "run these sweeps from a checkout of the main branch: a rebase removes other commits"


def test_terms_of_an_office_follow_one_another(tmp_path: Path) -> None:
    def write(path: str, rows: list[tuple[str, ...]]) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        with (tmp_path / path).open("w", encoding="utf-8", newline="") as lines:
            csv.writer(lines).writerows(rows)

    item = {"type": "item", "id": "Q2", "labels": {"en": {"language": "en", "value": "Ada"}}, "claims": {}}
    (tmp_path / "slices" / "w12k").mkdir(parents=True)
    (tmp_path / "slices" / "w12k" / "20140101.json.gz").write_bytes(gzip.compress(f"[\n{json.dumps(item)}\n]".encode()))
    names = ("item", "itemLabel", "position", "positionLabel", "predecessor", "predecessorLabel", "after")
    later = ("Q4", "Eve", "Q1", "mayor", "Q5", "Bob", "2008-05-01")
    write(
        "world_leaders/missing-successors.csv", [names, later, ("Q2", "Ada", "Q1", "mayor", "Q3", "Q3", "2001-02-03")]
    )
    heads = [("c", "cl", "p", "pl", "o", "ol", "s", "e"), ("", "", "Q1", "mayor", "Q4", "Eve", "2008", "2012")]
    write("world_leaders/all_versions/one.csv", heads)
    main = runpy.run_path(str(DOCS / "findings" / "offices.py"))["main"]
    for name in ("first", "second"):
        main(tmp_path, tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()

    entities = {one["id"]: one for one in json.loads(gzip.decompress((tmp_path / "first").read_bytes()))}
    assert {name: one["labels"].get("en", {}).get("value") for name, one in entities.items()} == {
        "Q2": "Ada",
        "Q1": "mayor",
        "Q3": None,
        "Q4": "Eve",
    }
    terms = {
        (entity, name): [
            (
                statement["mainsnak"]["datavalue"]["value"]["id"],
                {one: values[0]["datavalue"]["value"]["time"][1:11] for one, values in statement["qualifiers"].items()},
            )
            for statement in statements
        ]
        for entity, one in entities.items()
        for name, statements in one["claims"].items()
    }
    first, second = {"P580": "2001-02-03", "P582": "2008-05-01"}, {"P580": "2008-05-01", "P582": "2012-00-00"}
    before = {"P582": "2001-02-03"}
    assert terms == {
        ("Q1", "P1308"): [("Q3", before), ("Q2", first), ("Q4", second)],
        ("Q2", "P39"): [("Q1", first)],
        ("Q3", "P39"): [("Q1", before)],
        ("Q4", "P39"): [("Q1", second)],
    }


def test_every_claim_names_what_the_page_needs() -> None:
    needed = {"id", "paper", "place", "claim", "spec", "measure", "first", "second", "expect"}
    assert [claim["id"] for claim in CLAIMS if needed - set(claim)] == []
    assert len({claim["id"] for claim in CLAIMS}) == len(CLAIMS)
    assert {claim["spec"] for claim in CLAIMS} <= set(SPECS)


@pytest.mark.parametrize("name", SPECS)
def test_a_dry_run_plans_the_runs_that_claims_compare(name: str, timestep: Timestep, tmp_path: Path) -> None:
    path = DOCS / "findings" / f"{name}.yaml"
    given = yaml.safe_load(path.read_text(encoding="utf-8"))
    # Only the timesteps, and what others lack, are different: those of the specs have to be exported first.
    other = {"timesteps": [str(timestep.folder)], "population": None, "neighbours": None}
    spec = given | {"base": given["base"] | other}
    swept = kgedit.sweep(spec, out=tmp_path / "out", home=tmp_path / "home", dry_run=True)
    planned = {run.name for run in swept.runs}
    assert all(run.state == "new" for run in swept.runs)
    assert f"kgedit sweep docs/findings/{name}.yaml" in findings.spec_command(name)
    compared = {
        side["run"]
        for claim in CLAIMS
        if claim["spec"] == name
        for _, asked in findings_measures.comparisons(claim)
        for side in (asked["first"], asked["second"])
        if "level" not in side
    }
    assert compared <= planned


def test_every_row_says_why_it_may_differ_or_what_is_missing() -> None:
    results = findings.stored_results()
    missing = [
        claim["id"] for claim in CLAIMS if not claim.get("differ" if findings.stored(claim, results) else "needs")
    ]
    assert missing == []


def test_a_result_is_of_what_its_claim_asks_for() -> None:
    results = findings.stored_results()
    claim = CLAIMS[0]
    other = {"label": "", "asked": {"first": {}, "second": {}, "pair": "none"}, "difference": {"low": 0, "high": 1}}
    with pytest.raises(ValueError, match="measured something else"):
        findings.stored(claim, results | {claim["spec"]: {"claims": {claim["id"]: [other]}}})


@pytest.mark.parametrize(
    ("low", "high", "expect", "verdict"),
    [
        (-0.3, -0.1, "lower", "yes"),
        (-0.3, -0.1, "higher", "no"),
        (-0.3, 0.1, "lower", "not decided"),
        (-0.05, 0.04, "same", "yes"),
        (0.2, 0.3, "same", "no"),
        (-0.05, 0.2, "same", "not decided"),
    ],
)
def test_an_interval_decides_a_direction(low: float, high: float, expect: str, verdict: str) -> None:
    claim = {"id": "some", "expect": expect, "margin": 0.1}
    assert findings.verdict(claim, [{"difference": {"low": low, "high": high}}]) == verdict
    assert findings.verdict(claim, []) == "not run"


def test_different_answers_are_compared_by_relation() -> None:
    values, units = np.array([0.0, 0.0, 1.0, 1.0]), np.arange(4)
    relations = np.array(["a", "b", "a", "b"])
    both = [(values[part], units[part], relations[part]) for part in (slice(0, 3), slice(1, 4))]
    found = findings_measures._unpaired(*both)
    assert found["difference"]["mean"] == pytest.approx(1 / 3, abs=1e-6)
    assert (found["first"]["n"], found["second"]["n"], found["relations"]) == (3, 3, 2)
    assert found["difference"]["low"] < 1 / 3 < found["difference"]["high"]


@pytest.mark.slow
def test_methods_are_compared_over_a_stream(tmp_path: Path) -> None:
    towns = {"20200101_20210101": range(4), "20210101_20220101": range(4, 6), "20220101_20230101": range(6, 8)}
    timesteps = [
        str(write_timestep(tmp_path / name, name=name, towns=own, prefix=str(number)).folder)
        for number, (name, own) in enumerate(towns.items())
    ]
    spec = yaml.safe_load((DOCS / "findings" / "changes.yaml").read_text(encoding="utf-8"))
    model = str(save(small_model(), tmp_path / "model"))
    base = spec["base"] | {"timesteps": timesteps, "model": model, "evaluate_sample": 2}
    chosen = [run for run in spec["runs"] if run["method"] in ("none", "ft_m")]
    kgedit.sweep(spec | {"base": base, "runs": chosen}, out=tmp_path / "changes", home=tmp_path / "home")
    measured = findings_measures.measure("changes", tmp_path / "changes", CLAIMS)
    assert findings_measures.measure("changes", tmp_path / "changes", CLAIMS) == measured

    unedited = measured["stream"]["none"]
    assert unedited["before"] == unedited["own"] == unedited["final"]
    assert (unedited["own"]["n"], unedited["unchanged"]["mean"], unedited["transfer"]["mean"]) == (6, 1, 0)
    assert [len(row) for row in unedited["matrix"]] == [3, 3, 3]
    table = findings._stream(measured)
    (row,) = (line for line in table if line.startswith("| `none` | 8 |"))
    assert len(row.split("|")) == len(table[0].split("|"))
    assert table[-1] == "T1 20200101 to 20210101, T2 20210101 to 20220101, T3 20220101 to 20230101."

    # Without scores a run is unfinished: its last timestep may lack answers, and does not count.
    name = next(name for name in measured["runs"] if name.startswith("ft_m"))
    (tmp_path / "changes" / name / "scores.json").unlink()
    stopped = findings_measures.measure("changes", tmp_path / "changes", CLAIMS)
    assert stopped["stream"]["none"] == unedited
    assert (stopped["runs"][name]["edits"], stopped["runs"][name]["planned"]) == (6, 8)
    whole, part = (one["stream"][name] for one in (measured, stopped))
    assert part["final"] == whole["curve"][1]["update"]
    assert (part["curve"], part["own"]["n"], whole["own"]["n"]) == (whole["curve"][:2], 4, 6)
    assert any(" 6 of 8 " in line for line in findings._stream(stopped))


def test_a_method_has_lost_half_at_the_number_of_edits_from_which_on_less_is_left() -> None:
    def run(at_once: int, mean: float) -> dict[str, Any]:
        estimate = {"mean": mean, "low": None, "high": None, "n": 10}
        return {
            "method": "ft_m",
            "at_once": at_once,
            "update_free": estimate,
            "update_fed": estimate,
            "rephrase_free": None,
            "errors": {"empty": 4},
        }

    result = {
        "lengths": {str(number): run(number, mean) for number, mean in {1000: 0.2, 1: 0.9, 10: 0.4, 100: 0.45}.items()}
    }
    table = findings._lengths(result)
    assert table[0] == "| Written | 1 | 10 | 100 | 1,000 | Half is lost at |"
    assert table[2] == "| `ft_m` | 90.0 | 40.0 | 45.0 | 20.0 | 1,000 |"
    errors = [
        "| Of the answers after the most edits | Edits | empty |",
        "| :-- | --: | --: |",
        "| `ft_m` | 1,000 | 40.0 |",
    ]
    assert table[-3:] == errors


def test_a_long_stream_is_shown_in_blocks_of_timesteps() -> None:
    steps = [f"{year}0101_{year + 1}0101" for year in range(2000, 2009)]
    # Each timestep is right after its own edits, wrong after the next ones; the last question is no longer asked.
    matrix = [[float(row == column) for column in range(row + 1)] + [None] * (8 - row) for row in range(9)]
    matrix[8][8] = None
    found = findings_measures._by_block(matrix, steps)
    assert (found["blocks"][0], found["blocks"][-1]) == ("20000101_20020101", "20080101_20090101")
    assert (len(found["blocks"]), found["timesteps"]) == (8, 9)
    assert found["own_by_block"] == [1, 1, 1, 1, 1, 1, 1, None]
    assert found["matrix"][0] == [0.5, None, None, None, None, None, None, None]
    assert found["matrix"][-1] == [0, 0, 0, 0, 0, 0, 0, None]


def test_runs_are_measured_by_the_names_of_their_folders(timestep: Timestep, tmp_path: Path) -> None:
    # The report's order is by method: ft_m before rome, whatever the folders are called.
    write_submittable(tmp_path / "first", timestep, method="rome", right=2)
    write_submittable(tmp_path / "second", timestep, method="ft_m", right=9)
    claim = {
        "id": "some",
        "spec": "some",
        "both": {"axis": "update", "preset": "wild"},
        "first": {"run": "first"},
        "second": {"run": "second"},
    }
    above = claim | {"id": "level", "first": {"level": 0.5}}
    missing = claim | {"id": "missing", "second": {"run": "third"}}
    measured = findings_measures.measure("some", tmp_path, [claim, above, missing])
    assert list(measured["runs"]) == ["first", "second"]
    assert measured["environment"]["commit"].startswith("8653356b")
    (found,) = measured["claims"]["some"]
    assert (found["first"]["mean"], found["second"]["mean"], found["difference"]["mean"]) == (0.2, 0.9, 0.7)
    (found,) = measured["claims"]["level"]
    assert found["difference"]["low"] == pytest.approx(found["second"]["low"] - 0.5)
    assert measured["claims"]["missing"] == []


def test_edits_that_were_made_alone_count_when_their_run_was_stopped(timestep: Timestep, tmp_path: Path) -> None:
    folder = write_submittable(tmp_path / "some" / "stopped", timestep, right=3)
    spec = (folder / "spec.yaml").read_text(encoding="utf-8")
    (folder / "spec.yaml").write_text(spec.replace("protocol: per_timestep", "protocol: single"), encoding="utf-8")
    (together,) = (json.loads(line) for line in (folder / "edits.jsonl").read_text(encoding="utf-8").splitlines())
    alone = [together | {"case_ids": [case]} for case in together["case_ids"]]
    (folder / "edits.jsonl").write_text("".join(f"{json.dumps(cost)}\n" for cost in alone), encoding="utf-8")
    with (folder / "answers.jsonl").open("a", encoding="utf-8") as answers:
        answers.write('{"case_id": "Q1')  # killed while it wrote
    (folder / "scores.json").unlink()

    claim = {
        "id": "some",
        "spec": "some",
        "both": {"axis": "update", "preset": "wild", "run": "stopped"},
        "first": {"level": 0.5},
        "second": {},
    }
    measured = findings_measures.measure("some", tmp_path / "some", [claim])
    assert (measured["runs"]["stopped"]["edits"], measured["runs"]["stopped"]["planned"]) == (9, 10)
    (found,) = measured["claims"]["some"]
    assert (found["second"]["n"], found["second"]["mean"]) == (9, pytest.approx(1 / 3, abs=1e-6))


def test_results_of_runs_that_were_not_measured_again_are_kept(timestep: Timestep, tmp_path: Path) -> None:
    both = {"spec": "some", "both": {"axis": "update", "preset": "wild"}}
    claims = [
        both | {"id": "compared", "first": {"run": "first"}, "second": {"run": "second"}},
        both | {"id": "kept", "first": {"level": 0.5}, "second": {"run": "first"}},
        both | {"id": "measured", "first": {"level": 0.5}, "second": {"run": "second"}},
    ]
    for name, right in (("first", 2), ("second", 9)):
        write_submittable(tmp_path / "before" / name, timestep, right=right)
    stored = findings_measures.measure("some", tmp_path / "before", claims)
    again = write_submittable(tmp_path / "after" / "second", timestep, right=4)
    environment = (again / "environment.json").read_text(encoding="utf-8").replace("8653356b", "00000000")
    (again / "environment.json").write_text(environment, encoding="utf-8")
    write_run_checksums(again)
    found = findings_measures.measure("some", tmp_path / "after", claims)

    merged = findings_measures.with_stored(found, stored, claims)
    assert merged["environment"] == stored["environment"]
    assert merged["runs"]["first"] == stored["runs"]["first"]
    assert merged["runs"]["second"]["commit"].startswith("00000000")
    expected = {"kept": stored["claims"]["kept"], "measured": found["claims"]["measured"]}
    assert merged["claims"] == {"compared": [], **expected}, "only one of the two was measured again"

    changed = [claim | ({"first": {"level": 0.9}} if claim["id"] == "kept" else {}) for claim in claims]
    assert findings_measures.with_stored(found, stored, changed)["claims"]["kept"] == [], "the claim asks for another"

    weights = {"weights": "another model, or the same on another type of device"}
    other = stored | {"environment": stored["environment"] | weights | {"revision": ""}}
    assert (
        findings_measures.with_stored(found, other, claims)
        == found
        == findings_measures.with_stored(found, None, claims)
    )
    for revision, is_same in (("1", True), ("2", False)):
        published = found | {"environment": found["environment"] | {"revision": "1"}}
        other = stored | {"environment": stored["environment"] | weights | {"revision": revision}}
        assert ("first" in findings_measures.with_stored(published, other, claims)["runs"]) == is_same
