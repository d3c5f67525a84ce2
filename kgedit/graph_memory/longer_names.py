"""Recognizes longer and qualified names around a known one.

"Cristiano Ronaldo" is not the entity with the label "Ronaldo". Only capital letters show where a name ends, so that
texts without them, titles ("Who Is The King") and German, which capitalizes nouns, are not judged. A capitalized word
next to a name belongs to it unless it is a title or an office ("King", "Coach"), a word of the language ("Is"), the
legal form of a company, or a part of another known name.

A qualified name has a word that says which entity of that name is meant, or that another one is: "Vienna, Virginia". A
name after a comma may be a part of the name or the next item of a list, so that only countries and their parts count,
and only for an entity whose country is known. What is near an entity is another one: "the mayor of a village near X".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from kgedit.graph_memory.dates import DatedQuestion, has_year, read_date
from kgedit.graph_memory.other_names import capital_words, sentence_words, shipped_nicknames, titles
from kgedit.resources import data_folder
from kgedit.wording.catalogues import read_catalogue
from kgedit.wording.name_index import Mention, name_key

FindNames = Callable[[str], Sequence[Mention]]

_BEFORE = re.compile(r"(?P<word>[^\W\d_][\w.'’]*)[ \u00a0-]$")
_AFTER = re.compile(r"^[ \u00a0-](?P<word>[^\W\d_]\w*)")
_YEAR = re.compile(r"\b[12]\d{3}\b")
_REGNAL = re.compile(r"[IVX]+")
_BEGINS_SENTENCE = re.compile(r"(?:^|[.!?:;,…\"“”„«»()\[\]\n–—]\s*|\s-\s+)$")
_WORD = re.compile(r"[^\W\d_]{3,}")
_IN_TITLE_CASE = 0.75
"""Share of capitalized words from which on capital letters say nothing."""
_GERMAN = re.compile(
    r"\b(?:ist|wer|wo|wie|welche[rsmn]?|wurde|das|dem|für|hat|heißt|gehört|spielt|ich|und)\b", re.IGNORECASE
)

_LEGAL_FORMS = frozenset(
    ["ag", "co", "company", "corp", "corporation", "gmbh", "group", "holding", "inc", "limited", "llc", "ltd", "plc"]
) | {"sa", "se", "spa"}


def name_goes_on(text: str, mention: Mention, labels: Sequence[str], others: Sequence[Mention]) -> bool:
    """Whether the name in a text is longer than the mention of it.

    Args:
        text: The composed text.
        mention: The mention.
        labels: Labels of its entities.
        others: All mentions of the text; words inside those apart from the mention do not belong to its name.
    """
    written = text[mention.start : mention.end]
    if not written[:1].isupper() or (written.isupper() and len(written) == 1) or _shows_nothing(text):
        return False
    before, after = _BEFORE.search(text[: mention.start]), _AFTER.match(text[mention.end :])
    if before is not None:
        word = before["word"]
        starts = _BEGINS_SENTENCE.search(text[: before.start()]) is not None
        named = _is_in_other(before.start(), mention, others)
        if not named and _belongs(word, starts=starts) and not _is_given_name(word, mention, written, labels):
            return True
    if after is None or mention.derived:
        return False
    word = after["word"]
    if _REGNAL.fullmatch(word):
        return True
    return _belongs(word, starts=False) and not _is_in_other(mention.end + 1, mention, others)


def read_date_beside_names(text: str, known: FindNames, others: FindNames = lambda _text: ()) -> DatedQuestion:
    """Read the dates of a composed text (kgedit.graph_memory.dates.read_date), outside the names in it.

    Args:
        text: The text.
        known: Finds labels and aliases.
        others: Finds further names.
    """
    if not has_year(text):
        return DatedQuestion(text, "")
    mentions = [*known(text), *others(text)]
    return read_date(text, named=_named(text, mentions), titled=_years_in_titles(text, mentions))


def _named(text: str, mentions: Iterable[Mention]) -> frozenset[int]:
    """Indexes of the characters of names that may contain a date: "Bologna FC 1909", "Theresa May", the film "1917"."""
    names = [(each.start, text[each.start : each.end]) for each in mentions]
    return frozenset(
        at for start, name in names if " " in name or name.isdecimal() for at in range(start, start + len(name))
    )


def _years_in_titles(text: str, mentions: Sequence[Mention]) -> frozenset[int]:
    """Indexes of years beside a capitalized word that is in no known name: "the 2022 FIFA World Cup", "Expo 2020"."""
    if _shows_nothing(text):
        return frozenset()

    def is_titled(word: re.Match[str] | None, at: int) -> bool:
        return (
            word is not None
            and word["word"][0].isupper()
            and not word["word"].endswith(("'s", "’s"))
            and not any(name_key(word["word"]) in known for known in (sentence_words(), titles()))
            and _BEGINS_SENTENCE.search(text[: at + word.start("word")]) is None
            and not any(each.start <= at + word.start("word") < each.end for each in mentions)
        )

    return frozenset(
        found.start()
        for found in _YEAR.finditer(text)
        if is_titled(_BEFORE.search(text[: found.start()]), 0)
        or is_titled(_AFTER.match(text[found.end() :]), found.end())
    )


def _shows_nothing(text: str) -> bool:
    words = _WORD.findall(text)
    capital = sum(word[0].isupper() for word in words)
    return _GERMAN.search(text) is not None or (len(words) > 4 and capital / len(words) > _IN_TITLE_CASE)


def _belongs(word: str, *, starts: bool) -> bool:
    """Whether a word next to a name is a part of a longer one; the first word of a sentence may be any."""
    key = name_key(word.rstrip(".'’"))
    return (
        word[0].isupper()
        and not starts
        and not (word.isupper() and len(word) > 1)
        and not word.endswith(("'s", "’s", "'", "’", "."))
        and not any(key in known for known in (sentence_words(), _LEGAL_FORMS, titles()))
    )


def _is_given_name(word: str, mention: Mention, written: str, labels: Sequence[str]) -> bool:
    """Whether the word before a surname or another short form may be a form of the entity's own given name.

    "Dame Lillard" is Damian Lillard; "Fritz Merkel" is not Angela Merkel.
    """
    if not mention.derived:
        return False
    inside = [label.partition(f" {written} ")[0].split() for label in labels if f" {written} " in label]
    if inside:  # "Man United" is Manchester United F.C., and "Maidenhead United" is not
        return any(part.lower().startswith(word.lower()) for parts in inside for part in parts)
    surnames = [label.split() for label in labels if label.endswith(f" {written}")]
    return not surnames or any(part[0] == word[0] for parts in surnames for part in parts[:-1])


def _is_in_other(place: int, mention: Mention, others: Sequence[Mention]) -> bool:
    return any(
        each.start <= place < each.end and (each.end <= mention.start or mention.end <= each.start) for each in others
    )


_QUALIFIER = re.compile(
    r"^(?P<link>, | \(|, in | in (?:the )?| of (?:the )?)(?P<words>[^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,4})"
)
_COUNTRY_BEFORE = re.compile(r"(?<![\w.'’-])(?P<words>[^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,3}) $")
_GENITIVE = re.compile(r"['’]s?$")
_STATES = re.compile(r"\b(?:is|are|was|were|lies) (?:the )?$", re.IGNORECASE)
_OWNER = re.compile(r"^ of (?:the )?[A-ZÀ-Þ]")
_ENDS_WITH = re.compile(r"^.* (?:of|in) (?:the )?")
_LIST_GOES_ON = re.compile(r"^,? (?:and|or|&) |^, [A-ZÀ-Þ]")
_OF = re.compile(r"\b(?:of|at|for) (?:the )?(?:(?:city|town|village) of )?$", re.IGNORECASE)
_BESIDE = re.compile(
    r"\b(?:near|nearby|outside|bordering|close to|next to|adjacent to|opposite|far from"
    r"|the outskirts of|the vicinity of"
    r"|(?:north|south|east|west)(?:-?(?:east|west))? of|(?:km|miles?|kilomet(?:re|er)s?|minutes|hours?|drive) from)"
    r" (?:the )?(?:(?:city|town|village) of )?$",
    re.IGNORECASE,
)
_SECOND_TEAM = (
    r"(?:under-?\d+s?|u-?\d\d|reserves|youth|academy|juniors|veterans|(?:b|second|reserve) (?:team|side|squad))"
)
_PART_BEFORE = re.compile(rf"\b{_SECOND_TEAM}(?: team| side| squad)? (?:of|at|from) (?:the )?$", re.IGNORECASE)
_PART_AFTER = re.compile(rf"^(?:['’]s?|s)? {_SECOND_TEAM}\b", re.IGNORECASE)
_EDITED = re.compile(
    r"^\W*(?:please |can you |could you )*(?:correct|fix|shorten|summari[sz]e|translate|proofread|rewrite|rephrase"
    r"|paraphrase)(?: (?:the|this|my|these|that|it|into|to)\b[^:\"“.?!]*)? ?[:\"“]",
    re.IGNORECASE,
)
"""Instructions about a text, in which a name asks for nothing."""
_TRANSLATED = re.compile(
    r"^\W*(?:please |can you |could you )*translate\b[^:\"“.?!]* (?:in)?to (?:the )?$", re.IGNORECASE
)
"""Before the name of a language: "Translate this into Norwegian: …"."""


def _any_of(words: str) -> str:
    return "|".join(words.split())


_EDIT_VERBS = {
    "de": "übersetz übersetze übersetzen translate korrigier korrigiere korrigieren verbessere verbessern berichtige"
    " berichtigen kürze kürzen zusammenfassen formuliere formulieren umformulieren überarbeite überarbeiten",
    "fr": "traduis traduisez traduire corrige corrigez corriger résume résumez résumer raccourcis raccourcissez"
    " raccourcir reformule reformulez reformuler réécris réécrivez réécrire",
    "es": "traduce traduzca traducir tradúceme corrige corrija corregir corrígeme resume resuma resumir resúmeme acorta"
    " acorte acortar reescribe reescriba reescribir",
}
"""Verbs of instructions about a text; as in the patterns below, some words may have been replaced by English ones."""
_TRANSLATE = ("übersetz", "translate", "tradu", "tradú")
_POLITE = (
    r"(?:bitte|please|(?:kannst|könntest) du|(?:können|könnten) (?:sie|she)|s['’]il (?:te|vous) plaît"
    r"|(?:peux|pourrais)[ -]tu|(?:pouvez|pourriez)[ -]vous|por favor|puedes?|podrías?)"
)
_EDITED_THING = (
    "(?:"
    + _any_of(
        "den die das dies diese diesen dieses folgende folgenden folgendes meinen meine mein ins auf in en al the this"
        " these ce cet cette ces ceci le la les mon ma mes el los este esta esto estos mi my"
    )
    + r"|l['’]\w+)\b(?: [\w'’-]+){0,5}"
)
_EDITED_ABROAD = re.compile(
    rf"\W*(?:{_POLITE},? )*(?:{_EDITED_THING} )?"
    rf"(?P<verb>{'|'.join(map(_any_of, _EDIT_VERBS.values()))}|fass(?:en?)?(?=[^:]{{0,60}} zusammen\b))"
    rf"(?:[ -](?:sie|she|bitte|please|mir|moi|me|kurz|zusammen))*(?: {_EDITED_THING})?\s?[:\"„“«]",
    re.IGNORECASE,
)
"""Instructions as in `_EDITED`, in German, French and Spanish."""
_QUESTION = re.compile(
    r"\W*(?:wh(?:om?|ose|at|ich|ere|en|y)|how|we[rmn]|wessen|wo(?:her|hin|ran)?|wie|wann|was|welch\w*|qui|que|quoi|quel\w*|où|quand|comment|combien"
    r"|quién\w*|qué|cuál\w*|dónde|cuándo|cómo)\b|[^?¿]*[?¿]",
    re.IGNORECASE,
)
_WOMEN = r"(?:wom[ae]n|ladies|girls|femen[ií]n?[oa]?|f[eé]minines?|femminile|frauen)"
_SPORT = (
    r"(?:(?:hand|basket|volley|base|net)ball|futsal|beach (?:soccer|football)|(?:ice |field )?hockey|rugby|cricket"
    r"|water polo|e-?sports|table tennis|cycling|rowing|swimming|athletics|chess)"
)
_SIDE = r"(?:team|side|squad|section|department|coach|manager|trainer)"
_FOOTBALL = re.compile(r"football|soccer|f[uú]tbol|\b(?:A\.?)?F\.? ?C\b|\bCF\b", re.IGNORECASE)
_OWN = re.compile(
    r"\b(?:my|our|his|her|their) (?:\w+ )?"
    r"(?:dog|puppy|cat|kitten|parrot|budgie|hamster|rabbit|horse|pony|goldfish|tortoise|pet|baby|boat|yacht|car|bike|robot|doll)"
    r"(?:,| is called| is named| named| called|'s name is)? $",
    re.IGNORECASE,
)
"""Things that people name after something."""


def means_another(text: str, start: int, end: int) -> bool:
    """Whether the name in a half-open range stands for something else: what is near it, a part of it, or a namesake.

    "A village near Vienna", "Vienna's under-19s", "my cat Vienna".
    """
    before = text[:start]
    return (
        any(pattern.search(before) is not None for pattern in (_EDITED, _TRANSLATED, _BESIDE, _PART_BEFORE, _OWN))
        or _PART_AFTER.match(text[end:]) is not None
        or _is_edited_abroad(text)
    )


def _is_edited_abroad(text: str) -> bool:
    """Whether a text is an instruction in German, French or Spanish about a text, and not one about a question."""
    found = _EDITED_ABROAD.match(text)
    if found is None:
        return False
    return found["verb"].lower().startswith(_TRANSLATE) or _QUESTION.match(text, found.end()) is None


def is_another_side(text: str, start: int, end: int, labels: Sequence[str]) -> bool:
    """Whether the words beside a club's name mean its women's team or another sport, which no label does.

    "Who coaches Arsenal's women?", "the handball team of PSG".
    """
    before, after = text[:start], text[end:]

    def beside(kind: str) -> bool:
        return (
            re.match(rf"(?:['’]s?|s)? (?:national )?{kind}\b", after, re.IGNORECASE) is not None
            or re.search(
                rf"\b{kind}(?:['’]?s?|s['’]) (?:national )?(?:{_SIDE} )?(?:of|at|from|for) (?:the )?"
                r"(?:[A-Z.]{1,5} )?$",
                before,
                re.IGNORECASE,
            )
            is not None
        )

    if beside(_WOMEN) and not any(re.search(_WOMEN, label, re.IGNORECASE) for label in labels):
        return True
    return all(_FOOTBALL.search(label) for label in labels) and beside(_SPORT)


def is_of_another(text: str, end: int, label: str) -> bool:
    """Whether a common noun that ends there has an owner, and so is part of another entity's name.

    "Prime Minister of Laos" is another entity than "prime minister".
    """
    return label.islower() and _OWNER.match(text[end:]) is not None


def qualifying_countries(text: str, start: int, end: int, *, shared: bool = False) -> frozenset[str]:
    """Countries that the words beside a name allow for it, by their labels' keys; empty if they say nothing.

    Args:
        text: The text.
        start: Index of the name's first character.
        end: Index after its last character.
        shared: Whether several entities have the name. One is then also meant by a country before it, or after "in" in
            any sentence but "Is Oslo in Norway?": "the Italian Democratic Party", "Who chairs that party in Italy?".
    """
    after = _countries_after(text, start, end, shared=shared)
    return after or (_countries_before(text, start) if shared else frozenset())


def _countries_before(text: str, start: int) -> frozenset[str]:
    found = _COUNTRY_BEFORE.search(text[:start])
    words = found["words"].split(" ") if found is not None else []
    for first in range(len(words)):
        written = _GENITIVE.sub("", " ".join(words[first:]))
        key = name_key(written)
        countries = _by_name().get(key) or _by_adjective().get(key, frozenset())
        if countries and (written[0].isupper() or (text.islower() and written not in capital_words())):
            return countries
    return frozenset()


def _countries_after(text: str, start: int, end: int, *, shared: bool) -> frozenset[str]:
    found = _QUALIFIER.match(text[end:])
    before = text[:start]
    is_place = _OF.search(before) is not None or (shared and _STATES.search(before) is None)
    if found is None or (found["link"].startswith(" in ") and not is_place):
        return frozenset()
    words = found["words"].split(" ")
    for size in range(len(words), 0, -1):
        written = " ".join(words[:size]).rstrip(".?!'’")
        # A code is a word in lower case: "Vienna, or …".
        countries = _by_code().get(written) or _by_name().get(name_key(written), frozenset())
        if countries and (written[0].isupper() or text.islower()):
            rest = text[end + found.start("words") + len(written) :]
            place = end + found.start("words")
            further = _countries_after(text, place, place + len(written), shared=False)
            is_list = _LIST_GOES_ON.search(rest) is not None and not further & countries
            return frozenset() if is_list else countries
    return frozenset()


def country_keys(labels: Iterable[str]) -> frozenset[str]:
    """Keys of the countries among some labels, and of those that others end with: "city of the United States"."""
    named = ((label, _ENDS_WITH.sub("", label)) for label in labels)
    return frozenset(key for several in named for name in several for key in _by_name().get(name_key(name), ()))


@cache
def _by_name() -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for country, entry in _shipped()["countries"].items():
        for name in (country, *entry.get("names", ()), *entry.get("parts", ())):
            found.setdefault(name_key(name), set()).add(name_key(country))
    for names in _shipped()["others"]:
        country, *others = names.split(" / ")
        for name in (country, *others):
            found.setdefault(name_key(name), set()).add(name_key(country))
    return {name: frozenset(countries) for name, countries in found.items()}


@cache
def _by_adjective() -> Mapping[str, frozenset[str]]:
    """Countries by their adjectives and short names."""
    nicknames = shipped_nicknames()
    return {name_key(other): countries for name, countries in _by_name().items() for other in nicknames.get(name, ())}


@cache
def _by_code() -> Mapping[str, frozenset[str]]:
    countries = _shipped()["countries"].items()
    return {code: frozenset([name_key(country)]) for country, entry in countries for code in entry.get("codes", ())}


@cache
def _shipped() -> Mapping[str, Any]:
    return read_catalogue(data_folder("prompts") / "memory" / "regions.yaml")
