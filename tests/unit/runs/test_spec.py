"""Run specs: all problems are reported at once, before the run."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from world.small_models import save, small_model
from world.small_timestep import write_timestep

from kgedit.editing import METHODS
from kgedit.errors import SpecError
from kgedit.records.runs import RunSpec
from kgedit.runs.spec import as_recorded, read_spec, resolve, spec_schema, write_spec


def test_all_problems_of_a_spec_are_told_at_once(tmp_path: Path) -> None:
    raw = {
        "timesteps": [str(tmp_path / "nowhere")],
        "method": "ft_m",
        "settings": {"steps": "many", "lr": 1},
        "protocol": "sequentially",
        "presets": ["wilde"],
        "limit": 0,
        "device": "tpu",
        "sed": 3,
    }
    with pytest.raises(SpecError) as caught:
        resolve(raw)

    said = str(caught.value)
    expected = (
        "nowhere. There is no timestep in",
        "model is missing",
        "settings.steps",
        "'lr'",
        "did you mean 'sequential'",
    )
    expected += ("did you mean 'wild'", "limit: must be at least 1", "tpu", "did you mean 'seed'")
    assert [part for part in expected if part not in said] == []
    assert len(caught.value.problems) == len(expected)


@pytest.mark.parametrize(("missing", "said"), [(3, 3), (4, 1), (90, 1)])
def test_many_missing_timesteps_are_one_problem(tmp_path: Path, missing: int, said: int) -> None:
    years = [str(tmp_path / str(1900 + number)) for number in range(missing)]
    with pytest.raises(SpecError) as caught:
        resolve({"timesteps": years, "model": "tiny", "method": "ft_m"})
    assert len(caught.value.problems) == said
    assert (f"{missing - 1} more of the timesteps cannot be found." in str(caught.value)) == (said == 1)


@pytest.mark.parametrize("given", ["20210104_20230227", "[20210104_20230227]"])
def test_a_timestep_that_yaml_reads_as_a_number_is_to_be_quoted(given: str, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(f"timesteps: {given}\nmodel: tiny\nmethod: ft_m\n", encoding="utf-8")
    with pytest.raises(SpecError, match=r"timesteps: YAML reads .*; put it in quotes, as '20210104_20230227'"):
        resolve(read_spec(tmp_path / "spec.yaml").raw)


def test_an_unknown_method_is_met_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="Did you mean 'lora_merge'"):
        resolve({"timesteps": [str(tmp_path)], "model": "tiny", "method": "lora-merge"})


def test_batch_size_belongs_to_the_sequential_protocol(tmp_path: Path) -> None:
    write_timestep(tmp_path)
    base = {"timesteps": [str(tmp_path)], "model": "tiny", "method": "ft_m"}

    assert resolve(base).batch_size == 1
    assert resolve(base | {"batch_size": 5}).batch_size == 5
    assert resolve(base | {"protocol": "per_timestep"}).batch_size is None
    with pytest.raises(SpecError, match="batch_size is for the protocol 'sequential'"):
        resolve(base | {"protocol": "single", "batch_size": 5})


def test_rounded_weights_are_for_methods_that_leave_weights_alone(tmp_path: Path) -> None:
    write_timestep(tmp_path)
    base = {"timesteps": [str(tmp_path)], "model": "tiny", "quantize": "4bit"}

    for method in ("none", "rag", "lora", "grace"):
        assert resolve(base | {"method": method}).quantize == "4bit"
    for method in ("memit", "ft_m", "lora_merge", "wise"):
        with pytest.raises(SpecError, match="which 4 bits do not hold"):
            resolve(base | {"method": method})


def test_memory_of_each_device_is_for_models_that_are_spread(tmp_path: Path) -> None:
    write_timestep(tmp_path)
    base = {"timesteps": [str(tmp_path)], "model": "tiny", "method": "none"}

    with pytest.raises(SpecError, match="device cuda:all"):
        resolve(base | {"max_memory": "0=20GiB"})
    with pytest.raises(SpecError, match="such as 0=20GiB"):
        resolve(base | {"max_memory": "20"})


def test_a_resolved_spec_resolves_to_itself(tmp_path: Path) -> None:
    write_timestep(tmp_path / "step")
    mine = {
        "name": "mine",
        "context": "chat:instruction",
        "generation": "greedy",
        "truncation": "newline",
        "metric": "exact_match",
        "shots": 2,
    }
    raw = {
        "timesteps": [str(tmp_path / "step")],
        "model": "tiny",
        "method": "lora",
        "presets": ["wild", "few_shot:5:1", mine],
    }
    raw |= {
        "sample": 3,
        "stratify": "relation",
        "only_failed": "true",
        "train_context": "asked",
        "two_hop_rephrases": True,
        "evaluate_sample": 2,
    }
    spec = resolve(raw)
    (tmp_path / "spec.yaml").write_text(write_spec(spec), encoding="utf-8")

    assert resolve(read_spec(tmp_path / "spec.yaml").raw) == spec


def test_a_servers_password_is_in_no_file_of_a_run(tmp_path: Path) -> None:
    write_timestep(tmp_path / "step")
    given = {"timesteps": [str(tmp_path / "step")], "model": str(save(small_model(), tmp_path / "model"))}
    given |= {"method": "none", "presets": ["wild"], "backend": "openai", "backend_url": "http://me:s3cret@h:80/v1"}
    spec = resolve(given)
    assert spec.backend_url == "http://me:s3cret@h:80/v1", "the server is asked with it"
    assert as_recorded(spec).backend_url == "http://h:80/v1"
    assert "s3cret" not in write_spec(spec)


def test_a_stop_by_entropy_is_written_only_where_it_is_set_so_that_earlier_runs_resume(tmp_path: Path) -> None:
    write_timestep(tmp_path / "step")
    own = {"name": "sure", "context": "instruction", "generation": "greedy", "truncation": "newline"}
    own |= {"metric": "contains", "stop_entropy": 2}
    raw = {"timesteps": [str(tmp_path / "step")], "model": "m", "method": "none", "presets": ["wild", own]}
    spec = resolve(raw)
    wild, sure = yaml.safe_load(write_spec(spec))["presets"]
    assert "stop_entropy" not in wild
    assert sure["stop_entropy"] == 2.0
    (tmp_path / "spec.yaml").write_text(write_spec(spec), encoding="utf-8")
    assert resolve(read_spec(tmp_path / "spec.yaml").raw) == spec


@pytest.mark.parametrize(
    ("preset", "said"),
    [
        ({"generation": "teacher_forcing", "truncation": "gold_length", "metric": "token_match"}, "could end early"),
        ({"generation": "greedy", "truncation": "newline", "metric": "contains", "stop_entropy": 0}, "stop_entropy"),
    ],
)
def test_a_stop_by_entropy_needs_something_to_stop_and_a_positive_number(preset: dict[str, Any], said: str) -> None:
    own = {"name": "x", "context": "question_only", "stop_entropy": 1.5} | preset
    with pytest.raises(SpecError, match=said):
        resolve({"timesteps": [], "model": "m", "method": "none", "presets": [own]})


@pytest.mark.parametrize(
    ("given", "tokens"),
    [
        ({}, [0, 0, 1024]),
        ({"thinking": "on"}, [0, 1024, 1024]),
        ({"thinking": True, "thinking_tokens": 64}, [0, 64, 64]),  # YAML reads a bare on as true
        ({"thinking_tokens": 64}, [0, 0, 64]),
        ({"thinking": "off"}, [0, 0, 0]),
    ],
)
def test_reasoning_is_for_presets_that_decode_in_a_chat(
    given: dict[str, Any], tokens: list[int], tmp_path: Path
) -> None:
    write_timestep(tmp_path / "step")
    raw = {"timesteps": [str(tmp_path / "step")], "model": "m", "method": "none"}
    spec = resolve(raw | {"presets": ["synthetic", "wild_chat", "thinking_chat"]} | given)
    assert [preset.thinking_tokens for preset in spec.presets] == tokens
    assert [preset.get("thinking_tokens", 0) for preset in yaml.safe_load(write_spec(spec))["presets"]] == tokens


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"thinking": "on", "presets": ["synthetic", "wild"]}, "no preset decodes in a chat"),
        ({"thinking_tokens": 9, "presets": ["wild_chat"]}, "no preset decodes in a chat"),
        ({"thinking": "off", "thinking_tokens": 9, "presets": ["wild_chat"]}, "give thinking on"),
        ({"thinking": "maybe", "presets": ["wild_chat"]}, "thinking"),
        ({"presets": [{"name": "x", "context": "instruction", "thinking_tokens": 9}]}, "take the context chat"),
    ],
)
def test_reasoning_that_no_preset_can_do_is_refused(given: dict[str, Any], said: str) -> None:
    own = {"generation": "greedy", "truncation": "newline", "metric": "contains"}
    presets = [one if isinstance(one, str) else own | one for one in given["presets"]]
    with pytest.raises(SpecError, match=said):
        resolve({"timesteps": [], "model": "m", "method": "none"} | given | {"presets": presets})


def test_teacher_forcing_cannot_be_cut_short(tmp_path: Path) -> None:
    preset = {"name": "x", "context": "question_only", "generation": "teacher_forcing", "metric": "token_match"}
    with pytest.raises(SpecError, match="must be gold_length"):
        resolve({"timesteps": [], "model": "m", "method": "none", "presets": [preset | {"truncation": "newline"}]})


@pytest.mark.parametrize(
    ("generation", "metric", "reason"),
    [
        (
            "teacher_forcing",
            "contains",
            "contains cannot judge teacher_forcing; take exact_match or probability or tok",
        ),
        ("greedy", "probability", "probability cannot judge greedy; take contains or contains_any or empty"),
        ("teacher_forcing", "probability_success", "probability_success judges update, rephrase, personas only"),
        ("greedy", "unchanged", "unchanged judges locality, random_locality only"),
        ("greedy", "exact_math", "did you mean 'exact_match'"),
    ],
)
def test_a_metric_that_cannot_judge_its_preset_is_refused_before_the_run(
    generation: str, metric: str, reason: str, tmp_path: Path
) -> None:
    write_timestep(tmp_path)
    truncation = "gold_length" if generation == "teacher_forcing" else "newline"
    preset = {"name": "x", "context": "question_only", "generation": generation, "truncation": truncation}
    raw = {"timesteps": [str(tmp_path)], "model": "m", "method": "none", "presets": [preset | {"metric": metric}]}
    with pytest.raises(SpecError, match=f"preset 'x': .*{reason}"):
        resolve(raw)


def test_a_model_with_a_chat_template_is_asked_in_it_unless_presets_are_named(tmp_path: Path) -> None:
    step = tmp_path / "step"
    write_timestep(step)
    plain = save(small_model(), tmp_path / "plain")
    chatty = save(small_model(), tmp_path / "chatty")
    (chatty / "chat_template.jinja").write_text("[{{ messages[0].content }}]", encoding="utf-8")

    def presets(model: object, **more: object) -> list[str]:
        spec = resolve({"timesteps": [str(step)], "model": str(model), "method": "none", **more})
        return [preset.name for preset in spec.presets]

    assert presets(plain) == presets("tiny") == ["synthetic", "wild"]
    assert presets(chatty) == presets("smollm2-135m") == ["synthetic", "wild_chat"]
    assert presets(chatty, presets=["wild"]) == ["wild"]


def test_the_training_format_is_the_bare_question_for_every_method_that_trains(tmp_path: Path) -> None:
    write_timestep(tmp_path)
    base = {"timesteps": [str(tmp_path)], "model": "tiny"}
    formats = {name: resolve({**base, "method": name}).train_context for name in METHODS}

    assert {name for name, train_context in formats.items() if train_context is None} == {
        "none",
        "prompt",
        "rag",
        "graph_rag",
        "ike",
    }
    assert {train_context for train_context in formats.values() if train_context} == {"question_only"}
    assert resolve({**base, "method": "rag", "train_context": "asked"}).train_context is None
    assert resolve({**base, "method": "ft_m", "train_context": "chat"}).train_context == "chat"
    with pytest.raises(SpecError, match="train_context: there is no context 'askd'"):
        resolve({**base, "method": "ft_m", "train_context": "askd"})


RECALL = {
    "name": "recall",
    "context": "question_only",
    "generation": "teacher_forcing",
    "truncation": "gold_length",
    "metric": "token_match",
}


def test_a_preset_asks_on_the_axes_that_it_names(tmp_path: Path) -> None:
    write_timestep(tmp_path)
    base = {"timesteps": [str(tmp_path)], "model": "tiny", "method": "ft_m"}
    narrow = RECALL | {"axes": ["locality", "random_locality"], "metric": "bleedover"}
    spec = resolve(base | {"presets": ["cloze_text", narrow]})
    assert [preset.axes for preset in spec.presets] == [("rephrase",), ("locality", "random_locality")]
    assert resolve(yaml.safe_load(write_spec(spec))) == spec
    with pytest.raises(SpecError, match="bleedover judges locality, random_locality only"):
        resolve(base | {"presets": [narrow | {"axes": []}]})
    every = write_spec(resolve(base | {"presets": [RECALL]}))
    assert "axes:" not in every, "runs of earlier versions resume"


def test_ways_of_choosing_cases_that_contradict_one_another_are_refused(tmp_path: Path) -> None:
    write_timestep(tmp_path)
    base = {"timesteps": [str(tmp_path)], "model": "tiny", "method": "ft_m"}
    for given, said in (
        ({"limit": 2, "sample": 2}, "give one of the two"),
        ({"only_failed": True, "presets": ["free_text", "synthetic"]}, "right or wrong; fluency does not"),
        ({"only_failed": True, "presets": [{**RECALL, "axes": ["rephrase"]}]}, "which the first preset, recall, does"),
        ({"stratify": "relation"}, "give sample N as well"),
        ({"stratify": "relations", "sample": 2}, "did you mean 'relation'"),
        ({"only_cases": str(tmp_path / "nowhere.txt")}, "there is no file"),
    ):
        with pytest.raises(SpecError, match=said):
            resolve(base | given)


def test_the_schema_knows_every_field_and_every_methods_settings() -> None:
    schema = spec_schema()
    of_presets = {"thinking", "thinking_tokens"}  # a resolved spec records them in its presets
    assert schema["properties"].keys() == {item.name for item in fields(RunSpec)} | of_presets
    own = {rule["if"]["properties"]["method"]["const"]: rule["then"] for rule in schema["allOf"]}
    assert own.keys() == set(METHODS)
    steps = own["ft_m"]["properties"]["settings"]["properties"]["steps"]
    assert steps["anyOf"] == [{"minimum": 1, "type": "integer"}, {"type": "null"}]
    assert steps["description"] == "maximum steps of Adam per call"
