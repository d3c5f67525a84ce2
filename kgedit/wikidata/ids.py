"""Ids on which rules depend, named as in Wikidata's community."""

from __future__ import annotations

import re

START_TIME = "P580"
END_TIME = "P582"
POINT_IN_TIME = "P585"
INSTANCE_OF = "P31"
SUBCLASS_OF = "P279"
COUNTRY = "P17"
SEPARATOR = "P4155"
EXCEPTION_TO_CONSTRAINT = "P2303"

POPULATION = "P1082"
UNIT_SYMBOL = "P5061"
REVIEW_SCORE_BY = "P447"
DEATHS = ("P570", "P4602")
"""Date of death, date of burial or cremation."""

CREATION_DATES = ("P571", "P569", "P580", "P575", "P1619", "P6949", "P585", "P577")
"""Inception, date of birth, start time, time of discovery, official opening, announcement, point in time, publication:
dates at which an entity may begin (WikiFactDiff, section 4.2)."""

END_DATES = ("P570", "P576")
"""Date of death; date of dissolution, abolition or demolition: dates at which an entity ends."""

TRUE_SINCE_THE_END = ("P20", "P119", "P157", "P509", "P570", "P576", "P1196", "P4602")
"""Place of death and burial, killed by, cause and manner of death, dates of the end: true only after its end."""

PROPERTY_ABOUT_WIKIMEDIA = "Q51118821"
NON_RESTRICTIVE_QUALIFIER = "Q61719274"
ONLINE_ACCOUNT_PROPERTY = "Q105388954"

SINGLE_VALUE = "Q19474404"
SINGLE_BEST_VALUE = "Q52060874"
RESTRICTIVE_QUALIFIER = "Q61719275"
TIME_QUALIFIERS = (START_TIME, END_TIME, POINT_IN_TIME)

WIKIMEDIA_PAGE_CLASSES = (
    "Q17442446",  # Wikimedia internal item, a superclass of all that follow; slices may lack the connecting statements
    "Q13406463",  # list article
    "Q4167410",  # disambiguation page
    "Q22808320",  # human name disambiguation page
    "Q4167836",  # category
    "Q11266439",  # template
    "Q4663903",  # portal
    "Q15184295",  # module
    "Q14204246",  # project page
    "Q17633526",  # Wikinews article
    "Q19842659",  # user page
    "Q21281405",  # redirect
    "Q4663261",  # main page
)
"""Classes of pages about Wikimedia's own projects; includes their subclasses (P279)."""

TWO_HOP_STOP_LIST = ("P31", "P98", "P123", "P1151", "P4390", "P5008", "P5125", "P6104")
"""Relations excluded from two-hop questions (WikiBigEdit, section 3): instance of, editor, publisher, topic's main
Wikimedia portal, mapping relation type, on focus list of Wikimedia project, Wikimedia outline, maintained by
WikiProject.
"""

OFFICES = ("P6", "P35", "P169", "P286", "P488", "P1037", "P1308")
"""Relations from an organisation, a place or an office to its head or holder: head of government, head of state,
chief executive officer, head coach, chairperson, director, officeholder.
"""
POSITION_HELD = "P39"

JURISDICTION = ("P1001", "P2389")
"""Relations from an office to what it governs: applies to jurisdiction, organisation directed by the office."""

_PROPERTY = re.compile(r"P[1-9]\d*")


def is_property(text: str) -> bool:
    """Whether a text is a property id.

    >>> is_property("P6"), is_property("Q6"), is_property("P6 ")
    (True, False, False)
    """
    return _PROPERTY.fullmatch(text) is not None
