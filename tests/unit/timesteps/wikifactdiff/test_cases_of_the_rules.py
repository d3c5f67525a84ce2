"""The design's list of changes that must come out right (wikidata-rules, section 6), as far as they are WikiFactDiff's.

All cases are subjects of one pair of snapshots, of 2021-01-04 and 2023-02-27.
"""

from __future__ import annotations

import pytest
from world.dumps import time_value
from world.updates import Case, number, outcomes, said

NO_RULE = "unknown: no rule holds"
LASTING = {"start": "2015-05-01"}

CASES: dict[str, tuple[Case, str, object]] = {
    "1 replaced without dates": (([said("P6", "Q101")], [said("P6", "Q102")]), "P6", NO_RULE),
    "2 functional: b starts in the window, a is gone": (
        ([said("P6", "Q101")], [said("P6", "Q102", start="2022-03-01")]),
        "P6",
        ("ReplaceObject", {"101": "obsolete", "102": "new"}),
    ),
    "2 functional: a since 2015 is gone": (
        ([said("P6", "Q101", **LASTING)], [said("P6", "Q102", start="2022-03-01")]),
        "P6",
        ("ReplaceObject", {"101": "obsolete", "102": "new"}),
    ),
    "2 not functional: what is gone is not static": (
        ([said("P54", "Q101", **LASTING)], [said("P54", "Q102", start="2022-03-01")]),
        "P54",
        NO_RULE,
    ),
    "3 functional: a is given an end, b starts": (
        (
            [said("P6", "Q101", **LASTING)],
            [said("P6", "Q101", end="2022-03-01", **LASTING), said("P6", "Q102", start="2022-03-01")],
        ),
        "P6",
        ("ReplaceObject", {"101": "obsolete", "102": "new"}),
    ),
    "4 only an end was added": (
        ([said("P39", "Q101", **LASTING)], [said("P39", "Q101", end="2022-03-01", **LASTING)]),
        "P39",
        ("Archive", {"101": "obsolete"}),
    ),
    "6 a value was added beside a decidable one": (
        ([said("P54", "Q101", **LASTING)], [said("P54", "Q101", **LASTING), said("P54", "Q102", start="2022")]),
        "P54",
        ("AddObject", {"101": "static", "102": "new"}),
    ),
    "6 a value was added beside an undated one": (
        ([said("P54", "Q101")], [said("P54", "Q101"), said("P54", "Q102", start="2022")]),
        "P54",
        NO_RULE,
    ),
    "8 one of two values ended": (
        (
            [said("P54", "Q101", **LASTING), said("P54", "Q102", **LASTING)],
            [said("P54", "Q101", **LASTING), said("P54", "Q102", end="2022-03", **LASTING)],
        ),
        "P54",
        ("Other", {"101": "static", "102": "obsolete"}),
    ),
    "9 the latest population counts on either side": (
        (
            [said("P1082", number("100"), point="2010"), said("P1082", number("83155031"), point="2020-12-31")],
            [
                said("P1082", number("83155031"), point="2020-12-31"),
                said("P1082", number("84358845"), point="2022-12-31"),
            ],
        ),
        "P1082",
        ("ReplaceObject", {"83,155,031": "obsolete", "84,358,845": "new"}),
    ),
    "9 of equal dates the preferred one": (
        (
            [said("P1082", number("7"), point="2020")],
            [
                said("P1082", number("8"), point="2022-06-01"),
                said("P1082", number("9"), point="2022-06-01", rank="preferred"),
            ],
        ),
        "P1082",
        ("ReplaceObject", {"7": "obsolete", "9": "new"}),
    ),
    "9 of equal dates and ranks the stable id": (
        (
            [said("P1082", number("7"), point="2020")],
            [said("P1082", number("8"), point="2022-06-01"), said("P1082", number("9"), point="2022-06-01")],
        ),
        "P1082",
        ("ReplaceObject", {"7": "obsolete", "8": "new"}),
    ),
    "10 of a functional relation without P585 the preferred statement": (
        (
            [said("P6", "Q101", start="2001"), said("P6", "Q102", start="2015", rank="preferred")],
            [
                said("P6", "Q102", start="2015", end="2022-05-01"),
                said("P6", "Q103", start="2022-05-02", rank="preferred"),
            ],
        ),
        "P6",
        ("ReplaceObject", {"102": "obsolete", "103": "new"}),
    ),
    "10 what was made deprecated is retracted": (
        ([said("P54", "Q101", **LASTING)], [said("P54", "Q101", rank="deprecated", **LASTING)]),
        "P54",
        NO_RULE,
    ),
    "11 no value and unknown value are dropped": (
        ([said("P54", "somevalue")], [said("P54", "novalue"), said("P54", "Q101", start="2022")]),
        "P54",
        ("AddRelation", {"101": "new"}),
    ),
    "11 ended at an unknown date": (
        ([said("P39", "Q101", **LASTING)], [said("P39", "Q101", end="somevalue", **LASTING)]),
        "P39",
        NO_RULE,
    ),
    "12 a restrictive qualifier before others": (
        ([], [said("P54", "Q101", start="2022", also=(("P518", "Q102"), ("P1366", "Q102")))]),
        "P54",
        None,
    ),
    "12 a restrictive qualifier after others": (
        ([], [said("P54", "Q101", start="2022", also=(("P1366", "Q102"), ("P518", "Q102")))]),
        "P54",
        None,
    ),
    "20 a disambiguation page, by closure, is no object": (([], [said("P54", "Q80", start="2022")]), "P54", None),
    "20 an item without an article is no object": (([], [said("P54", "Q81", start="2022")]), "P54", None),
    "a relation about Wikimedia is none": (([], [said("P910", "Q101", start="2022")]), "P910", None),
    "21 only a bound changed": (
        (
            [said("P2046", number("8", "Q712226"))],
            [said("P2046", number("8.0", "Q712226", upperBound="+9", lowerBound="+7"))],
        ),
        "P2046",
        "nothing changed",
    ),
    "21 only a precision changed": (
        (
            [said("P571", time_value("+2001-00-00T00:00:00Z", 9))],
            [said("P571", time_value("+2001-03-12T00:00:00Z", 11))],
        ),
        "P571",
        "only dates or precision of values refined",
    ),
    "22 starts in the year of the older snapshot": (([], [said("P54", "Q101", start="2021")]), "P54", NO_RULE),
    "22 may have begun before or in the window, and ended in it": (
        ([], [said("P54", "Q101", start="2021", end="2022-05-01")]),
        "P54",
        NO_RULE,
    ),
    "23 starts after its end": (
        ([], [said("P54", "Q101", start="2022-05-01", end="2021-05-01")]),
        "P54",
        "unknown: 4: it starts after its end",
    ),
    "23 starts in the window and ends after it": (
        ([], [said("P54", "Q101", start="2022-05-01", end="2026")]),
        "P54",
        ("AddRelation", {"101": "new"}),
    ),
    "23 starts on the day of the older snapshot": (([], [said("P54", "Q101", start="2021-01-04")]), "P54", NO_RULE),
    "starts and ends in the window": (
        ([], [said("P54", "Q101", start="2022-05-01", end="2022-06-01")]),
        "P54",
        "no fact holds at either date",
    ),
    "a death in the window": (
        ([], [said("P570", time_value("+2022-09-08T00:00:00Z", 11))]),
        "P570",
        ("AddRelation", {"8 September 2022": "new"}),
    ),
    "a death before the window, entered in it": (
        ([], [said("P570", time_value("+2002-09-08T00:00:00Z", 11))]),
        "P570",
        "unknown: 3: any other death",
    ),
    "a second term of office": (
        (
            [said("P39", "Q101", start="2015")],
            [said("P39", "Q101", start="2015", end="2021-06-01"), said("P39", "Q101", start="2022-06-01")],
        ),
        "P39",
        "one value with contradicting classes",
    ),
    "a term of office added beside one of the same": (
        (
            [said("P39", "Q101", start="2015")],
            [said("P39", "Q101", start="2015"), said("P39", "Q101", start="2022-06-01")],
        ),
        "P39",
        "all static",
    ),
    "the same in both snapshots, observed in the window": (
        ([said("P54", "Q101", point="2022-05-01")], [said("P54", "Q101", point="2022-05-01")]),
        "P54",
        ("AddRelation", {"101": "new"}),
    ),
    "the same in both snapshots, begun in the window and of lesser rank": (
        (
            [said("P54", "Q101", start="2022-05-01"), said("P54", "Q102", start="2015", rank="preferred")],
            [said("P54", "Q101", start="2022-05-01"), said("P54", "Q102", start="2015", rank="preferred")],
        ),
        "P54",
        ("AddObject", {"101": "new", "102": "static"}),
    ),
    "the same in both snapshots, observed before the window": (
        ([said("P54", "Q101", point="2020-05-01")], [said("P54", "Q101", point="2020-05-01")]),
        "P54",
        None,
    ),
    "the same in both snapshots, observed in a year that the window ends in": (
        ([said("P54", "Q101", point="2023")], [said("P54", "Q101", point="2023")]),
        "P54",
        None,
    ),
    "what no longer stands in the newer snapshot, and had been said to end in the window": (
        ([said("P54", "Q101", start="2015", end="2022-06-30")], []),
        "P54",
        ("Archive", {"101": "obsolete"}),
    ),
}


@pytest.fixture(scope="module")
def outcomes_of_cases(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], object]:
    return outcomes(tmp_path_factory.mktemp("cases"), {name: case for name, (case, _, _) in CASES.items()})


@pytest.mark.parametrize("name", list(CASES))
def test_case(name: str, outcomes_of_cases: dict[tuple[str, str], object]) -> None:
    _, property_id, expected = CASES[name]
    assert outcomes_of_cases.get((name, property_id)) == expected


CREATED = said("P571", time_value("+2022-05-01T00:00:00Z", 11))
LATER = said("P571", time_value("+2024-05-01T00:00:00Z", 11))
REISSUED = said("P577", time_value("+1999-05-01T00:00:00Z", 11))
YEAR = said("P571", time_value("+2021-00-00T00:00:00Z", 9))


@pytest.fixture(scope="module")
def newcomers(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], object]:
    undated = said("P54", "Q101")
    cases: dict[str, Case] = {
        "created in the window": (None, [CREATED, undated]),
        "created after the window": (None, [LATER, undated]),
        "without a date": (None, [undated]),
        "known longer by another date": (None, [CREATED, REISSUED, undated]),
        "created in the year of the older snapshot": (None, [YEAR, undated]),
        "in the older snapshot, though nothing of it was kept": ([said("P54", "somevalue")], [CREATED, undated]),
        "gone": ([undated], None),
    }
    return outcomes(tmp_path_factory.mktemp("newcomers"), cases, steady=False)


def test_case_15_what_came_into_being_in_the_window_is_added_with_all_it_says(
    newcomers: dict[tuple[str, str], object],
) -> None:
    assert newcomers["created in the window", "P54"] == ("AddEntity", {"101": "new"})
    assert newcomers["created in the window", "P571"] == ("AddEntity", {"1 May 2022": "new"})


@pytest.mark.parametrize(
    "name",
    [
        "created after the window",
        "without a date",
        "known longer by another date",
        "created in the year of the older snapshot",
        "in the older snapshot, though nothing of it was kept",
    ],
)
def test_case_15_any_other_is_judged_by_the_dated_rules(name: str, newcomers: dict[tuple[str, str], object]) -> None:
    assert newcomers[name, "P54"] == NO_RULE


def test_case_14_a_subject_that_is_gone_gives_nothing_and_is_counted(newcomers: dict[tuple[str, str], object]) -> None:
    assert newcomers["gone", "P54"] == "unknown: 2: the newer snapshot has no fact of the subject"
