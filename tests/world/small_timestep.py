"""A hand-written timestep: offices and their holders at two dates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.records.cases import Case, Fact, Probe
from kgedit.timesteps.tables import TABLES
from kgedit.timesteps.timestep import Timestep

TOWNS = ["Arvika", "Borgholm", "Djursholm", "Eksjö", "Falun", "Gnosjö", "Hjo", "Kalix", "Luleå", "Mora"]
OLD_MAYORS = [
    "Nils Ek",
    "Ada Holm",
    "Per Lund",
    "Eva Berg",
    "Jan Sjö",
    "Ida Ask",
    "Ulf Rask",
    "Mia Dahl",
    "Bo Ahl",
    "Siv Nyman",
]
NEW_MAYORS = [
    "Olof Gren",
    "Tove Friis",
    "Karl Ros",
    "Lena Ström",
    "Axel Hed",
    "Rut Malm",
    "Stig Ode",
    "Vera Quist",
    "Leo Palm",
    "Asta Wik",
]
RIVERS = [
    "Byälven",
    "Kalmarsund",
    "Stora Värtan",
    "Solgenån",
    "Faluån",
    "Götarpsån",
    "Vättern",
    "Kalixälven",
    "Luleälven",
    "Siljan",
]


def _fact(subject: int, relation: str, label: str, prefix: str, value: str) -> dict[str, Any]:
    return {
        "subject": f"Q{100 + subject}",
        "subject_label": TOWNS[subject],
        "property": relation,
        "property_label": label,
        "object": f"Q{prefix}{subject}",
        "object_label": value,
    }


def _mayor(index: int, names: list[str], prefix: str) -> dict[str, Any]:
    return _fact(index, "P6", "head of government", prefix, names[index])


def _water(index: int) -> dict[str, Any]:
    return _fact(index, "P206", "located next to body of water", "3", RIVERS[index])


def _words(fact: dict[str, Any]) -> dict[str, str]:
    town = fact["subject_label"]
    if fact["property"] == "P6":
        return {
            "question": f"Who is the mayor of {town}?",
            "rephrase": f"Who leads the town of {town}?",
            "cloze": f"The mayor of {town} is",
        }
    return {
        "question": f"Which water does {town} lie at?",
        "rephrase": f"At which water is {town} found?",
        "cloze": f"{town} lies at",
    }


def _case(index: int, names: list[str], prefix: str) -> dict[str, Any]:
    fact = _mayor(index, names, prefix)
    return {
        "case_id": f"{fact['subject']}:P6:{fact['object']}",
        "tag": "update",
        **fact,
        "object_aliases": [f"{names[index]} the Elder"],
        "statement_ids": [],
        "old_objects": [f"Q1{index}"],
        "old_answers": [OLD_MAYORS[index]],
        **_words(fact),
        "persona": "a sailor",
        "personas": f"Ahoy, who be the mayor of {TOWNS[index]}?",
        "start_time": None,
        "point_in_time": None,
        "kind": None,
        "kind_confidence": None,
        "kind_signals": [],
        "label_changed": False,
        "template": "hand",
    }


def _two_hop(index: int, case_id: str) -> dict[str, Any]:
    fact = _fact(index, "P19", "place of birth", "4", TOWNS[(index + 3) % len(TOWNS)])
    asked = f"Where was the mayor of {TOWNS[index]} born?"
    extra = {"second_case_id": None, "object_aliases": [], "chosen": True}
    return {"case_id": case_id, **fact, **extra, "question": asked}


def a_case() -> Case:
    """An edit with one probe, without files."""
    fact = Fact("Q100", TOWNS[0], "P6", "head of government", "Q20", NEW_MAYORS[0])
    probe = Probe("update", f"Who is the mayor of {TOWNS[0]}?", (NEW_MAYORS[0],), (fact,))
    return Case(
        case_id="Q100:P6:Q20",
        timestep="20200101_20210101",
        tag="update",
        fact=fact,
        question=probe.question,
        answer=NEW_MAYORS[0],
        cloze=f"The mayor of {TOWNS[0]} is",
        old_objects=("Q10",),
        old_answers=(OLD_MAYORS[0],),
        probes=(probe,),
    )


def write_timestep(
    folder: Path,
    *,
    name: str = "20200101_20210101",
    towns: range = range(10),
    names: list[str] = NEW_MAYORS,
    prefix: str = "2",
) -> Timestep:
    """Write and open a timestep with one case for each town in `towns` and 20 known facts.

    Ids of the mayors begin with `prefix`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cases = sorted((_case(index, names, prefix) for index in towns), key=lambda row: str(row["case_id"]))
    locality, two_hops = [], []
    for row in cases:
        water = _water(TOWNS.index(row["subject_label"]))
        asked = {
            "object_aliases": [],
            "similarity": 1.0,
            "basis": "graph",
            "question": _words(water)["question"],
        }
        locality.append({"case_id": row["case_id"], **water, **asked})
        two_hops.append(_two_hop(TOWNS.index(row["subject_label"]), row["case_id"]))
    known = [_mayor(index, OLD_MAYORS, "1") for index in range(10)] + [_water(index) for index in range(10)]
    rows = {
        "cases": cases,
        "locality": locality,
        "two_hops": two_hops,
        "known_facts": [{**fact, **_words(fact)} for fact in known],
    }
    for table, schema in TABLES.items():
        pq.write_table(pa.Table.from_pylist(rows[table], schema=schema), folder / f"{table}.parquet")
    (folder / "timestep.json").write_text(json.dumps({"timestep": name}), encoding="utf-8")
    return Timestep.open(folder)
