"""A run's folder: its content, and that a run killed anywhere gives the same."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from click.testing import CliRunner
from peft import PeftModel
from transformers import AutoModelForCausalLM
from world.quick_settings import QUICK
from world.small_models import save, small_model
from world.small_timestep import OLD_MAYORS, write_timestep

from kgedit.cli import main
from kgedit.editing import METHODS
from kgedit.editing.editor import EditorState
from kgedit.editing.in_context.ike import InContextEditing
from kgedit.editing.saved import read_saved
from kgedit.errors import SpecError, TimestepError
from kgedit.records.cases import KnownFact
from kgedit.records.runs import RunSpec
from kgedit.runs.checkpoints import CallCheckpoint, Checkpoint, Checkpoints
from kgedit.runs.run_files import read_edit_costs, read_environment, read_preparation
from kgedit.runs.run_folder import RunFolder
from kgedit.runs.runner import run
from kgedit.runs.scoring import measure_run
from kgedit.runs.spec import resolve
from kgedit.timesteps.tables import TWO_HOPS
from kgedit.timesteps.timestep import Timestep

pytestmark = pytest.mark.usefixtures("own_home")


class _KilledError(Exception):
    """Stands for a kill: nothing in the runner catches it."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Paths of two timesteps and of a model; the second timestep puts the old mayors back."""
    root = tmp_path_factory.mktemp("world")
    write_timestep(root / "first", towns=range(4))
    write_timestep(root / "second", name="20210101_20220101", towns=range(3, 5), names=OLD_MAYORS)
    save(small_model(), root / "model")
    return {name: str(root / name) for name in ("first", "second", "model")}


SETTINGS = QUICK | {
    # Two timesteps of a few edits: enough to begin, merge and leave out what these settings limit.
    "wise": {"steps": 3, "shard": 2, "merge_every": 3},
    "ike": {"embedder": "character-ngrams", "k": 3},
    "prompt": {"most": 2},
}

BRIEF = {
    "name": "wild",
    "context": "instruction",
    "generation": "greedy",
    "truncation": "newline_period",
    "max_new_tokens": 6,
    "metric": "exact_match",
}
"""The wild preset, but brief: a random model never ends its answer."""


COSTS = ("seconds", "cpu_seconds", "peak_memory_bytes")


def _spec(world: dict[str, str], method: str = "ft_m", **more: object) -> RunSpec:
    protocol = more.get("protocol") or METHODS[method].capabilities.protocols[0]
    raw = {
        "timesteps": [world["first"], world["second"]],
        "model": world["model"],
        "method": method,
        "settings": SETTINGS.get(method, {}),
        "presets": ["synthetic", BRIEF],
        "evaluate_earlier": protocol != "single",
        "batch_tokens": 600,
        "device": "cpu",
    }
    return resolve(raw | more)


def _content(folder: Path) -> dict[str, list[Any]]:
    """The lines of a run without what a clock or the process's memory put in."""
    content = {}
    for name in ("answers.jsonl", "edits.jsonl"):
        rows = [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]
        content[name] = [{key: value for key, value in row.items() if key not in COSTS} for row in rows]
    return content


def _kill_at(step: int) -> Callable[[str, int, int], None]:
    left = step

    def progress(stage: str, done: int, total: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise _KilledError

    return progress


def _steps_of(spec: RunSpec, folder: Path) -> int:
    calls = []
    run(spec, folder, progress=lambda stage, done, total: calls.append(stage))
    return len(calls)


def _run_copying_each_step(spec: RunSpec, folder: Path, home: Path) -> list[Path]:
    """Run to the end, and return what a process that is killed at each step leaves: copies of the run and of its home.

    Each copy takes less time than another run up to the same step. That a run ended by an error resumes too is tested
    with every kind of method below.
    """
    copies: list[Path] = []

    def copy(stage: str, done: int, total: int) -> None:
        copies.append(folder.with_name(f"killed-{len(copies) + 1}"))
        for left, name in ((folder, "run"), (home, "home")):
            if left.is_dir():
                shutil.copytree(left, copies[-1] / name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KGEDIT_HOME", str(home))
        run(spec, folder, progress=copy)
    return copies


def _last_timestep(row: dict[str, Any]) -> str | None:
    """The last timestep that the model had received edits of when it gave an answer."""
    return row["model_state"]["timestep"]


def _edits(row: dict[str, Any]) -> int | None:
    return row["model_state"]["edits"]


def test_every_probe_is_asked_before_and_after_under_both_presets(world: dict[str, str], tmp_path: Path) -> None:
    rows = _content(run(_spec(world), tmp_path / "run"))["answers.jsonl"]

    asked = [(_last_timestep(row), row["timestep"], row["axis"], row["preset"]) for row in rows]
    axes = {probe.axis for case in Timestep.open(Path(world["first"])).cases() for probe in case.probes}
    assert {axis for _, _, axis, _ in asked} == axes
    first, second = "20200101_20210101", "20210101_20220101"
    for axis in axes:
        for preset in ("synthetic", "wild"):
            assert asked.count((None, first, axis, preset)) == 4
            assert asked.count((None, second, axis, preset)) == 2
            assert asked.count((first, first, axis, preset)) == 4
            assert asked.count((second, first, axis, preset)) == 4, "evaluate_earlier asks the first timestep again"
            assert asked.count((second, second, axis, preset)) == 2
            assert asked.count((first, second, axis, preset)) == 0


def test_a_sample_of_the_cases_is_asked_the_same_in_every_state_and_all_are_edited(
    world: dict[str, str], tmp_path: Path
) -> None:
    content = _content(run(_spec(world, evaluate_sample=1), tmp_path / "run"))
    whole = _content(run(_spec(world), tmp_path / "whole"))

    first, second = "20200101_20210101", "20210101_20220101"
    asked = {
        (_last_timestep(row), row["timestep"]): {
            other["case_id"]
            for other in content["answers.jsonl"]
            if (_last_timestep(other), other["timestep"]) == (_last_timestep(row), row["timestep"])
        }
        for row in content["answers.jsonl"]
    }
    assert set(asked) == {(None, first), (None, second), (first, first), (second, first), (second, second)}
    assert all(len(cases) == 1 for cases in asked.values())
    assert asked[None, first] == asked[first, first] == asked[second, first]
    assert content["edits.jsonl"] == whole["edits.jsonl"]
    kept = [row for row in whole["answers.jsonl"] if row["case_id"] in asked[_last_timestep(row), row["timestep"]]]
    assert [row["text"] for row in content["answers.jsonl"]] == [row["text"] for row in kept]


def test_what_a_later_timestep_edits_again_is_not_asked_of_the_earlier_one(
    world: dict[str, str], tmp_path: Path
) -> None:
    folder, towns = tmp_path / "later", range(3, 5)
    later = write_timestep(folder, name="20210101_20220101", towns=towns, names=OLD_MAYORS, prefix="1")
    spec = _spec(world, "none", timesteps=[world["first"], str(later.folder)])
    rows = _content(run(spec, tmp_path / "run"))["answers.jsonl"]

    def asked(state: str | None, axis: str) -> list[str]:
        """Cases of the first timestep, as asked of a state of the model."""
        first = [row for row in rows if row["timestep"] == "20200101_20210101" and row["preset"] == "wild"]
        return [row["case_id"] for row in first if (_last_timestep(row), row["axis"]) == (state, axis)]

    for axis in ("update", "rephrase", "personas", "mhop"):
        for state in (None, "20200101_20210101"):
            assert len(asked(state, axis)) == 4
        assert sorted(asked("20210101_20220101", axis)) == ["Q100:P6:Q20", "Q101:P6:Q21", "Q102:P6:Q22"]
    assert len(asked("20210101_20220101", "locality")) == 4
    marks = {(row["case_id"], row["expires"]) for row in rows if row["axis"] == "update"}
    assert {case_id for case_id, expires in marks if expires == "20210101_20220101"} == {"Q103:P6:Q23"}


@pytest.mark.parametrize("protocol", ["sequential", "single", "per_timestep"])
@pytest.mark.slow
def test_a_run_killed_at_any_step_goes_on_to_the_same_lines(
    protocol: str, world: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = _spec(world, protocol=protocol, checkpoint_every=2)
    copies = _run_copying_each_step(spec, tmp_path / "unbroken", tmp_path / "unbroken-home")
    expected = _content(tmp_path / "unbroken")

    for killed in copies[2 : -1 : max(1, len(copies) // 5)]:
        monkeypatch.setenv("KGEDIT_HOME", str(killed / "home"))
        for name in ("answers.jsonl", "edits.jsonl"):
            with (killed / "run" / name).open("a", encoding="utf-8") as file:
                file.write('{"model_state": nu')
        run(spec, killed / "run")
        assert _content(killed / "run") == expected, f"{killed.name} of {len(copies)}"


ONE_OF_EACH_KIND = (
    "none", "ft_m", "lora", "lora_merge", "memit", "alphaedit", "mend", "c_rome", "grace", "wise", "graph_rag", "ike",
)  # fmt: skip
"""Methods whose states differ in kind. That each method resumes from its own state is tested in tests/contracts."""


@pytest.mark.parametrize("method", ONE_OF_EACH_KIND)
@pytest.mark.slow
def test_a_run_resumes_between_timesteps_whatever_its_method_keeps(
    method: str, world: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = _spec(world, method, presets=[BRIEF])
    steps = _steps_of(spec, tmp_path / "unbroken")
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "another-home"))
    with pytest.raises(_KilledError):
        run(spec, tmp_path / "killed", progress=_kill_at(steps - 2))
    run(spec, tmp_path / "killed")

    assert _content(tmp_path / "killed") == _content(tmp_path / "unbroken")


@pytest.mark.slow
def test_a_run_killed_within_a_long_call_goes_on_within_it(
    world: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgedit.runs.runner.SECONDS_BETWEEN_CALL_CHECKPOINTS", 0)
    spec = _spec(world, "lora", settings={"epochs": 5, "batch": 2, "least_steps": 0}, presets=[BRIEF])
    stage, reported = "edit 20210101_20220101", []
    run(spec, tmp_path / "unbroken", progress=lambda name, done, total: reported.append(name))
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "another-home"))
    folder = tmp_path / "killed"

    def kill(name: str, done: int, total: int) -> None:
        told_now.append(name)
        if told_now.count(stage) == 4:
            raise _KilledError

    told_now: list[str] = []
    with pytest.raises(_KilledError):
        run(spec, folder, progress=kill)
    kept = RunFolder(folder).checkpoints.of_call("20210101_20220101", 0, 2)
    assert kept is not None
    assert kept.state.record == {"epochs": 2}
    again: list[str] = []
    run(spec, folder, progress=lambda name, done, total: again.append(name))

    # Neither the beginning, from which the time left would be estimated, nor two epochs of one step each.
    assert reported.count(stage) - again.count(stage) == 3
    assert _content(folder) == _content(tmp_path / "unbroken")
    assert RunFolder(folder).edits()[-1].seconds > kept.seconds > 0
    assert RunFolder(folder).checkpoints.of_call("20210101_20220101", 0, 2) is None


def test_a_kill_while_a_kept_state_is_removed_leaves_it_whole_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(tmp_path)
    state = EditorState({"weight": torch.zeros(2)}, {"epochs": 1})
    whole = CallCheckpoint("t", 0, 2, seconds=1, cpu_seconds=1, state=state)
    checkpoints.save_call(whole)

    def killed(path: Path, ignore_errors: bool = False) -> None:
        if path.is_dir() and "call" in path.name:
            (path / "state.json").unlink()
            raise _KilledError

    monkeypatch.setattr("kgedit.runs.checkpoints.shutil.rmtree", killed)
    with pytest.raises(_KilledError):
        checkpoints.save(Checkpoint("t", 2, 1, EditorState()))
    monkeypatch.undo()

    assert checkpoints.of_call("t", 0, 2) is None
    checkpoints.save_call(whole)
    assert checkpoints.of_call("t", 0, 2) is not None
    checkpoints.save(Checkpoint("t", 4, 2, EditorState()))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000002"]


def test_checkpoints_follow_the_schedule_and_the_end_of_each_timestep(
    world: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[tuple[str, int]] = []
    save = Checkpoints.save

    def note(self: Checkpoints, checkpoint: Checkpoint) -> None:
        saved.append((checkpoint.timestep, checkpoint.edits))
        save(self, checkpoint)

    monkeypatch.setattr(Checkpoints, "save", note)
    schedule = {"protocol": "sequential", "batch_size": 1, "checkpoint_every": 2, "presets": ["synthetic"]}
    run(_spec(world, "none", **schedule), tmp_path / "run")
    first, second = "20200101_20210101", "20210101_20220101"
    assert saved == [(first, 2), (first, 4), (second, 2)]


@pytest.mark.slow
def test_rag_with_an_approximate_index_goes_on_to_the_same_lines(
    world: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss")
    found = {"embedder": "character-ngrams", "index": "hnsw"}
    more = {"protocol": "sequential", "checkpoint_every": 2, "evaluate_every": 2, "presets": [BRIEF]}
    spec = _spec(world, "rag", settings=found, **more)
    copies = _run_copying_each_step(spec, tmp_path / "unbroken", tmp_path / "unbroken-home")
    expected = _content(tmp_path / "unbroken")
    assert any(len(row["retrieved"]) == 2 for row in expected["answers.jsonl"])

    for killed in copies[2 : -1 : max(1, len(copies) // 4)]:
        monkeypatch.setenv("KGEDIT_HOME", str(killed / "home"))
        run(spec, killed / "run")
        assert _content(killed / "run") == expected, f"{killed.name} of {len(copies)}"


@pytest.mark.slow
def test_edits_so_far_are_asked_on_schedule_and_a_killed_run_asks_the_same(
    world: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = _spec(world, evaluate_every=2, checkpoint_every=2, batch_size=1)
    copies = _run_copying_each_step(spec, tmp_path / "unbroken", tmp_path / "unbroken-home")
    expected = _content(tmp_path / "unbroken")
    updates = [row for row in expected["answers.jsonl"] if (row["axis"], row["preset"]) == ("update", "wild")]
    asked = [(_last_timestep(row), _edits(row), row["timestep"]) for row in updates if _edits(row) is not None]
    first = "20200101_20210101"
    # Two of four edits, then all four; the second timestep has two edits, so only its end.
    assert asked == [(first, 2, first)] * 2
    edited = [case for row in expected["edits.jsonl"] for case in row["case_ids"]]
    assert {row["case_id"] for row in updates if _edits(row)} == set(edited[:2])

    for killed in copies[2 : -1 : max(1, len(copies) // 6)]:
        monkeypatch.setenv("KGEDIT_HOME", str(killed / "home"))
        run(spec, killed / "run")
        assert _content(killed / "run") == expected, f"{killed.name} of {len(copies)}"
    scores = measure_run(tmp_path / "unbroken").scores
    assert {score.model_state.edits for score in scores if score.stage == "partial"} == {2}
    assert {score.timestep for score in scores if score.stage == "partial"} == {first}


@pytest.mark.parametrize("method", ["grace", "alphaedit"])
@pytest.mark.slow
def test_a_memory_that_is_checkpointed_row_by_row_is_whole_after_a_kill(
    method: str, world: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**SETTINGS.get(method, {}), **({"withdrawable": True} if method == "alphaedit" else {})}
    more = {"protocol": "sequential", "batch_size": 1, "checkpoint_every": 1, "presets": [BRIEF], "settings": settings}
    spec = _spec(world, method, **more)
    steps = _steps_of(spec, tmp_path / "unbroken")
    rows = (tmp_path / "unbroken" / "checkpoints" / "rows.log").read_bytes()
    for kill in (steps // 2, steps - 3):
        monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / f"home-{kill}"))
        with pytest.raises(_KilledError):
            run(spec, tmp_path / f"killed-{kill}", progress=_kill_at(kill))
        run(spec, tmp_path / f"killed-{kill}")
        assert _content(tmp_path / f"killed-{kill}") == _content(tmp_path / "unbroken")
        assert (tmp_path / f"killed-{kill}" / "checkpoints" / "rows.log").read_bytes() == rows


def test_a_method_is_given_no_known_fact_that_the_run_asks_for(
    world: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[KnownFact] = []
    monkeypatch.setattr(InContextEditing, "prepare", lambda self, known, *, advance: given.extend(known))
    run(_spec(world, "ike", limit=1, timesteps=[world["first"]]), tmp_path / "run")

    towns = {fact.fact.subject_label for fact in given}
    assert len(given) == 18, "all but the first town's mayor and water"
    assert "Arvika" not in towns
    assert "Borgholm" in towns


def test_a_schedule_is_for_sequential_edits(world: dict[str, str]) -> None:
    with pytest.raises(SpecError, match="evaluate_every is for the protocol 'sequential'"):
        _spec(world, protocol="single", evaluate_every=2)
    with pytest.raises(SpecError, match="evaluate_sample is for edits that accumulate"):
        _spec(world, protocol="single", evaluate_sample=2)
    with pytest.raises(SpecError, match="evaluate_earlier is for edits that accumulate"):
        _spec(world, protocol="single", evaluate_earlier=True)


@pytest.mark.parametrize("method", ["ft_m", "lora_merge"])
def test_the_edited_model_is_saved_as_transformers_reads_it(method: str, world: dict[str, str], tmp_path: Path) -> None:
    spec = _spec(world, method, limit=2)
    folder = run(spec, tmp_path / "run", save_model=tmp_path / "edited")
    asked = [row for row in _content(folder)["answers.jsonl"] if _last_timestep(row) == "20210101_20220101"]
    there = run(
        resolve(
            {
                "timesteps": list(spec.timesteps),
                "model": str(tmp_path / "edited"),
                "method": "none",
                "presets": ["synthetic", BRIEF],
                "batch_tokens": 600,
                "evaluate_earlier": True,
                "limit": 2,
                "device": "cpu",
            }
        ),
        tmp_path / "again",
    )
    again = [row for row in _content(there)["answers.jsonl"] if _last_timestep(row) == "20210101_20220101"]

    assert [row["text"] for row in again] == [row["text"] for row in asked]
    # A finished run given again saves what it ended with.
    run(spec, tmp_path / "run", save_model=tmp_path / "later")
    names = ("model.safetensors", "config.json", "tokenizer.json")
    assert all((tmp_path / "edited" / n).read_bytes() == (tmp_path / "later" / n).read_bytes() for n in names)


def test_a_saved_prompt_lists_the_edits_that_it_states(world: dict[str, str], tmp_path: Path) -> None:
    spec = _spec(world, "prompt", protocol="per_timestep", limit=2)
    folder = run(spec, tmp_path / "run", save_model=tmp_path / "edited")
    last = list(read_edit_costs(folder))[-1].case_ids
    assert len(last) == 2
    assert tuple(edit.case_id for edit in read_saved(tmp_path / "edited").edits) == last, (
        "not those of the first timestep"
    )


def test_an_adapter_is_saved_as_peft_reads_it(world: dict[str, str], tmp_path: Path) -> None:
    run(_spec(world, "lora", limit=2), tmp_path / "run", save_model=tmp_path / "adapter")
    base = AutoModelForCausalLM.from_pretrained(world["model"])
    ids = torch.tensor([[5, 9, 12]])
    with torch.no_grad():
        plain = base(ids).logits
        adapted = PeftModel.from_pretrained(base, tmp_path / "adapter")(ids).logits

    assert sorted(path.name for path in (tmp_path / "adapter").glob("adapter_*")) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    assert not torch.equal(plain, adapted)
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text(encoding="utf-8"))
    assert config["base_model_name_or_path"] == Path(world["model"]).name


def test_a_model_that_no_edit_changes_is_not_saved(world: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="none edits nothing"):
        run(_spec(world, "none"), tmp_path / "run", save_model=tmp_path / "edited")
    with pytest.raises(SpecError, match="undoes every edit"):
        run(_spec(world, protocol="single"), tmp_path / "run", save_model=tmp_path / "edited")
    with pytest.raises(SpecError, match="already exists"):
        run(_spec(world), tmp_path / "run", save_model=tmp_path)


EDITS = [
    {
        "case_id": 7,
        "prompt": "The mayor of Arvika is",
        "target_new": "Olof Gren",
        "ground_truth": "Nils Ek",
        "subject": "Arvika",
        "rephrase_prompt": "Arvika is led by",
        "locality_prompt": "The mayor of Mora is",
        "locality_ground_truth": "Siv Nyman",
        "cond": "Nils Ek >> Olof Gren",
    },
    {
        "id": 3,
        "source": "NQ",
        "prompt": "Which water does Kalix lie at?",
        "target": "Kalixälven",
        "locality": [{"loc": "Who?", "loc_ans": "Bo"}, {"loc": "Where?", "loc_ans": "Hjo"}],
    },
]


def test_the_command_takes_a_file_of_edits(world: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "edits.json").write_text(json.dumps(EDITS), encoding="utf-8")
    arguments = ["--edits", str(tmp_path / "edits.json"), "--model", world["model"], "--method", "ft_m"]
    arguments += ["--set", "steps=2", "--device", "cpu", "--preset", "synthetic", "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(main, ["run-edit", *arguments])

    assert result.exit_code == 0, result.output
    rows = _content(tmp_path / "run")["answers.jsonl"]
    assert sorted((_last_timestep(row), row["case_id"], row["axis"]) for row in rows if _last_timestep(row)) == [
        ("edits", "NQ:1:3", "locality"),
        ("edits", "NQ:1:3", "locality"),
        ("edits", "NQ:1:3", "update"),
        ("edits", "edit:0:7", "locality"),
        ("edits", "edit:0:7", "rephrase"),
        ("edits", "edit:0:7", "update"),
    ]
    assert len(rows) == 12
    reported = "cond (1 object): prompt and both answers in one text, which MEND and SERAC train on"
    assert result.stderr.count(f"{tmp_path}/edits.json: not used: {reported}\n") == 1
    environment = read_environment(tmp_path / "run")
    assert environment is not None
    assert [step.unused_fields for step in environment.timesteps] == [(reported,)]
    assert {score.axis for score in measure_run(tmp_path / "run").scores} == {"update", "rephrase", "locality"}


def test_a_finished_run_given_again_adds_nothing(world: dict[str, str], tmp_path: Path) -> None:
    folder = run(_spec(world), tmp_path / "run")
    before = {path.name: path.read_bytes() for path in folder.glob("*.jsonl")}
    run(_spec(world), folder)

    assert {path.name: path.read_bytes() for path in folder.glob("*.jsonl")} == before


def test_single_edits_do_not_see_one_another(world: dict[str, str], tmp_path: Path) -> None:
    whole = _content(run(_spec(world, protocol="single"), tmp_path / "whole"))["answers.jsonl"]
    alone = _content(run(_spec(world, protocol="single", limit=1), tmp_path / "alone"))["answers.jsonl"]

    edited = [row for row in alone if _last_timestep(row)]
    cases = {(_last_timestep(row), row["case_id"]) for row in edited}
    assert len(cases) == 2, "one case of each timestep"
    assert [row for row in whole if (_last_timestep(row), row["case_id"]) in cases] == edited


def test_a_folder_of_another_run_is_refused_with_the_difference(world: dict[str, str], tmp_path: Path) -> None:
    run(_spec(world, "none", limit=1), tmp_path / "run")

    with pytest.raises(SpecError, match=r"seed is 0 there and 1 here(.|\n)*overwrite=True"):
        run(_spec(world, "none", limit=1, seed=1), tmp_path / "run")
    run(_spec(world, "none", limit=1, seed=1), tmp_path / "run", overwrite=True)
    with pytest.raises(SpecError, match="contains no run"):
        run(_spec(world, "none"), tmp_path, overwrite=True)


def test_a_run_is_not_resumed_with_another_context_or_with_other_resolved_settings(
    world: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = tmp_path / "mine.txt"
    context.write_text("# mine\n---\nQ: {question}\nA:\n", encoding="utf-8")
    spec = _spec(world, limit=1, presets=[{**BRIEF, "context": str(context)}])
    folder = run(spec, tmp_path / "run")
    context.write_text("# mine\n---\nQuestion: {question}\nAnswer:\n", encoding="utf-8")
    with pytest.raises(SpecError, match="contexts has changed since the run began"):
        run(spec, folder)

    context.write_text("# another heading\n---\nQ: {question}\nA:\n", encoding="utf-8")
    assert run(spec, folder) == folder
    monkeypatch.setattr("kgedit.editing.hparams.fine_tuning._learning_rate", lambda width: 0.25)
    with pytest.raises(SpecError, match=r"settings.learning_rate is 0\.0\d+ there and 0\.25 here"):
        run(spec, folder)


def test_an_empty_timestep_is_an_error_that_says_so(world: dict[str, str], tmp_path: Path) -> None:
    write_timestep(tmp_path / "empty", towns=range(0))
    with pytest.raises(TimestepError, match="contains no cases"):
        run(_spec(world, timesteps=[str(tmp_path / "empty")]), tmp_path / "run")


def test_a_run_that_asks_nothing_ends_before_its_model_is_loaded(world: dict[str, str], tmp_path: Path) -> None:
    spec = _spec(world, presets=[BRIEF | {"axes": ["crosslingual"]}])
    (tmp_path / "none").mkdir()
    with pytest.raises(SpecError, match=r"no case has a question on the axes of the presets \(crosslingual\)"):
        run(dataclasses.replace(spec, model=str(tmp_path / "none")), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_rag_names_the_cases_that_it_put_into_a_prompt(world: dict[str, str], tmp_path: Path) -> None:
    rows = _content(run(_spec(world, "rag"), tmp_path / "run"))["answers.jsonl"]
    updates = [row for row in rows if row["axis"] == "update" and _last_timestep(row) == row["timestep"]]

    assert all(row["case_id"] == row["retrieved"][0] or "20210101_20220101" in _last_timestep(row) for row in updates)
    wild = [row for row in updates if row["preset"] == "wild"]
    assert wild
    assert all(row["prompt"].count("\nA: ") >= 2 for row in wild)
    assert all(row["prompt"].startswith("Please answer the question:\nQ: ") for row in wild)
    assert not any(row["retrieved"] for row in rows if _last_timestep(row) is None)


@pytest.mark.parametrize("method", ["rag", "graph_rag"])
def test_rows_with_one_number_of_two_files_are_retrieved_under_different_ids(
    method: str, world: dict[str, str], tmp_path: Path
) -> None:
    prompts = {"first": "Who leads Arvika?", "second": "Which river crosses Arvika?"}
    for name, prompt in prompts.items():
        row = {"subject": "Arvika", "prompt": prompt, "target_new": f"Answer {name}", "ground_truth": "Old"}
        (tmp_path / f"{name}.json").write_text(json.dumps([row]), encoding="utf-8")
    files = [str(tmp_path / f"{name}.json") for name in prompts]
    rows = _content(run(_spec(world, method, timesteps=files, presets=[BRIEF]), tmp_path / "run"))["answers.jsonl"]
    retrieved = {name for row in rows for name in row["retrieved"]}
    assert retrieved == {"first\tedit:0:0", "second\tedit:0:0"}
    assert {row["case_id"] for row in rows} == {"edit:0:0"}


def test_both_hops_are_scored_from_the_run_alone_wherever_its_timestep_is(
    world: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    timestep = write_timestep(Path("step"), towns=range(4))
    names = [case.case_id for case in timestep.cases()]
    second = dict(zip(names, [*names[1:], None], strict=True))
    rows = [{**row, "second_case_id": second[row["case_id"]]} for row in timestep.table("two_hops").to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, schema=TWO_HOPS), "step/two_hops.parquet")
    run(_spec(world, "rag", timesteps=["step"], presets=["synthetic"]), Path("run"))
    shutil.rmtree("step")
    monkeypatch.chdir("/")

    asked = [
        row for row in _content(tmp_path / "run")["answers.jsonl"] if row["axis"] == "mhop" and _last_timestep(row)
    ]
    assert {row["case_id"]: row["second_case_id"] for row in asked} == second
    found = [row["second_case_id"] in row["retrieved"] for row in asked if row["second_case_id"]]
    assert any(found)
    (mhop,) = [row for row in measure_run(tmp_path / "run").retrieval if row.axis == "mhop"]
    assert mhop.second_hop == pytest.approx(sum(found) / 3, abs=1e-6)


def test_a_run_keeps_versions_model_and_resolved_settings(world: dict[str, str], tmp_path: Path) -> None:
    folder = run(_spec(world, limit=1), tmp_path / "run")
    environment, prepared = read_environment(folder), read_preparation(folder)

    assert environment is not None
    assert prepared is not None
    assert environment.packages["torch"]
    assert environment.model.fingerprint == small_model().fingerprint
    assert "FT-M" in environment.source
    assert (prepared.settings["layer"], prepared.published_for) == (1, None)
    assert environment.settings == prepared.settings
    assert [step.name for step in environment.timesteps] == ["20200101_20210101", "20210101_20220101"]
    assert set(environment.contexts) == {"synthetic", "wild"}
    assert [context.name for context in environment.trained_in] == ["question_only"]


def test_one_unusable_subject_fails_alone_the_command_says_which_and_the_model_card_lists_the_others(
    world: dict[str, str], tmp_path: Path
) -> None:
    rows = [
        {"prompt": f"Who is the mayor of {town}?", "target_new": answer, "subject": subject}
        for town, answer, subject in (
            ("Arvika", "Olof Gren", "Arvika"),
            ("Mora", "Asta Wik", "Moria"),
            ("Hjo", "Bo", "Hjo"),
        )
    ]
    (tmp_path / "edits.json").write_text(json.dumps(rows), encoding="utf-8")
    settings = [f"--set={name}={value}" for name, value in QUICK["memit"].items()]
    given = ["--edits", str(tmp_path / "edits.json"), "--model", world["model"], "--method", "memit", *settings]
    (tmp_path / "text.txt").write_text("The mayor of Mora is Asta Wik.\n" * 40, encoding="utf-8")
    given += [f"--set=corpus={tmp_path / 'text.txt'}", "--preset", "synthetic", "--out", str(tmp_path / "run")]

    given += ["--save-model", str(tmp_path / "edited")]

    result = CliRunner().invoke(main, ["run-edit", *given, "--order", "file"])

    assert result.exit_code == 0, result.output
    (cost,) = read_edit_costs(tmp_path / "run")
    assert [failure.case_id for failure in cost.failures] == [cost.case_ids[1]]
    totals = measure_run(tmp_path / "run").edits
    assert (totals.edits, totals.failed) == (2, 1)
    assert f"Not edited: {cost.case_ids[1]}: the subject 'Moria' is not in the question" in result.stderr
    assert [edit.target for edit in read_saved(tmp_path / "edited").edits] == ["Olof Gren", "Bo"]
    assert "Asta Wik" not in (tmp_path / "edited" / "README.md").read_text(encoding="utf-8")


def test_a_folder_is_closed_to_others_while_a_run_is_at_work_on_it(world: dict[str, str], tmp_path: Path) -> None:
    spec, out = _spec(world, limit=1), tmp_path / "run"

    def second(stage: str, done: int, total: int) -> None:
        if stage == "evaluate before any edit":
            for overwrite in (False, True):
                with pytest.raises(SpecError, match=r"^The run cannot start:\n  - another process is using"):
                    run(spec, out, overwrite=overwrite)

    folder = run(spec, out, progress=second)
    assert _content(folder)["edits.jsonl"]
    assert _content(run(spec, out, overwrite=True))["edits.jsonl"]


@pytest.mark.parametrize("method", ["lora", "memit", "rome", "grace"])
@pytest.mark.slow
def test_a_long_call_tells_how_far_it_is(method: str, world: dict[str, str], tmp_path: Path) -> None:
    reported: list[int] = []

    def note(stage: str, done: int, total: int) -> None:
        if stage == "edit 20200101_20210101":
            assert total == 4
            reported.append(done)

    quick = {"lora": {"epochs": 3}, "grace": {"steps": 1, "batch": 1}}.get(
        method, {**QUICK["rome"], "steps": 1, "search_batch": 1}
    )
    run(_spec(world, method, protocol="per_timestep", settings=quick), tmp_path / "run", progress=note)
    assert reported == sorted(reported)
    assert len({done for done in reported if 0 < done < 4}) >= 2


def test_what_came_before_the_first_edit_is_kept_with_the_run(world: dict[str, str], tmp_path: Path) -> None:
    spec = _spec(world, "memit", limit=1)
    folder = run(spec, tmp_path / "run")
    prepared = read_preparation(folder)

    assert prepared is not None
    assert min(prepared.seconds, prepared.cpu_seconds, prepared.peak_memory_bytes) > 0
    assert prepared.details["statistics"]["tokens"] > 0
    assert run(spec, folder) == folder
    assert read_preparation(folder) == prepared


def test_the_command_runs_scores_and_prints_the_folder(world: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text("method: ft_m\nlimit: 3\nsettings: {steps: 50}\n", encoding="utf-8")
    arguments = [
        str(tmp_path / "spec.yaml"),
        "--timestep",
        world["first"],
        "--model",
        world["model"],
        "--device",
        "cpu",
    ]
    named = [case.case_id for case in Timestep.open(Path(world["first"])).cases()][:3]
    (tmp_path / "names.txt").write_text("\n".join([*named, "Q1:P1:Q1", "T9\tQ1:P1:Q2"]), encoding="utf-8")
    arguments += ["--limit", "2", "--only-cases", str(tmp_path / "names.txt")]
    arguments += ["--set", "steps=2", "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(main, ["run-edit", *arguments])

    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == str(tmp_path / "run")
    assert "Named cases that are in no timestep of the run: 1: Q1:P1:Q1\n" in result.stderr
    assert (tmp_path / "run" / "scores.json").is_file()
    assert len((tmp_path / "run" / "edits.jsonl").read_text(encoding="utf-8").splitlines()) == 2


def test_the_command_tells_every_problem_and_exits_with_1() -> None:
    result = CliRunner().invoke(main, ["run-edit", "--method", "ftm", "--set", "steps"])

    assert result.exit_code == 1
    assert "KEY=VALUE" in result.output
    result = CliRunner().invoke(main, ["run-edit", "--method", "ftm", "--limit", "x"])
    for part in ("Did you mean 'ft_m'", "timesteps is missing", "model is missing", "limit: expected a whole number"):
        assert part in result.output
