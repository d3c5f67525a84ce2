"""Answers of a model to two-hop questions, and the share answered correctly when both facts were retrieved.

    OMP_NUM_THREADS=1 python benchmarks/two_hop_answers.py kgedit-data/timesteps/20210104_20230227 --out runs

Runs graph_rag and rag on whole timesteps, but evaluates only the two-hop questions; all other edits serve as
distractors. "both facts" counts the questions for which both cases were retrieved; "given both" is the share of these
that are correct by the preset's metric, with its 95 % interval (Wilson).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from two_hop_reading import wilson

from kgedit.cli import main as command
from kgedit.records.cases import Case
from kgedit.timesteps.timestep import Timestep


def only_two_hops() -> None:
    """Restrict the probes of timesteps to two-hop questions."""
    whole = Timestep.cases

    def cases(timestep: Timestep, **given: Any) -> Iterator[Case]:
        for case in whole(timestep, **given):
            yield replace(case, probes=tuple(probe for probe in case.probes if probe.axis == "mhop"))

    Timestep.cases = cases  # type: ignore[method-assign]


def lines(folder: Path, named: str) -> Iterator[str]:
    """One row of the table per preset of a run."""
    rows = [row for row in pq.read_table(folder / "answers.parquet").to_pylist() if row["axis"] == "mhop"]
    for preset in dict.fromkeys(row["preset"] for row in rows):
        own = [row for row in rows if row["preset"] == preset]
        before = [row for row in own if row["stage"] == "before"]
        after = [row for row in own if row["stage"] == "own"]
        given = [row for row in after if row["first_found"] and row["second_found"]]
        cells = [
            named,
            preset,
            str(len(after)),
            _mean(before),
            _mean(after),
            f"{len(given)} of {len(after)}",
            wilson(round(sum(row["value"] or 0 for row in given)), len(given)) if given else "–",
        ]
        yield f"| {' | '.join(cells)} |"


def _mean(rows: list[dict[str, float]]) -> str:
    return f"{100 * sum(row['value'] or 0 for row in rows) / len(rows):.1f}" if rows else "–"


def main() -> None:
    """Run, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timesteps", type=Path, nargs="+")
    parser.add_argument("--models", nargs="+", default=["smollm2-135m", "tiny"])
    parser.add_argument("--methods", nargs="+", default=["graph_rag", "rag"])
    parser.add_argument("--presets", nargs="+", default=["few_shot", "wild_chat"])
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    only_two_hops()
    print("| timestep | model | method | preset | questions | before | after | both facts | given both |")
    print("| :-- | :-- | :-- | :-- | --: | --: | --: | --: | --: |")
    for timestep in given.timesteps:
        for model in given.models:
            for method in given.methods:
                folder = given.out / f"{timestep.name}-{model}-{method}"
                # Models without a chat template have no chat presets.
                presets = [name for name in given.presets if model != "tiny" or "chat" not in name]
                options = [f"--preset={name}" for name in presets]
                command(
                    [
                        *("run-edit", f"--timestep={timestep}", f"--model={model}", f"--method={method}"),
                        *("--protocol=per_timestep", *options, f"--out={folder}", "--overwrite"),
                    ],
                    standalone_mode=False,
                )
                print(*lines(folder, f"{timestep.name} | {model} | {method}"), sep="\n", flush=True)


if __name__ == "__main__":
    main()
