"""Two snapshots of several towns, and rows of a file about them: correct ones, and one for each fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from world.dumps import Json, entity_value, quantity_value, snak, statement, time_value
from world.two_days import about, item, two_snapshots

from kgedit.store.snapshots import Snapshot

PEOPLE = {
    "Q200": "Nils Ek",
    "Q201": "Ada Holm",
    "Q202": "Per Lund",
    "Q203": "Eva Berg",
    "Q204": "Jan Sjö",
    "Q205": "Ida Ask",
}


ALIASES = {"Q201": ("A. Holm",), "Q100": ("Arvika stad",)}


def _held(person: str, *qualifiers: Json, rank: str = "normal", relation: str = "P6") -> Json:
    return statement(snak(relation, entity_value(person)), *qualifiers, rank=rank)


def _ended(year: str) -> Json:
    return snak("P582", time_value(f"+{year}-00-00T00:00:00Z", 9))


def _begun(year: str) -> Json:
    return snak("P580", time_value(f"+{year}-00-00T00:00:00Z", 9))


RESTRICTION = snak("P7000", entity_value("Q900"))
"""P7000 is an instance of the restrictive qualifiers."""

_COMMON = [
    item("P6", label="mayor"),
    item("P19", label="place of birth"),
    item("P7000", about("P31", "Q61719275"), label="by whose reckoning"),
    item("Q61719275", label="restrictive qualifier"),
    item("Q900", label="Somebody"),
    item("Q300", label="Falun"),
    item("Q301", label="Hjo"),
]


def _people(births: dict[str, str]) -> list[Json]:
    return [
        item(name, about("P19", births.get(name, "Q300")), label=label, aliases=ALIASES.get(name, ()))
        for name, label in PEOPLE.items()
    ]


TOWNS: dict[str, tuple[str, list[Json], list[Json]]] = {
    # id: label, statements before, statements after
    "Q100": ("Arvika", [_held("Q200")], [_held("Q201")]),
    "Q101": ("Borgholm", [], [_held("Q202")]),
    "Q102": ("Eksjö", [_held("Q200")], [_held("Q203", rank="deprecated"), _held("Q200")]),
    "Q103": ("Gnosjö", [_held("Q200")], [_held("Q203", RESTRICTION)]),
    "Q104": ("Kalix", [_held("Q200")], [_held("Q203", _ended("2022")), _held("Q204")]),
    "Q105": ("Luleå", [_held("Q200")], [_held("Q203", _begun("2030")), _held("Q204")]),
    "Q106": ("Mora", [_held("Q200")], [_held("Q203"), _held("Q204", rank="preferred")]),
    "Q107": ("Nora", [_held("Q200")], [_held("Q203"), _held("Q204")]),
    "Q108": ("Orsa", [_held("Q203")], [_held("Q203")]),
    "Q109": ("Piteå", [_held("Q200")], [_held("Q203")]),
    "Q110": (
        "Rättvik",
        [_held("Q200", snak("P19", entity_value("Q203")))],
        [_held("Q201", snak("P19", entity_value("Q203")))],
    ),
    "Q111": ("Sala", [_held("Q202")], [_held("Q202")]),
    "Q112": (
        "Trosa",
        [statement(snak("P1082", quantity_value("+900")))],
        [statement(snak("P1082", quantity_value("+950")))],
    ),
    "Q113": ("Vara", [_held("Q203")], [_held("Q204")]),
    # The only known fact about Q990 is that it is the mayor.
    "Q115": ("Öjebyn", [_held("Q200")], [_held("Q990")]),
    "Q116": ("Älmhult", [_held("Q202"), _held("Q204")], [_held("Q202"), _held("Q204")]),
    "Q117": ("Uddevalla", [], [statement(snak("P571", time_value("+2022-03-12T00:00:00Z", 11)))]),
    # It is located in Hjo, so a person born in Hjo adds no information about it.
    "Q114": (
        "Åmål",
        [_held("Q200"), _held("Q301", relation="P131")],
        [_held("Q201"), _held("Q301", relation="P131")],
    ),
}


def snapshots(folder: Path) -> tuple[Snapshot, Snapshot]:
    """2021-01-04 and 2023-02-27. Umeå is only in the older one, Ystad only in the newer one."""
    births = {"Q201": "Q301"}
    old = [item(name, *before, label=label) for name, (label, before, _) in TOWNS.items()]
    new = [item(name, *now, label=label, aliases=ALIASES.get(name, ())) for name, (label, _, now) in TOWNS.items()]
    # A second Arvika: the name alone is ambiguous.
    namesake = item("Q50", about("P19", "Q300"), label="arvika", aliases=("Arvika farm",))
    return two_snapshots(
        folder,
        [*_COMMON, *_people({}), *old, namesake, item("Q120", _held("Q200"), label="Umeå")],
        [*_COMMON, *_people(births), *new, namesake, item("Q121", _held("Q201"), label="Ystad")],
    )


def row(town: str, person: str, *, old: str | None = "Q200", ids: bool = True, **changes: Any) -> Json:
    """A row in WikiBigEdit's form: head of a town, a locality question about Sala, and birthplace of the mayor."""
    label = {**{name: kind[0] for name, kind in TOWNS.items()}, "Q120": "Umeå", "Q121": "Ystad"}[town]
    made: Json = {
        "tag": "update" if old else "new",
        "subject": label,
        "update": f"Who is the mayor of {label}?",
        "rephrase": f"Who leads {label}?",
        "ans": PEOPLE[person],
        "loc": "Who is the mayor of Sala?",
        "loc_ans": "Per Lund",
        "mhop": None,
        "mhop_ans": None,
    }
    if ids:
        made |= {
            "case_id": f"{town}:P6:{person}",
            "subject_id": town,
            "relation_id": "P6",
            "object_id": person,
            "old_object_ids": [old] if old else [],
            "old_ans": [PEOPLE[old]] if old else [],
            "loc_ids": [["Q111", "P6", "Q202"]],
        }
    return made | changes


def born(town: str, person: str, place: str) -> Json:
    """Fields of a two-hop question, with ids."""
    return {
        "mhop": "Where was its mayor born?",
        "mhop_ans": {"Q300": "Falun", "Q301": "Hjo"}[place],
        "mhop_ids": [[town, "P6", person], [person, "P19", place]],
    }


RIGHT: dict[str, Json] = {
    "an update with two hops": row("Q100", "Q201", **born("Q100", "Q201", "Q301")),
    "a new value": row("Q101", "Q202", old=None),
}

FAULTS: dict[str, Json] = {
    "no entity of the snapshots is the subject": row("Q100", "Q201", subject_id="Q999"),
    "the subject is not in the newer snapshot": row("Q120", "Q201"),
    "a qualifier, no main statement, has the property": row("Q110", "Q203", relation_id="P19"),
    "no main statement says so": row("Q113", "Q201"),
    "deprecated": row("Q102", "Q203"),
    "true only under a restrictive qualifier": row("Q103", "Q203"),
    "had ended at the newer date": row("Q104", "Q203"),
    "had not begun at the newer date": row("Q105", "Q203"),
    "a statement of better rank holds instead": row("Q106", "Q203"),
    "several current values": row("Q107", "Q203"),
    "the subject is not in the older snapshot": row("Q121", "Q201", old=None),
    "held at the older date already": row("Q108", "Q203"),
    "the old answer did not hold at the older date": row("Q109", "Q203", old="Q205"),
    "called new, and there was a value before": row("Q109", "Q203", old=None),
    "called an update, and there was no value before": row("Q101", "Q202", old=None, tag="update"),
    "a question names the answer": row("Q109", "Q203", rephrase="Does Eva Berg lead Piteå?"),
    "locality: its subject is not in both snapshots": row(
        "Q109", "Q203", loc="Who is the mayor of Ystad?", loc_ans="Ada Holm", loc_ids=[["Q121", "P6", "Q201"]]
    ),
    "locality: it is one of the file's edits": row(
        "Q109", "Q203", loc="Who is the mayor of Arvika?", loc_ans="Ada Holm", loc_ids=[["Q100", "P6", "Q201"]]
    ),
    "locality: the answer does not hold at the newer date": row("Q109", "Q203", loc_ids=[["Q111", "P6", "Q204"]]),
    "locality: it changed in the window": row(
        "Q109", "Q203", loc="Where was Ada Holm born?", loc_ans="Hjo", loc_ids=[["Q201", "P19", "Q301"]]
    ),
    "locality: several current values": row(
        "Q109", "Q203", loc="Who is the mayor of Älmhult?", loc_ans="Per Lund", loc_ids=[["Q116", "P6", "Q202"]]
    ),
    "locality: the question names the answer": row("Q109", "Q203", loc="Is Per Lund the mayor of Sala?"),
    "two hops: the second does not begin where the first ends": row(
        "Q109", "Q203", mhop="Where was its mayor born?", mhop_ans="Falun",
        mhop_ids=[["Q109", "P6", "Q203"], ["Q204", "P19", "Q300"]],
    ),
    "two hops: the bridge is not in the newer snapshot": row(
        "Q115", "Q200", object_id="Q990", **born("Q115", "Q990", "Q301")
    ),
    "two hops: the second fact does not hold at the newer date": row("Q109", "Q203", **born("Q109", "Q203", "Q301")),
    "two hops: the old value gives the same answer": row("Q109", "Q203", **born("Q109", "Q203", "Q300")),
    "two hops: the answer follows from the first subject": row("Q114", "Q201", **born("Q114", "Q201", "Q301")),
    "two hops: the question names the answer": row(
        "Q100", "Q201", **born("Q100", "Q201", "Q301") | {"mhop": "Was its mayor born in Hjo?"}
    ),
}  # fmt: skip
"""Reason -> a row with only this fault."""
