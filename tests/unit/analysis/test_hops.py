"""Multi-hop questions by their number of hops."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from world.small_runs import answer, write_run

from kgedit.analysis.breakdowns import breakdown_table
from kgedit.errors import TimestepError
from kgedit.records.cases import Chain
from kgedit.records.runs import Answer
from kgedit.runs.run_files import read_answer_table, read_runs, read_scores
from kgedit.runs.scoring import write_scores

RIGHT, WRONG, OLD = "Justin Trudeau", "Ottawa", "Paul Martin"


def instance(number: int, wordings: str, hops: str, *, text: str = WRONG) -> list[Answer]:
    """A chain with an answer to each wording and each hop: 1 is right."""
    case = f"edit:P{number}:{number}-0"
    asked = tuple(f"Hop {index}?" for index in range(len(hops)))
    chain = Chain(f"edit:P{number}:{number}", len(hops), asked, (OLD,))
    return [
        *(
            answer(case, axis="mhop", question=f"Wording {index}?", text=RIGHT if one == "1" else text, chain=chain)
            for index, one in enumerate(wordings)
        ),
        *(
            answer(case, axis="hop", question=asked[index], text=RIGHT if one == "1" else WRONG)
            for index, one in enumerate(hops)
        ),
    ]


def test_a_chain_counts_once_by_any_wording_and_by_all_of_its_hops(tmp_path: Path) -> None:
    answers = [
        *instance(1, "100", "11"),
        *instance(2, "000", "11", text=OLD),
        *instance(3, "111", "10"),
        *instance(4, "010", "1110"),
        answer("Q1:P9:Q2", axis="mhop", question="Plain?", second_case_id=None),
    ]
    folder = write_run(tmp_path / "run", answers)
    write_scores(folder)
    run = read_runs([folder])[0]
    table = breakdown_table([run], "hops", preset="wild")
    assert table is not None
    two, four = table.rows
    assert (two[2], two[3], two[5]) == (2, 10, 3), "the plain two hops are no chain of several wordings"
    assert round(two[4].after.mean, 3) == 0.5  # type: ignore[union-attr]
    assert [round(cell.mean, 3) for cell in two[6:8]] == [0.667, 0.667]  # type: ignore[union-attr]
    assert two[8] == 0.5, "of two chains answered right one has a wrong hop"
    assert (four[2], four[3], four[5], four[8]) == (4, 3, 1, 1.0)
    assert {row["error"] for row in run.answers.to_pylist() if row["axis"] == "mhop"} >= {"old answer"}


def test_answers_of_before_chains_were_recorded_can_still_be_read(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", instance(1, "1", "11"))
    write_scores(folder)
    scores = read_scores(folder)
    whole = pq.read_table(folder / "answers.parquet")
    older = whole.drop_columns(["hops", "chain", "hop_questions"])
    pq.write_table(older, folder / "answers.parquet")
    found = read_answer_table(folder, answers_sha256=scores.answers_sha256)
    assert found.schema.names == whole.schema.names
    assert found["hops"].null_count == len(whole)
    pq.write_table(whole.drop_columns(["axis"]), folder / "answers.parquet")
    with pytest.raises(TimestepError, match="does not belong"):
        read_answer_table(folder, answers_sha256=scores.answers_sha256)


def test_a_run_without_multi_hop_questions_has_no_such_table(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [answer()])
    write_scores(folder)
    assert breakdown_table(read_runs([folder]), "hops", preset="wild") is None
