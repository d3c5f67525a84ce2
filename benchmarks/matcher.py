"""Trains the relation matcher of the graph memory on paraphrases, and writes it.

    OMP_NUM_THREADS=1 python benchmarks/matcher.py --write prompts/memory --reduced

Nouns of prompts/memory/paraphrases.yaml are put into frames, and two-hop questions nest the noun of one relation in the
wordings of another. Wordings of the catalogue's other relations are the class "other". Some words are misspelt.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from matcher_frames import (
    ABOUT_FRAMES,
    ASK_FRAMES,
    FORM_FRAMES,
    NESTED_FORMS,
    NOTHING_FRAMES,
    NOUN_FRAMES,
    OTHER_HOLDERS,
    OTHER_OFFICERS,
    PERSON_FRAMES,
    PLACE_FRAMES,
    ROLE_FRAMES,
    SAY_FRAMES,
    SOMETHING,
    STATED_FIRST,
    THAT,
    WORDS_OF_TALK,
)

from kgedit.graph_memory.matching import (
    ANY_RELATION,
    BACK,
    BUCKETS,
    DIRECT,
    IN_PAIRS,
    LEADING,
    NOTHING,
    OTHER,
    text_features,
    tokens_of,
)
from kgedit.graph_memory.relations import SLOT, stem
from kgedit.llm.embeddings import Vectors, load_embedder
from kgedit.resources import data_folder
from kgedit.wording.templates import template_table

ANY = ""
"""Label of a head that a text does not train."""
DENSE_SCALE, SPARSE_SCALE = 4.0, 1.5
WORDINGS = ("nouns", "asks", "says", "back", "de")
"""Parts of an entry with wordings."""
PRONOUNS = {"person": ("he", "she", "they"), "place": ("it", "that country")}
POSSESSIVES = {"he": "his", "she": "her", "they": "their"}
WHOLE_QUESTION = re.compile(
    r"^(?:who|what|which|where|whose|whom|to whom|in |on |at |of |for |is |has |did |does |how )"
)
DOING = re.compile(r"who(?: is|'s)(?: now)? (?P<doing>\w+ing(?: \w+){0,2}) X")
ATTRIBUTE = re.compile(r"^(?:how|when|which|why|where|what is X's|does X|is X|what did|who are the parents)")
STRAYS = ("Y", "Y", "Y", "Martin Keller", "Ana Ruiz", "Lee Chang", "Nordhafen", "Brightwell Ltd", "him", "it", "she")


@dataclass(frozen=True, slots=True)
class Example:
    """A text with its classes; ANY trains nothing."""

    text: str
    asked: str
    before: str


@cache
def read_paraphrases() -> Mapping[str, Any]:
    """The shipped paraphrases."""
    text = (data_folder("prompts") / "memory" / "paraphrases.yaml").read_text(encoding="utf-8")
    found: Mapping[str, Any] = yaml.safe_load(text)
    return found


def make_examples(seed: int) -> list[Example]:
    """All training texts, the same for the same seed.

    Each group of texts has its own random numbers: a new paraphrase changes few texts, and --cache has the rest.
    """
    made = [*_single(seed), *_nested(seed), *_back(seed), *_nothing(seed), *_other(seed)]
    seen: Counter[Example] = Counter()
    found = []
    for each in made:
        seen[each] += 1
        text = _varied(each.text, _drawing(seed, *astuple(each), seen[each]))
        found.append(Example(text, each.asked, each.before))
    return found


def _drawing(*key: str | int) -> random.Random:
    return random.Random(" ".join(map(str, key)))


def _single(seed: int) -> Iterator[Example]:
    for name, entry in read_paraphrases()["relations"].items():
        draw = _drawing(seed, "single", name)
        for text in _wordings(entry, draw, subject="X", most=150):
            yield Example(text, name, DIRECT)
        yield from (Example(text, name, DIRECT) for text in _catalogue(name) for _ in range(2))
        yield from (Example(text, name, DIRECT) for text in entry.get("de", ()) for _ in range(4))
        forms = [frame.format(h=head) for head in _heads(entry) for frame in draw.sample(FORM_FRAMES, 4)]
        yield from (Example(text, name, DIRECT) for text in draw.sample(forms, min(40, len(forms))))
    for shared in read_paraphrases()["shared"]:
        # Each text once per relation: their probabilities come out equal, and the subject decides.
        draw = _drawing(seed, "shared", *shared["relations"])
        entry = {**shared, "gives": "person"}
        for text in _wordings(entry, draw, subject="X", most=260):
            yield from (Example(text, name, DIRECT) for name in shared["relations"])
        yield from (Example(text, name, DIRECT) for text in shared["de"] for name in shared["relations"])


def _nested(seed: int) -> Iterator[Example]:
    relations = read_paraphrases()["relations"]
    for first, inner in relations.items():
        nouns = [noun for noun in inner["nouns"] if first != "P1308" and noun != "X"]
        nouns += _relative_clauses(inner) if nouns else []
        for last, outer in relations.items():
            draw = _drawing(seed, "nested", first, last)
            if nouns and first != last and _fits(inner["gives"], outer["of"]):
                texts = _wordings(outer, draw, subject=nouns, most=28)
                texts += _topics(outer, nouns, inner["gives"], draw, most=8)
                texts += _stated_first(inner, outer, draw, most=3)
                for text in [*texts, *_nested_forms(inner, outer, draw, most=6)]:
                    yield Example(text, last, first)
        for shared in read_paraphrases()["shared"]:
            fitting = [name for name in shared["relations"] if nouns and _fits(inner["gives"], relations[name]["of"])]
            if fitting:
                draw = _drawing(seed, "nested", first, *shared["relations"])
                entry = {**shared, "gives": "person"}
                for text in _wordings(entry, draw, subject=nouns, most=24):
                    yield from (Example(text, name, first) for name in fitting if name != first)
        for text in read_paraphrases()["nothing"]:
            draw = _drawing(seed, "nested", first, text)
            if nouns and ATTRIBUTE.match(text) and draw.random() < 0.15:
                yield Example(text.replace("X", _with_article(draw.choice(nouns)), 1), NOTHING, ANY)


def _heads(entry: Mapping[str, Any]) -> list[str]:
    """Nouns without their subject."""
    return [noun.removesuffix(" of X") for noun in entry["nouns"] if noun.endswith(" of X")]


def _relative_clauses(entry: Mapping[str, Any]) -> list[str]:
    """Nouns made of questions, and of nouns: "company that owns X", "man coaching X", "party X belongs to"."""
    heads = {"person": ("person who", "man who", "woman who", "one who"), "org": ("company that", "firm that")}
    clauses = [
        f"{head} {text.removeprefix('who ')}"
        for text in entry["asks"]
        if text.startswith("who ") and text.endswith(" X") and not text.startswith(("who is X", "who did", "who does"))
        for head in heads.get(entry["gives"], ())
    ]
    doing = [found for text in entry["asks"] if (found := DOING.fullmatch(text)) and entry["gives"] == "person"]
    clauses += [f"{head} {found['doing']} X" for found in doing for head in ("guy", "man", "woman", "person")]
    return clauses + [noun.replace(" that X ", " X ") for noun in entry["nouns"] if " that X " in noun]


def _topics(outer: Mapping[str, Any], nouns: list[str], gives: str, draw: random.Random, *, most: int) -> list[str]:
    """Questions that name their subject apart: "The president of X, where was he born?", or the other way round."""
    made = []
    for text in draw.sample(outer["asks"], min(most, len(outer["asks"]))):
        pronoun = draw.choice(PRONOUNS.get(gives, ("it", "they", "there")))
        asked = text.replace("X's", POSSESSIVES.get(pronoun, "its")).replace("X", pronoun)
        noun = draw.choice(nouns)
        asked = asked.replace("at there", "there")
        first = draw.random() < 0.7
        made.append(f"{draw.choice(('the ', '', 'The '))}{noun}, {asked}?" if first else f"{asked}, the {noun}?")
    return made


def _stated_first(inner: Mapping[str, Any], outer: Mapping[str, Any], draw: random.Random, *, most: int) -> list[str]:
    """A statement about the subject, then a question about its value: "A company owns X. Where is it based?"."""
    says = [text for text in inner.get("says", ()) if re.search(r"\bY\b", text)]
    if not says or inner["gives"] not in THAT:
        return []
    made = []
    for text in draw.sample(outer["asks"], min(most, len(outer["asks"]))):
        said = re.sub(r"\bY\b", draw.choice(SOMETHING[inner["gives"]]), draw.choice(says))
        that = draw.choice(THAT[inner["gives"]])
        asked = text.replace("X's", POSSESSIVES.get(that, "its")).replace("X", that)
        made.append(draw.choice(STATED_FIRST).format(s=said, a=asked))
    return made


def _nested_forms(inner: Mapping[str, Any], outer: Mapping[str, Any], draw: random.Random, *, most: int) -> list[str]:
    """Two nouns without a sentence."""
    firsts, lasts = _heads(inner), _heads(outer)
    frames = draw.sample(NESTED_FORMS, most) if firsts and lasts else ()
    return [frame.format(i=draw.choice(firsts), h=draw.choice(lasts)) for frame in frames]


def _back(seed: int) -> Iterator[Example]:
    for name, entry in read_paraphrases()["relations"].items():
        for text in entry.get("back", ()):
            for frame in _drawing(seed, name, text).sample(ASK_FRAMES, 5):
                yield Example(frame.format(a=text.replace("Y", "X")), BACK + name, DIRECT)


def _nothing(seed: int) -> Iterator[Example]:
    for text in read_paraphrases()["nothing"]:
        for frame in _drawing(seed, text).sample(NOTHING_FRAMES, 4):
            yield Example(frame.format(t=text), NOTHING, ANY)
    relations = read_paraphrases()["relations"]
    heads = [head for name in (*LEADING, "P35") for head in _heads(relations[name]) if len(head.split()) < 4]
    nouns = [frame.format(h=head) for head in heads for frame in _drawing(seed, head).sample(OTHER_HOLDERS, 4)]
    nouns += [form.format(officer) for officer in OTHER_OFFICERS for form in ("{} of X", "{} at X", "X's {}", "X {}")]
    for noun in nouns:
        for frame in _drawing(seed, noun).sample(NOUN_FRAMES, 2):
            yield Example(frame.format(n=_noun_in(frame, noun), wh="who"), NOTHING, ANY)


def _other(seed: int) -> Iterator[Example]:
    rows = {row["property"]: row for row in template_table(None).to_pylist()}
    for name in sorted(rows.keys() - read_paraphrases()["relations"].keys()):
        row = rows[name]
        for text in _drawing(seed, name).sample([row["question"], *row["rephrases"], row["phrase"]], 2):
            yield Example(text.replace(SLOT, "X"), OTHER, ANY)


@cache
def _catalogue(name: str) -> tuple[str, ...]:
    rows = [row for row in template_table(None).to_pylist() if row["property"] == name]
    texts = [text for row in rows for text in (row["question"], *row["rephrases"], row["phrase"], *row["clozes"])]
    return tuple(dict.fromkeys(text.replace(SLOT, "X") for text in texts))


def _wordings(entry: Mapping[str, Any], draw: random.Random, *, subject: str | list[str], most: int) -> list[str]:
    """Wordings of a relation, framed; the subject is X or one of the nouns given."""
    wh = {"person": "who", "place": "what", "city": "where", "venue": "where"}.get(entry["gives"], "what")
    frames = (*NOUN_FRAMES, *ABOUT_FRAMES, *ROLE_FRAMES)
    if entry["gives"] == "person":
        frames += PERSON_FRAMES
    elif entry["gives"] in ("city", "venue") or (entry["gives"] == "place" and "person" in entry["of"]):
        # Not for the country of a club: nothing but a name is left of "take me to the country of X".
        frames += PLACE_FRAMES
    found = [
        frame.format(n=_noun_in(frame, noun), wh=wh) for noun in entry["nouns"] for frame in draw.sample(frames, 9)
    ]
    found += [frame.format(a=text) for text in entry["asks"] for frame in draw.sample(ASK_FRAMES, 5)]
    found += [frame.format(s=text) for text in entry.get("says", ()) for frame in draw.sample(SAY_FRAMES, 5)]
    chosen = draw.sample(found, min(most, len(found)))
    return [
        re.sub(r"\bX\b", lambda _: "X" if subject == "X" else _with_article(draw.choice(subject)), text, count=1)
        for text in chosen
    ]


def _noun_in(frame: str, noun: str) -> str:
    """The noun, with an article within sentences."""
    return noun if frame.startswith(("{n}", "current", "previous", "former")) else _with_article(noun)


def _with_article(noun: str) -> str:
    return noun if noun.startswith(("X", "where")) else f"the {noun}"


def _fits(given: str, wanted: list[str]) -> bool:
    return any({given, one} <= group for one in wanted for group in _ALIKE)


_ALIKE = tuple(map(frozenset, (("place", "city"), ("org", "team"), ("person",), ("party",), ("office",), ("team",))))


def _varied(text: str, draw: random.Random) -> str:
    """The text with stray names, in other case, without marks or misspelt, each of the time."""
    text = re.sub(r"\bY\b", lambda _: draw.choice(STRAYS), text)
    if draw.random() < 0.4:
        text = " ".join(word if word in ("X", "Y", "X's") else word.lower() for word in text.split())
    elif WHOLE_QUESTION.match(text):
        text = text[0].upper() + text[1:]
    if draw.random() < 0.2:
        text = text.rstrip("?.!")
    if draw.random() < 0.25:
        words = text.split()
        places = [place for place, word in enumerate(words) if len(word) > 3 and word.isalpha()]
        if places:
            place = draw.choice(places)
            words[place] = _misspelt(words[place], draw)
        text = " ".join(words)
    return text


def _misspelt(word: str, draw: random.Random) -> str:
    at = draw.randrange(1, len(word) - 1)
    kind = draw.randrange(3)
    if kind == 0:
        return word[:at] + word[at + 1 :]
    if kind == 1:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + draw.choice("aeiourst") + word[at + 1 :]


def explained_words() -> dict[str, Any]:
    """Words of each relation's wordings and of all frames, as the arrays of kgedit.graph_memory.matching."""
    frames = (*NOUN_FRAMES, *ROLE_FRAMES, *PERSON_FRAMES, *PLACE_FRAMES, *FORM_FRAMES, *NESTED_FORMS, *STATED_FIRST)
    frames += (*ABOUT_FRAMES, *ASK_FRAMES, *SAY_FRAMES)
    pronouns = [text for several in (*SOMETHING.values(), *THAT.values(), *PRONOUNS.values()) for text in several]
    entries = read_paraphrases()
    texts = {ANY_RELATION: [*(re.sub(r"\{\w+\}", "X", each) for each in frames), *pronouns, *WORDS_OF_TALK]}
    for name, entry in entries["relations"].items():
        own = [entry, *(each for each in entries["shared"] if name in each["relations"])]
        texts[name] = [text for each in own for kind in WORDINGS for text in each.get(kind, ())]
        texts[name] += [*_catalogue(name), *_relative_clauses(entry)]
    stems = {name: [[stem(each.lower()) for each in tokens_of(text)] for text in own] for name, own in texts.items()}
    other_nouns = [re.sub(r"\{\w+\}", "X", each) for each in (*OTHER_HOLDERS, *OTHER_OFFICERS)]
    modifiers = {stem(word.lower()) for text in other_nouns for word in tokens_of(text)}
    # "Coach" in "goalkeeper coach" is explained without a pair, too: "Where did X's coach study?".
    modifiers -= {stem(head.lower().split()[-1]) for entry in entries["relations"].values() for head in _heads(entry)}
    # A captain holds another office, although a metaphor may call a coach one.
    officers = {stem(each) for each in OTHER_OFFICERS if " " not in each}
    found = {
        name: {word for text in own for word in text} - officers
        | {f"{one} {other}" for text in own for one, other in pairwise(text) if one in modifiers}
        for name, own in stems.items()
    }
    found[IN_PAIRS] = modifiers - officers
    rows = template_table(None).to_pylist()
    catalogue = [text for row in rows for text in (row["question"], *row["rephrases"], row["phrase"])]
    known = {stem(word.lower()) for text in (*entries["nothing"], *catalogue) for word in tokens_of(text)}
    words, relations = sorted(known.union(*found.values())), list(found)
    places = {word: place for place, word in enumerate(words)}
    pairs = [(places[word], place) for place, name in enumerate(relations) for word in sorted(found[name])]
    return {"words": np.array(words), "relations": np.array(relations), "explained": np.array(pairs, dtype=np.int32)}


def embed_cached(texts: list[str], embedder: str, cache_file: Path | None, *, reduced: bool) -> Vectors:
    """Vectors of texts; those in the cache file are not computed again."""
    known: dict[str, Vectors] = {}
    if cache_file and cache_file.exists():
        with np.load(cache_file, allow_pickle=False) as stored:
            known = dict(zip(stored["texts"].tolist(), stored["vectors"], strict=True))
    missing = [text for text in dict.fromkeys(texts) if text not in known]
    if missing:
        known.update(zip(missing, load_embedder(embedder, device="cpu", reduced=reduced)(missing), strict=True))
    if cache_file:
        np.savez(cache_file, texts=np.array(list(known)), vectors=np.stack(list(known.values())))
    return np.stack([known[text] for text in texts])


def train(examples: list[Example], vectors: Vectors, *, epochs: int, decay: float, seed: int) -> dict[str, Any]:
    """Fit both heads; returns the arrays of the file."""
    torch.manual_seed(seed)
    asked, before = (sorted({getattr(each, name) for each in examples} - {ANY}) for name in ("asked", "before"))
    targets = [
        torch.tensor([places.get(getattr(each, name), -1) for each in examples])
        for name, places in (
            ("asked", {name: place for place, name in enumerate(asked)}),
            ("before", {name: place for place, name in enumerate(before)}),
        )
    ]
    features = [text_features(each.text) for each in examples]
    offsets = torch.tensor(np.cumsum([0, *(len(places) for places, _ in features[:-1])]))
    places = torch.tensor(np.concatenate([each for each, _ in features]))
    weights = torch.tensor(np.concatenate([each for _, each in features]))
    dense, classes = torch.tensor(vectors), len(asked) + len(before)
    model = torch.nn.Linear(dense.shape[1], classes)
    bag = torch.nn.EmbeddingBag(BUCKETS, classes, mode="sum")
    torch.nn.init.zeros_(bag.weight)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.Adam([*model.parameters(), *bag.parameters()], lr=0.02)
    counts = torch.bincount(targets[0][targets[0] >= 0], minlength=len(asked)).float()
    balance = (counts.mean() / counts).sqrt()
    for _ in range(epochs):
        optimizer.zero_grad()
        scores = model(DENSE_SCALE * dense) + SPARSE_SCALE * bag(places, offsets, per_sample_weights=weights)
        parts = scores[:, : len(asked)], scores[:, len(asked) :]
        loss = torch.nn.functional.cross_entropy(parts[0], targets[0], weight=balance, ignore_index=-1)
        loss = loss + torch.nn.functional.cross_entropy(parts[1], targets[1], ignore_index=-1)
        penalty = decay * (model.weight.square().sum() + bag.weight.square().sum())
        (loss + penalty).backward()
        optimizer.step()
    right = [
        float((part.argmax(1) == target)[target >= 0].float().mean())
        for part, target in zip(parts, targets, strict=True)
    ]
    print(f"{len(examples)} texts; loss {float(loss):.3f}; right, asked and before: {right[0]:.3f}, {right[1]:.3f}")
    return {
        "asked": np.array(asked),
        "before": np.array(before),
        "dense": (DENSE_SCALE * model.weight.detach().T).numpy().astype(np.float16),
        "sparse": (SPARSE_SCALE * bag.weight.detach()).numpy().astype(np.float16),
        "intercept": model.bias.detach().numpy(),
        **explained_words(),
    }


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedder", default="all-minilm-l6-v2")
    parser.add_argument("--write", type=Path, help="folder for the file")
    parser.add_argument("--cache", type=Path, help="file of vectors, to train again")
    parser.add_argument("--reduced", action="store_true", help="embed in bfloat16 where the processor can")
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--decay", type=float, default=2e-5)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    examples = make_examples(given.seed)
    vectors = embed_cached([each.text for each in examples], given.embedder, given.cache, reduced=given.reduced)
    fitted = train(examples, vectors, epochs=given.epochs, decay=given.decay, seed=given.seed)
    if given.write:
        np.savez_compressed(given.write / f"matcher-{Path(given.embedder).name}.npz", **fitted)


if __name__ == "__main__":
    main()
