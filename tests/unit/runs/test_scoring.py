"""scores.json: groups, intervals, retention, retrieval and costs of small runs whose numbers can be checked by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from world.small_runs import SYNTHETIC, T1, T2, T3, WILD, answer, cost, write_lines, write_run

from kgedit.errors import TimestepError
from kgedit.records.runs import UNEDITED, Answer, EditFailure, ModelState
from kgedit.records.scores import RunScores, Score
from kgedit.runs.run_files import read_scores
from kgedit.runs.scoring import measure_run, write_scores


def case(number: int, relation: str = "P6") -> str:
    return f"Q{number}:{relation}:Q{number + 1000}"


def asked(right: Iterable[int], **changes: object) -> list[Answer]:
    """One wild answer a case: Q1:P6, Q2:P54, Q3:P6, ... of which the ones with a 1 are right."""
    return [
        answer(case(number, ("P54", "P6")[number % 2]), text="Justin Trudeau" if ok else "Ottawa", **changes)
        for number, ok in enumerate(right, start=1)
    ]


def find(scores: Iterable[Score], **wanted: object) -> Score:
    found = [score for score in scores if all(getattr(score, name) == value for name, value in wanted.items())]
    assert len(found) == 1, found
    return found[0]


def test_groups_have_means_counts_and_relations(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [*asked([0, 0, 1, 0], after=None), *asked([1, 1, 1, 0])], [cost()])
    scores = measure_run(run).scores
    before = find(scores, stage="before", timestep=T1, metric="exact_match")
    after = find(scores, stage="own", timestep=T1, metric="exact_match")
    assert (before.mean, before.n, before.relations, before.model_state) == (0.25, 4, 2, UNEDITED)
    assert (after.mean, after.n, after.relations, after.model_state, after.main) == (0.75, 4, 2, ModelState(T1), True)
    assert after.low is not None
    assert after.low <= after.mean <= after.high
    side = [score.metric for score in scores if score.stage == "own" and score.timestep == T1 and not score.main]
    assert side == ["contains", "empty", "exact_match_any", "token_f1"]


def test_pooled_scores_come_last_and_final_only_with_several_timesteps(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [*asked([0, 1], after=None), *asked([1, 1])])
    pooled = [(score.stage, score.mean) for score in measure_run(run).scores if score.timestep is None and score.main]
    assert pooled == [("before", 0.5), ("own", 1.0)]
    assert read_scores_of(run).retention == ()


def read_scores_of(run: Path) -> RunScores:
    write_scores(run)
    return read_scores(run)


def test_teacher_forcing_is_scored_by_token_match_beside_exact_match(tmp_path: Path) -> None:
    answers = [answer(case(n), of=SYNTHETIC, text="Justin Ottawa", token_match=0.5) for n in (1, 2)]
    scores = [score for score in measure_run(write_run(tmp_path / "run", answers)).scores if score.timestep]
    assert [(score.metric, score.mean, score.main) for score in scores] == [
        ("token_match", 0.5, True),
        ("exact_match", 0.0, False),
    ]
    assert {score.preset for score in scores} == {"synthetic"}


def test_locality_compares_with_the_same_question_and_preset_before(tmp_path: Path) -> None:
    def locality(number: int, text: str, after: str | None, of: object = WILD) -> Answer:
        return answer(case(number), axis="locality", text=text, after=after, of=of, question=f"Who is {number}?")

    before = [locality(1, "Ottawa", None), locality(2, "Paris", None), locality(1, "Oslo", None, SYNTHETIC)]
    after = [
        locality(1, "Ottawa", T1),
        locality(2, "Rome", T1),
        locality(1, "Oslo", T1, SYNTHETIC),
        locality(3, "x", T1),
    ]
    scores = measure_run(write_run(tmp_path / "run", [*after, *before])).scores
    wild = find(scores, stage="own", timestep=T1, preset="wild", metric="unchanged")
    assert (wild.mean, wild.n) == (0.5, 2)
    assert find(scores, stage="own", timestep=T1, preset="synthetic", metric="unchanged").mean == 1.0
    assert not [score for score in scores if score.stage == "before" and score.metric == "unchanged"]


def test_efficacy_generalization_and_bleedover_follow_from_probabilities(tmp_path: Path) -> None:
    def described(number: int, axis: str, new: float, old: float | None, after: str | None = T1) -> Answer:
        changes = {"axis": axis, "probability": new, "old_probability": old, "after": after}
        return answer(case(number, f"P{number}"), of=SYNTHETIC, question=f"{axis} {number}?", **changes)

    answers = [
        *(described(number, "update", 0.75, 0.25) for number in (1, 2)),
        described(3, "update", 0.125, 0.625),
        described(1, "rephrase", 0.25, 0.5),
        *(described(number, "locality", 0.5, None, after=None) for number in (1, 2)),
        described(1, "locality", 0.25, None),
        described(2, "locality", 0.875, None),
    ]
    scores = [score for score in measure_run(write_run(tmp_path / "run", answers)).scores if score.timestep]
    own = {(score.axis, score.metric): score for score in scores if score.stage == "own"}

    assert own["update", "probability_difference"].mean == pytest.approx((0.5 + 0.5 - 0.5) / 3, abs=1e-6)
    assert own["update", "probability_success"].mean == pytest.approx(2 / 3, abs=1e-6)
    assert own["rephrase", "probability_difference"].mean == -0.25
    assert own["locality", "bleedover"].mean == 0.125
    assert own["locality", "probability"].mean == 0.5625
    assert ("locality", "probability_success") not in own
    interval = own["update", "probability_success"]
    assert interval.low is not None
    assert interval.low < interval.mean < interval.high, "clustered by relation, of which there are three"
    assert not [score for score in scores if score.stage == "before" and score.metric == "bleedover"]


def test_empty_answers_are_counted_beside_every_free_score(tmp_path: Path) -> None:
    answers = [answer(case(number), text=text) for number, text in enumerate(["", " ", "Ottawa", ""], start=1)]
    scores = measure_run(write_run(tmp_path / "run", [*answers, answer(case(9), of=SYNTHETIC, text="")])).scores
    (empty,) = [score for score in scores if score.metric == "empty" and score.timestep]
    assert (empty.preset, empty.mean, empty.n) == ("wild", 0.75, 4)


def test_scores_name_the_training_format_and_the_cases(tmp_path: Path) -> None:
    def measured(name: str, cases: list[int], **spec: object) -> RunScores:
        answers = [answer(case(number), after=after) for number in cases for after in (None, T1)]
        return measure_run(write_run(tmp_path / name, answers, **spec))

    one, other = measured("one", [1, 2]), measured("other", [2, 1], train_context="asked")
    assert (one.train_context, other.train_context) == ("question_only", "asked")
    assert one.cases_sha256 == other.cases_sha256 != measured("third", [1, 3]).cases_sha256


def test_a_repeated_answer_counts_once_and_is_reported(tmp_path: Path) -> None:
    once = asked([1, 0])
    scores = measure_run(write_run(tmp_path / "run", [*once, *asked([0])]))
    assert (scores.answers, scores.repeated) == (2, 1)
    assert find(scores.scores, stage="own", timestep=T1, metric="exact_match").mean == 0.5


def test_retention_matrix_forgetting_and_backward_transfer(tmp_path: Path) -> None:
    answers = [
        *asked([1, 1, 1, 1], after=T1, timestep=T1),
        *asked([0, 0, 0, 1], after=T1, timestep=T3),
        *asked([1, 1, 0, 0], after=T2, timestep=T1),
        *asked([1, 1, 1, 0], after=T2, timestep=T2),
        *asked([1, 1, 1, 0], after=T3, timestep=T1),
        *asked([1, 1, 1, 1], after=T3, timestep=T2),
        *asked([1, 0, 0, 0], after=T3, timestep=T3),
    ]
    scores = measure_run(write_run(tmp_path / "run", answers))
    (retention,) = scores.retention
    assert scores.timesteps == (T1, T2, T3)
    assert retention.matrix == ((1.0, None, 0.25), (0.5, 0.75, None), (0.75, 1.0, 0.25))
    assert retention.forgetting == pytest.approx(((1.0 - 0.75) + (0.75 - 1.0)) / 2)
    assert retention.backward_transfer == pytest.approx(((0.75 - 1.0) + (1.0 - 0.75)) / 2)
    means = {
        (score.stage, score.model_state and score.model_state.timestep, score.timestep): score.mean
        for score in scores.scores
        if score.metric == "exact_match"
    }
    assert means["ahead", T1, T3] == 0.25
    assert means["retained", T3, T2] == 1.0
    assert means["own", None, None] == pytest.approx((4 + 3 + 1) / 12, abs=1e-6)
    assert means["final", None, None] == pytest.approx((3 + 4 + 1) / 12, abs=1e-6)


def test_forgetting_is_measured_from_the_best_score_and_not_from_the_first(tmp_path: Path) -> None:
    answers = [
        *asked([1, 0, 0, 0], after=T1, timestep=T1),
        *asked([1, 1, 1, 0], after=T2, timestep=T1),
        *asked([1, 1, 1, 1], after=T2, timestep=T2),
        *asked([1, 1, 0, 0], after=T3, timestep=T1),
        *asked([1, 1, 1, 1], after=T3, timestep=T2),
        *asked([1, 1, 1, 1], after=T3, timestep=T3),
    ]
    (retention,) = measure_run(write_run(tmp_path / "run", answers)).retention
    assert retention.matrix == ((0.25, None, None), (0.75, 1.0, None), (0.5, 1.0, 1.0))
    assert retention.forgetting == pytest.approx(((0.75 - 0.5) + (1.0 - 1.0)) / 2)
    assert retention.backward_transfer == pytest.approx(((0.5 - 0.25) + (1.0 - 1.0)) / 2)


def test_final_is_left_out_when_earlier_timesteps_were_not_asked_again(tmp_path: Path) -> None:
    answers = [*asked([1, 1], after=T1, timestep=T1), *asked([0, 1], after=T2, timestep=T2)]
    scores = measure_run(write_run(tmp_path / "run", answers))
    assert {score.stage for score in scores.scores} == {"own"}
    assert scores.retention[0].matrix == ((1.0, None), (None, 0.5))
    assert scores.retention[0].forgetting is None


def test_retrieval_is_scored_for_each_hop_and_for_both(tmp_path: Path) -> None:
    def hop(number: int, text: str, *retrieved: str) -> Answer:
        second = case(number + 50)
        return answer(case(number), axis="mhop", text=text, retrieved=retrieved, second_case_id=second)

    answers = [
        hop(1, "Justin Trudeau", case(51), case(1)),
        hop(2, "Ottawa", case(2)),
        hop(3, "Justin Trudeau", case(53), case(539)),
        *asked([1], retrieved=(case(1),)),
        *asked([1], after=None),
    ]
    scores = measure_run(write_run(tmp_path / "run", answers))
    update, mhop = scores.retrieval
    assert (update.axis, update.first_hop, update.second_hop, update.both_hops) == ("update", 1.0, None, None)
    assert update.accuracy_when_found == 1.0
    assert mhop.n == 3
    assert (mhop.first_hop, mhop.second_hop) == (pytest.approx(2 / 3, abs=1e-6), pytest.approx(2 / 3, abs=1e-6))
    assert mhop.both_hops == pytest.approx(1 / 3, abs=1e-6)
    assert mhop.accuracy_when_found == 1.0


def test_a_second_hop_that_is_no_case_counts_for_nothing(tmp_path: Path) -> None:
    answers = [answer(case(1), axis="mhop", retrieved=(case(1), case(51)))]
    (mhop,) = measure_run(write_run(tmp_path / "run", answers)).retrieval
    assert (mhop.first_hop, mhop.second_hop, mhop.both_hops, mhop.accuracy_when_found) == (1.0, None, None, None)


def test_an_id_that_several_timesteps_share_is_retrieved_with_its_own_timestep(tmp_path: Path) -> None:
    answers = [
        answer(axis="mhop", question="1?", retrieved=(f"{T2}\t{case(1)}",), case_id=case(1), second_case_id=case(2)),
        answer(axis="mhop", question="2?", retrieved=(f"{T1}\t{case(1)}", f"{T1}\t{case(2)}"), case_id=case(1),
               second_case_id=case(2)),
    ]  # fmt: skip
    folder = write_run(tmp_path / "run", answers)
    (mhop,) = measure_run(folder).retrieval
    assert (mhop.first_hop, mhop.second_hop, mhop.both_hops) == (0.5, 0.5, 0.5)
    table = pq.read_table(write_scores(folder).with_name("answers.parquet"))
    assert table["first_found"].to_pylist() == table["second_found"].to_pylist() == [False, True]


def test_edit_costs_and_speed_add_up(tmp_path: Path) -> None:
    costs = [
        cost([case(1), case(2)]),
        cost([case(2)], seconds=1.0, peak_memory_bytes=2 * 10**9),
        cost([case(3), case(4), case(5)], failures=(EditFailure(case_id=case(4), reason="no subject"),)),
    ]
    scores = measure_run(write_run(tmp_path / "run", [*asked([1, 1]), *asked([1, 0], after=None)], costs))
    edits = scores.edits
    assert (edits.edits, edits.failed, edits.calls, edits.edits_given) == (4, 1, 3, 6)
    assert (edits.seconds, edits.cpu_seconds, edits.peak_memory_bytes) == (5.0, 4.5, 2 * 10**9)
    before, after = scores.speed
    assert (before.preset, before.edited, before.questions, before.seconds) == ("wild", False, 2, 1.0)
    assert (after.edited, after.questions, after.seconds, after.new_tokens) == (True, 2, 1.0, 6)


def test_replies_from_the_cache_count_in_no_time(tmp_path: Path) -> None:
    answers = [*asked([1, 1], after=None), *asked([1, 1, 0, 0], after=None)[2:], *asked([1] * 4)]
    answers[2] = replace(answers[2], seconds=0.0)
    before, after = measure_run(write_run(tmp_path / "run", answers)).speed
    assert (before.questions, before.cached, before.seconds, before.new_tokens) == (3, 1, 1.5, 9)
    assert (after.questions, after.cached) == (4, 0)


def test_the_same_run_gives_the_same_bytes_whatever_the_order_of_lines(tmp_path: Path) -> None:
    answers = [*asked([0, 0, 1, 0, 1], after=None), *asked([1, 1, 0, 1, 1])]
    one = write_scores(write_run(tmp_path / "one", answers)).read_bytes()
    assert write_scores(tmp_path / "one").read_bytes() == one
    other = json.loads(write_scores(write_run(tmp_path / "other", answers[::-1])).read_bytes())
    assert {**other, "answers_sha256": ""} == {**json.loads(one), "answers_sha256": ""}
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == [
        "SHA256SUMS",
        "answers.jsonl",
        "answers.parquet",
        "edits.jsonl",
        "environment.json",
        "scores.json",
        "spec.yaml",
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (answer(preset="mild"), "preset 'mild', which spec.yaml in the same folder does not"),
        (answer(generation="teacher_forcing", preset="wild_forced"), "preset 'wild_forced'"),
        (answer(generation="greedy", preset="forced"), "probability cannot judge"),
    ],
)
def test_an_answer_that_cannot_be_scored_is_an_error(tmp_path: Path, wrong: Answer, message: str) -> None:
    forced = replace(SYNTHETIC, name="forced", metric="probability")
    with pytest.raises(TimestepError, match=message):
        measure_run(write_run(tmp_path / "run", [wrong], presets=(SYNTHETIC, WILD, forced)))


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", asked([1, 1]))
    path = run / "answers.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TimestepError, match=r"Line 2 of .*answers\.jsonl is not a valid Answer"):
        measure_run(run)
    write_lines(path, [cost()])
    with pytest.raises(TimestepError, match="Line 1"):
        measure_run(run)


def test_what_is_no_run_or_not_finished_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TimestepError, match="There is no run"):
        measure_run(tmp_path / "nowhere")
    with pytest.raises(TimestepError, match="is not a run"):
        read_scores(tmp_path)
    run = write_run(tmp_path / "run", asked([1]))
    with pytest.raises(TimestepError, match="is not finished"):
        read_scores(run)
    write_scores(run)
    write_lines(run / "answers.jsonl", asked([1, 1]))
    with pytest.raises(TimestepError, match="does not belong to"):
        read_scores(run)
    (run / "spec.yaml").write_text("method: 3\n", encoding="utf-8")
    with pytest.raises(TimestepError, match="is not a spec of a run"):
        measure_run(run)
    (run / "answers.jsonl").unlink()
    with pytest.raises(TimestepError, match=r"no answers\.jsonl"):
        read_scores(run)
