"""Edits of one instance are applied before its chain is evaluated; if edits accumulate, instances share them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from world.edit_files import MQUAKE, Json, write_json
from world.small_models import save, small_model

from kgedit.cli import main
from kgedit.errors import TimestepError
from kgedit.records.cases import Case
from kgedit.records.runs import RunSpec
from kgedit.runs.run_files import read_answers, read_edit_costs, read_runs
from kgedit.runs.runner import run
from kgedit.runs.scoring import write_scores
from kgedit.runs.selection import choose_cases, edit_units
from kgedit.runs.spec import resolve
from kgedit.timesteps.edit_files import EditFile

pytestmark = pytest.mark.usefixtures("own_home")

SHORT = {
    "name": "short",
    "context": "question_only",
    "generation": "greedy",
    "truncation": "gold_length",
    "max_new_tokens": 4,
    "metric": "exact_match",
}
COUNTY: Json = {
    "prompt": "{} is in",
    "question": "Which county is Falun in?",
    "subject": "Falun",
    "relation_id": "P131",
    "target_new": {"str": "Gävleborg County", "id": "Q42"},
    "target_true": {"str": "Dalarna County", "id": "Q41"},
}


def _of_town(town: str, case_id: int, *, moved: bool = False, last: str = "") -> Json:
    """An instance about the mayor of a town; with `moved` the county of Falun is edited too."""
    row = json.loads(json.dumps(MQUAKE, ensure_ascii=False).replace("Arvika", town).replace("Q100", f"Q100{town}"))
    row |= {"case_id": case_id}
    if last:
        row["questions"] = [f"{question} {last}" for question in row["questions"]]
    if moved:
        row["requested_rewrite"].append(copy.deepcopy(COUNTY))
        row["new_answer"], row["new_answer_alias"] = "Gävleborg County", []
        row["new_single_hops"][2] |= {"answer": "Gävleborg County", "answer_alias": []}
        row["orig"]["new_triples"][2][2] = "Q42"
    return row


def _spec(file: Path, **more: Any) -> RunSpec:
    return resolve({"timesteps": [str(file)], "model": "tiny", "method": "ft_m", "presets": [SHORT], **more})


def _chosen(file: Path, **more: Any) -> tuple[list[Case], Any]:
    cases, (counts,) = choose_cases([EditFile.open(file)], _spec(file, **more))
    return cases[file.stem], counts


def _chains(case: Case) -> list[str]:
    return sorted({probe.chain.chain_id for probe in case.probes if probe.chain})


def test_each_different_edit_is_made_once_and_a_chain_is_asked_with_the_last_of_its_edits(tmp_path: Path) -> None:
    rows = [
        _of_town("Arvika", 1, moved=True),
        _of_town("Mora", 2, moved=True),
        _of_town("Arvika", 3, moved=True, last="Say"),
    ]
    file = write_json(tmp_path / "mquake.json", *rows)
    cases, counts = _chosen(file, protocol="sequential", order="file")
    assert [case.answer for case in cases] == ["Olof Gren", "Gävleborg County", "Olof Gren"]
    assert [_chains(case) for case in cases] == [[], ["edit:0:1", "edit:2:3"], ["edit:1:2"]]
    assert (counts.cases, counts.drawn, counts.edited, counts.repeated, counts.contradicted) == (6, 6, 3, 3, 0)
    assert len([probe for probe in cases[1].probes if probe.axis == "mhop"]) == 6
    assert len([probe for probe in cases[1].probes if probe.axis == "hop"]) == 3, "both instances have the same hops"
    for seed in range(4):
        ordered, _ = _chosen(file, protocol="per_timestep", seed=seed)
        place = {case.question: index for index, case in enumerate(ordered)}
        for index, case in enumerate(ordered):
            facts = [fact for probe in case.probes if probe.chain for fact in probe.facts]
            assert index >= max(
                [place.get(f"Who is the mayor of {fact.subject_label}?", 0) for fact in facts], default=0
            )


def test_a_chain_that_another_instance_puts_out_of_date_is_left_out_and_counted(tmp_path: Path) -> None:
    file = write_json(tmp_path / "mquake.json", _of_town("Arvika", 1), _of_town("Mora", 2, moved=True))
    cases, counts = _chosen(file, protocol="per_timestep", order="file")
    assert [_chains(case) for case in cases] == [[], [], ["edit:1:2"]]
    assert [probe.question for probe in cases[0].probes if probe.axis == "hop"] == [
        "Who is the mayor of Arvika?",
        "Where was Olof Gren born?",
    ]
    assert counts.contradicted == 4, "three wordings and the hop from Falun to its county"
    alone, counts = _chosen(file, protocol="single")
    assert [_chains(case) for case in alone] == [["edit:0:1"], [], ["edit:1:2"]]
    assert (counts.edited, counts.contradicted) == (3, 0)


def test_instances_are_drawn_ordered_and_named_as_a_whole(tmp_path: Path) -> None:
    towns = ["Arvika", "Mora", "Hjo", "Kalix", "Sala", "Eksjö"]
    rows = [_of_town(town, number, moved=True) for number, town in enumerate(towns)]
    file = write_json(tmp_path / "mquake.json", *rows)
    kind = {"protocol": "single"}
    assert [len(unit) for unit in edit_units(_chosen(file, **kind, limit=2)[0])] == [2, 2]
    for seed in range(3):
        units = edit_units(_chosen(file, **kind, sample=3, seed=seed, order="random")[0])
        assert [len(unit) for unit in units] == [2, 2, 2]
    orders = {tuple(case.case_id for case in _chosen(file, **kind, order="random", seed=seed)[0]) for seed in range(3)}
    assert len(orders) == 3
    (tmp_path / "names.txt").write_text("edit:2:2-1\n")
    named, _ = _chosen(file, **kind, only_cases=str(tmp_path / "names.txt"))
    assert [case.case_id for case in named] == ["edit:2:2-0", "edit:2:2-1"]


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    save(small_model(), tmp_path / "model")
    rows = [_of_town("Arvika", 1, moved=True), _of_town("Mora", 2)]
    file = write_json(tmp_path / "mquake.json", *rows)
    return {
        "timesteps": [str(file)],
        "model": str(tmp_path / "model"),
        "method": "ft_m",
        "settings": {"steps": 1},
        "presets": [SHORT],
        "device": "cpu",
    }


def test_single_makes_all_edits_of_an_instance_asks_its_chain_and_undoes_them(
    raw: dict[str, Any], tmp_path: Path
) -> None:
    folder = run(resolve(raw | {"protocol": "single"}), tmp_path / "run")
    assert [cost.case_ids for cost in read_edit_costs(folder)] == [("edit:0:1-0", "edit:0:1-1"), ("edit:1:2-0",)]
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".jsonl", ".txt")}
    run(resolve(raw | {"protocol": "single"}), folder)
    assert {name: (folder / name).read_bytes() for name in before} == before
    answers = [answer for answer in read_answers(folder) if answer.axis == "mhop"]
    assert {answer.chain.hops for answer in answers if answer.chain} == {3}
    assert len(answers) == 2 * 6, "each wording before and after"
    write_scores(folder)
    table = read_runs([folder])[0].answers
    assert set(table["hops"].to_pylist()) == {None, 3}
    chains = table.filter(table["chain"].is_valid())
    hops = {row["question"] for row in table.to_pylist() if row["axis"] == "hop"}
    assert {question for asked in chains["hop_questions"].to_pylist() for question in asked} == hops


def test_edits_that_accumulate_are_each_given_to_the_method_once(raw: dict[str, Any], tmp_path: Path) -> None:
    twice = write_json(tmp_path / "twice.json", *(_of_town("Arvika", number, moved=True) for number in range(3)))
    kind = {"timesteps": [str(twice)], "protocol": "sequential", "batch_size": 2, "order": "file"}
    folder = run(resolve(raw | kind), tmp_path / "run")
    assert [cost.case_ids for cost in read_edit_costs(folder)] == [("edit:0:0-0", "edit:0:0-1")]


def test_what_the_model_answers_cannot_be_left_out_of_an_instance(raw: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(TimestepError, match="right only after all edits of their instance"):
        run(resolve(raw | {"only_failed": True}), tmp_path / "run")


def test_the_command_reports_shared_edits_and_questions_that_are_not_asked(raw: dict[str, Any], tmp_path: Path) -> None:
    rows = [_of_town("Arvika", 1), _of_town("Mora", 2, moved=True), _of_town("Arvika", 3)]
    file = write_json(tmp_path / "some.json", *rows)
    asked = ["--edits", str(file), "--model", raw["model"], "--method", "ft_m", "--protocol", "per_timestep"]
    more = ["--set", "steps=1", "--preset", "synthetic", "--device", "cpu", "--out", str(tmp_path / "out")]
    shown = CliRunner().invoke(main, ["run-edit", *asked, *more])
    assert shown.exit_code == 0, shown.output
    assert "some: edits shared by instances, each made once: 1 repeats" in shown.stderr
    assert "some: 8 questions not asked: another instance's edit changes one of their facts" in shown.stderr
