"""Runs for a board: a complete run gives the same bytes each time; every change to it is found and reported."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from world.small_runs import write_lines
from world.small_timestep import OLD_MAYORS
from world.submitted_runs import write_hashed_timestep, write_submittable

from kgedit.analysis.leaderboard import standings_of
from kgedit.errors import SubmissionError, TimestepError
from kgedit.records.runs import Answer
from kgedit.runs.run_files import read_answers
from kgedit.runs.scoring import write_scores
from kgedit.runs.submissions.board import read_board
from kgedit.runs.submissions.entries import read_entry, read_full_answers
from kgedit.runs.submissions.local_paths import context_without_folder, is_context_file, settings_without_folders
from kgedit.timesteps.timestep import Timestep
from kgedit.verbs.publish import leaderboard, submit

BY = {"submitter": "A. Researcher", "date": "2026-11-23"}


@pytest.fixture(scope="module")
def timestep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hashed_timestep(tmp_path_factory.mktemp("benchmark") / "mayors").folder


@pytest.fixture(scope="module")
def whole(timestep: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without a fault."""
    return write_submittable(tmp_path_factory.mktemp("runs") / "ft_m", Timestep.open(timestep), right=6)


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(whole, tmp_path / "ft_m"))


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def reasons(run: Path, board: Path, **options: object) -> str:
    """Why a run is refused; nothing is written then."""
    with pytest.raises(SubmissionError) as refused:
        submit(run, board, **options)  # type: ignore[arg-type]
    assert not list(board.glob("entries/[a-z]*"))
    return "\n".join(refused.value.reasons)


def change_answers(run: Path, change: Callable[[list[Answer]], list[Answer]], *, rescore: bool = True) -> None:
    write_lines(run / "answers.jsonl", change(list(read_answers(run))))
    if rescore:
        write_scores(run)


def test_a_whole_run_gives_an_entry_with_every_answer(whole: Path, tmp_path: Path) -> None:
    made = submit(whole, tmp_path, **BY)
    assert made.is_new
    assert re.fullmatch(r"ft_m-smollm2-135m-per_timestep-seed7-[0-9a-f]{12}", made.folder.name)
    assert {path.name for path in made.folder.iterdir()} == {"entry.json", "answers.parquet", "cases.parquet"}
    assert list(read_full_answers(made.folder / "answers.parquet")) == list(read_answers(whole))
    assert read_entry(made.folder).run.scores == made.submission.scores


def test_an_entry_holds_no_path_of_the_machine(whole: Path, tmp_path: Path) -> None:
    folder = submit(whole, tmp_path, **BY).folder
    assert str(whole.parent.parent) not in (folder / "entry.json").read_text(encoding="utf-8")


def with_files(run: Path, folder: str, *, content: str = "cc", seed: int = 7) -> Path:
    """The run with a corpus and a context for training and questions in files of a folder."""
    for name, changes in {
        "spec.yaml": {
            "settings: {}": f"settings: {{corpus: 'prose,{folder}/corpus.txt'}}",
            "context: instruction": f"context: {folder}/plain.txt",
            "train_context: question_only": f"train_context: chat:{folder}/plain.txt",
            "seed: 7": f"seed: {seed}",
        },
        "answers.jsonl": {'"context":"instruction"': f'"context":"{folder}/plain.txt"'},
        "prepared.json": {'"steps":25': f'"steps":25,"corpus":"prose,{folder}/corpus.txt"'},
        "environment.json": {
            '"steps":25': f'"steps":25,"corpus":"prose,{folder}/corpus.txt"',
            '"wild":"bb"': f'"wild":"{content}"',
            '"trained_in":[]': f'"trained_in":[{{"name":"chat:{folder}/plain.txt","sha256":"d{content}"}}]',
            '"seed":7': f'"seed":{seed}',
        },
    }.items():
        text = (run / name).read_text(encoding="utf-8")
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        (run / name).write_text(text, encoding="utf-8")
    write_scores(run)
    return run


def test_an_entry_names_files_without_their_folders(run: Path, tmp_path: Path) -> None:
    folder = submit(with_files(run, "/home/ada/mine"), tmp_path / "board", **BY).folder
    assert "/home/ada" not in (folder / "entry.json").read_text(encoding="utf-8")
    assert {one.context for one in read_full_answers(folder / "answers.parquet")} == {"question_only", "plain.txt"}
    shown = read_entry(folder).submission
    assert shown.spec.settings == {"corpus": "prose,corpus.txt"}
    assert shown.preparation is not None
    assert shown.preparation.settings == shown.environment.settings == {"steps": 25, "corpus": "prose,corpus.txt"}
    assert [one.context for one in shown.spec.presets] == ["question_only", "plain.txt"]
    assert shown.spec.train_context == shown.scores.train_context == "chat:plain.txt"


def test_an_embedder_of_the_hub_keeps_its_whole_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "minilm").mkdir(parents=True)
    for embedder, shown in (
        ("sentence-transformers/all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"),
        ("models/minilm", "minilm"),
        ("/home/ada/minilm", "minilm"),
        ("../minilm", "minilm"),
        ("~/minilm", "minilm"),
        ("my/own/minilm", "minilm"),
    ):
        assert settings_without_folders({"embedder": embedder, "k": 2}) == {"embedder": shown, "k": 2}
    assert settings_without_folders({"corpus": "mine/corpus.txt"}) == {"corpus": "corpus.txt"}


def test_a_run_whose_embedder_is_in_a_folder_counts_once_from_any_folder(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, old, new in (
        ("spec.yaml", "settings: {}", "settings: {embedder: models/minilm}"),
        ("prepared.json", '"steps":25', '"steps":25,"embedder":"models/minilm"'),
        ("environment.json", '"steps":25', '"steps":25,"embedder":"models/minilm"'),
    ):
        (run / name).write_text((run / name).read_text(encoding="utf-8").replace(old, new), "utf-8")
    (tmp_path / "models" / "minilm").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    entry = submit(run, tmp_path / "board", **BY).folder
    assert read_entry(entry).submission.spec.settings == {"embedder": "minilm"}
    monkeypatch.chdir(tmp_path / "models")
    assert [one.run.folder for one in read_board([run, tmp_path / "board"]).runs] == [entry]


@pytest.mark.parametrize("name", ["question_only", "chat:question_only", "chat", "/home/ada/question_only"])
def test_a_context_is_as_different_from_others_without_its_folder(name: str) -> None:
    short = context_without_folder(name)
    assert short == (name if "/" not in name else "./question_only") == context_without_folder(short)
    assert is_context_file(short) is is_context_file(name) is ("/" in name)


def test_contexts_of_runs_are_compared_by_content(whole: Path, tmp_path: Path) -> None:
    for seed, (folder, content) in enumerate([("/home/ada", "cc"), ("/home/bea/other", "cc"), ("/home/cid", "ee")]):
        copy = Path(shutil.copytree(whole, tmp_path / "runs" / f"ft_m{seed}"))
        with_files(copy, folder, content=content, seed=seed)
        if seed == 0:
            submit(copy, tmp_path / "board", **BY)
            shutil.rmtree(copy)
    runs = read_board([tmp_path / "board", tmp_path / "runs"]).runs
    assert [one.run.spec.train_context for one in runs] == ["chat:plain.txt (dcc)"] * 2 + ["chat:plain.txt (dee)"]
    assert [one.run.spec.presets[1].context for one in runs] == ["plain.txt (cc)"] * 2 + ["plain.txt (ee)"]
    groups = {one.group: one for one in standings_of([one.run for one in runs])}
    assert [sum(len(row.variant.runs) for row in one.rows) for one in groups.values()] == [2, 1]


def test_a_run_counts_once_as_an_entry_or_else_as_the_first_of_its_copies(run: Path, tmp_path: Path) -> None:
    with_files(run, "/home/ada/mine")
    entry = submit(run, tmp_path / "board", **BY).folder
    copy = Path(shutil.copytree(run, tmp_path / "copies" / "b"))
    other = Path(shutil.copytree(run, tmp_path / "copies" / "c"))
    (other / "spec.yaml").write_text((other / "spec.yaml").read_text("utf-8").replace("seed: 7", "seed: 8"), "utf-8")
    write_scores(other)
    of_all = read_board([run, tmp_path / "copies", tmp_path / "board"])
    assert {one.run.folder for one in of_all.runs} == {entry, other}
    assert of_all.left_out == dict.fromkeys((run, copy), (f"the same run as entries/{entry.name}",))
    of_folders = read_board([run, tmp_path / "copies"])
    assert {one.run.folder for one in of_folders.runs} == {run, other}
    assert of_folders.left_out == {copy: (f"the same run as {tmp_path.name}/ft_m",)}


def test_of_entries_and_folders_of_a_run_the_one_with_the_most_metrics_counts(run: Path, tmp_path: Path) -> None:
    board = tmp_path / "board"
    first = submit(run, board, **BY).folder
    write_scores(run, also=("rouge_l",))
    assert [one.run.folder for one in read_board([board, run]).runs] == [run]
    second = submit(run, board, **BY).folder
    both = read_board([board, run])
    assert [one.run.folder for one in both.runs] == [second]
    assert both.left_out == dict.fromkeys((first, run), (f"the same run as entries/{second.name}",))


def test_the_same_run_gives_the_same_bytes_and_one_entry(whole: Path, tmp_path: Path) -> None:
    first = bytes_of(submit(whole, tmp_path / "one", **BY).folder.parent)
    assert bytes_of(submit(whole, tmp_path / "other", **BY).folder.parent) == first
    again = submit(whole, tmp_path / "one", submitter="Somebody else", date="2027-01-01")
    assert not again.is_new
    assert bytes_of(tmp_path / "one" / "entries") == first
    said = submit(whole, tmp_path / "one", submitter="Somebody else", date="2027-01-01", overwrite=True)
    assert said.submission.statement.submitter == "Somebody else"
    assert len(list((tmp_path / "one" / "entries").glob("ft*"))) == 1


def test_a_changed_answer_is_found(run: Path, tmp_path: Path) -> None:
    path = run / "answers.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace('"text":"Nobody"', '"text":"Olof Gren"', 1), "utf-8")
    assert "does not belong to the answers.jsonl" in reasons(run, tmp_path / "board")


def test_scores_that_do_not_follow_from_the_answers_are_found(run: Path, tmp_path: Path) -> None:
    path = run / "scores.json"
    scores = json.loads(path.read_bytes())
    (score,) = [
        one
        for one in scores["scores"]
        if (one["stage"], one["axis"], one["preset"], one["timestep"], one["main"])
        == ("own", "update", "wild", None, True)
    ]
    assert score["mean"] == 0.6
    score["mean"] = 0.9
    path.write_text(json.dumps(scores), encoding="utf-8")
    assert "scores that do not follow from the answers: 1; the first: own update wild exact_match is 0.9000" in reasons(
        run, tmp_path / "board"
    )


def test_an_accepted_answer_that_the_timestep_does_not_have_is_found_though_scored_again(
    run: Path, tmp_path: Path
) -> None:
    def accept(answers: list[Answer]) -> list[Answer]:
        return [dataclasses.replace(one, answers=(*one.answers, "Nobody")) for one in answers]

    change_answers(run, accept)
    assert "answers whose list of accepted answers is not that of timestep and spec: 200" in reasons(
        run, tmp_path / "board"
    )


def test_a_missing_answer_and_a_preset_that_was_not_asked_are_found(run: Path, tmp_path: Path) -> None:
    change_answers(run, lambda answers: answers[1:])
    result = reasons(run, tmp_path / "board")
    assert (
        "questions without an answer in answers.jsonl: 1; the first: Q100:P6:Q20, update, preset synthetic, before"
        in result
    )
    change_answers(run, lambda answers: [one for one in answers if one.preset == "synthetic"])
    assert "questions without an answer in answers.jsonl: 101" in reasons(run, tmp_path / "board")


def test_a_removed_case_is_found(run: Path, tmp_path: Path) -> None:
    """Removed everywhere in the run's own files, and scored again: the spec chooses it all the same."""
    gone = "Q103:P6:Q23"
    change_answers(run, lambda answers: [one for one in answers if one.case_id != gone])
    names = (run / "edited_cases.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    (run / "edited_cases.txt").write_text("".join(line for line in names if gone not in line), encoding="utf-8")
    table = pq.read_table(run / "cases.parquet")
    pq.write_table(table.filter([name != gone for name in table["case_id"].to_pylist()]), run / "cases.parquet")
    result = reasons(run, tmp_path / "board")
    assert "questions without an answer in answers.jsonl: 20" in result
    assert "1 are missing, 0 are not among them, of 10" in result
    assert "cases.parquet does not contain the edited cases" in result


def test_another_timestep_and_a_changed_table_are_found(run: Path, timestep: Path, tmp_path: Path) -> None:
    other = write_hashed_timestep(tmp_path / "other", names=OLD_MAYORS)
    assert "is not the timestep of the run" in reasons(run, tmp_path / "board", timesteps=[other.folder])
    copy = Path(shutil.copytree(timestep, tmp_path / "copy"))
    assert submit(run, tmp_path / "fine", timesteps=[copy]).is_new
    shutil.copyfile(other.folder / "cases.parquet", copy / "cases.parquet")
    assert "cases.parquet is damaged: its content is not what kgedit wrote" in reasons(
        run, tmp_path / "board", timesteps=[copy]
    )


def test_a_timestep_that_lies_elsewhere_is_asked_for(run: Path, tmp_path: Path) -> None:
    result = reasons(run, tmp_path / "board", timesteps=[tmp_path / "nowhere"])
    assert "Give the current path of 20200101_20210101: --timestep FOLDER" in result


@pytest.mark.parametrize(
    ("name", "old", "new", "reason"),
    [
        ("environment.json", '"kgedit":"0.1.0"', '"kgedit":null', "does not record kgedit's version"),
        ("environment.json", '"28bd84d1"', '""', "does not record the hash of the model's weights"),
        ("environment.json", '"seed":7', '"seed":8', "the seed is 7 in spec.yaml and 8 in environment.json"),
        ("environment.json", '"wild":"bb"', '"tame":"bb"', "no hash of the context of wild"),
        ("spec.yaml", "settings: {}", "settings: {steps: 99}", "sets steps to other values"),
        ("edits.jsonl", '"Q100:P6:Q20",', "", "cases that edits.jsonl did not edit: 1"),
        ("selection.json", '"edited":10', '"edited":9', "selection.json does not record the numbers"),
    ],
)
def test_what_a_run_does_not_say_of_itself_or_says_twice_is_found(
    run: Path, tmp_path: Path, name: str, old: str, new: str, reason: str
) -> None:
    text = (run / name).read_text(encoding="utf-8")
    assert old in text
    (run / name).write_text(text.replace(old, new), encoding="utf-8")
    assert reason in reasons(run, tmp_path / "board")


def test_every_reason_is_told_at_once(run: Path, tmp_path: Path) -> None:
    (run / "prepared.json").unlink()
    (run / "selection.json").unlink()
    (run / "environment.json").write_text(
        (run / "environment.json").read_text(encoding="utf-8").replace('"seed":7', '"seed":8'), encoding="utf-8"
    )
    result = reasons(run, tmp_path / "board")
    assert all(part in result for part in ("prepared.json is missing", "selection.json", "the seed is 7"))


def test_an_unfinished_run_is_refused(run: Path, tmp_path: Path) -> None:
    (run / "scores.json").unlink()
    assert "is not finished" in reasons(run, tmp_path / "board")


@pytest.mark.parametrize("hashed", [False, True])
def test_an_entry_that_was_changed_on_the_board_is_not_shown(whole: Path, tmp_path: Path, hashed: bool) -> None:
    """Also when somebody puts the new file's hash into entry.json: the scores do not follow from the answers."""
    folder = submit(whole, tmp_path, **BY).folder
    path = folder / "answers.parquet"
    table = pq.read_table(path)
    texts = [text.replace("Nobody", "Olof Gren") for text in table["text"].to_pylist()]
    place = table.schema.get_field_index("text")
    pq.write_table(table.set_column(place, "text", [texts]), path)
    if hashed:
        entry = json.loads((folder / "entry.json").read_bytes())
        entry["files"]["answers.parquet"] = hashlib.sha256(path.read_bytes()).hexdigest()
        (folder / "entry.json").write_text(json.dumps(entry), encoding="utf-8")
    with pytest.raises(SubmissionError, match="that do not follow from the answers" if hashed else "was changed"):
        read_entry(folder)


def test_an_entry_of_an_earlier_format_is_named_and_replaced_on_request(whole: Path, tmp_path: Path) -> None:
    folder = submit(whole, tmp_path, **BY).folder
    content = json.loads((folder / "entry.json").read_text(encoding="utf-8"))
    del content["scores"]["intervals"]
    (folder / "entry.json").write_text(json.dumps(content | {"format": "kgedit-entry-1"}), encoding="utf-8")
    with pytest.raises(SubmissionError, match=r"its format is kgedit-entry-1, .* Submit the run again: overwrite=True"):
        read_entry(folder)
    assert read_entry(submit(whole, tmp_path, overwrite=True, **BY).folder).submission.format == "kgedit-entry-2"


def change_entry(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    entry = json.loads((folder / "entry.json").read_bytes())
    change(entry)
    (folder / "entry.json").write_text(json.dumps(entry), encoding="utf-8")


@pytest.mark.parametrize("name", ["../secret.txt", "../../../../../../../../etc/passwd", "/etc/passwd", "..", "linked"])
def test_a_file_that_is_not_the_entrys_own_is_not_opened(whole: Path, tmp_path: Path, name: str) -> None:
    """Neither its hash nor whether it is there is reported."""
    folder = submit(whole, tmp_path / "board", **BY).folder
    (folder.parent / "secret.txt").write_text("secret")
    (folder / "linked").symlink_to("/etc/passwd")
    change_entry(folder, lambda entry: entry["files"].update({name: "0" * 64}))
    with pytest.raises(SubmissionError) as refused:
        read_entry(folder)
    assert refused.value.reasons == (f"{name!r} is not a file of the entry's own: it was not opened",)


def test_an_entry_without_the_hash_of_its_answers_is_not_shown(whole: Path, tmp_path: Path) -> None:
    folder = submit(whole, tmp_path / "board", **BY).folder
    change_entry(folder, lambda entry: entry["files"].clear())
    with pytest.raises(SubmissionError, match=r"no hash of answers\.parquet"):
        read_entry(folder)


@pytest.mark.parametrize(
    ("report", "shown"),
    [
        ("https://example.org/report.html", True),
        ("http://example.org/report", True),
        ("javascript:alert(document.domain)", False),
        (" javascript:alert(1)", False),
        ("JaVaScRiPt:alert(1)", False),
        ("data:text/html,<script>alert(1)</script>", False),
        ("//example.org/report", False),
        ("file:///etc/passwd", False),
        ("../../etc/passwd", False),
        ("https://example.org/\u202egro.elpmaxe", False),
    ],
)
@pytest.mark.slow
def test_only_web_addresses_become_links_of_a_board(whole: Path, tmp_path: Path, report: str, shown: bool) -> None:
    folder = submit(whole, tmp_path / "board", **BY).folder
    change_entry(folder, lambda entry: entry["statement"].update(report=report))
    made = leaderboard(tmp_path / "board", html=tmp_path / "board.html")
    assert [one.report for one in made.board.runs] == [report if shown else None]
    page = (tmp_path / "board.html").read_text(encoding="utf-8")
    assert (f'href="{report}"' in page) is shown
    assert ("report</a>" in page) is shown


def test_a_report_that_is_no_web_address_cannot_be_submitted(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(TimestepError, match="neither an address"):
        submit(whole, tmp_path / "board", report="javascript:alert(1)", **BY)
