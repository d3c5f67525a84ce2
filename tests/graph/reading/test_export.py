"""export-timestep on the sample world: the hard cases of Wikidata's rules have the expected results."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner

from graph.worlds import kgedit
from kgedit.cli import main
from kgedit.errors import GraphError, TimestepError
from kgedit.graph.connection import Graph, Parameters
from kgedit.graph.queries import read_queries
from kgedit.store.engine import literal
from kgedit.store.files import write_json
from kgedit.store.scope import Scope
from kgedit.store.snapshots import list_snapshots
from kgedit.store.window import Window
from kgedit.timesteps.changes import filter_changes, keep_changes
from kgedit.timesteps.engines.graph import GraphEngine
from kgedit.timesteps.labels import labelled_parts, write_labels
from kgedit.timesteps.locality import read_families
from kgedit.timesteps.profiles import ENGINES, PROFILES
from kgedit.timesteps.tables import TABLES
from kgedit.timesteps.timestep import Timestep
from kgedit.verbs import exporting
from kgedit.verbs.home import Home

pytestmark = pytest.mark.graph

STEPS = (("2021-01-04", "2023-02-27"), ("2023-02-27", "2024-06-03"))

EXPECTED = {
    # (case of wikidata-rules.md section 6, step): subject and property -> old objects, new objects, why dropped
    (1, 0): {"Q483020:P286": (["Q313000"], ["Q129023"], None)},
    (2, 0): {"Q17:P6": (["Q122465"], ["Q359480"], None)},
    (3, 0): {"Q183:P6": (["Q567"], ["Q61053"], None)},
    (3, 1): {"Q36:P6": (["Q11771436"], ["Q946"], None)},
    (4, 0): {"Q907311:P169": (["Q7306657"], [], "value removed, none added")},
    (5, 0): {
        "Q334:P36": ([], ["Q334"], "circular: subject is the object"),
        "Q126399:P749": (["Q191715"], ["Q107074885"], None),
    },
    (6, 1): {"Q33:P463": (["Q1065", "Q458"], ["Q1065", "Q458", "Q7184"], "several current objects")},
    (7, 1): {"Q1344670:P488": (["Q111876982", "Q2978289"], ["Q592101"], None)},
    (8, 1): {"Q969423:P54": (["Q19490", "Q483020"], ["Q483020"], "value removed, none added")},
    (10, 0): {
        "Q145:P6": (["Q180589"], ["Q20055561"], None),
        "Q52825:P169": (["Q19594969"], [], "value removed, none added"),
    },
    (11, 0): {"Q790:P35": (["Q21294765"], [], "value removed, none added")},
    (12, 0): {
        "Q23633:P749": (["Q191715"], [], "value removed, none added"),
        "Q23633:P127": (["Q191715"], [], "value removed, none added"),
    },
    (14, 0): {
        "Q18618891:P39": None,
        "Q19056310:P1308": (["Q18618891"], [], "subject gone or redirected in the newer snapshot"),
        "Q866725:P1308": ([], ["Q18618891"], "an item merged into the subject had the value"),
    },
    (15, 0): {"Q115655652:P106": ([], ["Q43845"], "subject not in the older snapshot")},
    (16, 0): {"Q232:P36": None},
    (17, 0): {"Q30390884:P102": (["Q96803616"], ["Q613786"], "no label of the old object")},
    (17, 1): {"Q52825:P169": ([], ["Q124641201"], "no label in the languages asked for")},
    (18, 0): {
        "Q641805:P39": (["Q246932"], ["Q100877419"], "old and new object bear one label: likely duplicate"),
        "Q47729:P488": ([], ["Q674957"], None),
    },
    (19, 0): {
        "Q176691:P488": (["Q41781101"], ["Q21177912"], "label of more than five words"),
        "Q62721520:P495": ([], ["Q145"], "no letter of the Roman script in a label"),
    },
    (19, 1): {
        "Q171183:P488": (["Q21074800"], ["Q20027894"], None),
        "Q918:P169": (["Q317521"], ["Q115655652"], "label of one character"),
        "Q2415:P6": (["Q11978094"], ["Q99602458"], None),
    },
    (20, 0): {
        "Q30:P910": ([], ["Q1410960"], "Wikimedia page: list, category, template, disambiguation, portal, module")
    },
    (20, 1): {
        "Q25191:P106": (
            ["Q33999"],
            ["Q1070898"],
            "Wikimedia page: list, category, template, disambiguation, portal, module",
        )
    },
    (25, 0): {"Q29:P6": None},
}


@pytest.fixture(scope="module")
def judged(
    sample_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, tuple[list[str], list[str], str | None]]]:
    """For each step, every changed subject and property with what became of it."""
    snapshots = list_snapshots(sample_home)
    labels = tmp_path_factory.mktemp("labels") / "labels.parquet"
    steps = []
    with Graph.open(sample_home) as graph:
        for old, new in pairwise(snapshots):
            with Window(old, new, spill=old.folder / "spill") as window:
                keep_changes(window, GraphEngine(graph).changed_edges(window))
                write_labels(window, labels)
                ((part, of_part),) = labelled_parts(window.connection, "change", labels)
            filtered = filter_changes(part, of_part)
            assert sum(filtered.funnel.values()) == filtered.dropped.num_rows
            rows = filtered.kept.to_pylist() + filtered.dropped.to_pylist()
            steps.append(
                {
                    f"{row['subject']}:{row['property']}": (row["old_objects"], row["new_objects"], row.get("reason"))
                    for row in rows
                }
            )
    return steps


@pytest.fixture(scope="module")
def folders(sample_home: Path) -> list[Path]:
    """The timestep of each step."""
    return [Path(kgedit(sample_home, "export-timestep", "--from", a, "--to", b).strip()) for a, b in STEPS]


@pytest.mark.parametrize(("case", "step"), EXPECTED)
def test_a_case_of_the_rules_comes_out_right(
    judged: list[dict[str, tuple[list[str], list[str], str | None]]], case: int, step: int
) -> None:
    for key, expected in EXPECTED[case, step].items():
        assert judged[step].get(key) == expected


def test_each_step_has_the_cases_and_probes_that_the_sample_promises(folders: list[Path]) -> None:
    for folder in folders:
        timestep = Timestep.open(folder)
        cases = list(timestep.cases())
        assert len(cases) >= 60
        assert timestep.manifest["two_hops"]["asked"] >= 8
        assert timestep.manifest["funnel"]["kept"] == len(cases)
        dropped = sum(timestep.manifest["funnel"]["dropped"].values())
        assert timestep.manifest["funnel"]["changed"] == dropped + len(cases)
        with_locality = sum(any(probe.axis == "locality" for probe in case.probes) for case in cases)
        assert with_locality >= 0.75 * len(cases)  # the others have no unchanged fact of their relation's family
        assert len(timestep.known_facts()) >= 100


def test_questions_name_their_subject_and_updates_have_old_answers(folders: list[Path]) -> None:
    for case in (case for folder in folders for case in Timestep.open(folder).cases()):
        assert case.fact.subject_label in case.question
        assert case.question.endswith("?")
        assert (case.tag == "update") == bool(case.old_answers)
        assert len(case.old_answers) == len(case.old_objects)
        assert case.answer not in case.old_answers
        for probe in case.probes:
            assert probe.answers[0] == probe.facts[-1].object_label
            if probe.axis == "mhop":
                first, second = probe.facts
                assert first.object == second.subject
                assert second.object != first.subject
                assert first.object_label.lower() not in probe.question.lower()
                assert second.object_label.lower() not in probe.question.lower()
            if probe.axis == "locality":
                assert probe.facts[0].subject != case.fact.subject
                assert probe.facts[0].object not in {case.fact.object, *case.old_objects}


def test_a_locality_probe_keeps_the_relation_where_it_can_and_serves_few_cases(folders: list[Path]) -> None:
    family = {name: family for family, names in read_families().items() for name in names}
    bases = set()
    for folder in folders:
        timestep = Timestep.open(folder)
        rows = timestep.table("locality").to_pylist()
        relations = {case.case_id: case.fact.property for case in timestep.cases()}
        for row in rows:
            assert (row["property"] == relations[row["case_id"]]) == (row["basis"] != "relation")
            assert row["basis"] != "relation" or family[row["property"]] == family[relations[row["case_id"]]]
        assert len(rows) + timestep.manifest["without_locality"] == len(relations)
        bases |= {row["basis"] for row in rows}
        uses = Counter((row["subject"], row["property"]) for row in rows)
        assert max(uses.values()) == timestep.manifest["settings"]["locality_uses"]
    assert {"graph", "relation"} <= bases


def test_no_locality_probe_was_edited_in_the_same_window(
    folders: list[Path], judged: list[dict[str, tuple[list[str], list[str], str | None]]]
) -> None:
    for folder, step in zip(folders, judged, strict=True):
        edited = {key.partition(":")[0] for key in step}
        rows = Timestep.open(folder).table("locality").to_pylist()
        assert not edited & {row["subject"] for row in rows}
        assert not edited & {row["object"] for row in rows}


def test_the_same_command_writes_the_same_bytes(sample_home: Path, folders: list[Path], tmp_path: Path) -> None:
    (older, newer), again = STEPS[0], tmp_path / "again"
    kgedit(sample_home, "export-timestep", "--from", older, "--to", newer, "--out", again)
    digests = [
        {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}
        for folder in (folders[0], again)
    ]
    assert digests[0] == digests[1]
    tables = (f"{name}.parquet" for name in (*TABLES, "dropped"))
    assert set(digests[0]) == {"SHA256SUMS", "timestep.json", "wikibigedit.json", *tables}


ASKED = {
    "wikibigedit": {"changed_edges", "two_hop_changes", "shared_facts"},
    "wikifactdiff": {"changed_statements", "nearest_entities"},
}


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of the queries that a graph answered."""
    texts = {query.text: name for name, query in read_queries().items()}
    names: set[str] = set()

    def table(graph: Graph, cypher: str, parameters: Parameters, *, columns: Sequence[str]) -> pa.Table:
        names.add(texts[cypher])
        return ask(graph, cypher, parameters, columns=columns)

    ask = Graph.table
    monkeypatch.setattr(Graph, "table", table)
    return names


PAT = (("pat", "2021-12-30", "2023-12-30"), ("pat", "2023-12-30", "2024-03-31"))
ENGINE_WINDOWS = [
    *(("sample", *step, profile) for step in STEPS for profile in PROFILES),
    *(("generated", *STEPS[0], profile) for profile in PROFILES),
    # No statement of pat has a date, so nothing of it is decided by the rules of WikiFactDiff.
    *(pytest.param(*window, "wikibigedit", marks=pytest.mark.shared) for window in PAT),
    # Each query of every window is compared in test_queries.py; one of the larger slice is enough here.
    *(pytest.param("w12k", "2010-01-01", "2014-01-01", profile, marks=pytest.mark.shared) for profile in PROFILES),
]
WITH_CHAINS = {("sample", STEPS[0][0]), PAT[0][:2], ("w12k", "2010-01-01")}
"""Worlds and older snapshots of windows that are exported with chains of four facts."""


@pytest.mark.parametrize(("world", "older", "newer", "profile"), ENGINE_WINDOWS)
def test_both_engines_write_the_same_bytes(
    home_of: Callable[[str], Path],
    tmp_path: Path,
    answered: set[str],
    world: str,
    older: str,
    newer: str,
    profile: str,
) -> None:
    manifests = {}
    by_data = ["--functional-by", "data"] if (world, older) == ("sample", STEPS[1][0]) else []
    has_chains = profile == "wikibigedit" and (world, older) in WITH_CHAINS
    hops = ["--hops", "4"] if has_chains else []
    window = ["--from", older, "--to", newer, "--profile", profile, *by_data, *hops]
    for engine in ENGINES[1:]:
        command = ["export-timestep", *window, "--engine", engine, "--out"]
        kgedit(home_of(world), *command, tmp_path / engine)
        manifests[engine] = json.loads((tmp_path / engine / "timestep.json").read_text(encoding="utf-8"))
        assert manifests[engine].pop("engine") == engine
    by_default = {"functional_by_constraint"} if profile == "wikifactdiff" else set()
    of_chains = {"hops_from", "hops_to"} if has_chains else set()
    assert answered == ASKED[profile] | of_chains | ({"functional_by_data"} if by_data else by_default)
    assert manifests["graph"] == manifests["store"]
    assert manifests["graph"]["funnel"]["kept"]
    assert profile == "wikifactdiff" or manifests["graph"]["two_hops"]["found"]
    for path in (tmp_path / "graph").iterdir():
        if path.name not in {"timestep.json", "SHA256SUMS"}:
            assert path.read_bytes() == (tmp_path / "store" / path.name).read_bytes()
    if has_chains:
        check_chains(Timestep.open(tmp_path / "graph"), {3, 4} if world != "w12k" else set())
    if (world, older) == ("sample", STEPS[0][0]):  # a timestep of the other engine is the same timestep
        made = (tmp_path / "graph" / "timestep.json").read_bytes()
        kgedit(home_of(world), *command, tmp_path / "graph")
        assert (tmp_path / "graph" / "timestep.json").read_bytes() == made
    if world == "pat":  # two years, and the three months that reach into the window of WikiBigEdit itself
        rows = json.loads((tmp_path / "graph" / "wikibigedit.json").read_text(encoding="utf-8"))
        updates = [row for row in rows if row["tag"] == "update"]
        assert len(updates) >= {"2021-12-30": 150, "2023-12-30": 20}[older]
        assert all(row["ans"] and row["old_ans"] and row["object_id"] and row["old_object_ids"] for row in updates)


def check_chains(timestep: Timestep, lengths: set[int]) -> None:
    """Chains lead through their case's edit and name no entity of it. w12k has four relations of a hop, so no chain."""
    rows = timestep.table("chains").to_pylist()
    assert {row["hops"] for row in rows} == lengths
    assert len({(row["case_id"], row["hops"]) for row in rows}) == len(rows)
    for row in rows:
        facts = row["facts"]
        edited = facts[row["position"] - 1]
        assert row["case_id"] == f"{edited['subject']}:{edited['property']}:{edited['object']}"
        assert [fact["object"] for fact in facts[:-1]] == [fact["subject"] for fact in facts[1:]]
        assert facts[-1]["object_label"] == row["object_label"]
        assert not any(f" {fact['object_label'].lower()} " in row["question"].lower() for fact in facts)


def test_auto_takes_the_graph_which_answers_what_constraints_make_functional(
    sample_home: Path, tmp_path: Path, answered: set[str]
) -> None:
    made = [
        Home(sample_home).export_timestep(
            *STEPS[0], out=tmp_path / engine, engine=engine, functional_by="constraints", profile="wikibigedit"
        )
        for engine in ("auto", "store")
    ]
    assert answered == ASKED["wikibigedit"] | {"functional_by_constraint"}
    assert [timestep.manifest["engine"] for timestep in made] == ["graph", "store"]
    assert made[0].manifest["tables"] == made[1].manifest["tables"]


def test_auto_takes_the_store_for_large_windows_and_where_the_graph_lacks_a_snapshot(
    sample_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, newer, _ = list_snapshots(sample_home)

    def chosen(profile: str) -> str:
        return exporting.choose_engine(sample_home, older, newer, profile)

    assert {profile: chosen(profile) for profile in PROFILES} == dict.fromkeys(PROFILES, "graph")
    with monkeypatch.context() as patch:
        patch.setattr(exporting, "MOST_CHANGED_ITEMS", 5)
        assert {profile: chosen(profile) for profile in PROFILES} == dict.fromkeys(PROFILES, "store")
    # The sample has 100,000 pairs of a changed item and an item.
    for limit, most in (("MOST_PAIRS", 1_000), ("MOST_ITEMS", 100)):
        with monkeypatch.context() as patch:
            patch.setattr(exporting, limit, most)
            assert (chosen("wikifactdiff"), chosen("wikibigedit")) == ("store", "graph")
    for scope in (Scope(evidence=False), None):
        with monkeypatch.context() as patch:
            patch.setattr(exporting, "kept_scope", lambda _, scope=scope: scope)
            assert (chosen("wikifactdiff"), chosen("wikibigedit")) == ("store", "graph" if scope else "store")
    monkeypatch.setattr(Graph, "snapshot_dates", lambda _: [])
    assert Home(sample_home).export_timestep(*STEPS[0], out=tmp_path / "lacking").manifest["engine"] == "store"


def test_the_store_engine_reads_no_graph(sample_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_GRAPH_URI", "bolt://127.0.0.1:9")  # nothing listens there
    (older, newer), home = STEPS[0], Home(sample_home)
    assert home.export_timestep(older, newer, out=tmp_path / "store", engine="store").manifest["cases"]
    with pytest.raises(GraphError):
        home.export_timestep(older, newer, out=tmp_path / "graph", engine="graph")
    with pytest.raises(TimestepError, match="There is no engine 'spark'"):
        home.export_timestep(older, newer, out=tmp_path / "spark", engine="spark")
    with pytest.raises(GraphError):
        home.export_timestep(older, newer, out=tmp_path / "auto")
    with pytest.raises(GraphError):
        home.export_timestep(older, newer, out=tmp_path / "graph", engine="graph", profile="wikifactdiff")


def test_the_wikibigedit_form_has_their_fields_and_our_ids(folders: list[Path]) -> None:
    rows = json.loads((folders[0] / "wikibigedit.json").read_text(encoding="utf-8"))
    theirs = ["tag", "subject", "update", "rephrase", "personas", "ans", "loc", "loc_ans", "mhop", "mhop_ans"]
    assert all(list(row)[:10] == theirs for row in rows)
    germany = next(row for row in rows if row["case_id"] == "Q183:P6:Q61053")
    assert (germany["ans"], germany["old_ans"]) == ("Olaf Scholz", ["Angela Merkel"])
    assert germany["update"] == "Who is the head of government of Germany?"
    assert all(row["object_id"] and (row["tag"] == "new" or row["old_object_ids"]) for row in rows)


def test_another_timestep_in_the_folder_is_not_replaced_unasked(sample_home: Path, folders: list[Path]) -> None:
    older, newer = STEPS[1]
    command = ["export-timestep", "--from", older, "--to", newer, "--out", str(folders[0])]
    result = CliRunner().invoke(main, command, env={"KGEDIT_HOME": str(sample_home)})
    assert result.exit_code == 1
    assert "--overwrite" in result.stderr


def test_dates_in_the_wrong_order_and_dates_not_loaded_are_told_apart(sample_home: Path) -> None:
    environment = {"KGEDIT_HOME": str(sample_home)}
    wrong = CliRunner().invoke(main, ["export-timestep", "--from", "2023-02-27", "--to", "2021-01-04"], env=environment)
    assert "is not before" in wrong.stderr
    absent = CliRunner().invoke(
        main, ["export-timestep", "--from", "2021-01-04", "--to", "2022-01-01"], env=environment
    )
    assert "No snapshot of 2022-01-01 is loaded" in absent.stderr


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"from": "2021-01-04", "to": "2030-01-01"}, "no snapshot of 2030-01-01 (loaded: 2021-01-04, 2023-02-27"),
        ({"from": "2021-02-30", "to": "2023-02-27"}, "'2021-02-30' is not"),
        ({"from": "2023-02-27", "to": "2021-01-04"}, "is not before"),
        ({"from": "2023-02-27", "to": "2023-02-27"}, "is not before"),
    ],
)
def test_a_query_checks_its_dates_against_the_snapshots(
    sample_home: Path, parameters: dict[str, str], message: str
) -> None:
    given = [part for name, text in parameters.items() for part in ("-p", f"{name}={text}")]
    result = CliRunner().invoke(main, ["query", "changed_edges", *given], env={"KGEDIT_HOME": str(sample_home)})
    assert result.exit_code == 1
    assert message in result.stderr


@pytest.fixture
def extended(
    graph: Graph, sample_home: Path, folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Path]:
    """Makes a home with the sample's snapshots and a later one: the third with its tables replaced by queries of them.

    Its graph is on the session's server, so that the sample's own graph need not be built again.
    """
    shutil.copytree(sample_home / "snapshots", tmp_path / "home" / "snapshots")
    monkeypatch.setenv("KGEDIT_GRAPH_URI", graph.address.uri)
    monkeypatch.setenv("KGEDIT_GRAPH_PASSWORD", graph.address.password)

    def extend(date: str, changes: dict[str, str] | None = None) -> Path:
        home = tmp_path / "home"
        snapshot, twin = list_snapshots(home)[-1], home / "snapshots" / date.replace("-", "")
        twin.mkdir()
        for path in (snapshot.claims, snapshot.facts, snapshot.entities):
            change = (changes or {}).get(path.stem, "FROM {table}").format(table=literal(path))
            duckdb.execute(f"COPY ({change}) TO {literal(twin / path.name)} (FORMAT parquet)")
        write_json(twin / "manifest.json", snapshot.manifest | {"date": date})
        Home(home).update_graph()
        return home

    return extend


def test_where_nothing_changed_the_timestep_is_empty_and_valid(extended: Callable[..., Path], tmp_path: Path) -> None:
    """Case 25."""
    home = extended("2025-01-01")
    kgedit(home, "export-timestep", "--from", "2024-06-03", "--to", "2025-01-01", "--out", tmp_path / "empty")
    timestep = Timestep.open(tmp_path / "empty")
    assert timestep.manifest["funnel"]["changed"] == 0
    assert list(timestep.cases()) == []
    for name, schema in TABLES.items():
        assert timestep.table(name).schema == schema


def test_case_37_a_later_snapshot_changes_no_byte_of_an_earlier_window(
    graph: Graph, sample_home: Path, folders: list[Path], extended: Callable[..., Path], tmp_path: Path
) -> None:
    """The later snapshot moves what a window could see of it: labels, degrees, rare pairs, redirects, ends of facts."""
    home = extended("2026-01-01", LATER)
    for number, (older, newer) in enumerate(STEPS):
        again = tmp_path / str(number)
        kgedit(home, "export-timestep", "--from", older, "--to", newer, "--out", again)
        for path in folders[number].iterdir():
            assert path.read_bytes() == (again / path.name).read_bytes(), path.name
    assert graph.rows("MATCH (:Term {label: 'renamed'}) RETURN count(*) AS n")[0]["n"] > 100
    kgedit(home, "drop-snapshot", "2026-01-01")
    assert graph.snapshot_dates() == [snapshot.date for snapshot in list_snapshots(sample_home)]
    assert graph.rows("MATCH (:Term {label: 'renamed'}) RETURN count(*) AS n")[0]["n"] == 0


LATER = {
    # Every third item is renamed, and what was merged before is merged once more.
    "entities": "SELECT * REPLACE (CASE WHEN hash(id) % 3 = 0 THEN 'renamed' ELSE label END AS label, "
    "CASE WHEN redirect_target IS NOT NULL THEN 'Q64' END AS redirect_target, digest + 1 AS digest) FROM {table}",
    # Every fifth fact is gone, and every third item is a human: all pairs with Q5 become less rare.
    "facts": "SELECT * FROM {table} WHERE hash(subject, property) % 5 > 0 UNION ALL SELECT * REPLACE ('P31' AS property, "  # noqa: E501
    "'Q5' AS object) FROM {table} WHERE hash(subject) % 3 = 0 AND property = 'P17'",
}
