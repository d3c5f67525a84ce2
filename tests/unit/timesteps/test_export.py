"""A whole timestep of a small hand-made world, without a server: tags, labels, aliases, old answers, locality."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kgedit.loaders.wikidata_json import JsonParser
from world.dumps import Json, load, write_dump
from world.two_days import about, item, two_snapshots

from kgedit.errors import StoreError, TimestepError
from kgedit.records.cases import Case, Specificity
from kgedit.store.files import working_folder
from kgedit.store.schemas import LoaderOptions
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.timesteps.export import WikiBigEditSettings, export_timestep
from kgedit.timesteps.timestep import Timestep
from kgedit.verbs.export_options import KIND_EMBEDDER, ExportOptions

LEADERS = [item(f"Q{number}", label=f"Leader {number}") for number in range(200, 210)]


def places(*pairs: tuple[str, str], kinds: dict[str, list[str]]) -> list[Json]:
    """Places with their leaders; `kinds` gives a place its classes."""
    return [
        item(name, about("P6", leader), *(about("P31", kind) for kind in kinds.get(name, [])), label=LABELS[name])
        for name, leader in pairs
    ]


LABELS = {"Q1": "Arvika", "Q2": "Borgholm", "Q3": "Eksjö", "Q4": "Falun", "Q5": "Borgholmen", "Q6": "Kalix"}
KINDS = {"Q1": ["Q50", "Q51"], "Q3": [], "Q4": ["Q50"], "Q6": ["Q50", "Q51"]}

OLD = [
    item("P6", label="head"),
    *(item(name, label=f"Kind {name}") for name in ("Q50", "Q51")),
    *LEADERS,
    *places(("Q1", "Q200"), ("Q4", "Q204"), ("Q5", "Q205"), ("Q6", "Q206"), kinds=KINDS),
    item("Q2", label="Borgholm"),
    # Two current leaders at once, given in another order than that of their ids.
    item("Q3", about("P6", "Q202"), about("P6", "Q201"), label="Eksjö"),
]
NEW = [
    item("P6", label="leader"),
    *(item(name, label=f"Kind {name}") for name in ("Q50", "Q51")),
    *LEADERS[:6],
    item("Q206", label="Leader 206", aliases=("L. Kalix",)),
    item("Q207", label="Leader 207", aliases=("L. Arvika", "Leo")),
    item("Q208", label="Leader 208"),
    item("Q209", label="Leader the ninth"),
    *places(("Q1", "Q207"), ("Q4", "Q204"), ("Q5", "Q205"), ("Q6", "Q206"), kinds=KINDS),
    item("Q2", about("P6", "Q208"), label="Borgholm"),
    item("Q3", about("P6", "Q209"), label="Eksjö"),
]


def export(folder: Path, old: list[Json] = OLD, new: list[Json] = NEW, **settings: Any) -> Timestep:
    before, after = two_snapshots(folder, old, new)
    return export_timestep(StoreEngine(), before, after, folder / "timestep", settings=WikiBigEditSettings(**settings))


@pytest.fixture(scope="module")
def timestep(tmp_path_factory: pytest.TempPathFactory) -> Timestep:
    return export(tmp_path_factory.mktemp("exported"))


@pytest.fixture(scope="module")
def cases(timestep: Timestep) -> dict[str, Case]:
    return {case.fact.subject: case for case in timestep.cases()}


def rows(timestep: Timestep, table: str) -> dict[str, dict[str, Any]]:
    return {row["case_id"].partition(":")[0]: row for row in timestep.table(table).to_pylist()}


def locality_of(case: Case) -> tuple[str, tuple[str, ...]]:
    (probe,) = (probe for probe in case.probes if probe.axis == "locality")
    return probe.facts[0].subject, probe.answers


@pytest.mark.slow
def test_a_subject_without_an_old_value_is_new_and_any_other_an_update(cases: dict[str, Case]) -> None:
    assert {subject: case.tag for subject, case in cases.items()} == {"Q1": "update", "Q2": "new", "Q3": "update"}


def test_the_number_of_old_values_decides_the_scenario(cases: dict[str, Case]) -> None:
    result = {name: case.scenario for name, case in cases.items()}
    assert result == {"Q1": "ReplaceObject", "Q2": "AddRelation", "Q3": "Other"}


def test_the_answers_of_every_probe_are_the_label_and_then_the_aliases(cases: dict[str, Case]) -> None:
    own = {probe.axis: probe.answers for probe in cases["Q1"].probes if probe.axis != "locality"}
    assert own == dict.fromkeys(("update", "rephrase", "personas"), ("Leader 207", "L. Arvika", "Leo"))
    assert locality_of(cases["Q1"]) == ("Q6", ("Leader 206", "L. Kalix"))


def test_the_table_of_cases_holds_each_answer_and_its_type(timestep: Timestep) -> None:
    result = {subject: (row["answer"], row["answer_type"]) for subject, row in rows(timestep, "cases").items()}
    assert result == {
        "Q1": ("Leader 207", "person"),
        "Q2": ("Leader 208", "person"),
        "Q3": ("Leader the ninth", "person"),
    }


def test_old_objects_and_their_labels_are_in_the_order_of_ids(cases: dict[str, Case]) -> None:
    assert (cases["Q3"].old_objects, cases["Q3"].old_answers) == (("Q201", "Q202"), ("Leader 201", "Leader 202"))
    assert (cases["Q2"].old_objects, cases["Q2"].old_answers) == ((), ())


def test_a_relation_is_named_as_in_the_newer_snapshot_and_a_known_fact_as_in_the_older(timestep: Timestep) -> None:
    for case in timestep.cases():
        assert {fact.property_label for probe in case.probes for fact in probe.facts} == {"leader"}
    assert {known.fact.property_label for known in timestep.known_facts()} == {"head"}


def test_an_old_answer_that_was_merged_is_a_known_fact(tmp_path: Path) -> None:
    names = {"Q1": "Arvika", "Q20": "Carl Dahl", "Q21": "Dag Falk", "Q22": "Carl Dahlberg", "P6": "mayor"}
    before, after = (
        [item(name, *([about("P6", leader)] if name == "Q1" else []), label=names[name]) for name in here]
        for leader, here in (("Q20", ["Q1", "Q20", "Q21", "P6"]), ("Q21", ["Q1", "Q21", "Q22", "P6"]))
    )
    window = two_snapshots(tmp_path, before, after, redirects="Q20 Q22")
    timestep = export_timestep(StoreEngine(), *window, tmp_path / "edits", settings=WikiBigEditSettings())
    (case,), (known,) = timestep.cases(), timestep.known_facts()
    assert (known.fact.object, known.answer) == (case.old_objects[0], case.old_answers[0]) == ("Q22", "Carl Dahlberg")


@pytest.mark.slow
def test_a_label_counts_as_changed_if_it_is_another_one_in_the_older_snapshot(
    timestep: Timestep, tmp_path: Path
) -> None:
    # Q209 was Leader 209.
    assert {subject: row["label_changed"] for subject, row in rows(timestep, "cases").items()} == {
        "Q1": False,
        "Q2": False,
        "Q3": True,
    }
    renamed = [item("Q2", label="Borgholm town") if entity["id"] == "Q2" else entity for entity in OLD]
    assert {subject: row["label_changed"] for subject, row in rows(export(tmp_path, renamed), "cases").items()} == {
        "Q1": False,
        "Q2": True,
        "Q3": True,
    }


def test_locality_is_about_the_subject_that_shares_most_or_else_is_named_most_alike(
    timestep: Timestep, cases: dict[str, Case]
) -> None:
    # Q6 shares two classes with Q1, and Q4, which comes before it, one.
    items = sum(entity["id"].startswith("Q") for entity in OLD)
    rarity = math.log(items / 3) + math.log(items / 2)
    assert rows(timestep, "locality")["Q1"]["similarity"] == pytest.approx(rarity, abs=2e-6)
    # Q2 shares nothing: of Falun, Borgholmen and Kalix the second is most similar to Borgholm.
    assert locality_of(cases["Q2"])[0] == "Q5"
    assert 0.9 < rows(timestep, "locality")["Q2"]["similarity"] < 1


@pytest.mark.slow
def test_two_exports_into_one_folder_do_not_share_a_working_folder(tmp_path: Path) -> None:
    with (
        working_folder(tmp_path / "timestep"),
        pytest.raises(StoreError, match="Another kgedit process is writing"),
    ):
        export(tmp_path)


@pytest.mark.slow
def test_no_more_facts_are_taken_than_asked_for(tmp_path: Path, timestep: Timestep) -> None:
    few = export(tmp_path, pool=1, known_facts=2)
    assert len(few.known_facts()) == 2
    assert len(timestep.known_facts()) > 2
    # The pool of one holds Falun, the first subject.
    assert {case.fact.subject: locality_of(case)[0] for case in few.cases()} == {"Q1": "Q6", "Q2": "Q4", "Q3": "Q4"}


@pytest.mark.slow
def test_of_many_similar_facts_the_most_similar_are_considered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgedit.timesteps.locality.CANDIDATES", 1)
    cases = {case.fact.subject: case for case in export(tmp_path).cases()}
    assert locality_of(cases["Q1"])[0] == "Q6"


@pytest.mark.slow
def test_labelled_changes_train_a_classifier_that_compares_meanings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        f"Q{n},P6,item,Leader {n},{new},{kind}"
        for n in range(9)
        for new, kind in (("Gale", "update"), ("L", "text edit"))
    ]
    labelled = tmp_path / "edits.csv"
    labelled.write_text("\n".join(["subject,property,value_type,old_text,new_text,kind", *rows]), encoding="utf-8")
    embedded: list[str] = []

    def load(name: str, *, device: str) -> Any:
        assert (name, device) == (KIND_EMBEDDER, "cpu")
        return lambda texts: embedded.extend(texts) or np.ones((len(texts), 1), np.float32)

    monkeypatch.setattr("kgedit.timesteps.export.load_embedder", load)
    settings = ExportOptions(labelled_changes=labelled).wikibigedit()
    before, after = two_snapshots(tmp_path, OLD, NEW)
    made = export_timestep(StoreEngine(), before, after, tmp_path / "timestep", settings=settings)
    assert {"Gale", "Leader 8", "Leader 207"} <= set(embedded)  # of the file, and of the changes
    assert made.manifest["settings"]["kind_embedder"] == KIND_EMBEDDER
    assert ExportOptions(labelled_changes=labelled, kind_embedder="none").wikibigedit().kind_embedder is None
    with pytest.raises(TimestepError, match="kind_embedder is of use with labelled_changes"):
        ExportOptions(kind_embedder="character-ngrams").check()


@pytest.mark.slow
def test_every_case_has_a_kind_of_change_and_only_those_asked_for_are_kept(tmp_path: Path, timestep: Timestep) -> None:
    kinds = {subject: row["kind"] for subject, row in rows(timestep, "cases").items()}
    # Borgholm had no leader: one without a date may have been in office all the time.
    assert kinds == {"Q1": "update", "Q2": "backfill", "Q3": "update"}
    assert timestep.manifest["kinds"] == {"backfill": 1, "update": 2}
    assert {case.fact.subject: case.kind for case in timestep.cases()} == kinds
    for row in rows(timestep, "cases").values():
        assert 0 <= row["kind_confidence"] <= 1
        assert row["kind_signals"]
    few = export(tmp_path, kinds=("update",))
    assert {case.fact.subject for case in few.cases()} == {"Q1", "Q3"}
    assert few.manifest["funnel"]["dropped"]["another kind of change than asked for"] == 1
    assert few.manifest["funnel"]["kept"] == 2


@pytest.mark.slow
def test_page_views_and_counts_are_columns_of_both_sides(tmp_path: Path) -> None:
    titled = [record | {"sitelinks": {"enwiki": {"site": "enwiki", "title": LABELS[record["id"]]}}}
              if record["id"] in ("Q1", "Q2") else record for record in NEW]  # fmt: skip
    views = tmp_path / "pageviews-202301-user"
    views.write_text("en.wikipedia Arvika 1 desktop 7 A7\nen.wikipedia Arvika 1 mobile-web 2 A2\n", encoding="utf-8")
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("Arvika? Leader the ninth, Leader the\nninth: Eksjö.", encoding="utf-8")
    made = export(tmp_path, new=titled, pageviews=(views,), counts=corpus)
    found = {case.fact.subject: case.specificity for case in made.cases()}
    assert found["Q1"] == Specificity(9, None, 1, 0)
    assert found["Q2"] == Specificity(0, None, 0, 0), "an article that nobody viewed"
    assert found["Q3"] == Specificity(None, None, 1, 2), "no article"
    assert made.manifest["specificity"] == {"subject_views": 2, "subject_count": 3, "object_count": 3}
    assert made.manifest["page_views"]["months"] == [202301]
    assert made.manifest["settings"]["counts"].keys() == {"corpus.txt"}


@pytest.mark.slow
def test_page_views_are_those_of_the_snapshots_wiki(tmp_path: Path) -> None:
    titled = [
        record | {"sitelinks": {"dewiki": {"site": "dewiki", "title": LABELS[record["id"]]}}}
        if record["id"] in LABELS
        else record
        for record in NEW
    ]
    views = tmp_path / "pageviews-202301-user"
    lines = [f"{wiki}.wikipedia Arvika 1 desktop {count} A1\n" for wiki, count in (("de", 30), ("en", 7))]
    views.write_text("".join(lines), encoding="utf-8")
    options = LoaderOptions(wiki="dewiki")
    before, after = (
        load(
            tmp_path / "home",
            write_dump(tmp_path / f"{date}.json", world),
            date,
            make_loader=partial(JsonParser, options),
            options={"languages": list(options.languages), "wiki": options.wiki},
        )
        for date, world in (("2021-01-04", OLD), ("2023-02-27", titled))
    )
    settings = WikiBigEditSettings(pageviews=(views,))
    made = export_timestep(StoreEngine(), before, after, tmp_path / "timestep", settings=settings)
    assert {case.specificity.subject_views for case in made.cases() if case.fact.subject == "Q1"} == {30}


def test_without_page_views_and_counts_the_columns_are_null(timestep: Timestep) -> None:
    assert all(case.specificity == Specificity() for case in timestep.cases())
    assert not {"specificity", "page_views"} & timestep.manifest.keys()
