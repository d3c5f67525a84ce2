"""The relation matcher: which relation a text asks for, and which words near a name this leaves unexplained.

It is a linear model trained on paraphrases. A text with its subject masked (kgedit.graph_memory.scoring) has two
readings: the relation that is asked for, and the relation that leads to its subject ("the spouse of the prime minister
of X"), if any. The features are the text's vector and its words and letters, so that a misspelt word still counts.
benchmarks/matcher.py trains it on prompts/memory/paraphrases.yaml, for one embedder; a memory with another embedder
works without it.

"The chief whip of X" is worded like a question for the leader, and an embedding hardly distinguishes them. Its "whip"
is in no wording of that relation. benchmarks/matcher.py collects the words of all wordings of each relation, and those
of the frames around them ("please", "these days"), which say nothing about what is asked. A word counts by its place:

- in the noun phrases that lead to the name ("the chief whip of X", "the women's team of X"),
- after the name ("X's dentist", "the X marathon"),
- as the verb that is asked about ("Who guards the president of X?"),
- anywhere else ("My grandson has a quiz tomorrow: who governs X?"), where it means little.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kgedit.errors import KgeditError
from kgedit.graph_memory.relations import MASK, stem
from kgedit.graph_memory.scoring import OTHER_MASK
from kgedit.llm.embeddings import Vectors
from kgedit.resources import data_folder
from kgedit.wording.name_index import Spellings, without_accents

OTHER, NOTHING, DIRECT = "other", "nothing", "direct"
"""Classes besides properties: a relation without paraphrases, no relation; and no relation before the asked one."""
BACK = "~"
"""Prefix of classes that ask for the subject, given a value: "which country does Y lead?" is ~P6."""

LEADING = ("P6", "P169", "P286", "P488", "P1037")
"""Relations that "who runs X?" may ask for; a subject has one or two of them."""
_ALIKE = (LEADING, ("P39", "P106"))
"""Relations that one word may ask for: "who runs X?", "what is X's job?"."""
_INSTEAD = {"P54": "P108"}
"""Relations that answer for one that the subject lacks: the employer of a player is the club."""
_IN_OWN_WORDS = {
    "P31": re.compile(
        r"\b(?:kinds?|sorts?|types?|class(?:es)?|category|categories|things?|instance|example of|(?:city|country) or"
        r"|art|ding|sache)\b",
        re.IGNORECASE,
    )
}
"""Words of relations that are asked for by such words only: everything is an instance of something, so that the class
of a subject is near to "X, a Green, or am I wrong?"."""
_ALIKE_TO = {name: group for group in _ALIKE for name in group}
_LIKELY = 0.1
"""Probability from which on a relation of _ALIKE counts in full for those that the subject lacks."""

BUCKETS = 8192
_GRAM = 4
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class TextReading:
    """What one text asks for, as logarithms of probabilities.

    Attributes:
        asked: By class of the asked relation.
        before: By class of the relation before it.
        matcher: Matcher that read the text; it has the names of the classes.
        text: The text.
    """

    asked: Sequence[float]
    before: Sequence[float]
    matcher: RelationMatcher
    text: str = ""

    def unexplained(self, path: Sequence[str], *, qualified: bool) -> Unexplained:
        """Words of the text that belong to none of the relations of a path, nor to the ways of asking.

        `qualified`: see `Vocabulary.unexplained`.
        """
        names = {name.removeprefix(BACK) for name in path}
        own = names | {_INSTEAD.get(name, name) for name in names}
        return self.matcher.vocabulary.unexplained(self.text, own, qualified=qualified)

    def score(self, path: Sequence[str], held: Container[str] = ()) -> float | None:
        """Score of a path of one or two relations; None if the matcher does not know one of them, or if the text has
        none of the words that the last one is always asked with.

        Args:
            path: Ids of the relations.
            held: Relations that the path's last subject has. Those of _ALIKE that it lacks count for the one that it
                has, if that one is likely itself: "who runs Hamburg?" asks for its mayor.
        """
        first, last = (DIRECT if len(path) == 1 else path[0]), path[-1]
        asked, before = self.matcher.asked.get(last), self.matcher.before.get(first)
        if asked is None or before is None or len(path) > 2:
            return None
        if (words := _IN_OWN_WORDS.get(last)) is not None and words.search(self.text) is None:
            return None
        score = self.asked[asked]
        if alike := _ALIKE_TO.get(last):
            own = float(np.exp(score))
            lacking = [name for name in alike if name not in held and name in self.matcher.asked]
            others = sum(self.asks(name) for name in lacking if name != last)
            # Squared: "mayor" hardly asks for a club's coach, and must not count for one that has no mayor.
            score = float(np.log(min(1.0, own + min(1.0, own / _LIKELY) ** 2 * others)))
        lacked = _INSTEAD.get(last)
        if lacked and lacked not in held:
            score = float(np.logaddexp(score, self.asked[self.matcher.asked[lacked]]))
        return score + self.before[before]

    def asks(self, name: str) -> float:
        """Probability that the question asks for a class of relations."""
        return float(np.exp(self.asked[self.matcher.asked[name]]))


class RelationMatcher:
    """A linear model of two softmax functions over the same features.

    Args:
        asked: Classes of the asked relation.
        before: Classes of the relation before it.
        dense: Weights of the vector, (dimensions, asked + before).
        sparse: Weights of words and letters, (BUCKETS, asked + before).
        intercept: Intercepts, (asked + before,).
        vocabulary: Words by relation.
    """

    def __init__(
        self,
        asked: Sequence[str],
        before: Sequence[str],
        dense: Vectors,
        sparse: Vectors,
        intercept: Vectors,
        vocabulary: Vocabulary,
    ) -> None:
        self.vocabulary = vocabulary
        self.asked = {name: place for place, name in enumerate(asked)}
        self.before = {name: place for place, name in enumerate(before)}
        self._dense, self._sparse, self._intercept = dense, sparse, intercept

    def read(self, text: str, vector: Vectors) -> TextReading:
        """Read a masked text."""
        places, weights = text_features(text)
        scores = vector @ self._dense + weights @ self._sparse[places] + self._intercept
        split = len(self.asked)
        return TextReading(_log_softmax(scores[:split]), _log_softmax(scores[split:]), self, text)


def text_features(text: str) -> tuple[NDArray[np.int64], Vectors]:
    """Buckets of the words, pairs of words and runs of letters of a text, and their weights."""
    words = [word.lower() for word in _WORD.findall(without_accents(text))]
    pairs = [_bucket(f"{one} {other}") for one, other in zip(["^", *words], [*words, "$"], strict=True)]
    grams = [place for word in words for place in _gram_buckets(word)]
    places: list[int] = []
    weights: list[float] = []
    for group in ([_bucket(word) for word in words], pairs, grams):
        places += group
        weights += [1 / max(1, len(group)) ** 0.5] * len(group)
    return np.array(places, dtype=np.int64), np.array(weights, dtype=np.float32)


def _bucket(text: str) -> int:
    return zlib.crc32(text.encode()) % BUCKETS


@lru_cache(maxsize=8192)
def _gram_buckets(word: str) -> tuple[int, ...]:
    """Buckets of a word's runs of letters; cached, because questions share most of their words."""
    marked = f"<{word}>"
    starts = range(len(marked) - _GRAM + 1) if len(word) >= _GRAM else ()
    return tuple(_bucket(f"#{marked[start : start + _GRAM]}") for start in starts)


def shipped_matchers() -> Path:
    """Folder with the shipped matchers, one file per embedder."""
    return data_folder("prompts") / "memory"


@cache
def read_matcher(embedder: str, folder: Path | None = None) -> RelationMatcher | None:
    """Read a matcher.

    Args:
        embedder: Name of the embedder.
        folder: Folder with files that benchmarks/matcher.py wrote; None means the shipped ones.

    Returns:
        The matcher; None if there is none for this embedder.

    Raises:
        KgeditError: if the file is damaged.
    """
    path = (folder or shipped_matchers()) / f"matcher-{Path(embedder).name}.npz"
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as stored:
            dense, sparse, intercept = (stored[name].astype(np.float32) for name in ("dense", "sparse", "intercept"))
            vocabulary = read_vocabulary(
                stored["words"].tolist(), stored["relations"].tolist(), stored["explained"].tolist()
            )
            return RelationMatcher(
                stored["asked"].tolist(), stored["before"].tolist(), dense, sparse, intercept, vocabulary
            )
    except (OSError, ValueError, KeyError) as error:
        raise KgeditError(f"{path} holds no relation matcher ({error}). Install kgedit again.") from error


def _log_softmax(scores: Vectors) -> list[float]:
    shifted = scores.astype(np.float64) - float(scores.max())
    logs: list[float] = (shifted - np.log(np.exp(shifted).sum())).tolist()
    return logs


ANY_RELATION = ""
"""Stands for all relations: its words are those of frames."""
IN_PAIRS = "!"
"""Marks words that are explained only together with the next word: the first lady, but not the first mayor."""

_TOKEN = re.compile(r"[^\W_]+|['’][^\W_]+|[,;:.?!()\"“”–—>]")
_CLIPPED = re.compile(r"\bo['’](?=\s)")
_ARTICLES = frozenset(["the", "a", "an"])
_DETERMINERS = _ARTICLES | {"which", "what", "whose", "my", "your", "his", "her", "their", "our", "its", "this", "that"}
_LINKS = frozenset(["of", "at", "in", "for", "from", "on", "to", "with", "by"])
"""Words between a noun phrase and the name."""
_NAMING = frozenset(["of", "at", "in", "for", "the"])
"""Words before another name that is a part of such a noun phrase: "the professor of Greek at X"."""
_NAME_GOES_ON = frozenset([",", "of", "de"])
"""Tokens between the name and a word that makes another name of it: "X, Utah"."""
_ENDS = (
    _DETERMINERS
    | _LINKS
    | frozenset(["and", "or", "but", "as", "than", "if", "when", "after", "before", "since", "until", "while", "then"])
    | frozenset(
        ["who", "whom", "how", "why", "where", "i", "me", "we", "you", "he", "she", "it", "they", "not", "there"]
    )
    | frozenset(["is", "are", "was", "were", "be", "been", "am", "do", "does", "did", "has", "have", "had", "will"])
    | frozenset(["would", "can", "could", "should", "may", "must", "still", "now", "please", "currently"])
)
"""Words that belong to no noun phrase."""
_MOST_LEFT = 8
_ASKED_ABOUT = frozenset(["who", "whom", "what", "which"])


@dataclass(frozen=True, slots=True)
class Unexplained:
    """Numbers of words of a text that nothing explains, by their place. Words with capital letters are names.

    Attributes:
        leading: In the noun phrases that lead to the name.
        after: In the words that follow the name.
        owned: 1 if the word after the name's genitive is among them.
        asking: 1 if it is what is asked about: the verb after "who", the noun after "which".
        elsewhere: In the rest of the text.
        names: Names, or other known names, in those noun phrases or directly after the name.
    """

    leading: int
    after: int
    owned: int
    asking: int
    elsewhere: int
    names: int


class Vocabulary:
    """Words by the relations that they belong to.

    Args:
        explained: Relations of each word (kgedit.graph_memory.relations.stem), or pair of words with a space between
            them. ANY_RELATION is among those of words of frames, and IN_PAIRS among those of words that need a pair.
            Words of other texts have none: they are not misspelt.
    """

    def __init__(self, explained: Mapping[str, frozenset[str]]) -> None:
        self._explained = explained
        self._spellings = Spellings()
        self._spellings.extend(sorted(word for word in explained if " " not in word))
        # Questions share most of their words.
        self._read_word = lru_cache(maxsize=8192)(self._read)

    def unexplained(self, text: str, relations: Iterable[str], *, qualified: bool = False) -> Unexplained:
        """Count the words of a masked text that belong to none of some relations, nor to the frames.

        Args:
            text: The text.
            relations: Ids of the relations.
            qualified: Whether the words after the name are known to belong to it: "Vienna, Austria".
        """
        tokens = tokens_of(text)
        wanted = {ANY_RELATION, *relations}
        odd = {at for at in range(len(tokens)) if not self._is_explained(tokens, at, wanted)}
        place = tokens.index(MASK) if MASK in tokens else 0
        leading, after = _leading(tokens, place), _after(tokens, place)
        named = {at for at in odd if tokens[at][0].isupper() and at > 0}
        # The first word of a text has a capital letter, name or not.
        plain = odd - named - ({0} if place == 1 else set())
        asking = plain & _asking(tokens)
        return Unexplained(
            leading=len(plain & leading),
            after=len(plain & after),
            owned=int(_is_genitive(tokens, place + 1) and place + 2 in plain),
            asking=len(asking),
            elsewhere=len(odd - leading - after - asking),
            names=len((named | _others(tokens)) & _names_beside(tokens, place, leading, qualified=qualified)),
        )

    def _is_explained(self, tokens: Sequence[str], at: int, wanted: set[str]) -> bool:
        word = tokens[at]
        if word in (MASK, OTHER_MASK) or not word[0].isalnum():
            return True
        key, found, in_pairs = self._read_word(word)
        if in_pairs and _is_noun(tokens, at + 1):
            found = self._explained.get(f"{key} {stem(tokens[at + 1].lower())}", frozenset())
        return not wanted.isdisjoint(found)

    def _read(self, word: str) -> tuple[str, frozenset[str], bool]:
        """Stem of a word, relations that it or the words that it may be a misspelling of belong to, and whether it is
        explained only together with the next word."""
        key = stem(word.lower())
        found = self._explained.get(key)
        if found is None:
            return key, frozenset().union(*(self._explained[near] for near in self._spellings.near(key))), False
        return key, found, IN_PAIRS in found and ANY_RELATION not in found


def tokens_of(text: str) -> list[str]:
    """Words, endings after an apostrophe and marks of a text, without accents."""
    return _TOKEN.findall(_CLIPPED.sub("of", without_accents(text)))


def _is_noun(tokens: Sequence[str], at: int) -> bool:
    """Whether a token may belong to a noun phrase."""
    return at < len(tokens) and tokens[at][0].isalnum() and tokens[at] != MASK and tokens[at].lower() not in _ENDS


def _is_genitive(tokens: Sequence[str], at: int) -> bool:
    return at < len(tokens) and tokens[at][0] in "'’"


def _others(tokens: Sequence[str]) -> set[int]:
    return {at for at, token in enumerate(tokens) if token == OTHER_MASK}


def _names_beside(tokens: Sequence[str], place: int, leading: set[int], *, qualified: bool) -> set[int]:
    """Places where another name makes it another question: "head of the Y office of X", "X, Y", "X Y", "of Y, X"."""
    linked = {at for at in leading if any(token.lower() in _LINKS for token in tokens[at + 1 : place])}
    found = {at for at in linked if at > 0 and tokens[at - 1].lower() in _NAMING}
    # "Krasnodar, FC Krasnodar" names one thing twice; a name that is not known is another thing: "Bremen, X".
    if place >= 3 and tokens[place - 1] == "," and tokens[place - 3].lower() in _NAMING:
        found |= {place - 2} - _others(tokens)
    following = place + 1
    if following < len(tokens) and tokens[following].lower() in _NAME_GOES_ON:
        following += 1
    # "Is Y X's coach?" has two names, and "Who coaches Y X?" a longer one.
    before = place - 1
    if before > 0 and tokens[before - 1].lower() not in _ENDS and not _is_genitive(tokens, following):
        found.add(before)
    return found if qualified else found | {following}


def _asking(tokens: Sequence[str]) -> set[int]:
    """Last words after question words and before an article, a verb or the name: "guards", "salary"."""
    found = set()
    for start, token in enumerate(tokens):
        at = start
        while token.lower() in _ASKED_ABOUT and _is_noun(tokens, at + 1):
            at += 1
        if at > start:
            found.add(at)
    return found


def _leading(tokens: Sequence[str], place: int) -> set[int]:
    """Words of the noun phrases before a name: "chief", "whip" in "Who is the chief whip of the X?"."""
    at = place - 1
    if at >= 0 and tokens[at].lower() in _ARTICLES:
        at -= 1
    if at < 0 or tokens[at].lower() not in _LINKS:
        # "The French X", "the under-17 X".
        at = place - 1
    found: set[int] = set()
    while at >= 0 and place - at <= _MOST_LEFT:
        word = tokens[at].lower()
        if word in _LINKS:
            pass
        elif word in _DETERMINERS:
            if at == 0 or tokens[at - 1].lower() not in _LINKS:
                break
        elif not _is_noun(tokens, at) and word[0] not in "'’":
            break
        else:
            found.add(at)
        at -= 1
    return found


def _after(tokens: Sequence[str], place: int) -> set[int]:
    """Words after a name, up to one that belongs to no noun phrase."""
    found: set[int] = set()
    at = place + 1
    if _is_genitive(tokens, at):
        at += 1
        # "X's minister of culture" is one noun phrase.
        owned = next((link for link in range(at, len(tokens)) if not _is_noun(tokens, link)), len(tokens))
        if at < owned < len(tokens) and tokens[owned].lower() in ("of", "for") and _is_noun(tokens, owned + 1):
            found.add(owned + 1)
    while _is_noun(tokens, at):
        found.add(at)
        at += 1
    return found


def read_vocabulary(words: Sequence[str], relations: Sequence[str], pairs: Iterable[Sequence[int]]) -> Vocabulary:
    """A vocabulary from pairs of indexes of a word and of one of its relations."""
    explained: dict[str, set[str]] = {word: set() for word in words}
    for word, relation in pairs:
        explained[words[word]].add(relations[relation])
    return Vocabulary({word: frozenset(found) for word, found in explained.items()})
