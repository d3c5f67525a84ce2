"""Selection of the cases that a run edits: a sample by seed, named cases, and errors of the unedited model."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from world.edit_files import WIKIFACTDIFF, write_lines
from world.small_models import save, small_model
from world.small_timestep import a_case, write_timestep

from kgedit.errors import SpecError, TimestepError
from kgedit.llm.generation import PresetQuestion, ask
from kgedit.llm.presets import PRESETS
from kgedit.records.cases import TWO_HOP_AXES, Case, KnownFact, Probe
from kgedit.records.runs import RunSpec
from kgedit.runs.run_files import read_edit_costs, read_spec
from kgedit.runs.runner import run
from kgedit.runs.selection import choose_cases
from kgedit.runs.spec import resolve
from kgedit.timesteps.edit_files import EditFile
from kgedit.timesteps.tables import TWO_HOPS
from kgedit.timesteps.timestep import Timestep

pytestmark = pytest.mark.usefixtures("own_home")

BRIEF = {
    "name": "brief",
    "context": "question_only",
    "generation": "greedy",
    "truncation": "gold_length",
    "max_new_tokens": 4,
    "metric": "token_match",
}


@dataclass(frozen=True)
class _Step:
    """A timestep of a hundred cases: 70 of one relation, 20 of a second, 10 of a third."""

    name: str = "20200101_20210101"
    sha256: str = ""
    options: frozenset[str] = frozenset()

    def cases(
        self, *, neighbours: int | None = None, archive_as: str | None = None, two_hop_rephrases: bool = False
    ) -> list[Case]:
        plain = a_case()
        relations = ["P1"] * 70 + ["P2"] * 20 + ["P3"] * 10
        return [
            replace(
                plain,
                timestep=self.name,
                case_id=f"Q{number}:{relation}:Q1",
                fact=replace(plain.fact, property=relation),
            )
            for number, relation in enumerate(relations)
        ]

    def known_facts(self) -> list[KnownFact]:
        return []


def _spec(folder: Path, **more: object) -> RunSpec:
    if not folder.is_dir():
        write_timestep(folder)
    return resolve({"timesteps": [str(folder)], "model": "tiny", "method": "none", **more})


def _chosen(folder: Path, **more: object) -> list[str]:
    cases, counts = choose_cases([_Step()], _spec(folder, **more))
    own = [case.case_id for case in cases["20200101_20210101"]]
    assert counts[0].drawn == counts[0].edited == len(own)
    assert counts[0].cases == 100
    return own


def test_a_sample_is_drawn_by_the_seed_and_can_keep_the_order_of_the_file(tmp_path: Path) -> None:
    every = [case.case_id for case in _Step().cases()]
    first = _chosen(tmp_path / "step", sample=30, seed=1, order="file")

    assert first == _chosen(tmp_path / "step", sample=30, seed=1, order="file")
    assert first != _chosen(tmp_path / "step", sample=30, seed=2, order="file")
    assert len(set(first)) == 30
    assert first == [case_id for case_id in every if case_id in first]
    assert first != every[:30]
    assert _chosen(tmp_path / "step", sample=200, order="file") == every
    assert _chosen(tmp_path / "step", limit=3, order="file") == every[:3]


@pytest.mark.parametrize("protocol", ["sequential", "per_timestep"])
def test_edits_that_pile_up_are_ordered_by_the_seed_within_their_timestep(tmp_path: Path, protocol: str) -> None:
    every = [case.case_id for case in _Step().cases()]
    kind = {"method": "ft_m", "protocol": protocol}
    orders = {seed: _chosen(tmp_path / "step", seed=seed, **kind) for seed in range(3)}

    assert all(sorted(order) == sorted(every) != order != every for order in orders.values())
    assert len({tuple(order) for order in orders.values()}) == 3
    assert orders[1] == _chosen(tmp_path / "step", seed=1, **kind)
    # The first ten are of more relations than one, which the file puts together.
    assert all(len({case_id.split(":")[1] for case_id in order[:10]}) > 1 for order in orders.values())
    for part in ({"limit": 20}, {"sample": 20}, {"sample": 20, "stratify": "relation"}):
        chosen = _chosen(tmp_path / "step", seed=1, **kind, **part)
        in_file_order = _chosen(tmp_path / "step", seed=1, **kind, **part, order="file")
        assert set(chosen) == set(in_file_order)
        assert chosen == [case_id for case_id in orders[1] if case_id in chosen]
    assert _chosen(tmp_path / "step", seed=1, **kind, order="file") == every


def test_edits_that_are_undone_one_by_one_keep_the_order_of_the_file(tmp_path: Path) -> None:
    every = [case.case_id for case in _Step().cases()]
    assert _chosen(tmp_path / "step", method="ft_m", protocol="single") == every


def test_timesteps_keep_their_order_whatever_the_seed(tmp_path: Path) -> None:
    steps = [_Step("20210101_20220101"), _Step("20200101_20210101"), _Step("20220101_20230101")]
    for seed in range(3):
        cases, _ = choose_cases(steps, _spec(tmp_path / "step", method="ft_m", seed=seed))
        assert list(cases) == [step.name for step in steps]


def test_a_stratified_sample_has_every_relation_in_its_share(tmp_path: Path) -> None:
    for seed in range(5):
        chosen = _chosen(tmp_path / "step", sample=10, stratify="relation", seed=seed)
        assert Counter(case_id.split(":")[1] for case_id in chosen) == {"P1": 7, "P2": 2, "P3": 1}
    by_seed = {tuple(_chosen(tmp_path / "step", sample=10, stratify="relation", seed=seed)) for seed in range(5)}
    assert len(by_seed) == 5


def test_a_stratified_sample_starts_anywhere_so_that_a_rare_relation_has_its_chance(tmp_path: Path) -> None:
    """Of one case, seven tenths are of the first relation, two of the second and one of the third."""
    drawn = [_chosen(tmp_path / "step", sample=1, stratify="relation", seed=seed)[0] for seed in range(40)]
    counts = Counter(case_id.split(":")[1] for case_id in drawn)
    assert set(counts) == {"P1", "P2", "P3"}
    assert counts["P1"] > counts["P2"] + counts["P3"]


def test_only_named_cases_are_taken_before_any_sample(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("Q3:P1:Q1\n20200101_20210101\tQ75:P2:Q1\n19990101_20000101\tQ4:P1:Q1\n\n")
    named = {"only_cases": str(tmp_path / "names.txt")}
    assert sorted(_chosen(tmp_path / "step", **named)) == ["Q3:P1:Q1", "Q75:P2:Q1"]
    assert len(_chosen(tmp_path / "step", sample=1, **named)) == 1

    (tmp_path / "names.txt").write_text("Q3:P9:Q1\n")
    with pytest.raises(TimestepError, match="names no case of the timestep 20200101_20210101"):
        _chosen(tmp_path / "step", **named)


def test_names_that_no_case_has_are_recorded(tmp_path: Path) -> None:
    names = ["Q3:P1:Q1", "Q3:P9:Q1", "20200101_20210101\tQ4:P1:Q1", "T2\tQ5:P1:Q1", "T2\tQ5:P9:Q1", "T3\tQ6:P9:Q1"]
    (tmp_path / "names.txt").write_text("\n".join(names), encoding="utf-8")
    spec = _spec(tmp_path / "step", only_cases=str(tmp_path / "names.txt"))
    _, counts = choose_cases([_Step(), _Step("T2")], spec)
    assert [count.named for count in counts] == [2, 2]
    assert [count.unknown_names for count in counts] == [("Q3:P9:Q1",), ("Q3:P9:Q1", "T2\tQ5:P9:Q1")]


def test_two_hop_questions_are_asked_in_other_words_only_if_wanted_and_then_in_all_of_them(tmp_path: Path) -> None:
    timestep = write_timestep(tmp_path / "step", towns=range(2))
    others = ["In which town was the mayor of Arvika born?", "Where is the mayor of Arvika from?"]
    rows = [row | {"rephrases": others if not place else None} for place, row in enumerate(timestep_rows(timestep))]
    pq.write_table(pa.Table.from_pylist(rows, schema=TWO_HOPS), timestep.folder / "two_hops.parquet")

    def asked(**more: object) -> dict[str, list[Probe]]:
        cases, _ = choose_cases([timestep], _spec(timestep.folder, order="file", **more))
        probes = [probe for case in cases[timestep.name] for probe in case.probes]
        return {axis: [probe for probe in probes if probe.axis == axis] for axis in TWO_HOP_AXES}

    assert asked()["mhop_rephrase"] == []
    found = asked(two_hop_rephrases=True)
    assert [probe.question for probe in found["mhop_rephrase"]] == others
    assert found["mhop"] == asked()["mhop"]
    for probe in found["mhop_rephrase"]:
        assert replace(probe, axis="mhop", question="") == replace(found["mhop"][0], question="")


def test_an_option_without_effect_on_any_of_the_edits_is_refused(tmp_path: Path) -> None:
    timestep = write_timestep(tmp_path / "step", towns=range(2))
    with pytest.raises(SpecError) as refused:
        choose_cases([timestep], _spec(timestep.folder, archive_as="no one", neighbours=2, two_hop_rephrases=True))
    assert [problem.split()[0] for problem in refused.value.problems] == ["neighbours", "archive_as"]
    edits = EditFile.open(write_lines(tmp_path / "edits.jsonl", WIKIFACTDIFF))
    with pytest.raises(SpecError) as refused:
        choose_cases([edits], _spec(timestep.folder, archive_as="no one", neighbours=2, two_hop_rephrases=True))
    assert [problem.split()[0] for problem in refused.value.problems] == ["archive_as", "two_hop_rephrases"]
    used = _spec(timestep.folder, neighbours=2, two_hop_rephrases=True)
    assert len(choose_cases([timestep, edits], used)[0]) == 2


def timestep_rows(timestep: Timestep) -> list[dict[str, object]]:
    return timestep.table("two_hops").to_pylist()  # type: ignore[no-any-return]


@pytest.fixture
def world(tmp_path: Path) -> tuple[dict[str, object], Timestep]:
    """A run's spec, and a timestep whose third case is what the model says anyway."""
    model = small_model()
    save(model, tmp_path / "model")
    step = write_timestep(tmp_path / "step", towns=range(4))
    raw = {"timesteps": [str(tmp_path / "step")], "model": str(tmp_path / "model"), "method": "ft_m"}
    return raw | {"settings": {"steps": 1}, "presets": [BRIEF], "device": "cpu"}, step


def _told(folder: Path) -> list[str]:
    rows = map(json.loads, (folder / "answers.jsonl").read_text(encoding="utf-8").splitlines())
    return sorted({row["case_id"] for row in rows})


def test_what_the_model_answers_already_is_not_edited(
    world: tuple[dict[str, object], Timestep], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, step = world
    raw |= {"order": "file"}
    cases = list(step.cases())
    calls: list[str] = []

    def knows_the_third(model: object, asked: list[PresetQuestion], *, batch_tokens: int) -> list[object]:
        questions = [one.question for one in asked]
        calls.extend(question.prompt for question in questions)
        replies = ask(small_model(), questions, PRESETS["question_only"])
        right = cases[2].question
        return [
            replace(reply, token_match=float(q.prompt == right)) for q, reply in zip(questions, replies, strict=True)
        ]

    monkeypatch.setattr("kgedit.llm.backends.contract.ask_each", knows_the_third)
    folder = run(resolve(raw | {"only_failed": True}), tmp_path / "run")
    (counts,) = json.loads((folder / "selection.json").read_text())
    names = (folder / "edited_cases.txt").read_text().splitlines()

    left = [case.case_id for case in cases if case is not cases[2]]
    assert _told(folder) == sorted(left)
    assert names == [f"{step.name}\t{case_id}" for case_id in left]
    result = {"timestep": step.name, "cases": 4, "named": 4, "drawn": 4, "answered": 1, "edited": 3}
    none = dict.fromkeys(("repeated", "contradicted", "edited_before", "conflicting"), 0)
    assert counts == result | none | {"unknown_names": []}

    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    asked = calls.count(cases[2].question)
    run(resolve(raw | {"only_failed": True}), folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert calls.count(cases[2].question) == asked == 1, "the answer cache knows"

    again = run(resolve(raw | {"only_cases": str(folder / "edited_cases.txt")}), tmp_path / "again")
    assert _told(again) == _told(folder)


def test_a_run_that_records_no_order_resumes_in_the_order_of_the_file(
    world: tuple[dict[str, object], Timestep], tmp_path: Path
) -> None:
    raw, step = world
    raw |= {"seed": 1, "protocol": "sequential"}
    folder = run(resolve(raw | {"order": "file"}), tmp_path / "run")
    written = (folder / "spec.yaml").read_text()
    (folder / "spec.yaml").write_text(written.replace("order: file\n", ""))

    with pytest.raises(SpecError, match="order is 'file' there and 'random' here"):
        run(resolve(raw), folder)
    run(resolve(raw | {"order": "file"}), folder)
    assert (folder / "spec.yaml").read_text() == written
    assert read_spec(folder).order == "file"
    edited = [cost.case_ids[0] for cost in read_edit_costs(run(resolve(raw), tmp_path / "random"))]
    assert read_spec(tmp_path / "random").order == "random"
    assert edited != sorted(edited) == [case.case_id for case in step.cases()]


def test_a_run_is_not_resumed_with_other_cases(world: tuple[dict[str, object], Timestep], tmp_path: Path) -> None:
    raw, step = world
    first, second, *_ = (case.case_id for case in step.cases())
    names = tmp_path / "names.txt"
    names.write_text(f"{first}\n")
    folder = run(resolve(raw | {"only_cases": str(names)}), tmp_path / "run")
    names.write_text(f"{second}\n")

    with pytest.raises(SpecError, match="a run of other cases"):
        run(resolve(raw | {"only_cases": str(names)}), folder)


@dataclass(frozen=True)
class _Replacements(_Step):
    """Every third case belongs to WFD_repl."""

    def cases(self, **options: Any) -> list[Case]:
        return [
            replace(case, in_replacement_set=number % 3 == 0) for number, case in enumerate(super().cases(**options))
        ]


def test_the_replacement_set_is_taken_before_a_sample_is_drawn(tmp_path: Path) -> None:
    spec = _spec(tmp_path / "step", population="repl", sample=20)
    chosen, counts = choose_cases([_Replacements()], spec)
    (drawn,) = chosen.values()
    assert len(drawn) == 20
    assert all(case.in_replacement_set for case in drawn)
    assert counts[0].cases == 34
    with pytest.raises(TimestepError, match="does not record which cases are in it"):
        choose_cases([_Step()], spec)


def test_batches_are_drawn_by_the_seed_and_an_interrupted_run_goes_on_with_the_same(
    world: tuple[dict[str, object], Timestep], tmp_path: Path
) -> None:
    raw, step = world
    raw |= {"protocol": "sequential", "batch_size": 2, "checkpoint_every": 2}

    def batches(folder: Path) -> list[tuple[str, ...]]:
        return [cost.case_ids for cost in read_edit_costs(folder)]

    by_seed = {seed: batches(run(resolve(raw | {"seed": seed}), tmp_path / f"run-{seed}")) for seed in range(4)}
    together = {frozenset(map(frozenset, found)) for found in by_seed.values()}
    assert len(together) > 1, "other seeds put other edits into a batch"
    in_file = [case.case_id for case in step.cases()]
    assert batches(run(resolve(raw | {"order": "file"}), tmp_path / "file")) == [tuple(in_file[:2]), tuple(in_file[2:])]

    class Stopped(Exception):  # noqa: N818 - no error of the run
        pass

    def stop(stage: str, done: int, total: int) -> None:
        if stage.startswith("edit ") and done == 2:
            raise Stopped

    with pytest.raises(Stopped):
        run(resolve(raw | {"seed": 2}), tmp_path / "stopped", progress=stop)
    assert batches(tmp_path / "stopped") == by_seed[2][:1]
    assert batches(run(resolve(raw | {"seed": 2}), tmp_path / "stopped")) == by_seed[2]
    assert read_spec(tmp_path / "stopped").order == "random"
