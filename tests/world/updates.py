"""Hand-made snapshots for the WikiFactDiff profile: one subject per case, with the expected outcome."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from world.dumps import Json, entity, entity_value, quantity_value, snak, statement, text_value, time_value
from world.two_days import NEW, OLD, two_snapshots

from kgedit.store.snapshots import Snapshot
from kgedit.store.window import Window
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.timesteps.profiles import PAPER, Behaviour
from kgedit.timesteps.wikifactdiff.classification import classify, find_functional
from kgedit.timesteps.wikifactdiff.difference import compare, find_changed, find_new_entities, preprocess
from kgedit.timesteps.wikifactdiff.scenarios import find_updates
from kgedit.timesteps.wikifactdiff.values import word_values
from kgedit.timesteps.wikifactdiff.workspace import open_workspace

__all__ = ["NEW", "OLD"]

Case = tuple[list[Json] | None, list[Json] | None]
"""Statements of a subject in the older and in the newer snapshot; None if the snapshot lacks it."""


def article(name: str, *statements: Json, label: str | None = None) -> Json:
    """An item with a label and an article in the English Wikipedia."""
    title = label or f"Item {name}"
    links = {} if name[0] == "P" else {"sitelinks": {"enwiki": {"site": "enwiki", "title": title, "badges": []}}}
    return entity(name, *statements, label=title, **links)


def date(text: str) -> Json:
    """A date with the precision of its spelling: 2021-03-12, 2021-03 or 2021."""
    parts = text.split("-")
    return time_value(f"+{'-'.join([*parts, '00', '00'][:3])}T00:00:00Z", 8 + len(parts))


def said(
    property_id: str,
    value: str | Json,
    *,
    start: str | None = None,
    end: str | None = None,
    point: str | None = None,
    rank: str = "normal",
    also: tuple[tuple[str, str], ...] = (),
) -> Json:
    """A statement; `value` is an item id, a value, "somevalue" or "novalue"; `also` contains further qualifiers."""
    main = entity_value(value) if isinstance(value, str) and value[0] == "Q" else value
    times = [
        snak(name, text if text == "somevalue" else date(text))
        for name, text in (("P580", start), ("P582", end), ("P585", point))
        if text
    ]
    further = [snak(name, entity_value(item)) for name, item in also]
    datatype = {"quantity": "quantity", "time": "time", "string": "string"}
    kind = datatype.get(main["type"], "wikibase-item") if isinstance(main, dict) else None
    return statement(snak(property_id, main, kind), *times, *further, rank=rank)


def number(amount: str, unit: str = "1", **bounds: str) -> Json:
    address = unit if unit == "1" else f"http://www.wikidata.org/entity/{unit}"
    return quantity_value(f"+{amount}", address, **bounds)


def functional(property_id: str, *separators: str) -> Json:
    constraint = said("P2302", "Q52060874", also=tuple(("P4155", separator) for separator in separators))
    separated = [snak("P4155", entity_value(name)) for name in separators]
    return article(property_id, statement(constraint["mainsnak"], *separated))


VALUES = [article(f"Q{number}", label=f"Value {number}") for number in range(101, 121)]

SCHEMA = [
    functional("P6", "P580", "P582"),
    functional("P1082", "P585"),
    *(article(name) for name in ("P54", "P31", "P39", "P571", "P577", "P570", "P2046", "P1448")),
    # A restrictive qualifier, as a subclass of that class, and one about Wikimedia's own pages.
    article("P518", said("P31", "Q90")),
    article("P910", said("P31", "Q91")),
    article("Q90", said("P279", "Q61719275")),
    article("Q91", said("P279", "Q51118821")),
    article("Q92", said("P279", "Q4167410")),
    article("Q103", label="Value 103"),
    article("Q80", said("P31", "Q92"), label="A disambiguation page"),
    article("Q712226", label="square kilometre"),
    entity("Q81", label="An item without an article"),
]
SCHEMA = [one for one in SCHEMA if one["id"] != "Q103"]

_STEADY = said("P31", "Q120")
"""Statement of every subject in both snapshots, so that none disappears."""


def worlds(cases: dict[str, Case], *, steady: bool = True) -> tuple[list[Json], list[Json]]:
    """Both snapshots; subjects of the cases are Q1001, Q1002, ... in order."""
    sides: tuple[list[Json], list[Json]] = (SCHEMA + VALUES, SCHEMA + VALUES)
    for place, (name, case) in enumerate(cases.items(), start=1):
        for k, statements in enumerate(case):
            if statements is not None:
                own = [*statements, _STEADY] if steady else statements
                sides[k].append(article(f"Q{1000 + place}", *own, label=name))
        sides = (sides[0][:], sides[1][:])
    return sides


def run_steps(
    old: Snapshot, new: Snapshot, folder: Path, behaviour: Behaviour = PAPER, *, seed: int = 0
) -> tuple[Window, dict[str, object]]:
    """Run all steps up to the scenarios; returns the workspace, which the caller closes, and the funnel."""
    both = open_workspace(old, new, spill=folder / "spill")
    workspace, window = both.connection, {"old": old.date, "new": new.date}
    find_functional(StoreEngine(), both, "constraints")
    find_changed(StoreEngine(), both)
    preprocess(workspace, behaviour, **window)
    find_new_entities(workspace, behaviour, **window)
    compare(workspace)
    classify(workspace, behaviour, **window)
    word_values(workspace)
    return both, find_updates(workspace, behaviour, seed=seed)


def outcomes(
    folder: Path, cases: dict[str, Case], behaviour: Behaviour = PAPER, *, steady: bool = True
) -> dict[tuple[str, str], object]:
    """By case and property: the scenario with each value's decision, or the reason why the group was dropped."""
    window, _ = run_steps(*two_snapshots(folder, *worlds(cases, steady=steady)), folder, behaviour)
    workspace = window.connection
    names = {f"Q{1000 + place}": name for place, name in enumerate(cases, start=1)}
    outcomes_by_fact: dict[tuple[str, str], object] = {}
    for subject, property_id, reason in workspace.execute(
        "SELECT subject, property, reason FROM judged_group WHERE reason IS NOT NULL"
    ).fetchall():
        outcomes_by_fact[names.get(subject, subject), property_id] = reason
    for subject, property_id, scenario in workspace.execute(
        "SELECT subject, property, scenario FROM update_group"
    ).fetchall():
        rows = workspace.execute(
            "SELECT label, decision FROM update_object WHERE subject = ? AND property = ? ORDER BY label",
            [subject, property_id],
        ).fetchall()
        outcomes_by_fact[names[subject], property_id] = (
            scenario,
            {label.replace("Value ", ""): decision for label, decision in rows},
        )
    window.close()
    return outcomes_by_fact


def only(behaviour: str) -> Behaviour:
    """Rules of the paper with one deviation of the released code."""
    return replace(PAPER, **{behaviour: True})


def text(words: str) -> Json:
    return text_value(words)
