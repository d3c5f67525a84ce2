"""Ids on which rules depend, the form of ids and names, and the addresses of Wikimedia's wikis.

Ids of another form would break exports and queries much later. Numbers have at most 18 digits, so that they fit in 64
bits.
"""

from __future__ import annotations

import re
from functools import lru_cache

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


LEAST_UNUSABLE_NUMBER = 10**18
"""Ids become 64-bit keys, so numbers of at most 18 digits are accepted; Wikidata's have 9."""
NUMBER = "[1-9][0-9]{0,17}"
"""Pattern of the number of an id."""
_OF_TYPE = {"item": re.compile(f"Q{NUMBER}"), "property": re.compile(f"P{NUMBER}")}
_ENTITY = re.compile(f"[QPME]{NUMBER}|L{NUMBER}(?:-[FS]{NUMBER})?").fullmatch
_LONGEST_STATEMENT_ID = 200
"""Wikidata's own are below 60 characters; longer ones are damage."""


def is_id_of(entity_type: str, text: str) -> bool:
    """Whether a text is the id of an "item" or "property".

    >>> is_id_of("item", "Q42"), is_id_of("item", "P31"), is_id_of("item", "Q042")
    (True, False, False)
    """
    return _OF_TYPE[entity_type].fullmatch(text) is not None


def is_entity_id(text: str) -> bool:
    """Whether a text is the id of anything that a statement can refer to.

    >>> [is_entity_id(text) for text in ("Q42", "P31", "L7-F1", "L7-S1", "M5", "E10", "Q1 ", "Q1-F1")]
    [True, True, True, True, True, True, False, False]
    """
    return _ENTITY(text) is not None


@lru_cache(maxsize=65536)
def is_property_id(text: str) -> bool:
    """Whether a text is a property id."""
    return is_id_of("property", text)


def is_statement_id(text: str) -> bool:
    """Whether a text can be a statement id: printable, without white space, shorter than 200 characters.

    >>> is_statement_id("Q42$F078E5B3-F9A8-480E-B7AC-D97778CBBEF9"), is_statement_id("Q42 1"), is_statement_id("")
    (True, False, False)
    """
    return 0 < len(text) < _LONGEST_STATEMENT_ID and text.isprintable() and " " not in text


@lru_cache(maxsize=65536)
def is_name(text: str) -> bool:
    """Whether a text can be a unit, language, calendar or datatype: like a statement id, and without semicolons.

    >>> is_name("zh-hans"), is_name("Q1;2")
    (True, False)
    """
    return is_statement_id(text) and ";" not in text


_CONTROL_CHARACTERS = {
    number: None for number in (*range(0x20), *range(0x7F, 0xA0)) if not chr(number).isspace()
}  # C0, DEL and C1; a terminal would execute some of them.


def plain_line(text: str) -> str:
    r"""Remove control characters, trim, and collapse white space; the result may be empty.

    >>> plain_line(" New\r\n York\u2028 \x1b")
    'New York'
    """
    if text.isprintable() and "  " not in text and text.strip() == text:
        return text
    return " ".join(text.translate(_CONTROL_CHARACTERS).split())


_SPECIAL_WIKIS = {
    "commonswiki": "commons.wikimedia.org",
    "specieswiki": "species.wikimedia.org",
    "metawiki": "meta.wikimedia.org",
    "wikidatawiki": "www.wikidata.org",
    "mediawikiwiki": "www.mediawiki.org",
    "sourceswiki": "wikisource.org",
    "be_x_oldwiki": "be-tarask.wikipedia.org",
}
_WIKI_PROJECTS = ("wikibooks", "wikinews", "wikiquote", "wikisource", "wikiversity", "wikivoyage", "wiktionary", "wiki")
_WIKI = re.compile(f"([a-z0-9_]+?)({'|'.join(_WIKI_PROJECTS)})")


def site_address(name: str) -> str:
    """Address of a wiki; an unknown name gives an address that cannot be resolved.

    >>> site_address("enwiki"), site_address("zh_yuewiki"), site_address("dewikiquote")
    ('https://en.wikipedia.org/', 'https://zh-yue.wikipedia.org/', 'https://de.wikiquote.org/')
    """
    match = _WIKI.fullmatch(name)
    if name in _SPECIAL_WIKIS:
        return f"https://{_SPECIAL_WIKIS[name]}/"
    if match is None:
        return f"https://{name}.invalid/"
    project = "wikipedia" if match[2] == "wiki" else match[2]
    return f"https://{match[1].replace('_', '-')}.{project}.org/"
