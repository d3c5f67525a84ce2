"""Words by which a question expresses a relation, as stems.

They are taken from all templates of the relation and, for a persona, from its replacements of their words. This is
lenient: the filter that uses them is meant for questions about something else altogether.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

import pyarrow as pa

from kgedit.wording.catalogues import ENGLISH, Language
from kgedit.wording.personas import Voice

_WORDS = re.compile(r"[^\W\d_]+")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]+")

_GRAMMAR = frozenset(
    _WORDS.findall(
        """
    a an and any anyone are as at be been by can could did do does for from had has have having he her his how i in
    into is it its me most my no not of on one or our she so some such that the their them there these they this those
    to was were what when where which who whom whose will with would you your after all also
    """
    )
)
"""Words that express no relation."""

_PALE = frozenset(
    _WORDS.findall(
        """
    about answer asks called concept database element entity first following give given goes instance item items known
    list look looks main name named names object people person place places property question records recorded right
    replacement same statement subject tell thing things time title used uses value values wikidata work works
    """
    )
)
"""Words that describe any relation in Wikidata: they express one only if its wordings have no others."""

_ENDINGS = ("ings", "ing", "ers", "ors", "er", "or", "ed", "es", "s")


class RelationWords:
    """Stems that express the relations of some templates, computed on demand.

    Args:
        templates: Table with the schema kgedit.wording.templates.TEMPLATES; every class counts.
        voices: Voices of the personas that may ask.
        language: Language of the templates.
    """

    def __init__(self, templates: pa.Table, voices: Sequence[Voice] = (), *, language: Language = ENGLISH) -> None:
        self.language = language
        self._templates = templates
        self._rows: dict[str, list[int]] = {}
        for number, relation in enumerate(templates["property"].to_pylist()):
            self._rows.setdefault(relation, []).append(number)
        self._replaced = {voice.persona: _replaced_stems(voice.words) for voice in voices}
        self._found: dict[tuple[str, str | None], frozenset[str]] = {}

    def __call__(self, relation: str, persona: str | None = None) -> frozenset[str]:
        """Stems of a relation's words, with a persona's replacements of them."""
        key = (relation, persona)
        if key not in self._found:
            if persona is None:
                self._found[key] = self._of_templates(relation)
            else:
                self._found[key] = _in_a_voice(self(relation), self._replaced.get(persona, []))
        return self._found[key]

    def _of_templates(self, relation: str) -> frozenset[str]:
        rows = self._templates.take(self._rows.get(relation, [])).to_pylist()
        return expressing_stems((text for row in rows for text in wordings(row)), self.language)


def expressing_stems(texts: Iterable[str], language: Language = ENGLISH) -> frozenset[str]:
    """Stems that express a relation with these wordings: of its content words, or if it has none, of pale words."""
    return frozenset(stem for text in set(texts) for stem in stems([text], language) or question_stems(text, language))


def stems(texts: Iterable[str], language: Language = ENGLISH) -> frozenset[str]:
    """Stems of the content words."""
    return _stems(" ".join(texts), _grammar(language) | (_PALE if language.is_english else frozenset()))


def question_stems(question: str, language: Language = ENGLISH) -> frozenset[str]:
    """Stems of all words except function words, to be matched with those of a relation."""
    return _stems(question, _grammar(language))


def _grammar(language: Language) -> frozenset[str]:
    return _GRAMMAR if language.is_english else language.function_words


def voice_stems(relation: frozenset[str], words: Mapping[str, str]) -> frozenset[str]:
    """Stems by which a persona may express a relation.

    Args:
        relation: The relation's own stems.
        words: The persona's replacements of words.
    """
    return _in_a_voice(relation, _replaced_stems(words))


def wordings(template: Mapping[str, object]) -> list[str]:
    """All texts in a row of templates that express its relation."""
    texts = [str(template[name]) for name in ("label", "question", "phrase") if template[name]]
    for name in ("rephrases", "clozes"):
        found = template[name]
        texts += found if isinstance(found, list) else []
    return texts


def _replaced_stems(words: Mapping[str, str]) -> list[tuple[frozenset[str], frozenset[str]]]:
    return [(question_stems(word), stems([replacement])) for word, replacement in words.items()]


def _in_a_voice(relation: frozenset[str], replaced: Sequence[tuple[frozenset[str], frozenset[str]]]) -> frozenset[str]:
    return relation.union(*(replacement for words, replacement in replaced if words & relation))


def _stems(text: str, left_out: frozenset[str]) -> frozenset[str]:
    text = text.replace("{subject}", " ").casefold()
    words = set(_WORDS.findall(_HAN.sub(" ", text)))
    return frozenset(_stem(word) for word in words - left_out if len(word) > 2) | _pairs(text, left_out)


def _pairs(text: str, left_out: frozenset[str]) -> frozenset[str]:
    """Pairs of neighbouring Chinese characters, most of which are words: 首都, 出生."""
    return frozenset(
        pair for run in _HAN.findall(text) for pair in map("".join, pairwise(run)) if left_out.isdisjoint({pair, *pair})
    )


@lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    # "heading" becomes "head" and "government" "govern", but "headquarters" and "heart" stay. Five letters are a guess:
    # they join derivations that no ending covers ("president", "presides"), and keep most unrelated words apart.
    ending = next((end for end in _ENDINGS if word.endswith(end) and len(word) - len(end) > 2), "")
    return word.removesuffix(ending)[:5]
