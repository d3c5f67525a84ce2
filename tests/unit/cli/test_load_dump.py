"""`kgedit load-dump` and `kgedit snapshots`: output, streams and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result
from world.dumps import entity, entity_value, lines, snak, statement, time_value, write_dump

from kgedit.cli import main
from kgedit.cli.progress import bars

HUMAN = statement(snak("P31", entity_value("Q5")))


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    items = [entity(f"Q{number}", HUMAN, label=f"item {number}") for number in range(1, 31)]
    return write_dump(tmp_path / "dump.json.gz", [*items, {"type": "lexeme", "id": "L1", "claims": []}])


def load(path: Path, *options: str) -> Result:
    return run("load-dump", str(path), "--date", "2021-01-04", "--no-graph", *options)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_a_load_says_what_it_read_and_left_out_on_stderr(dump: Path) -> None:
    result = load(dump)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines() == ["Snapshot 2021-01-04: 30 entities, 30 claims.", "  left out: 1 lexeme"]


def test_parts_of_a_load_say_what_they_did_and_load_dump_completes_them(dump: Path) -> None:
    def task(stage: str, *options: str) -> Result:
        return run("task", stage, str(dump), "--date", "2021-01-04", *options)

    early = task("finish")
    assert early.exit_code == 1
    assert "kgedit task parse" in early.output
    for part, blocks in (("1/2", 1), ("2/2", 0)):
        assert task("parse", "--part", part).stdout == f"parse, part {part}: {blocks} blocks done\n"
    assert task("gather").stdout == "gather, part 1/1: 1 buckets done\n"
    assert json.loads(task("finish", "--format", "json").stdout) == {"stage": "finish", "part": "1/1", "done": 1}
    assert load(dump).stderr.splitlines()[0] == "Snapshot 2021-01-04: 30 entities, 30 claims."


def test_parts_of_a_delta_need_no_dump_and_a_snapshot_before(tmp_path: Path, dump: Path) -> None:
    def task(stage: str, *options: str) -> Result:
        return run("task", stage, *options)

    load(dump)
    alone = task("delta", "--date", "2021-01-04")
    assert (alone.exit_code, "is the oldest snapshot" in alone.output) == (1, True)
    changed = write_dump(tmp_path / "newer.json", [entity("Q1", statement(snak("P31", entity_value("Q6"))))])
    run("load-dump", str(changed), "--date", "2023-02-27", "--no-graph")
    assert task("delta", "--date", "2023-02-27", "--part", "1/2").stdout == "delta, part 1/2: 1 buckets done\n"
    assert len(list((tmp_path / "home" / "delta" / "20230227").glob("parts-*/00000/facts_begun.parquet"))) == 1
    for given, message in (
        (("delta", str(dump)), "Leave out the path"),
        (("parse",), "Give its path"),
        (("parse", str(dump), "--engine", "spark"), "load-dump PATH --date DAY --engine spark"),
        (("delta", "--master", "local[2]"), "Add --engine spark"),
        (("delta", "--engine", "spark", "--part", "1/2"), "Leave out --part"),
        (("delta", "--from", "2021-01-04"), "Leave out --from"),
        (("take-changes", str(tmp_path)), "--from DAY --date DAY"),
        (("select-changes", str(tmp_path), "--from", "2021-01-04", "--engine", "spark"), "select-changes here"),
    ):
        refused = task(*given, "--date", "2023-02-27")
        assert (refused.exit_code, message in refused.output) == (1, True), given


def test_what_changed_is_taken_out_of_another_store(
    tmp_path: Path, dump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(dump)
    changed = write_dump(tmp_path / "newer.json", [entity("Q1", statement(snak("P31", entity_value("Q6"))))])
    run("load-dump", str(changed), "--date", "2023-02-27", "--no-graph")
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "laptop"))
    for stage in ("select-changes", "take-changes"):
        done = run("task", stage, str(tmp_path / "home"), "--from", "2021-01-04", "--date", "2023-02-27")
        assert done.stdout == f"{stage}, part 1/1: 1 buckets done\n"
    taken = run(
        "load-changes",
        str(tmp_path / "home"),
        "--from",
        "2021-01-04",
        "--to",
        "2023-02-27",
        "--no-graph",
        "--format",
        "json",
    )
    assert (taken.exit_code, taken.stderr.splitlines()[-1]) == (
        0,
        "Snapshot 2023-02-27: 1 of 1 entities, 1 of 1 claims, 1 of 1 facts.",
    )
    shown = json.loads(taken.stdout)
    assert (shown["graph"], [one["date"] for one in shown["snapshots"]]) == (None, ["2021-01-04", "2023-02-27"])
    assert [one["buckets"] for one in shown["snapshots"]] == [1, 1]
    assert json.loads(run("snapshots", "--json").stdout) == shown["snapshots"]


def test_the_same_command_again_says_the_same(dump: Path) -> None:
    first, again = load(dump), load(dump)
    assert (again.exit_code, again.output) == (0, first.output)


def test_snapshots_are_listed_oldest_first(tmp_path: Path, dump: Path) -> None:
    assert load(dump).exit_code == 0
    older = write_dump(tmp_path / "older.json", [entity("Q1")])
    assert run("load-dump", str(older), "--date", "2015-11-09", "--no-graph").exit_code == 0
    listed = run("snapshots")
    assert [line.split() for line in listed.stdout.splitlines()] == [
        ["date", "entities", "claims", "facts", "source"],
        ["2015-11-09", "1", "0", "0", "older.json"],
        ["2021-01-04", "30", "30", "30", "dump.json.gz"],
    ]
    manifests = json.loads(run("snapshots", "--json").stdout)
    assert [manifest["date"] for manifest in manifests] == ["2015-11-09", "2021-01-04"]
    assert manifests[1]["left_out"] == {"lexeme": 1}


def test_a_dump_is_projected_to_several_days_and_says_what_no_date_decided(tmp_path: Path) -> None:
    started = snak("P580", time_value("+2012-03-04T00:00:00Z", 11))
    items = [entity("Q1", HUMAN, statement(snak("P6", entity_value("Q2")), started)), entity("Q2")]
    path = str(write_dump(tmp_path / "dump.json.gz", items))
    result = run("load-dump", path, "--as-of", "2015-01-01, 2010-01-01", "--no-graph")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines() == [
        "Snapshot 2010-01-01: 2 entities, 1 claims.",
        "  projected; 0 entities of the dump came later",
        "  placed by dates: 1 begins later",
        "  not placed by dates: 1 no dates: holds on every day",
        "Snapshot 2015-01-01: 2 entities, 2 claims.",
        "  projected; 0 entities of the dump came later",
        "  placed by dates: 1 holds since its start or point in time",
        "  not placed by dates: 1 no dates: holds on every day",
    ]
    listed = run("snapshots").stdout.splitlines()
    assert [line.split()[0] for line in listed[1:]] == ["2010-01-01", "2015-01-01"]
    assert all(line.endswith("projected from dump.json.gz") for line in listed[1:])


@pytest.mark.parametrize(("days", "is_later"), [("2015-11-09,2010-01-01", False), ("2010-01-01,2015-11-10", True)])
def test_a_projection_to_a_day_after_the_one_in_the_dumps_name_is_noted(
    tmp_path: Path, days: str, is_later: bool
) -> None:
    path = str(write_dump(tmp_path / "wikidata-20151109-all.json", [entity("Q1", HUMAN)]))
    result = run("load-dump", path, "--as-of", days, "--no-graph")
    noted = "The dump's name says 2015-11-09: later changes are missing from it, and from snapshots of later days."
    assert (result.exit_code, noted in result.stderr.splitlines()) == (0, is_later)


def test_days_of_a_repeated_option_are_joined(tmp_path: Path) -> None:
    path = str(write_dump(tmp_path / "dump.json", [entity("Q1", HUMAN)]))
    result = run("load-dump", path, "--as-of", "2015-01-01", "--as-of", "2010-01-01,2012-01-01", "--no-graph")
    assert result.exit_code == 0, result.output
    listed = json.loads(run("snapshots", "--json").stdout)
    assert [one["date"] for one in listed] == ["2010-01-01", "2012-01-01", "2015-01-01"]


@pytest.mark.parametrize(
    "given", [(), ("--date", "2021-01-04", "--as-of", "2010-01-01"), ("--as-of", "2010"), ("--as-of", "2010-01-01,")]
)
def test_a_dump_has_its_day_or_days_to_be_projected_to(dump: Path, given: tuple[str, ...]) -> None:
    assert run("load-dump", str(dump), *given).exit_code == 2


def test_options_of_the_graph_need_the_graph(tmp_path: Path, dump: Path) -> None:
    scope = ("--facts", "items", "--no-evidence", "--around-changes", "--property", "P31")
    for command in (
        ("load-dump", str(dump), "--date", "2021-01-04"),
        ("load-changes", str(tmp_path), "--from", "2021-01-04", "--to", "2023-02-27"),
    ):
        refused = run(*command, "--no-graph", *scope)
        assert refused.exit_code == 2
        assert "Leave --no-evidence and --facts and --property and --around-changes out." in refused.stderr
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("day", [("--date", "2021-01-04"), ("--as-of", "2021-01-04")])
def test_a_slice_says_so_by_its_option_or_the_note_beside_it(tmp_path: Path, day: tuple[str, str]) -> None:
    path = write_dump(tmp_path / "towns.json", [entity("Q1", HUMAN)])
    noted = "  a slice: towns of a list. What it lacks is unknown, not removed."
    assert noted not in run("load-dump", str(path), *day, "--no-graph").stderr.splitlines()
    said = run("load-dump", str(path), *day, "--no-graph", "--overwrite", "--slice-of", "towns of a list")
    assert noted in said.stderr.splitlines()
    (tmp_path / "towns.json.slice.json").write_text('{"slice_of": "towns of a list"}')
    again = run("load-dump", str(path), *day, "--no-graph")
    assert (again.exit_code, again.stderr) == (0, said.stderr)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "towns.json").symlink_to(path)
    linked = run("load-dump", str(tmp_path / "folder" / "towns.json"), *day, "--no-graph")
    assert (linked.exit_code, linked.stderr) == (0, said.stderr)
    assert [one["slice_of"] for one in json.loads(run("snapshots", "--json").stdout)] == ["towns of a list"]


def test_a_projected_dump_is_recognised_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "edges.json"
    path.write_text("id\tnode1\tlabel\tnode2\nQ1-P31-1\tQ1\tP31\tQ5\n")
    result = run("load-dump", str(path), "--as-of", "2015-01-01", "--no-graph")
    assert result.exit_code == 0, result.stderr
    (manifest,) = json.loads(run("snapshots", "--json").stdout)
    assert (manifest["loader"]["name"], manifest["claims"]) == ("kgtk", 1)


def test_an_empty_store_lists_nothing_and_says_how_to_fill_it() -> None:
    result = run("snapshots")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "No snapshot is loaded" in result.stderr
    assert json.loads(run("snapshots", "--json").stdout) == []


def test_options_reach_the_loader(dump: Path) -> None:
    result = load(dump, "--limit", "7", "--language", "de", "--language", "fr", "--wiki", "dewiki", "--workers", "1")
    assert result.exit_code == 0, result.output
    manifest = json.loads(run("snapshots", "--json").stdout)[0]
    assert (manifest["limit"], manifest["lines"]) == (7, 7)
    assert manifest["loader"] | {"version": ""} == {
        "name": "wikidata_json", "version": "", "languages": ["de", "fr"], "wiki": "dewiki",
    }  # fmt: skip


def test_languages_are_written_as_in_wikidata_each_once(dump: Path) -> None:
    given = [part for code in ("pt-BR", "en,de", "en", "EN") for part in ("--language", code)]
    assert load(dump, *given).exit_code == 0
    assert json.loads(run("snapshots", "--json").stdout)[0]["loader"]["languages"] == ["pt-br", "en", "de"]


@pytest.mark.parametrize("wrong", [("--language", 'e"n'), ("--language", ""), ("--wiki", "english")])
def test_what_is_no_language_or_wiki_is_refused(dump: Path, wrong: tuple[str, str]) -> None:
    result = load(dump, *wrong)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {wrong[0]} {wrong[1]!r} is no ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--limit", "3"), "Nothing was changed. To replace it, add --overwrite."),
        (("--wiki", "dewiki"), "Nothing was changed. To replace it, add --overwrite."),
        (("--slice-of", "towns"), "Nothing was changed. To replace it, add --overwrite."),
    ],
)
def test_what_would_replace_a_snapshot_is_refused(dump: Path, options: tuple[str, ...], message: str) -> None:
    load(dump)
    result = load(dump, *options)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: ")
    assert message in result.stderr
    assert load(dump, *options, "--overwrite").exit_code == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("page.json.gz", b"<html>404</html>", "is an HTML or XML page"),
        ("plain.json.gz", b"[\n]\n", "Rename it or download it again"),
        ("empty.json", b"", "is empty"),
        ("bare.json", b"[\n]\n", "contains no line that could be an entity"),
        ("prose.json", b"once upon\na time\n", "No item or property is among the 2 lines"),
        ("cut.json", lines([entity("Q1")])[:-3], "the dump is truncated"),
    ],
)
def test_a_file_that_is_no_dump_is_one_line_and_exit_code_1(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    result = load(path)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert message in result.stderr
    assert json.loads(run("snapshots", "--json").stdout) == []


def test_a_missing_file_and_an_unknown_format_say_so(tmp_path: Path, dump: Path) -> None:
    assert "There is no file" in load(tmp_path / "absent.json").stderr
    result = load(dump, "--source-format", "wikidata_jsn")
    assert (result.exit_code, "Did you mean 'wikidata_json'?" in result.stderr) == (1, True)


@pytest.mark.parametrize("options", [("--date", "4 January"), ("--limit", "0"), ("--max-error-rate", "2")])
def test_options_that_make_no_sense_are_usage_errors(dump: Path, options: tuple[str, ...]) -> None:
    assert load(dump, *options).exit_code == 2


def test_lines_of_progress_tell_rate_and_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = iter((100.0, 100.0, 104.0, 111.0))
    # Of this module alone: threads that other tests leave behind ask for the time as well.
    monkeypatch.setattr("kgedit.cli.progress.time", SimpleNamespace(monotonic=lambda: next(seconds, 111.0)))
    with bars() as add:
        update = add("Reading", 1000, "lines")
        # A load that goes on has 500 lines already: they make no rate.
        update(200, 500)
        update(300, 600)
        update(400, 720)
    said = capsys.readouterr().err
    assert said == "Reading: 40%, 720 lines, 20/s, about 33 s left\n"
