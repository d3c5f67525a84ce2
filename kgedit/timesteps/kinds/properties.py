"""Properties whose values rarely begin within a window, and properties that date an entity.

A birthplace entered today was always true. Labels are those of Wikidata.
"""

from __future__ import annotations

FIXED_AT_BEGINNING: dict[str, str] = {
    "P19": "place of birth",
    "P21": "sex or gender",
    "P22": "father",
    "P25": "mother",
    "P50": "author",
    "P53": "family",
    "P57": "director",
    "P58": "screenwriter",
    "P61": "discoverer or inventor",
    "P84": "architect",
    "P86": "composer",
    "P103": "native language",
    "P110": "illustrator",
    "P112": "founded by",
    "P136": "genre",
    "P144": "based on",
    "P162": "producer",
    "P170": "creator",
    "P171": "parent taxon",
    "P172": "ethnic group",
    "P279": "subclass of",
    "P364": "original language of film or TV show",
    "P407": "language of work or name",
    "P495": "country of origin",
    "P569": "date of birth",
    "P571": "inception",
    "P577": "publication date",
    "P676": "lyrics by",
    "P734": "family name",
    "P735": "given name",
    "P740": "location of formation",
    "P1071": "location of creation",
    "P1477": "birth name",
    "P3373": "sibling",
}
"""True since the entity began."""

FIXED_AT_END: dict[str, str] = {
    "P20": "place of death",
    "P119": "place of burial",
    "P157": "killed by",
    "P509": "cause of death",
    "P570": "date of death",
    "P576": "dissolved, abolished or demolished date",
    "P1196": "manner of death",
    "P4602": "date of burial or cremation",
}
"""True since the entity ended."""

SLOW: dict[str, str] = {
    "P27": "country of citizenship",
    "P31": "instance of",
    "P69": "educated at",
    "P101": "field of work",
    "P106": "occupation",
    "P140": "religion or worldview",
    "P155": "follows",
    "P413": "position played on team / speciality",
    "P512": "academic degree",
    "P641": "sport",
    "P1303": "instrument",
    "P1365": "replaces",
    "P1412": "languages spoken, written or signed",
}
"""True since some time in an entity's life, rarely within a window of a few months; mostly entered late."""

BEGINNINGS: dict[str, str] = {
    "P569": "date of birth",
    "P571": "inception",
    "P575": "time of discovery or invention",
    "P577": "publication date",
    "P580": "start time",
    "P585": "point in time",
    "P1619": "date of official opening",
    "P6949": "announcement date",
}
"""Start of an entity (WikiFactDiff, section 4.2); the earliest of several dates counts."""

ENDINGS: dict[str, str] = {
    "P570": "date of death",
    "P576": "dissolved, abolished or demolished date",
}
"""End of an entity."""
