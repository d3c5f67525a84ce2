"""A finished run on the small timestep that meets all requirements of a board."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
from world.small_runs import SPEC, SYNTHETIC, WILD, answer, cost, write_run
from world.small_timestep import NEW_MAYORS, write_timestep

from kgedit.records.cases import Case
from kgedit.records.runs import (
    Answer,
    HashedInput,
    ModelRecord,
    ModelState,
    Preparation,
    RunEnvironment,
    Selection,
    Setting,
)
from kgedit.runs.run_files import write_edited_cases
from kgedit.runs.scoring import write_scores
from kgedit.timesteps.tables import TABLES
from kgedit.timesteps.timestep import Timestep


def write_hashed_timestep(folder: Path, *, names: list[str] = NEW_MAYORS, towns: range = range(10)) -> Timestep:
    """The small timestep with hashes of its tables, as in an export."""
    return add_hashes(write_timestep(folder, names=names, towns=towns))


def add_hashes(step: Timestep) -> Timestep:
    """Write the hashes of a timestep's tables into its timestep.json."""
    folder = step.folder
    tables = {
        name: {"sha256": hashlib.sha256((folder / f"{name}.parquet").read_bytes()).hexdigest()} for name in TABLES
    }
    (folder / "timestep.json").write_text(json.dumps(step.manifest | {"tables": tables}), encoding="utf-8")
    return Timestep.open(folder)


def write_submittable(
    folder: Path, timestep: Timestep, *, method: str = "ft_m", right: int = 10, seed: int = 7, **settings: Setting
) -> Path:
    """A scored run with the first `right` cases correct directly after the edits, and locality unchanged."""
    cases = list(timestep.cases())
    spec = {"timesteps": (str(timestep.folder),), "method": method, "seed": seed, "settings": settings}
    spec |= {"evaluate_earlier": False}
    write_run(folder, _answers(timestep.name, cases, right), [_cost(timestep.name, cases)], **spec)
    environment = RunEnvironment(
        packages={"kgedit": "0.1.0"},
        python="3.11.7",
        platform="Linux",
        device="cpu",
        threads=1,
        git_commit="8653356b352a1c49af8fccde96b847a81ffe0e4b",
        seed=seed,
        model=ModelRecord(name=SPEC.model, class_name="Llama", revision="r1", fingerprint="28bd84d1", parameters=1000),
        source="a paper",
        settings={"steps": 25, **settings},
        timesteps=(HashedInput(name=timestep.name, sha256=timestep.sha256),),
        contexts={"synthetic": "aa", "wild": "bb"},
    )
    preparation = Preparation(
        seconds=0.1,
        cpu_seconds=0.1,
        peak_memory_bytes=10**9,
        settings=environment.settings,
        published_for=None,
        details={},
    )
    count = len(cases)
    selection = Selection(timestep=timestep.name, cases=count, named=count, drawn=count, answered=0, edited=count)
    for name, record in (
        ("environment.json", environment),
        ("prepared.json", preparation),
        ("selection.json", [selection]),
    ):
        (folder / name).write_bytes(msgspec.json.encode(record))
    names = "".join(f"{timestep.name}\t{case.case_id}\n" for case in cases)
    (folder / "edited_cases.txt").write_text(names, encoding="utf-8")
    write_edited_cases(folder, cases)
    write_scores(folder)
    return folder


def _cost(timestep: str, cases: Sequence[Case]) -> object:
    return dataclasses.replace(cost([case.case_id for case in cases]), timestep=timestep)


def _answers(timestep: str, cases: Sequence[Case], right: int) -> list[Answer]:
    found = []
    for after in (None, timestep):
        for index, case in enumerate(cases):
            for probe in case.probes:
                ok = probe.axis == "locality" or (after is not None and index < right)
                text = probe.answers[0] if ok else "Nobody"
                common = {
                    "timestep": timestep,
                    "relation": case.fact.property,
                    "axis": probe.axis,
                    "question": probe.question,
                    "prompt": f"Q: {probe.question}\nA:",
                    "answers": probe.answers,
                    "text": text,
                    "model_state": ModelState(after),
                }
                for preset, match in ((SYNTHETIC, float(ok)), (WILD, None)):
                    found.append(answer(case.case_id, of=preset, **common | {"token_match": match}))
    return found
