"""Run folders with a few answers, in the form written by run-edit."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kgedit.records.runs import Answer, EditCost, ModelState, Preset, RunSpec

SYNTHETIC = Preset(
    name="synthetic",
    context="question_only",
    generation="teacher_forcing",
    truncation="gold_length",
    max_new_tokens=50,
    metric="token_match",
)
WILD = Preset(
    name="wild",
    context="instruction",
    generation="greedy",
    truncation="newline_period",
    max_new_tokens=50,
    metric="exact_match",
)

T1, T2, T3 = "20211230_20221230", "20221230_20231230", "20231230_20240331"

SPEC = RunSpec(
    timesteps=("benchmark/one",),
    model="smollm2-135m",
    method="ft-m",
    settings={"steps": 25, "learning_rate": 5e-4},
    protocol="per_timestep",
    batch_size=None,
    presets=(SYNTHETIC, WILD),
    train_context="question_only",
    limit=None,
    evaluate_earlier=True,
    checkpoint_every=100,
    batch_tokens=4096,
    seed=7,
    device="cpu",
    dtype="float32",
)


def answer(case_id: str = "Q16:P6:Q3099714", **changes: Any) -> Answer:
    """A freely decoded answer to the update question, correct by default."""
    preset = changes.pop("of", WILD)
    plain = Answer(
        model_state=ModelState(changes.pop("after", T1), changes.pop("edits", None)),
        timestep=T1,
        case_id=case_id,
        relation=case_id.split(":")[1],
        axis="update",
        preset=preset.name,
        context=preset.context,
        generation=preset.generation,
        truncation=preset.truncation,
        question="Who is the head of government of Canada?",
        prompt="Q: Who is the head of government of Canada?\nA:",
        answers=("Justin Trudeau", "Trudeau"),
        text="Justin Trudeau",
        token_match=1.0 if preset is SYNTHETIC else None,
        prompt_tokens=12,
        new_tokens=3,
        seconds=0.5,
    )
    return dataclasses.replace(plain, **changes)


def cost(case_ids: Iterable[str] = ("Q16:P6:Q3099714",), **changes: Any) -> EditCost:
    """Cost of one successful call."""
    plain = EditCost(timestep=T1, case_ids=tuple(case_ids), seconds=2.0, cpu_seconds=1.5, peak_memory_bytes=10**9)
    return dataclasses.replace(plain, **changes)


def write_run(folder: Path, answers: Iterable[Answer], costs: Iterable[EditCost] = (), **spec: Any) -> Path:
    """Write a run folder with spec.yaml, environment.json, answers.jsonl and edits.jsonl."""
    folder.mkdir(parents=True, exist_ok=True)
    resolved = msgspec.to_builtins(dataclasses.replace(SPEC, **spec))
    (folder / "spec.yaml").write_text(yaml.safe_dump(resolved, sort_keys=False), encoding="utf-8")
    (folder / "environment.json").write_text(json.dumps({"kgedit": "0.1.0"}), encoding="utf-8")
    write_lines(folder / "answers.jsonl", answers)
    write_lines(folder / "edits.jsonl", costs)
    return folder


def write_lines(path: Path, records: Iterable[Any]) -> None:
    """Write one JSON object per line."""
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
