"""A sweep carried out: every run as it would be alone, nothing twice, and nothing lost by a failure or a kill."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from world.small_models import save, small_model
from world.small_timestep import OLD_MAYORS, write_timestep

import kgedit
from kgedit.errors import ModelError, SpecError
from kgedit.llm.backends.contract import TransformersBackend
from kgedit.llm.generation import PresetQuestion
from kgedit.llm.replies import Reply
from kgedit.runs.run_files import read_answers, read_spec
from kgedit.runs.runner import run
from kgedit.runs.sweeps import execution

pytestmark = [pytest.mark.usefixtures("own_home"), pytest.mark.slow]

COSTS = ("seconds", "cpu_seconds", "peak_memory_bytes")
BRIEF = {"context": "instruction", "generation": "greedy", "truncation": "newline", "max_new_tokens": 4}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("world")
    write_timestep(root / "first", towns=range(4))
    write_timestep(root / "second", name="20210101_20220101", towns=range(3, 5), names=OLD_MAYORS)
    save(small_model(), root / "model")
    return {name: str(root / name) for name in ("first", "second", "model")}


@pytest.fixture
def spec(world: dict[str, str]) -> dict[str, Any]:
    return {
        "presets": {"brief": BRIEF | {"metric": "contains"}, "brief_exact": BRIEF | {"metric": "exact_match"}},
        "base": {
            "model": world["model"],
            "timesteps": [world["first"]],
            "presets": ["synthetic", "brief", "brief_exact"],
            "device": "cpu",
        },
        "grid": [
            {"method": ["ft_m"], "settings": {"steps": [1, 2]}},
            {"method": ["rag"], "settings": {"k": [1], "embedder": "character-ngrams"}, "limit": [2, 4]},
        ],
    }


@pytest.fixture
def short(spec: dict[str, Any]) -> dict[str, Any]:
    """Three runs of one case that edit nothing."""
    base = spec["base"] | {"presets": ["synthetic"], "limit": 1}
    return {"base": base, "grid": {"method": ["none"], "seed": [0, 1, 2]}}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Every question that reaches a model, with how it was asked."""
    reached: list[tuple[str, str]] = []

    real = TransformersBackend.ask

    def counting(backend: TransformersBackend, asked: Sequence[PresetQuestion]) -> list[Reply]:
        # Of one call, presets that differ in their metric alone are computed once.
        reached.extend(dict.fromkeys((one.preset.generation, one.question.prompt) for one in asked))
        return real(backend, asked)

    monkeypatch.setattr(TransformersBackend, "ask", counting)
    return reached


def _content(folder: Path) -> list[dict[str, Any]]:
    lines = [line for name in ("answers", "edits") for line in (folder / f"{name}.jsonl").read_text().splitlines()]
    return [{key: value for key, value in json.loads(line).items() if key not in COSTS} for line in lines]


def test_each_run_is_what_it_is_alone_and_the_report_is_on_all(
    spec: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = kgedit.sweep(spec, out=tmp_path / "out")
    assert [one.state for one in done.runs] == ["finished"] * 4
    assert done.failed == ()
    assert done.report is not None
    names = {"ft_m-steps=1", "ft_m-steps=2", "rag-k=1-limit=2", "rag-k=1-limit=4"}
    assert {one.folder.name for one in done.report.runs} == names
    assert all(name in (tmp_path / "out" / "report.md").read_text(encoding="utf-8") for name in names)
    # The run of two cases finds answers in the cache that a larger batch gave: probabilities may differ in a digit.
    for one in (one for one in done.runs if one.spec.limit != 2):
        monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "other" / one.name))
        alone = run(read_spec(one.folder), tmp_path / "alone" / one.name)
        assert _content(one.folder) == _content(alone)


def test_what_is_finished_is_not_touched_and_what_was_cut_is_resumed(
    spec: dict[str, Any], tmp_path: Path, asked: list[tuple[str, str]]
) -> None:
    kgedit.sweep(spec, out=tmp_path)
    whole = {path: path.read_bytes() for path in tmp_path.glob("*/*.json*")}
    cut = tmp_path / "ft_m-steps=2"
    expected = _content(cut)
    (cut / "scores.json").unlink()
    lines = (cut / "answers.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (cut / "answers.jsonl").write_text("".join(lines[:-7]) + lines[-7][:20], encoding="utf-8")
    asked.clear()

    states = {one.name: one.state for one in kgedit.sweep(spec, out=tmp_path, dry_run=True).runs}
    assert states == dict.fromkeys(states, "finished") | {"ft_m-steps=2": "begun"}
    kgedit.sweep(spec, out=tmp_path)

    assert 0 < len(asked) < len(lines)
    assert _content(cut) == expected
    assert all(path.read_bytes() == content for path, content in whole.items() if path.parent != cut)


@pytest.mark.parametrize("former", ["none-model=tiny-1", "none-model=tiny-1-0a1b2c"])
def test_a_run_under_the_name_of_an_earlier_version_keeps_it(
    former: str, short: dict[str, Any], world: dict[str, str], tmp_path: Path, asked: list[tuple[str, str]]
) -> None:
    models = [str(shutil.copytree(world["model"], tmp_path / "models" / name)) for name in ("tiny-1.5", "tiny-1", "x")]
    spec = {"base": {**short["base"], "model": None}, "grid": {"method": ["none"], "model": models[:1]}}
    (one,) = kgedit.sweep(spec, out=tmp_path / "out").runs
    one.folder.rename(one.folder.with_name(former))
    asked.clear()
    (one,) = kgedit.sweep(spec, out=tmp_path / "out").runs
    assert (one.name, asked) == (former, [])

    grown = spec | {"grid": {"method": ["none"], "model": models}}
    names = [one.name for one in kgedit.sweep(grown, out=tmp_path / "out", dry_run=True).runs]
    second = names[1].removeprefix("none-model=tiny-1")
    assert names == [former, f"none-model=tiny-1{second}", "none-model=x"]
    assert bool(second) == (former == "none-model=tiny-1")


def test_the_unedited_model_is_asked_each_question_once_and_each_text_once(
    spec: dict[str, Any], tmp_path: Path, asked: list[tuple[str, str]]
) -> None:
    planned = kgedit.sweep(spec, out=tmp_path, dry_run=True)
    done = kgedit.sweep(spec, out=tmp_path)
    counts = [one.count for one in planned.runs]

    assert [one.count for one in done.runs] == counts
    # Five probes of four cases, under two presets whose text differs; the third judges the same text.
    assert [count.new for count in counts] == [40, 0, 0, 0]
    assert sum(count.unedited for count in counts) == 3 * 40 + 20
    assert len(asked) == sum(count.new + count.edited for count in counts)
    answers = list(read_answers(done.runs[0].folder))
    texts = {(a.model_state, a.case_id, a.question): a.text for a in answers if a.preset == "brief"}
    exact = {(a.model_state, a.case_id, a.question): a.text for a in answers if a.preset == "brief_exact"}
    assert texts == exact
    assert len(texts) == 40


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol": "single"},
        {"protocol": "sequential", "evaluate_every": 2, "batch_size": 1, "evaluate_earlier": True},
        {"protocol": "sequential", "evaluate_every": 3, "batch_size": 2},
        {"protocol": "per_timestep", "evaluate_earlier": True},
        {"protocol": "sequential", "evaluate_every": 2, "evaluate_earlier": True, "evaluate_sample": 1},
    ],
)
def test_the_count_is_what_is_asked(
    fields: dict[str, Any], spec: dict[str, Any], world: dict[str, str], tmp_path: Path
) -> None:
    both = {"timesteps": [world["first"], world["second"]], "presets": ["synthetic"], **fields}
    run_of_it = {"base": spec["base"] | both, "runs": [{"method": "none"}]}
    (one,) = kgedit.sweep(run_of_it, out=tmp_path).runs
    answers = list(read_answers(one.folder))
    before = [answer for answer in answers if answer.model_state.timestep is None]
    assert (one.count.edits, one.count.unedited, one.count.edited) == (6, len(before), len(answers) - len(before))


@pytest.mark.parametrize(
    ("error", "message", "logged"),
    [(ModelError("too small"), "too small", 0), (IndexError("out of range"), "IndexError: out of range", 1)],
)
def test_a_run_that_fails_stops_no_other(
    error: Exception,
    message: str,
    logged: int,
    short: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails_once(given: Any, *args: Any, **more: Any) -> Path:
        if given.seed == 1:
            raise error
        return run(given, *args, **more)

    monkeypatch.setattr(execution, "run", fails_once)
    done = kgedit.sweep(short, out=tmp_path)

    assert [(one.name, one.state, one.error) for one in done.failed] == [("none-seed=1", "new", message)]
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error] * logged
    assert done.report is not None
    assert {one.folder.name for one in done.report.runs} == {"none-seed=0", "none-seed=2"}


def test_only_some_runs_are_carried_out_and_the_report_takes_what_there_is(
    short: dict[str, Any], tmp_path: Path
) -> None:
    kgedit.sweep(short, out=tmp_path, only=["none-seed=0"])
    done = kgedit.sweep(short, out=tmp_path, only=["*=2"])

    assert [one.name for one in done.runs] == ["none-seed=2"]
    assert done.report is not None
    assert {one.folder.name for one in done.report.runs} == {"none-seed=0", "none-seed=2"}
    with pytest.raises(SpecError, match="there is no run 'rome"):
        kgedit.sweep(short, out=tmp_path, only=["rome*"])


def test_folders_of_other_runs_are_refused_all_at_once(short: dict[str, Any], tmp_path: Path) -> None:
    kgedit.sweep(short, out=tmp_path, only=["*=0", "*=1"])
    with pytest.raises(SpecError) as caught:
        kgedit.sweep(short, out=tmp_path, base={"limit": 2})
    assert len(caught.value.problems) == 3
    assert "limit is 1 there and 2 here" in caught.value.problems[0]

    again = kgedit.sweep(short, out=tmp_path, base={"limit": 2}, only=["*=0"], overwrite=True)
    assert read_spec(again.runs[0].folder).limit == 2


def test_edits_that_changed_since_are_noticed(spec: dict[str, Any], tmp_path: Path) -> None:
    edits = tmp_path / "edits.json"
    row = {"prompt": "Who is the mayor of Arvika?", "target_new": "Olof Gren", "subject": "Arvika"}
    edits.write_text(json.dumps([row]), encoding="utf-8")
    given = {
        "base": {**spec["base"], "timesteps": [str(edits)], "presets": ["synthetic"]},
        "runs": [{"method": "none"}],
    }
    kgedit.sweep(given, out=tmp_path / "out")
    edits.write_text(json.dumps([row | {"target_new": "Nils Ek"}]), encoding="utf-8")
    with pytest.raises(SpecError, match="changed since"):
        kgedit.sweep(given, out=tmp_path / "out")
