"""Definition of the generated world: kinds of items, properties, and labels.

`certain` maps a property to the share of a kind's items that have it, `frequent` to its weight among randomly sampled
statements. `*item`, `*external` and `*literal` represent the generated properties of that type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

GENERATED = {"*item": 60, "*external": 120, "*literal": 80}
"""Number of generated properties by type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of item.

    Attributes:
        share: Share of all items; 0 if `count` is given.
        count: Number of items, independent of the size of the world.
        certain: Property -> share of the items that have it.
        frequent: Property -> weight among randomly sampled statements.
    """

    share: float = 0.0
    count: int = 0
    certain: Mapping[str, float] = field(default_factory=dict)
    frequent: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Property:
    """One property.

    Attributes:
        id: PID.
        label: English label.
        datatype: Wikidata's name of the datatype.
        pool: Kind of its objects; empty for a literal, "any" for items of several kinds.
        skew: Exponent of the zipf distribution over the pool; 0 is uniform.
        succeeds: Whether its values succeed one another in time, each with a start and an end.
    """

    id: str
    label: str
    datatype: str = "wikibase-item"
    pool: str = ""
    skew: float = 0.0
    succeeds: bool = False


_ANYTHING = {"*item": 9, "*external": 36, "*literal": 14}
_SMALL = {"*external": 2, "*literal": 1}

KINDS: dict[str, Kind] = {
    "special": Kind(count=9),
    "country": Kind(
        count=200,
        certain={"P6": 0.9, "P35": 0.9, "P36": 0.9, "P1082": 1, "P37": 0.9, "P1448": 0.9},
        frequent={"P1082": 3, "P463": 3, **_ANYTHING},
    ),
    "occupation": Kind(count=1500, certain={"P279": 0.7}, frequent=_SMALL),
    "class": Kind(count=400, certain={"P279": 0.8}, frequent=_SMALL),
    "sport": Kind(count=60, certain={"P279": 0.5}, frequent=_SMALL),
    "language": Kind(count=100, certain={"P17": 0.8}, frequent=_SMALL),
    "industry": Kind(count=200, certain={"P279": 0.7}, frequent=_SMALL),
    "award": Kind(count=300, certain={"P17": 0.8, "P571": 0.5}, frequent=_SMALL),
    "party": Kind(
        share=0.004,
        certain={"P17": 0.95, "P488": 0.9, "P571": 0.7, "P159": 0.4},
        frequent={"P463": 4, **_ANYTHING},
    ),
    "position": Kind(share=0.006, certain={"P17": 0.8, "P1308": 0.6, "P279": 0.4}, frequent=_SMALL),
    "league": Kind(share=0.0015, certain={"P17": 0.9, "P641": 0.95, "P488": 0.4}, frequent=_ANYTHING),
    "place": Kind(
        share=0.12,
        certain={"P17": 0.98, "P131": 0.9, "P6": 0.45, "P1082": 0.7, "P2046": 0.4},
        frequent={"P1082": 15, "P47": 12, "P190": 5, **_ANYTHING},
    ),
    "company": Kind(
        share=0.07,
        certain={"P17": 0.9, "P169": 0.55, "P488": 0.35, "P159": 0.6, "P452": 0.6, "P571": 0.6, "P749": 0.2},
        frequent={"P127": 6, "P749": 4, "P1128": 8, **_ANYTHING},
    ),
    "club": Kind(
        share=0.03,
        certain={"P17": 0.9, "P286": 0.85, "P118": 0.8, "P641": 0.9, "P115": 0.5, "P488": 0.35},
        frequent={"P166": 4, **_ANYTHING},
    ),
    "work": Kind(
        share=0.06,
        certain={"P50": 0.6, "P57": 0.3, "P407": 0.7, "P577": 0.8, "P495": 0.5, "P1476": 0.6},
        frequent={"P166": 4, "P161": 10, **_ANYTHING},
    ),
    "page": Kind(share=0.01, certain={"P1889": 0.2}),
    "human": Kind(
        share=0.6985,
        certain={"P21": 0.92, "P27": 0.85, "P106": 0.7, "P569": 0.75, "P19": 0.5, "P735": 0.3},
        frequent={
            "P54": 12, "P39": 11, "P102": 7, "P108": 9, "P69": 6, "P26": 4, "P551": 3, "P106": 6, "P166": 5,
            "P1412": 4, "P463": 2, "P569": 3, "P570": 5, "P2048": 4, "P1477": 3, **_ANYTHING,
        },
    ),
}  # fmt: skip
"""Kinds in the order of their items; the shares of those without a fixed count add up to one."""

SPECIAL_ITEMS = {
    "Q5": "human",
    "Q6581097": "male",
    "Q6581072": "female",
    "Q19474404": "single-value constraint",
    "Q52060874": "single-best-value constraint",
    "Q61719275": "restrictive qualifier",
    "Q13406463": "Wikimedia list article",
    "Q4167410": "Wikimedia disambiguation page",
    "Q4167836": "Wikimedia category",
}
"""Items of the kind special, in order."""

NAMED_PROPERTIES: tuple[Property, ...] = (
    Property("P6", "head of government", pool="human", succeeds=True),
    Property("P35", "head of state", pool="human", succeeds=True),
    Property("P286", "head coach", pool="human", succeeds=True),
    Property("P488", "chairperson", pool="human", succeeds=True),
    Property("P169", "chief executive officer", pool="human", succeeds=True),
    Property("P1308", "officeholder", pool="human", succeeds=True),
    Property("P54", "member of sports team", pool="club", skew=0.5, succeeds=True),
    Property("P39", "position held", pool="position", skew=0.8, succeeds=True),
    Property("P102", "member of political party", pool="party", skew=0.8, succeeds=True),
    Property("P108", "employer", pool="company", skew=0.7, succeeds=True),
    Property("P26", "spouse", pool="human", succeeds=True),
    Property("P551", "residence", pool="place", skew=0.7, succeeds=True),
    Property("P31", "instance of", pool="class", skew=0.9),
    Property("P279", "subclass of", pool="class", skew=0.9),
    Property("P17", "country", pool="country", skew=1.0),
    Property("P27", "country of citizenship", pool="country", skew=1.0),
    Property("P21", "sex or gender", pool="gender"),
    Property("P106", "occupation", pool="occupation", skew=1.0),
    Property("P131", "located in the administrative territorial entity", pool="place", skew=0.7),
    Property("P19", "place of birth", pool="place", skew=0.8),
    Property("P69", "educated at", pool="company", skew=0.9),
    Property("P166", "award received", pool="award", skew=0.9),
    Property("P463", "member of", pool="company", skew=0.9),
    Property("P1412", "languages spoken, written or signed", pool="language", skew=1.1),
    Property("P735", "given name", pool="class", skew=0.6),
    Property("P36", "capital", pool="place"),
    Property("P37", "official language", pool="language", skew=0.8),
    Property("P47", "shares border with", pool="place"),
    Property("P190", "twinned administrative body", pool="place", skew=0.5),
    Property("P159", "headquarters location", pool="place", skew=0.9),
    Property("P452", "industry", pool="industry", skew=0.9),
    Property("P127", "owned by", pool="company", skew=0.6),
    Property("P749", "parent organization", pool="company", skew=0.6),
    Property("P118", "league", pool="league", skew=0.7),
    Property("P641", "sport", pool="sport", skew=1.1),
    Property("P115", "home venue", pool="place"),
    Property("P50", "author", pool="human", skew=0.6),
    Property("P57", "director", pool="human", skew=0.7),
    Property("P161", "cast member", pool="human", skew=0.7),
    Property("P407", "language of work or name", pool="language", skew=1.1),
    Property("P495", "country of origin", pool="country", skew=1.0),
    Property("P1889", "different from", pool="any"),
    Property("P569", "date of birth", "time"),
    Property("P570", "date of death", "time"),
    Property("P571", "inception", "time"),
    Property("P577", "publication date", "time"),
    Property("P1082", "population", "quantity"),
    Property("P2046", "area", "quantity"),
    Property("P2048", "height", "quantity"),
    Property("P1128", "employees", "quantity"),
    Property("P1448", "official name", "monolingualtext"),
    Property("P1476", "title", "monolingualtext"),
    Property("P1477", "birth name", "monolingualtext"),
)

QUALIFIER_PROPERTIES: tuple[Property, ...] = (
    Property("P580", "start time", "time"),
    Property("P582", "end time", "time"),
    Property("P585", "point in time", "time"),
    Property("P518", "applies to part", pool="class"),
    Property("P4155", "separator", "wikibase-property"),
    Property("P2302", "property constraint", pool="special"),
)
"""Properties of qualifiers and constraints: no generated item states them as a main value."""

RESTRICTIVE = "P518"
"""The qualifier that restricts a statement to a part; it has the statement P31 restrictive qualifier."""

SINGLE_VALUE = ("P6", "P35", "P36", "P169", "P488", "P286", "P1308", "P569", "P570", "P21", "P118")
"""Properties that declare a single value; those with successive values use the separators P580 and P582."""


def all_properties() -> tuple[Property, ...]:
    """Named properties first, then the generated ones by type."""
    properties = list(NAMED_PROPERTIES)
    literals = ("quantity", "string", "time", "monolingualtext")
    for sort, count in GENERATED.items():
        for n in range(count):
            pid, name = f"P{10_000 + len(properties)}", word(7919 * (len(properties) + 1), 3)
            if sort == "*item":
                pool = ("any", "place", "human", "class", "company", "work")[n % 6]
                properties.append(Property(pid, f"{name} relation", pool=pool, skew=0.8))
            elif sort == "*external":
                properties.append(Property(pid, f"{name.title()} ID", "external-id"))
            else:
                properties.append(Property(pid, f"{name} measure", literals[n % 4]))
    return tuple(properties)


_ONSETS = ("b", "c", "d", "f", "g", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "tr", "st", "gl")
_SYLLABLES = tuple(onset + vowel + end for end in ("", "n") for onset in _ONSETS for vowel in "aeiou")


def word(number: int, syllables: int) -> str:
    """A word of lower-case Latin letters; equal numbers give equal words.

    >>> word(0, 2), word(181, 2)
    ('baba', 'bebe')
    """
    text = ""
    for _ in range(syllables):
        number, which = divmod(number, len(_SYLLABLES))
        text += _SYLLABLES[which]
    return text


_ORGANISATIONS = ("Group", "Works", "Bank", "University", "Institute", "Union", "Press", "Museum")
_FORMS: Mapping[str, str] = {
    "country": "{B}ia", "occupation": "{b}er", "class": "{b}", "sport": "{a}ball", "language": "{A}ish",
    "industry": "{a} industry", "award": "{B} Prize", "party": "{B} Party", "position": "mayor of {B}",
    "league": "{B} League", "place": "{B}burg", "company": "{B} {organisation}", "club": "FC {B}",
    "work": "The {A} of {B}", "page": "List of {A} in {B}", "human": "{A} {B}",
}  # fmt: skip


def label_of(kind: str, seed: int) -> str | None:
    """English label of an item of a kind: mostly unique, with two or three words.

    Of a thousand seeds, four give a label of six words, three one in Cyrillic and five none at all.
    """
    quirk = seed % 1000
    if quirk < 5:
        return None
    if quirk < 8:
        return "Лев " + "".join(chr(0x430 + (seed >> shift) % 32) for shift in (3, 8, 13, 18))
    first, second = word(seed // 1000, 2), word(seed // 7, 3)
    if quirk < 12:
        return f"{first} and {second} of the old {word(seed, 2)}"
    organisation = _ORGANISATIONS[seed // 11 % len(_ORGANISATIONS)]
    return _FORMS[kind].format(a=first, b=second, A=first.title(), B=second.title(), organisation=organisation)
