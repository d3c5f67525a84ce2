"""General ability: the loss on a text, and tasks of lm-evaluation-harness."""

from __future__ import annotations

import json
import math
import random
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from world.how_to import block, blocks
from world.small_models import save, small_model
from world.small_timestep import write_timestep

import kgedit
from kgedit.analysis.overviews import tasks_table
from kgedit.errors import MissingExtraError, ModelError, SpecError
from kgedit.llm import ability
from kgedit.llm.ability import TaskValue, measure_tasks, read_results, text_loss
from kgedit.metrics.scores import task_scores
from kgedit.records.runs import UNEDITED, ModelState, TaskMeasurement
from kgedit.runs.ability import TaskMeter
from kgedit.runs.run_files import read_ability_tasks, read_runs
from kgedit.runs.runner import run
from kgedit.runs.scoring import write_scores
from kgedit.runs.spec import resolve, write_spec

TEXT = "The mayor of Falun is Axel Hed. Where was the mayor of Hjo born? " * 3


def test_a_text_in_one_window_has_the_loss_that_transformers_computes() -> None:
    model = small_model()
    ids = torch.tensor([model.encode(TEXT)])
    with torch.inference_mode():
        wanted = float(model.module(ids, labels=ids).loss)
    found = text_loss(model, TEXT)
    assert found.tokens == ids.shape[1] - 1
    assert found.loss == pytest.approx(wanted, rel=1e-5)


def test_windows_predict_every_token_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model()
    ids = model.encode(TEXT)
    monkeypatch.setattr(ability, "WINDOW", 8)
    found = text_loss(model, TEXT)
    assert found.tokens == len(ids) - 1
    total = 0.0
    for start in range(0, len(ids) - 1, 7):
        window = torch.tensor([ids[start : start + 8]])
        with torch.inference_mode():
            total += float(model.module(window, labels=window).loss) * (window.shape[1] - 1)
    assert found.loss == pytest.approx(total / (len(ids) - 1), rel=1e-5)
    assert math.exp(found.loss) > 1


def test_a_text_of_one_token_is_refused() -> None:
    with pytest.raises(ModelError, match="fewer than two tokens"):
        text_loss(small_model(), "T")


HOW_TO = "lm-eval.md"
RETURNED = {
    "results": {
        "towns": {
            "alias": "towns",
            "acc,none": 0.5,
            "acc_stderr,none": 0.25,
            "exact_match,strict": 0.0,
            "exact_match_stderr,strict": "N/A",
        },
        "group": {"alias": "group", " ": " "},
    },
    "higher_is_better": {"towns": {"acc": True, "exact_match": True}},
    "n-samples": {"towns": {"original": 9, "effective": 4}},
    "versions": {"towns": 1.0},
}
ACCURACY = TaskValue(task="towns", metric="acc", value=0.5, error=0.25, n=4, version="1.0", higher_is_better=True)


def write_task(folder: Path) -> Path:
    """Two documents of which one answer is right, as the harness's manual writes a task."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"question": "The mayor of Arvika is", "answer": "Olof Gren", "other": "Nils Ek"},
        {"question": "The mayor of Mora is", "answer": "Asta Wik", "other": "Siv Nyman"},
    ]
    (folder / "towns.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    task = folder / "towns.yaml"
    task.write_text(
        f"""\
task: towns
dataset_path: json
dataset_kwargs:
  data_files:
    test: {folder / "towns.jsonl"}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{[answer, other]}}}}"
doc_to_target: 0
metric_list:
  - metric: acc
""",
        encoding="utf-8",
    )
    return task


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A stand-in with lm-eval's own names (0.4.13), which disturbs all random numbers as that does."""
    calls: list[dict[str, Any]] = []

    def simple_evaluate(**given: Any) -> dict[str, Any]:
        calls.append(given)
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        return RETURNED

    def manager(include_path: list[str] | None, include_defaults: bool) -> SimpleNamespace:
        shipped = ["arc_easy"] if include_defaults else []
        return SimpleNamespace(all_tasks=["towns", *shipped], include_path=include_path)

    def lm(**given: Any) -> SimpleNamespace:
        return SimpleNamespace(**given)

    parts = {
        "lm_eval": {"simple_evaluate": simple_evaluate},
        "lm_eval.models": {},
        "lm_eval.models.huggingface": {"HFLM": lm},
        "lm_eval.tasks": {"TaskManager": manager},
    }
    for name, content in parts.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    for place in ("kgedit.llm.ability.find_spec", "kgedit.runs.given_run.find_spec"):
        monkeypatch.setattr(place, lambda name: True)
    return calls


def test_values_are_read_with_their_errors_counts_and_filters() -> None:
    accuracy, strict = read_results(RETURNED)
    assert accuracy == ACCURACY
    assert (strict.metric, strict.value, strict.error) == ("exact_match (strict)", 0.0, None)


def test_the_loaded_model_is_handed_over_and_random_numbers_stay(harness: list[dict[str, Any]], tmp_path: Path) -> None:
    model = small_model()
    torch.manual_seed(7)
    random.seed(7)
    expected = (torch.rand(1), random.random())
    torch.manual_seed(7)
    random.seed(7)
    assert measure_tasks(model, ["arc_easy", str(write_task(tmp_path))], most=3)[0] == ACCURACY
    assert (torch.rand(1), random.random()) == expected
    (call,) = harness
    assert call["model"].pretrained is model.module
    assert call["model"].tokenizer is model.tokenizer
    assert (call["tasks"], call["limit"]) == (["arc_easy", "towns"], 3)
    assert call["task_manager"].include_path == [str(tmp_path)]


def test_the_harness_reads_its_own_thousands_of_tasks_only_if_one_is_asked_for(
    harness: list[dict[str, Any]], tmp_path: Path
) -> None:
    task = str(write_task(tmp_path))
    for tasks in ([task], [task], ["arc_easy"]):
        measure_tasks(small_model(), tasks)
    first, second, named = (call["task_manager"] for call in harness)
    assert first.all_tasks == ["towns"]
    assert second is first, "read once for all states of a model"
    assert "arc_easy" in named.all_tasks


def test_an_unknown_task_a_wrong_file_and_a_missing_package_are_told(
    harness: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelError, match="no task hellaswagg"):
        measure_tasks(small_model(), ["hellaswagg"])
    (tmp_path / "none.yaml").write_text("dataset_path: json\n", encoding="utf-8")
    with pytest.raises(ModelError, match="names no task"):
        measure_tasks(small_model(), [str(tmp_path / "none.yaml")])
    monkeypatch.setattr("kgedit.llm.ability.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"kgedit\[lm-eval\]"):
        measure_tasks(small_model(), ["towns"])


def raw_spec(tmp_path: Path, **more: object) -> dict[str, object]:
    write_timestep(tmp_path / "one", towns=range(2))
    return {
        "timesteps": [str(tmp_path / "one")],
        "model": str(save(small_model(), tmp_path / "model")),
        "method": "ft_m",
        "settings": {"steps": 1},
        "presets": ["synthetic"],
        "device": "cpu",
        **more,
    }


def test_a_run_puts_its_tasks_to_every_state_of_the_model_once(
    harness: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    raw = raw_spec(tmp_path, ability=["prose", "lm-eval:towns"], ability_limit=5)
    spec = resolve(raw)
    assert (spec.ability, spec.ability_tasks, spec.ability_limit) == ("prose", ("towns",), 5)
    text = write_spec(spec)
    assert "ability_tasks:\n- towns" in text
    folder = run(spec, tmp_path / "run")
    run(spec, tmp_path / "run")
    assert len(harness) == 2
    states = [item.model_state for item in read_ability_tasks(folder) if item.metric == "acc"]
    assert states == [UNEDITED, ModelState("20200101_20210101")]
    write_scores(folder)
    table = tasks_table(read_runs([folder]))
    assert table is not None
    row = dict(zip([column.name for column in table.columns], table.rows[0], strict=True))
    assert (row["task"], row["metric"], row["n"]) == ("towns", "acc", 4)
    assert (row["value before"], row["value"], row["difference"], row["standard error"]) == (0.5, 0.5, 0.0, 0.25)


def test_of_single_edits_the_mean_and_the_worst_are_told() -> None:
    edited = ModelState("20200101_20210101")
    rows = [
        TaskMeasurement(
            model_state=edited, case_id=f"Q{n}", task="towns", metric="acc", value=value, error=0.1, n=4, version="1",
            higher_is_better=True,
        )
        for n, value in enumerate((0.25, 0.75))
    ]  # fmt: skip
    (score,) = task_scores(rows)
    assert (score.measured, score.value, score.error, score.worst) == (2, 0.5, None, 0.25)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ability": ["prose", "absent.txt"]}, "one text is measured"),
        ({"ability": "absent.txt"}, "there is no file absent.txt"),
        ({"ability": "lm-eval:absent.yaml"}, "no task file absent.yaml"),
        ({"ability": "lm-eval:"}, "names no task"),
        ({"ability_limit": 3}, "ability_limit is about tasks"),
        ({"ability": "prose", "backend": "vllm", "method": "none"}, "no weights here"),
    ],
)
def test_what_cannot_be_measured_is_told_before_the_run(
    given: dict[str, object], said: str, harness: list[dict[str, Any]], tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=said):
        resolve(raw_spec(tmp_path) | given)


@pytest.mark.slow
def test_the_real_harness_measures_a_task_of_ours_on_a_random_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accuracy is what the log-probabilities of the two answers say."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    model, task = small_model(seed=3), write_task(tmp_path / "tasks")
    (value,) = [one for one in measure_tasks(model, [str(task)]) if one.metric == "acc"]
    right = 0
    for line in (tmp_path / "tasks" / "towns.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        scores = [_log_probability(model, row["question"], f" {row[name]}") for name in ("answer", "other")]
        right += scores[0] > scores[1]
    assert (value.task, value.n, value.higher_is_better) == ("towns", 2, True)
    assert value.value == pytest.approx(right / 2)
    folder = tmp_path / "run"
    folder.mkdir()
    meter = TaskMeter(folder, model, (str(task),), most=1)
    meter.measure(UNEDITED)
    assert {item.n for item in read_ability_tasks(folder)} == {1}


@pytest.mark.slow
def test_the_snippets_measure_an_edited_model_and_a_task_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lm_eval

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setattr(kgedit, "load_model", lambda name: small_model())
    Path("facts.yaml").write_text(block(HOW_TO, "yaml"), encoding="utf-8")
    Path("facts.jsonl").write_text(block(HOW_TO, "json"), encoding="utf-8")
    edited, own_task = blocks(HOW_TO, "python")

    asked: list[Any] = []
    namespace: dict[str, Any] = {}
    with monkeypatch.context() as patched:  # HellaSwag itself would be downloaded
        patched.setattr(lm_eval, "simple_evaluate", lambda **given: asked.append(given))
        exec(compile(edited, HOW_TO, "exec"), namespace)
    assert [given["tasks"] for given in asked] == [["hellaswag"]]
    assert asked[0]["model"].model is namespace["model"].module

    exec(compile(own_task, HOW_TO, "exec"), namespace)
    assert namespace["results"]["results"]["facts"]["acc,none"] in (0.0, 1.0)


def _log_probability(model: Any, prompt: str, answer: str) -> float:
    ids, start = model.tokenizer(prompt + answer)["input_ids"], len(model.tokenizer(prompt)["input_ids"])
    with torch.no_grad():
        scores = model.module(torch.tensor([ids])).logits[0].log_softmax(-1)
    return float(sum(scores[at - 1, ids[at]] for at in range(start, len(ids))))
