"""Three snapshots of a small world that covers everything `kgedit explore` shows."""

from __future__ import annotations

from pathlib import Path

from world.dumps import Json, entity, entity_value, load, quantity_value, snak, statement, time_value, write_dump
from world.hostile import HOSTILE

DATES = ("2021-01-04", "2023-02-27", "2024-06-03")
DAYS = (20210104, 20230227, 20240603)


def _leads(leader: str, name: str, *, since: str | None = None, until: str | None = None, rank: str = "normal") -> Json:
    times = [snak(pid, time_value(f"+{day}T00:00:00Z", 11)) for pid, day in (("P580", since), ("P582", until)) if day]
    return statement(snak("P6", entity_value(leader)), *times, statement_id=name, rank=rank)


def _people(count: str) -> Json:
    return statement(snak("P1082", quantity_value(f"+{count}", "http://www.wikidata.org/entity/Q90")), statement_id="P")


def _item(name: str, *statements: Json, label: str | None = None, aliases: tuple[str, ...] = (), rev: int = 1) -> Json:
    named = {"en": [{"language": "en", "value": alias} for alias in aliases]} if aliases else {}
    article = {"enwiki": {"site": "enwiki", "title": f"Article {name}"}}  # the profile wikifactdiff requires one
    return entity(name, *statements, label=label, aliases=named, lastrevid=rev, sitelinks=article)


_NAMED = [
    _item("P6", label="head"),
    _item("P1082", label="people"),
    _item("P47", label="neighbour"),
    _item("Q90", label="heads"),
    *(_item(f"Q{number}", label=f"Leader {number}") for number in (21, 22, 23, 24)),
    *(_item(f"Q{700 + number}", label=label) for number, label in enumerate(HOSTILE)),
]

LEADER = "Q1$11111111-2222-4333-8444-555555555555"
"""A statement with an id in Wikidata's form."""


def _next_to(*others: str) -> list[Json]:
    return [statement(snak("P47", entity_value(other)), statement_id=f"N{other}") for other in others]


def _lands(hostile: int, *first: Json) -> list[Json]:
    """Countries that border several others, and hostile items, each with a changing hostile head."""
    leaders = [f"Q{700 + (number + hostile) % len(HOSTILE)}" for number in range(len(HOSTILE))]
    return [
        *first,
        *(_item(f"Q{800 + number}", _leads(leader, f"H{number}"), label=label)
          for number, (leader, label) in enumerate(zip(leaders, HOSTILE, strict=True))),
    ]  # fmt: skip


def write_explored(folder: Path) -> Path:
    """Load the three snapshots; returns the home.

    Arvika's leader 21 is replaced by 22 and, in the last snapshot, by 24, into which 22 was merged, so nothing changes
    there. Borgå is renamed, loses a leader and regains him. Falun appears, Kalix disappears. One of Ekerö's neighbours
    is added and another removed.
    """
    old = _lands(0,
        _item("Q1", _leads("Q21", LEADER, since="2019-05-01"), _people("100"),
              label="Arvika", aliases=("Old Town",), rev=11),
        _item("Q2", _leads("Q23", "B"), label="Borga"),
        _item("Q3", *_next_to("Q1", "Q2"), label="Ekerö", aliases=("Isle of Ekerö",)),
        _item("Q5", _leads("Q23", "K"), label="Kalix"),
    )  # fmt: skip
    middle = _lands(1,
        _item("Q1", _leads("Q21", LEADER, since="2019-05-01", until="2022-02-02"),
              _leads("Q22", "S2", since="2022-02-02"), _people("120"), label="Arvika", aliases=("Old Town",), rev=12),
        _item("Q2", label="Borgå"),
        _item("Q3", *_next_to("Q1", "Q2", "Q4"), label="Ekerö"),
        _item("Q4", _leads("Q23", "F"), label="Falun"),
    )  # fmt: skip
    new = _lands(2,
        _item("Q1", _leads("Q21", LEADER, since="2019-05-01", until="2022-02-02"),
              _leads("Q24", "S2", since="2022-02-02"), _people("120"), label="Arvika", aliases=("Old Town",), rev=13),
        _item("Q2", _leads("Q23", "B"), label="Borgå"),
        _item("Q3", *_next_to("Q1", "Q4"), label="Ekerö"),
        _item("Q4", _leads("Q23", "F"), label="Falun"),
    )  # fmt: skip
    home = folder / "it's a home"
    redirects = folder / "redirects.tsv"
    redirects.write_text("Q22\tQ24\n", encoding="utf-8")
    gone = [one for one in _NAMED if one["id"] != "Q22"]
    for date, entities in zip(DATES, (_NAMED + old, _NAMED + middle, gone + new), strict=True):
        given = redirects if date == DATES[-1] else None
        load(home, write_dump(folder / f"{date}.json", entities), date, redirects=given)
    return home
