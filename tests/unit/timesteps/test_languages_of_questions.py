"""Exports in German and Chinese: labels, questions and what has no template."""

from __future__ import annotations

import json
import re
import shlex
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kgedit.loaders.wikidata_json import JsonParser
from world.dumps import Json, entity, load, write_dump
from world.how_to import block
from world.two_days import NEW, OLD, about

from kgedit.cli import main
from kgedit.errors import TimestepError
from kgedit.exporters.unke import export as unke
from kgedit.store.schemas import LoaderOptions
from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.timesteps.export import WikiBigEditSettings, export_timestep
from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.verbalizing import faults_of, wanted_wordings
from kgedit.wording.personas import persona_table, shipped_personas

LABELS = {
    "Q1": ("Switzerland", "Schweiz"),
    "Q2": ("Arvika", "Arvika"),
    "Q20": ("Carl Dahl", "Carl Dahl"),
    "Q21": ("Dag Falk", "Dag Falk"),
    "Q22": ("Eva Gran", None),
    "P6": ("head of government", "Regierungschef"),
    "P7959": ("historic county", "historische Grafschaft"),
}

PERSONAS = [
    ("casual", "Hm, wie heißt noch mal der Regierungschef der Schweiz?"),
    ("casual", "Du, sag mal, wer ist eigentlich der Regierungschef von Arvika?"),
]


def world(head: str, county: str) -> list[Json]:
    facts = {"Q1": [("P6", head)], "Q2": [("P7959", county), ("P6", county)]}
    return [
        entity(
            name,
            *(about(*fact) for fact in facts.get(name, ())),
            labels={
                code: {"language": code, "value": text}
                for code, text in (("en", english), ("de", german))
                if text is not None
            },
        )
        for name, (english, german) in LABELS.items()
    ]


def snapshots(folder: Path, *languages: str) -> tuple[Snapshot, Snapshot]:
    before, after = (
        load(
            folder / "home",
            write_dump(folder / f"{day}.json", world(*facts)),
            day,
            options={"languages": list(languages), "wiki": "enwiki"},
            make_loader=partial(JsonParser, LoaderOptions(languages)),
        )
        for day, facts in ((OLD, ("Q20", "Q20")), (NEW, ("Q21", "Q22")))
    )
    return before, after


def export(folder: Path, languages: tuple[str, ...], **settings: Any) -> Timestep:
    return export_timestep(
        StoreEngine(),
        *snapshots(folder, *languages),
        folder / "out",
        settings=WikiBigEditSettings(language="de", **settings),
    )


@pytest.fixture(scope="module")
def timestep(tmp_path_factory: pytest.TempPathFactory) -> Timestep:
    """The German export without options, which tests only read."""
    return export(tmp_path_factory.mktemp("german"), ("de", "en"))


def test_questions_and_labels_are_german(timestep: Timestep) -> None:
    swiss, arvika = timestep.cases()
    assert swiss.question == "Wer ist der Regierungschef der Schweiz?"
    assert swiss.fact.subject_label == "Schweiz"
    assert swiss.cloze == "Der Regierungschef der Schweiz ist"
    assert arvika.question == "Wer ist der Regierungschef von Arvika?"
    rows = timestep.table("cases").to_pylist()
    assert rows[0]["statement"] == "Der Regierungschef der Schweiz ist Dag Falk."
    assert rows[0]["name"] == "die Schweiz"
    assert [(row["persona"], row["personas"]) for row in rows] == PERSONAS
    assert timestep.manifest["settings"]["language"] == "de"


def test_reworded_questions_are_judged_in_german(timestep: Timestep) -> None:
    """Names without their inflected article, relations by the words of the German templates."""
    axes = ("update", "rephrase", "personas")
    wanted = wanted_wordings(timestep, axes=axes)
    assert faults_of([(one.asking, one.templates) for one in wanted]) == [[None] * len(one.templates) for one in wanted]
    assert wanted[0].record["subject"] == "die Schweiz"
    texts = ["Wer leitet die Regierung und die Schweiz?", "Wer ist das Oberhaupt?", "Wer wohnt in der Schweiz?"]
    assert faults_of([(wanted[0].asking, texts)]) == [[None, "the subject is missing", "the relation is not expressed"]]


def test_a_frame_in_german_is_put_before_the_german_question(tmp_path: Path) -> None:
    timestep = export(tmp_path, ("de", "en"), persona_style="framed")
    for row in timestep.table("cases").to_pylist():
        before, _, after = row["personas"].partition(row["question"])
        assert after == ""
        assert f"{before}{{question}}" in persona_table(shipped_personas("de"))["frame"].to_pylist()


def test_a_property_without_a_template_is_counted_and_never_asked_for_in_english(timestep: Timestep) -> None:
    assert timestep.manifest["without_template"] == {"P7959": 1}
    assert timestep.manifest["funnel"]["dropped"]["no template in the language"] == 1
    assert timestep.manifest["labels_in_other_languages"] == 1
    assert "P7959" not in {case.fact.property for case in timestep.cases()}


def chinese_world(capital: str) -> list[Json]:
    labels = {
        "Q1": ("Norway", "挪威"),
        "Q20": ("Bergen", "卑尔根"),
        "Q21": ("Oslo", "奥斯陆"),
        "P36": ("capital", "首都"),
    }
    return [
        entity(
            name,
            *([about("P36", capital)] if name == "Q1" else []),
            labels={code: {"language": code, "value": text} for code, text in zip(("en", "zh"), both, strict=True)},
        )
        for name, both in labels.items()
    ]


def test_an_export_in_chinese_has_chinese_labels_and_full_stops(tmp_path: Path) -> None:
    before, after = (
        load(
            tmp_path / "home",
            write_dump(tmp_path / f"{day}.json", chinese_world(capital)),
            day,
            options={"languages": ["zh", "en"], "wiki": "enwiki"},
            make_loader=partial(JsonParser, LoaderOptions(("zh", "en"))),
        )
        for day, capital in ((OLD, "Q20"), (NEW, "Q21"))
    )
    settings = WikiBigEditSettings(language="zh")
    timestep = export_timestep(StoreEngine(), before, after, tmp_path / "out", settings=settings, writers=[unke])
    (case,) = timestep.cases()
    assert (case.question, case.answer, case.old_answers) == ("挪威的首都或首府是哪里？", "奥斯陆", ("卑尔根",))
    (row,) = timestep.table("cases").to_pylist()
    assert row["statement"] == "挪威的首都或首府是奥斯陆。"
    assert row["personas"] == "扬帆起航，可挪威的首都或首府是哪里？"
    (paragraph,) = json.loads((timestep.folder / "unke.json").read_text(encoding="utf-8"))
    assert paragraph["answer"] == "挪威的首都或首府是奥斯陆，此前是卑尔根。"
    assert paragraph["question"] == "自2021年以来，挪威有哪些变化？"


@pytest.mark.slow
def test_the_commands_of_the_german_page_print_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "kgedit-data"))
    printed = ""
    for line in block("german.md", "sh").splitlines():
        ran = CliRunner().invoke(main, shlex.split(line)[1:])
        assert ran.exit_code == 0, ran.output
        printed = ran.stderr
    assert block("german.md", "text").strip() in printed
    (folder,) = (tmp_path / "kgedit-data" / "timesteps").iterdir()
    asked = {probe.question: probe.answers[0] for case in Timestep.open(folder).cases() for probe in case.probes}
    page = (Path(__file__).resolve().parents[3] / "docs" / "how-to" / "german.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| (.*\?) \| (.*) \|$", page, re.MULTILINE)
    assert len(shown) == 4
    assert dict(shown).items() <= asked.items()


def test_labels_of_another_language_are_refused_with_the_command_that_loads_them(tmp_path: Path) -> None:
    with pytest.raises(TimestepError, match=r"labels of 2021-01-04 are in 'en'.*language de language en"):
        export(tmp_path, ("en",))


def test_dates_are_named_in_english_only(tmp_path: Path) -> None:
    with pytest.raises(TimestepError, match="has dates in English only"):
        export(tmp_path, ("de", "en"), ask_as_of=True)
