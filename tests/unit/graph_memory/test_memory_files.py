"""Memories as files: built from timesteps and dated snapshots, asked on the command line, updated and rolled back."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from world.small_memory import EMBED, NORWAY, write_small_memory
from world.small_timestep import NEW_MAYORS, TOWNS, write_timestep
from world.two_days import NEW, OLD, about, item, two_snapshots

from kgedit.cli import main
from kgedit.errors import KgeditError
from kgedit.graph_memory.building import DATED_FACTS, Learned, learn_dated_facts
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.memory_file import previous_of, read_memory_file, roll_back, signature_of, write_memory_file
from kgedit.graph_memory.retrieval import Search
from kgedit.sample.generate import write_world
from kgedit.store.snapshots import drop_snapshot
from kgedit.verbs.load_dump import DumpOptions, is_loaded, load_dump
from kgedit.verbs.memory import AskMemory, build_memory, memory_server, update_memory

OPEN = Search(gate=0.0)
DAY = datetime.date(2024, 1, 1)


def _fact(thing: str, since: int, until: int | None, **more: Any) -> dict[str, Any]:
    empty = dict.fromkeys(DATED_FACTS.names)
    named = {"subject": "Q20", "subject_label": "Norway", "property": "P6", "property_label": "head of government"}
    return empty | named | {"object": f"Q{thing}", "object_label": thing, "since": since, "until": until} | more


def _held(memory: GraphMemory, as_of: str) -> list[str]:
    [finding] = memory.find([NORWAY], OPEN, as_of=as_of)
    return [value.label for path in finding.paths for row in path.rows for value in row.values]


def _learned(*facts: dict[str, Any], as_of: datetime.date = DAY) -> tuple[GraphMemory, Learned]:
    memory = GraphMemory(EMBED)
    return memory, learn_dated_facts(memory, pa.Table.from_pylist(list(facts), schema=DATED_FACTS), as_of=as_of)


def test_a_fact_holds_between_the_dates_of_its_statement_or_those_of_the_snapshots() -> None:
    memory, learned = _learned(
        _fact("Erna", 20200101, 20220101, start_time="2013-10-16", end_time="2021-10-14"),
        _fact("Jonas", 20220101, None, start_time="2021-10-14"),
        _fact("Kari", 20220101, 20230101),
    )
    assert learned == Learned(3, {})
    assert _held(memory, "2012") == []
    assert _held(memory, "2021-10-13") == ["Erna"]
    assert _held(memory, "2021-12-24") == ["Jonas"]
    assert _held(memory, "2022-06-01") == ["Jonas", "Kari"]
    assert _held(memory, "") == ["Jonas"]


def test_a_value_that_came_back_has_two_intervals() -> None:
    memory, _ = _learned(_fact("Erna", 20200101, 20210101), _fact("Erna", 20220101, None))
    assert [_held(memory, day) for day in ("2020-06-01", "2021-06-01", "2022-06-01")] == [["Erna"], [], ["Erna"]]


@pytest.mark.parametrize(
    ("start", "end", "held"),
    [
        ("2021", "2021", ["2021"]),
        ("2021-03-05", "2021", ["2021"]),
        ("2021-03-05", "2021-03", ["2021"]),
        ("2021-03-05", "2021-03-05", ["2021"]),
        (None, "2020", ["2019", "2020"]),
        ("2021-03", "2020", ["2019", "2020"]),
    ],
)
def test_an_end_is_kept_at_every_precision_also_if_the_facts_are_learned_twice(
    start: str | None, end: str, held: list[str]
) -> None:
    anna = _fact("Anna", 20210601, 20220601, start_time=start, end_time=end)
    back = _fact("Anna", 20230601, None, start_time="2023")
    memory, _ = _learned(anna, as_of=datetime.date(2021, 7, 1))
    for _ in range(2):
        learn_dated_facts(memory, pa.Table.from_pylist([anna], schema=DATED_FACTS), as_of=DAY)
        assert [year for year in ("2019", "2020", "2021", "2022", "2023") if _held(memory, year)] == held
        assert _held(memory, "") == []
        assert len(memory) == 1
    learn_dated_facts(memory, pa.Table.from_pylist([anna, back], schema=DATED_FACTS), as_of=DAY)
    assert [_held(memory, day) for day in ("2022", "2023", "")] == [[], ["Anna"], ["Anna"]]


def test_what_came_later_is_not_known_on_a_day() -> None:
    memory, learned = _learned(
        _fact("Erna", 20200101, 20220101), _fact("Jonas", 20220101, None), as_of=datetime.date(2021, 1, 1)
    )
    assert learned.facts == 1
    assert _held(memory, "") == ["Erna"]


def test_a_change_counts_from_the_day_of_its_snapshot_on() -> None:
    memory, learned = _learned(
        _fact("Erna", 20200101, 20220101), _fact("Jonas", 20220101, None), as_of=datetime.date(2022, 1, 1)
    )
    assert learned.facts == 2
    assert _held(memory, "") == ["Jonas"]


def test_facts_without_labels_are_counted_by_reason() -> None:
    memory, learned = _learned(
        _fact("Erna", 20200101, None), _fact("Jonas", 20200101, None, object_label="Q42", property="P35")
    )
    assert learned == Learned(1, {"no label of the object": 1})
    assert len(memory) == 1


@pytest.fixture
def timestep(tmp_path: Path) -> Path:
    return write_timestep(tmp_path / "timestep", towns=range(2)).folder


def test_the_same_sources_give_the_same_bytes_and_are_told(timestep: Path, tmp_path: Path) -> None:
    built = [build_memory(tmp_path / name, timesteps=[timestep])[0] for name in ("one", "two")]
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    file = read_memory_file(tmp_path / "one")
    assert file.sha256 == built[0].sha256 == built[1].sha256
    [source] = file.manifest["sources"]
    assert (source["kind"], source["name"], len(source["sha256"])) == ("timestep", "20200101_20210101", 64)
    assert file.manifest["counts"] == {"facts": 4, "ended": 2, "rows": 2, "relations": 1}


def test_a_memory_is_added_to_and_not_replaced_unasked(timestep: Path, tmp_path: Path) -> None:
    write_small_memory(tmp_path / "base")
    build_memory(tmp_path / "more", timesteps=[timestep], base=tmp_path / "base")
    result = read_memory_file(tmp_path / "more").manifest
    assert [source["kind"] for source in result["sources"]] == ["test", "timestep"]
    assert result["counts"]["facts"] == 3 + 4
    with pytest.raises(KgeditError, match=r"exists\. Nothing was changed\. To replace it, add overwrite=True"):
        build_memory(tmp_path / "more", timesteps=[timestep])
    build_memory(tmp_path / "more", timesteps=[timestep], overwrite=True)
    assert read_memory_file(tmp_path / "more").manifest["counts"]["facts"] == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "A memory needs a source"),
        ({"home": Path("a"), "graph": Path("a")}, "give home or graph"),
        ({"timesteps": [Path("a")], "as_of": DAY}, "as_of and property choose facts of"),
        ({"timesteps": [Path("none")]}, "There is no timestep none"),
    ],
)
def test_sources_that_cannot_be_are_refused(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(KgeditError, match=said):
        build_memory(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 torn"])
def test_a_damaged_file_is_refused_with_what_to_do(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "facts").write_bytes(content)
    with pytest.raises(KgeditError, match=r"facts is not a memory, or is damaged .* build it again"):
        read_memory_file(tmp_path / "facts")


def test_a_missing_file_is_answered_with_the_memories_beside_it(tmp_path: Path) -> None:
    with pytest.raises(KgeditError, match=r"There is no memory .*facts\. Build one with kgedit memory build"):
        read_memory_file(tmp_path / "facts")
    (tmp_path / "facts.kgmemory").touch()
    for wrong, what in ((tmp_path / "facts", "There is no memory"), (tmp_path, "is a folder")):
        with pytest.raises(KgeditError, match=rf"{what}.* Memories there are: .*facts\.kgmemory"):
            read_memory_file(wrong)


def _ask(*arguments: str | Path, quiet: bool = False) -> str:
    shown = CliRunner().invoke(main, [*(["--quiet"] if quiet else []), "memory", *map(str, arguments)])
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def test_the_commands_build_a_memory_and_print_its_facts_hop_by_hop(timestep: Path, tmp_path: Path) -> None:
    out = tmp_path / "facts.kgmemory"
    _ask("build", "--timestep", timestep, "--out", out)
    asked = ("--embedder", "character-ngrams", "--gate", "0")
    question = f"Who is the mayor of {TOWNS[0]}?"
    assert f"hop 1: {question} {NEW_MAYORS[0]}\n         since 2021-01-01, Q100:P6:Q20" in _ask(
        "ask", out, question, *asked
    )
    result = json.loads(_ask("ask", out, question, "--as-of", "2020-06", "--format", "json", *asked))
    assert result["names"] == [{"name": TOWNS[0], "ids": ["Q100"]}]
    assert [fact["answer"] for path in result["paths"] for fact in path["facts"]] == ["Nils Ek"]


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ("Who is the mayor of Oslo?", "Nothing: no subject of the memory is named in the question."),
        (
            "Which colour has Arvika?",
            "Nothing: no known fact is likely to be what is asked for: the nearest is 'Who is",
        ),
    ],
)
def test_ask_says_why_there_is_nothing(question: str, why: str, timestep: Path, tmp_path: Path) -> None:
    build_memory(tmp_path / "facts", timesteps=[timestep])
    assert why in _ask("ask", tmp_path / "facts", question, "--embedder", "character-ngrams", "--gate", "0.999")


@pytest.mark.parametrize(
    "given",
    [
        "2021-6",
        "2021-6-1",
        "20210601",
        "2021/06/01",
        "2021x",
        "2021-13",
        "2021-06-31",
        "2021-00",
        "0000",
        "2021-06-01\n",
    ],
)
def test_a_date_that_is_malformed_or_does_not_exist_is_refused(given: str, tmp_path: Path) -> None:
    write_small_memory(tmp_path / "facts")
    refused = "is no date. Give YYYY, YYYY-MM or YYYY-MM-DD"
    with pytest.raises(KgeditError, match=refused):
        AskMemory(tmp_path / "facts", NORWAY, as_of=given, embedder="character-ngrams").run()
    with pytest.raises(KgeditError, match=refused):
        memory_server(tmp_path / "facts", upstream="http://127.0.0.1:9/v1", learned_until=given)


@pytest.mark.parametrize("given", ["2021", "2021-06", "2020-02-29"])
def test_a_date_of_any_precision_is_accepted(given: str, tmp_path: Path) -> None:
    write_small_memory(tmp_path / "facts")
    AskMemory(tmp_path / "facts", NORWAY, as_of=given, embedder="character-ngrams").run()
    memory_server(
        tmp_path / "facts", upstream="http://127.0.0.1:9/v1", learned_until=given, embedder="character-ngrams"
    )


@pytest.fixture
def dumps(tmp_path: Path) -> list[Path]:
    return [path for path in write_world(tmp_path / "dumps") if path.name.endswith(".json.gz")]


@pytest.fixture
def home(tmp_path: Path, dumps: list[Path]) -> Path:
    load_dump(tmp_path / "home", dumps[1], _day(dumps[1]), options=DumpOptions(), steps=lambda *_: lambda *_: None)
    build_memory(tmp_path / "facts.kgmemory", home=tmp_path / "home")
    return tmp_path / "home"


def _day(dump: Path) -> datetime.date:
    return datetime.date.fromisoformat(dump.name.partition(".")[0])


@pytest.mark.slow
def test_an_update_says_what_began_and_ended_and_the_way_back_restores_the_file(
    home: Path, dumps: list[Path], tmp_path: Path
) -> None:
    path = tmp_path / "facts.kgmemory"
    before = path.read_bytes()
    built, changed = update_memory(path, home=home, dump=dumps[2], day=_day(dumps[2]))
    assert changed is not None
    assert "Poland, head of government: Donald Tusk (Q36:P6:Q946)" in changed.begun
    assert any(
        line.startswith("Poland, head of government: Mateusz Morawiecki, until 2023-12") for line in changed.ended
    )
    assert changed.unchanged > 1000
    assert read_memory_file(path).sha256 == built.sha256
    assert previous_of(path).read_bytes() == before
    roll_back(path)
    assert path.read_bytes() == before
    roll_back(path)
    assert read_memory_file(path).sha256 == built.sha256


@pytest.mark.slow
def test_the_same_sources_change_nothing_and_a_dry_run_does_not_either(
    home: Path, dumps: list[Path], tmp_path: Path
) -> None:
    path = tmp_path / "facts.kgmemory"
    before = path.read_bytes(), _files(home)
    assert update_memory(path, home=home)[1] is None
    redirects = dumps[2].with_name("redirects.tsv")
    given: dict[str, Any] = {"home": home, "dump": dumps[2], "day": _day(dumps[2]), "redirects": redirects}
    _, changed = update_memory(path, **given, dry_run=True)
    assert changed is not None
    assert changed.begun
    assert (path.read_bytes(), _files(home)) == before
    assert sorted(each.name for each in tmp_path.glob("*facts.kgmemory*")) == ["facts.kgmemory"]
    assert update_memory(path, **given)[1] == changed
    assert is_loaded(home, dumps[2], _day(dumps[2]), options=DumpOptions(redirects=redirects))
    assert update_memory(path, **given, dry_run=True)[1] is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sources", "kept"),
    [
        ([["P6"]], {"P6"}),
        ([["P6"], ["P26"]], {"P6", "P26"}),
        ([["P6"], []], None),
    ],
)
@pytest.mark.parametrize("kind", ["snapshots", "graph"])
def test_an_update_keeps_the_properties_of_the_memory(
    home: Path, tmp_path: Path, kind: str, sources: list[list[str]], kept: set[str] | None
) -> None:
    path = tmp_path / "facts.kgmemory"
    recorded = [{"kind": kind, "as_of": "2021-01-04", "properties": properties} for properties in sources]
    write_memory_file(path, read_memory_file(path).tables, {"sources": recorded})
    built, _ = update_memory(path, home=home)
    found = set(read_memory_file(path).tables["relations"]["id"].to_pylist())
    assert found == kept if kept else found > {"P6", "P26"}
    assert built.manifest["sources"][0]["properties"] == sorted(kept or ())


def test_a_memory_that_an_update_would_take_facts_from_is_refused(timestep: Path, tmp_path: Path) -> None:
    path = tmp_path / "facts"
    build_memory(path, timesteps=[timestep])
    before = path.read_bytes()
    refused = f"has facts of timesteps.* kgedit memory build --base {path} --timestep TIMESTEP"
    for properties in ((), ("P6",)):
        with pytest.raises(KgeditError, match=refused):
            update_memory(path, home=tmp_path, dump=tmp_path / "unread", properties=properties)
    assert path.read_bytes() == before
    for manifest in ({}, {"sources": [{"kind": "test"}]}):
        write_memory_file(path, read_memory_file(path).tables, manifest)
        with pytest.raises(KgeditError, match="was not built from snapshots"):
            update_memory(path, home=tmp_path)


@pytest.mark.parametrize(
    ("snapshots", "said"),
    [
        (
            {OLD: None, NEW: None, "2024-06-03": "ab"},
            r"\(2024-06-03 not loaded\).* load-dump PATH --date 2024-06-03\. ",
        ),
        ({OLD: "ab"}, rf"\({OLD} of another dump\).* load-dump PATH --date {OLD} --overwrite\. "),
        ({"2020-01-01": None, NEW: "ab"}, rf"\(2020-01-01 not loaded; {NEW} of another dump\)"),
        ([20200101, 20210104], r"\(2020-01-01 not loaded\)"),
    ],
)
def test_a_home_without_the_snapshots_of_a_memory_is_refused(
    snapshots: dict[str, str | None] | list[int], said: str, tmp_path: Path
) -> None:
    home = _home_of_a_town(tmp_path)
    path = tmp_path / "facts"
    write_small_memory(path)
    source = {"kind": "snapshots" if isinstance(snapshots, dict) else "graph", "snapshots": snapshots}
    write_memory_file(path, read_memory_file(path).tables, {"sources": [source]})
    before = path.read_bytes()
    with pytest.raises(KgeditError, match=rf"{path} was built from snapshots that .*home does not have {said}"):
        update_memory(path, home=home, dump=tmp_path / "unread", day="2024-06-04")
    assert path.read_bytes() == before


def test_snapshots_that_were_loaded_again_and_the_one_that_an_update_loads_are_the_same_history(tmp_path: Path) -> None:
    home, path, dump = _home_of_a_town(tmp_path), tmp_path / "facts", tmp_path / f"{NEW}.json"
    build_memory(path, home=home)
    german = DumpOptions(languages=("de", "en"), overwrite=True)
    load_dump(home, dump, datetime.date.fromisoformat(NEW), options=german, steps=lambda *_: lambda *_: None)
    assert update_memory(path, home=home)[1] is None
    drop_snapshot(home, datetime.date.fromisoformat(NEW))
    with pytest.raises(KgeditError, match=f"{NEW} not loaded"):
        update_memory(path, home=home)
    assert update_memory(path, home=home, dump=dump, day=NEW)[1] is None


def test_a_dry_run_leaves_the_home_as_it_was_also_if_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, path = _home_of_a_town(tmp_path), tmp_path / "facts"
    build_memory(path, home=home)
    dump = (tmp_path / f"{NEW}.json").rename(tmp_path / "newer.json")
    before = _files(home)
    given: dict[str, Any] = {"home": home, "dump": dump, "dry_run": True}
    _, changed = update_memory(path, **given, day="2024-06-03")
    assert changed is not None
    assert changed.unchanged == 1
    assert _files(home) == before
    with pytest.raises(KgeditError, match=f"The snapshot of {OLD} in {home}/snapshots already exists"):
        update_memory(path, **given, day=OLD)
    monkeypatch.setattr(GraphMemory, "tables", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        update_memory(path, **given, day="2024-06-03")
    assert _files(home) == before


def _interrupted(_memory: GraphMemory) -> None:
    raise KeyboardInterrupt


def _files(folder: Path) -> dict[str, bytes]:
    """Files of a home with their content, except the empty ones of locks."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): content for path in files if (content := path.read_bytes())}


def _home_of_a_town(folder: Path) -> Path:
    """A home with two snapshots of a town and its mayors."""
    people = [item("P6", label="head of government"), item("Q2", label="Ada"), item("Q3", label="Grace")]
    town = {mayor: item("Q1", about("P6", mayor), label="Arvika") for mayor in ("Q2", "Q3")}
    old, _ = two_snapshots(folder, [*people, town["Q2"]], [*people, town["Q3"]])
    return old.folder.parent.parent


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--dry-run"], "Leave --dry-run out"),
        (["--dump", "dump.json", "--date", "2024-01-01"], "Leave --dump and --date out"),
        (["--as-of", "2024-01-01", "--property", "P6"], "Leave --as-of and --property out"),
    ],
)
def test_a_rollback_with_options_of_an_update_is_refused(options: list[str], said: str, tmp_path: Path) -> None:
    path = tmp_path / "facts"
    write_small_memory(path, leader="Erna")
    write_small_memory(previous_of(path))
    before = path.read_bytes(), previous_of(path).read_bytes()
    refused = CliRunner().invoke(main, ["memory", "update", str(path), "--rollback", *options])
    assert refused.exit_code == 2
    assert said in " ".join(refused.output.split())
    assert (path.read_bytes(), previous_of(path).read_bytes()) == before
    _ask("update", path, "--rollback", "--format", "json")
    assert (previous_of(path).read_bytes(), path.read_bytes()) == before


def test_the_signature_depends_on_the_sources_alone() -> None:
    sources = [{"kind": "snapshots", "snapshots": {"20210104": "ab"}, "as_of": "2021-01-04"}]
    assert signature_of(sources) == signature_of([dict(reversed(sources[0].items()))])
    assert signature_of(sources) != signature_of([{**sources[0], "as_of": "2021-01-05"}])


def test_a_memory_without_a_previous_version_stays(home: Path, tmp_path: Path) -> None:
    assert home.is_dir()
    with pytest.raises(KgeditError, match="no previous version"):
        roll_back(tmp_path / "facts.kgmemory")


def test_the_command_prints_the_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, path = _home_of_a_town(tmp_path), tmp_path / "facts"
    monkeypatch.setenv("KGEDIT_HOME", str(home))
    build_memory(path, home=home, as_of=OLD)
    for given in (["--dry-run"], []):
        shown = _ask("update", path, *given, quiet=True).splitlines()
        assert shown[0] == f"{path}{' (not replaced)' if given else ''}: 1 begun, 1 ended, 0 gone, 0 unchanged"
        assert shown[1] == "  + Arvika, head of government: Grace (Q1:P6:Q3)"
    assert "nothing to do, its sources are the same" in _ask("update", path, "--dry-run", quiet=True)
    roll_back(path)
    result = json.loads(_ask("update", path, "--format", "json"))
    assert (len(result["signature"]), len(result["changes"]["begun"])) == (64, 1)
