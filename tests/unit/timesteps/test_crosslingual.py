"""An edit in English is asked for in German, with the questions of the German timestep of the same window."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
from kgedit.loaders.wikidata_json import JsonParser
from world.dumps import Json, entity, load, write_dump
from world.small_runs import answer
from world.two_days import NEW, OLD, about

from kgedit.errors import TimestepError
from kgedit.metrics.answer_table import answer_table
from kgedit.store.schemas import LoaderOptions
from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.crosslingual import languages_of
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.timesteps.export import WikiBigEditSettings, describe_export, export_timestep
from kgedit.timesteps.timestep import Timestep

pytestmark = pytest.mark.slow

LABELS = {
    "Q1": ("Switzerland", "Schweiz"),
    "Q2": ("Arvika", "Arvika"),
    "Q20": ("Bern", "Bern"),
    "Q21": ("Geneva", "Genf"),
    "Q22": ("Lucerne", "Luzern"),
    "P36": ("capital", "Hauptstadt"),
    "P7959": ("historic county", "historische Grafschaft"),
}


def world(capital: str, county: str) -> list[Json]:
    facts = {"Q1": [("P36", capital)], "Q2": [("P7959", county)]}
    return [
        entity(
            name,
            *(about(*fact) for fact in facts.get(name, ())),
            labels={code: {"language": code, "value": text} for code, text in zip(("en", "de"), texts, strict=True)},
            aliases={"de": [{"language": "de", "value": "Genève"}]} if name == "Q21" else {},
        )
        for name, texts in LABELS.items()
    ]


def snapshots(folder: Path, *languages: str, new: str = NEW) -> tuple[Snapshot, Snapshot]:
    before, after = (
        load(
            folder,
            write_dump(folder / f"{day}.json", world(*facts)),
            day,
            options={"languages": list(languages), "wiki": "enwiki"},
            make_loader=partial(JsonParser, LoaderOptions(languages)),
        )
        for day, facts in ((OLD, ("Q20", "Q20")), (new, ("Q21", "Q22")))
    )
    return before, after


def german(folder: Path, *, new: str = NEW) -> Timestep:
    pair = snapshots(folder / "de", "de", "en", new=new)
    return in_german(pair, folder / "de" / f"{pair[0].date}_{pair[1].date}")


def in_german(pair: tuple[Snapshot, Snapshot], folder: Path, *, seed: int = 0) -> Timestep:
    return export_timestep(StoreEngine(), *pair, folder, settings=WikiBigEditSettings(language="de", seed=seed))


def in_english(pair: tuple[Snapshot, Snapshot], folder: Path, other: Path | None) -> Timestep:
    return export_timestep(StoreEngine(), *pair, folder, settings=WikiBigEditSettings(crosslingual=other))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Timestep:
    """The German timestep, which tests only read."""
    return german(tmp_path_factory.mktemp("german"))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Snapshot, Snapshot]:
    """The English snapshots."""
    return snapshots(tmp_path_factory.mktemp("english"), "en")


@pytest.fixture(scope="module")
def timestep(tmp_path_factory: pytest.TempPathFactory, pair: tuple[Snapshot, Snapshot], other: Timestep) -> Timestep:
    """The English timestep with German questions."""
    return in_english(pair, tmp_path_factory.mktemp("both") / "out", other.folder)


def test_an_english_edit_is_asked_for_in_german_and_answered_with_the_german_label(timestep: Timestep) -> None:
    county, swiss = sorted(timestep.cases(), key=lambda case: -int(case.fact.property[1:]))
    assert (swiss.question, swiss.answer) == ("What is the capital of Switzerland?", "Geneva")
    (asked,) = [probe for probe in swiss.probes if probe.axis == "crosslingual"]
    assert asked.question == "Welche Stadt ist die Hauptstadt der Schweiz?"
    assert asked.answers == ("Genf", "Genève")
    assert asked.facts[0].subject_label == "Schweiz"
    assert asked.chain is not None
    assert asked.chain.old_answers == ("Bern",)
    # P7959 has no German template, so the German timestep has no such case.
    assert "crosslingual" not in {probe.axis for probe in county.probes}
    assert timestep.manifest["crosslingual"] == {"language": "de", "asked": 1, "cases_without": 1}
    assert languages_of(timestep) == {"de", "en"}


def test_the_other_questions_are_the_same_without_the_other_language(
    pair: tuple[Snapshot, Snapshot], timestep: Timestep, tmp_path: Path
) -> None:
    alone = in_english(pair, tmp_path / "alone", None)
    assert "crosslingual" not in alone.manifest["tables"]
    for name in ("cases", "locality", "two_hops", "known_facts"):
        assert alone.table(name).equals(timestep.table(name))


def test_a_changed_timestep_in_the_other_language_makes_it_another_export(
    pair: tuple[Snapshot, Snapshot], other: Timestep, tmp_path: Path
) -> None:
    folder = tmp_path / other.name
    shutil.copytree(other.folder, folder)
    settings = WikiBigEditSettings(crosslingual=folder)
    before = describe_export(*pair, [], settings=settings)["settings"]["crosslingual"]
    in_german(snapshots(tmp_path / "de", "de", "en"), folder, seed=1)
    assert describe_export(*pair, [], settings=settings)["settings"]["crosslingual"] != before


def test_a_folder_of_timesteps_is_searched_by_name(
    pair: tuple[Snapshot, Snapshot], other: Timestep, tmp_path: Path
) -> None:
    assert in_english(pair, tmp_path / "out", other.folder.parent).manifest["crosslingual"]["asked"] == 1


def test_a_timestep_of_other_dates_or_of_the_same_language_is_refused(
    pair: tuple[Snapshot, Snapshot], timestep: Timestep, tmp_path: Path
) -> None:
    later = german(tmp_path, new="2024-01-01")
    with pytest.raises(TimestepError, match=r"come from the timestep \d+_\d+ of the profile wikibigedit"):
        in_english(pair, tmp_path / "out", later.folder)
    with pytest.raises(TimestepError, match="are in 'en', as those of this export"):
        in_english(pair, tmp_path / "out", timestep.folder)


@pytest.mark.parametrize(("text", "error"), [("Bern.", "old answer"), ("Geneva.", "incorrect"), ("Genf.", None)])
def test_answers_are_judged_in_the_language_of_the_question(timestep: Timestep, text: str, error: str | None) -> None:
    (asked,) = [probe for case in timestep.cases() for probe in case.probes if probe.axis == "crosslingual"]
    given = answer(axis=asked.axis, question=asked.question, answers=asked.answers, chain=asked.chain, text=text)
    metrics = {given.preset: "contains"}
    batch = next(iter(answer_table([given], metrics, timesteps=[given.timestep], old_answers={})))
    (row,) = batch.to_pylist()
    assert (row["error"], row["right"]) == (error, error is None)
    assert row["hops"] is None
