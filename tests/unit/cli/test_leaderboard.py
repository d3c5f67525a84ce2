"""`kgedit submit` and `kgedit leaderboard`: runs on a board, ranked, with ties where answers do not differ enough."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from world.hostile import HOSTILE
from world.page_runs import NAMES, write_page_run
from world.small_runs import SPEC
from world.submitted_runs import write_hashed_timestep, write_submittable

from kgedit.analysis.leaderboard import Standings, standings_of
from kgedit.cli import main
from kgedit.runs.run_files import read_runs


def command(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def submitted(run: Path, board: Path, *more: str) -> Path:
    result = command("submit", run, "--to", board, "--date", "2026-11-23", *more)
    assert result.exit_code == 0, result.output
    return Path(result.stdout.strip())


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of ten updates memit answers all, with either of two seeds; ft_m six, lora five, rank 64 none."""
    folder = tmp_path_factory.mktemp("board")
    step = write_hashed_timestep(folder / "timesteps" / "mayors")
    for name, options in {
        "memit0": {"method": "memit", "right": 10, "seed": 0},
        "memit1": {"method": "memit", "right": 10, "seed": 1},
        "ft_m": {"right": 6},
        "lora": {"method": "lora", "right": 5},
        "lora64": {"method": "lora", "right": 0, "rank": 64},
    }.items():
        run = write_submittable(folder / "runs" / name, step, **options)  # type: ignore[arg-type]
        submitted(run, folder / "board", "--by", HOSTILE[0], "--report", f"https://example.org/{name}.html")
    return folder / "board"


@pytest.fixture(scope="module")
def document(board: Path) -> Any:
    result = command("leaderboard", board, "--format", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def ranks(document: Any, preset: str, measure: str) -> dict[str, tuple[int, int]]:
    (group,) = [one for one in document["groups"] if one["preset"] == preset]
    placed = {row["name"]: row["measures"][measure] for row in group["rows"]}
    return {name: (one["first_rank"], one["last_rank"]) for name, one in placed.items()}


def test_ranks_are_ranges_where_differences_are_not_significant(document: Any) -> None:
    """One relation, Holm over six pairs: 10 against 0 of ten is p = 0.01; 10 against 6 is 0.38, 6 against 0 is 0.16."""
    assert ranks(document, "wild", "efficacy") == {
        "memit": (1, 3),
        "ft_m": (1, 4),
        "lora (defaults)": (1, 4),
        "lora (rank 64)": (2, 4),
    }
    assert ranks(document, "wild", "damage") == dict.fromkeys(ranks(document, "wild", "efficacy"), (1, 4))


def test_a_row_holds_runs_that_differ_in_their_seed_and_each_number_its_interval(document: Any) -> None:
    (group,) = [one for one in document["groups"] if one["preset"] == "wild"]
    first = group["rows"][0]
    assert (first["name"], first["seeds"], len(first["runs"])) == ("memit", [0, 1], 2)
    efficacy = first["measures"]["efficacy"]
    assert (efficacy["mean"], efficacy["high"], efficacy["n"]) == (1.0, 1.0, 10)
    assert efficacy["low"] == pytest.approx(0.6615, abs=1e-4)  # Wilson's of ten of ten with Student's quantile
    assert first["measures"]["generalization"]["n"] == 20
    assert group["before_any_edit"]["efficacy"]["mean"] == 0.0


def test_free_decoding_stands_beside_teacher_forcing(document: Any) -> None:
    assert [one["key"] for one in document["groups"]] == ["1.wild", "1.synthetic"]
    forced = document["groups"][1]
    assert forced["free_preset"] == "wild"
    assert forced["rows"][1]["measures"]["free_decoding"]["mean"] == 0.6


def test_every_run_has_its_provenance(document: Any) -> None:
    runs = {run["name"]: run for run in document["runs"]}
    assert len(runs) == 5
    run = next(iter(runs.values()))
    assert (run["submitter"], run["date"], run["kgedit"]) == (HOSTILE[0], "2026-11-23", "0.1.0")
    assert run["git_commit"].startswith("8653356b")
    assert run["model_fingerprint"] == "28bd84d1"
    assert run["report"].startswith("https://example.org/")
    assert len(run["timesteps"][0]["sha256"]) == 64


def test_csv_and_markdown_hold_the_same_numbers(board: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(command("leaderboard", board, "--format", "csv").stdout)))
    (row,) = [one for one in rows if (one["name"], one["preset"], one["measure"]) == ("ft_m", "wild", "efficacy")]
    assert (row["mean"], row["n"], row["first_rank"], row["last_rank"]) == ("0.6", "10", "1", "4")
    text = command("leaderboard", board, "--format", "markdown").stdout
    assert "# Leaderboard" in text
    assert "100.0 [66.1, 100.0] | 1-3 |" in text


@pytest.mark.slow
def test_the_page_sorts_by_numbers_and_shows_untrusted_words_as_text(board: Path, tmp_path: Path) -> None:
    page, again = tmp_path / "board.html", tmp_path / "again.html"
    for path in (page, again):
        result = command("leaderboard", board, "--html", path)
        assert f"Written: {path}" in result.stderr
    html = page.read_text(encoding="utf-8")
    assert html == again.read_text(encoding="utf-8")
    assert HOSTILE[0] not in html
    assert "default-src &#39;none&#39;" in html
    assert 'data-sort="0.6"' in html
    assert "kinds of change: unknown" in html  # the timestep is a file's: no kind was ever found
    assert " (unknown); " in command("leaderboard", board, "--format", "markdown").stdout
    assert "#1–3" in html
    assert 'href="https://example.org/memit0.html"' in html
    assert command("leaderboard", board, "--html", page).exit_code == 0  # the same page is no replacement
    page.write_text("another", encoding="utf-8")
    assert "Replace it: --overwrite" in command("leaderboard", board, "--html", page).stderr


def test_outputs_that_would_replace_each_other_are_refused(board: Path, tmp_path: Path) -> None:
    same = tmp_path / "board.out"
    for options in (("--html", "--markdown"), ("--csv", "--json")):
        result = command("leaderboard", board, options[0], same, options[1], tmp_path / "." / "board.out")
        assert result.exit_code == 1
        assert f"Two outputs have the same path: {same}" in result.stderr
    assert not same.exists()


def test_an_entry_that_was_changed_is_left_out_and_told(board: Path, tmp_path: Path) -> None:
    import shutil

    copy = Path(shutil.copytree(board, tmp_path / "board"))
    (changed,) = copy.glob("entries/ft_m-*")
    (changed / "cases.parquet").write_bytes(b"")
    result = command("leaderboard", copy, "--html", tmp_path / "page.html", "--format", "json")
    assert f"Left out: {changed.name}: cases.parquet was changed" in result.stderr
    assert len(json.loads(result.stdout)["runs"]) == 4
    assert "cases.parquet was changed" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_refused_run_is_one_message_with_every_reason(board: Path, tmp_path: Path) -> None:
    run = write_page_run(tmp_path / "old", NAMES)
    result = command("submit", run, "--to", tmp_path / "board")
    assert result.exit_code == 1
    assert "cannot go onto the board:\n  - " in result.stderr
    assert not list((tmp_path / "board").glob("entries/*/"))


def _by_protocol(tmp_path: Path) -> list[Standings]:
    folders = [
        write_page_run(
            tmp_path / f"{method}-{protocol}", NAMES, method=method, protocol=protocol, right=right, relations=12
        )
        for method, right in (("rag", 1), ("ft_m", 100))
        for protocol in ("single", "sequential")
    ]
    return standings_of(read_runs(folders))


def test_protocols_are_ranked_apart(tmp_path: Path) -> None:
    found = _by_protocol(tmp_path)
    assert [(one.key, one.protocol) for one in found] == [
        ("1.wild", "single"),
        ("1.synthetic", "single"),
        ("2.wild", "sequential"),
        ("2.synthetic", "sequential"),
    ]
    assert {row.name: row.cells["efficacy"].rank for row in found[0].rows} == {"rag": "1", "ft_m": "2"}


def test_runs_that_were_not_submitted_are_ranked_too(tmp_path: Path) -> None:
    write_page_run(tmp_path / "runs" / "rag", NAMES)
    result = command("leaderboard", tmp_path / "runs")
    assert result.exit_code == 0, result.output
    assert re.search(r"rag +1 +85\.7", result.stdout), "of 100 % of the updates and 75 % of the unrelated answers"
    assert "contains neither entries of a board nor runs" in command("leaderboard", tmp_path).stderr


def test_a_seed_counts_once_and_rows_are_named_after_what_differs(tmp_path: Path) -> None:
    specs: dict[str, dict[str, Any]] = {
        "first": {"seed": 1},
        "again": {"seed": 1, "checkpoint_every": 3, "evaluate_every": 2},
        "other": {"seed": 2, "evaluate_every": 5},
        "wider": {"seed": 1, "batch_tokens": 9},
    }
    for name, spec in specs.items():
        write_page_run(tmp_path / "runs" / name, NAMES, method="ft_m", **spec)
    page = tmp_path / "board.html"
    found = command("leaderboard", tmp_path / "runs", "--format", "json", "--html", page)
    group = json.loads(found.stdout)["groups"][0]
    usual = SPEC.batch_tokens
    assert {row["name"]: (sorted(row["runs"]), row["repeated_runs"]) for row in group["rows"]} == {
        f"ft_m (batch_tokens {usual})": (["again", "other"], ["first"]),
        "ft_m (batch_tokens 9)": (["wider"], []),
    }
    assert "A seed counts once in a row; left out: first." in page.read_text(encoding="utf-8")
    assert "left out: first." in " ".join(command("leaderboard", tmp_path / "runs").stdout.split())


def _of_damage(tmp_path: Path, *, right: int = 1, **options: int | bool) -> Path:
    """ft_m answers every update and changes every unrelated answer; grace changes none."""
    for name, changed in (("ft_m", 1), ("grace", 0)):
        own = right if name == "grace" else 1
        folder = tmp_path / "runs" / name
        write_page_run(folder, NAMES, method=name, changed=changed, right=own, relations=12, **options)
    return tmp_path / "runs"


def test_a_method_that_damages_everything_ranks_below_one_that_damages_nothing(tmp_path: Path) -> None:
    (found, *_) = standings_of(read_runs(sorted(_of_damage(tmp_path).iterdir())))
    assert [row.name for row in found.rows] == ["grace", "ft_m"]
    cells = {row.name: row.cells for row in found.rows}
    assert {name: cell["efficacy"].rank for name, cell in cells.items()} == {"grace": "1-2", "ft_m": "1-2"}
    assert {name: cell["damage"].rank for name, cell in cells.items()} == {"grace": "1", "ft_m": "2"}
    assert {name: cell["overall"].rank for name, cell in cells.items()} == {"grace": "1", "ft_m": "2"}
    assert (cells["grace"]["overall"].estimate.mean, cells["ft_m"]["overall"].estimate.mean) == (1.0, 0.0)
    assert found.less_damage == {"ft_m": ("grace",), "grace": ()}


def _lead(runs: Path, page: Path) -> str:
    result = command("leaderboard", runs, "--html", page)
    assert result.exit_code == 0, result.output
    (lead, *_) = re.findall(r'<p class="lead">(.*?)</p>', page.read_text(encoding="utf-8"))
    return re.sub("<[^>]+>", "", lead)


def test_the_page_says_what_the_method_of_the_highest_efficacy_damages(tmp_path: Path) -> None:
    assert _lead(_of_damage(tmp_path, right=6), tmp_path / "board.html") == (
        "ft_m has the highest efficacy, 100 % of 12 updates, significantly above all others. It changes 100 % of the "
        "unrelated answers; grace changes significantly fewer. grace has the highest overall score, 28.6 %, "
        "significantly above all others."
    )


def test_the_page_states_a_difference_in_damage_where_no_update_is_answered(tmp_path: Path) -> None:
    assert _lead(_of_damage(tmp_path, free=False), tmp_path / "board.html") == (
        "No run answers any update. They differ in damage: ft_m changes 100 % of the unrelated answers, grace 0 %. "
        "grace changes significantly fewer than ft_m."
    )
