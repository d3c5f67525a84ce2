"""The sample world: three small hand-written Wikidata snapshots, shipped with kgedit.

``world.yaml`` and ``labels.yaml`` are the only sources of data; ``README.md`` explains them. Here world.yaml is read
into frozen records and checked, independent of Wikidata's JSON. YAML's types are not used: every scalar is read as
text, so that dates stay as written and every error can name its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from kgedit.errors import SourceError
from kgedit.yaml_files import SafeLoader, load_yaml

SOURCE = Path(__file__).with_name("world.yaml")
LABELS = Path(__file__).with_name("labels.yaml")

_HEAD = re.compile(r"([QP][1-9]\d*) (.+)")
_RANGE = re.compile(r"([123])(\.\.)?([123])?")
_QUALIFIER_WORDS = {"start": "P580", "end": "P582", "at": "P585"}
_RANKS = ("preferred", "normal", "deprecated")
_NO_LABEL = "(no English label)"

_Pairs = list[tuple[yaml.Node, yaml.Node]]


@dataclass(frozen=True, slots=True)
class Reach:
    """The snapshots from `first` to `last`, both included; snapshots are numbered from 1."""

    first: int = 1
    last: int = 3

    def __contains__(self, snapshot: int) -> bool:
        return self.first <= snapshot <= self.last


@dataclass(frozen=True, slots=True)
class DatedValue:
    """A value as written, the snapshots in which it holds, and its line number."""

    text: str
    line: int
    reach: Reach = Reach()


@dataclass(frozen=True, slots=True)
class Qualifier:
    """A property with a value: a qualifier, or a snak of a reference."""

    property: str
    value: DatedValue


@dataclass(frozen=True, slots=True)
class SampleStatement:
    """One statement through all snapshots; its GUID is derived from `values[0]` and never changes.

    Attributes:
        property: PID.
        values: Main values; a later entry replaces the earlier one from the beginning of its reach.
        ranks: Rank changes, in the same form; empty means normal.
        qualifiers: Qualifiers, in the order written.
        references: Snaks of its only reference; empty without one.
        reach: Snapshots in which the statement exists.
        line: Line number in the file.
    """

    property: str
    values: tuple[DatedValue, ...]
    ranks: tuple[DatedValue, ...]
    qualifiers: tuple[Qualifier, ...]
    references: tuple[Qualifier, ...]
    reach: Reach
    line: int

    def value_in(self, snapshot: int) -> str:
        """Main value as written, in one snapshot."""
        return [value.text for value in self.values if snapshot in value.reach][-1]

    def rank_in(self, snapshot: int) -> str:
        """Rank in one snapshot: "preferred", "normal" or "deprecated"."""
        return (["normal"] + [rank.text for rank in self.ranks if snapshot in rank.reach])[-1]


@dataclass(frozen=True, slots=True)
class SampleEntity:
    """An item or a property.

    Attributes:
        id: QID or PID.
        labels: English labels; the last one whose reach contains the snapshot counts. Empty means no English label.
        other_labels: Labels in other languages, as (language, label).
        other_aliases: Aliases in other languages, as (language, alias).
        description: English description.
        aliases: English aliases.
        article: Title of the English Wikipedia article, or None.
        datatype: Datatype of a property; items have None.
        statements: Statements, in the order written.
        reach: Snapshots in which the entity exists.
        line: Line number in the file.
    """

    id: str
    labels: tuple[DatedValue, ...]
    other_labels: tuple[tuple[str, str], ...]
    other_aliases: tuple[tuple[str, str], ...]
    description: str
    aliases: tuple[str, ...]
    article: str | None
    datatype: str | None
    statements: tuple[SampleStatement, ...]
    reach: Reach
    line: int

    def label_in(self, snapshot: int) -> str | None:
        """English label in one snapshot, or None."""
        return ([None] + [label.text for label in self.labels if snapshot in label.reach])[-1]


@dataclass(frozen=True, slots=True)
class World:
    """Content of world.yaml.

    Attributes:
        dates: Snapshot dates as written, "2021-01-04", oldest first.
        entities: Entities by id, in the order written.
        redirects: Target and first snapshot of the redirect, by source id.
        cases: Expected result and places to look, by number of the tricky case.
        scenarios: Places to look, by WikiFactDiff's name of the scenario.
    """

    dates: tuple[str, ...]
    entities: dict[str, SampleEntity]
    redirects: dict[str, tuple[str, int]]
    cases: dict[int, tuple[str, tuple[str, ...]]]
    scenarios: dict[str, tuple[str, ...]]


def read_world(path: Path = SOURCE) -> World:
    """Read the source file.

    Raises:
        SourceError: with the line of the first error.
    """
    try:
        tree = yaml.compose(path.read_text(encoding="utf-8"), Loader=SafeLoader)
    except yaml.YAMLError as error:
        raise SourceError(f"{path.name} is not YAML: {error}") from error
    if not isinstance(tree, yaml.MappingNode):
        raise wrong(1, "the file is not a mapping of snapshots, redirects, cases, properties and items")
    parts = {key.value: value for key, value in tree.value}
    entities: dict[str, SampleEntity] = {}
    nodes = [*_groups(parts["properties"]), *_groups(parts["items"])]
    for group, head, body, shared in nodes:
        entity = _entity(head, body, shared, datatype=group if head.value.startswith("P") else None)
        if entity.id in entities:
            raise wrong(entity.line, f"{entity.id} is written twice, first on line {entities[entity.id].line}")
        entities[entity.id] = entity
    _add_labels(entities)
    return World(
        dates=tuple(node.value for node in parts["snapshots"].value),
        entities=entities,
        redirects={key.value: _redirect(value) for key, value in parts["redirects"].value},
        cases={int(key.value): _case(value) for key, value in parts["cases"].value},
        scenarios={key.value: _places(value) for key, value in parts["scenarios"].value},
    )


def _add_labels(entities: dict[str, SampleEntity]) -> None:
    """Add the labels and aliases of labels.yaml; entities that another source file lacks are ignored."""
    for identifier, by_language in load_yaml(LABELS.read_text(encoding="utf-8")).items():
        if (entity := entities.get(identifier)) is not None:
            labels = tuple((language, names[0]) for language, names in by_language.items())
            aliases = tuple((language, alias) for language, names in by_language.items() for alias in names[1:])
            entities[identifier] = replace(entity, other_labels=entity.other_labels + labels, other_aliases=aliases)


def wrong(line: int, problem: str) -> SourceError:
    """Error for a line of the source file."""
    return SourceError(f"{SOURCE.name}, line {line}: {problem}.")


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _groups(node: yaml.Node) -> Iterator[tuple[str, yaml.Node, yaml.Node, _Pairs]]:
    """(group, head, body, shared statements) of each entity; `why` and `each` belong to the group."""
    for name, group in node.value:
        shared = [pair for key, value in group.value if key.value == "each" for pair in value.value]
        for key, value in group.value:
            if key.value not in ("why", "each"):
                yield name.value, key, value, shared


def _entity(head: yaml.Node, body: yaml.Node, shared: _Pairs, *, datatype: str | None) -> SampleEntity:
    matched = _HEAD.fullmatch(head.value)
    if not matched:
        raise wrong(_line(head), f"'{head.value}' is not an id followed by a label")
    identifier, label = matched.groups()
    pairs: _Pairs = [] if isinstance(body, yaml.ScalarNode) else list(body.value)
    fields = {key.value: value for key, value in pairs if not _is_property(key.value)}
    description, short, own = _about(fields.get("about", body))
    for key, value in pairs:
        if _is_property(key.value):
            own += [_statement(key.value, text, line) for text, line in _texts(value)]
    given = {statement.property for statement in own}
    for key, value in shared:
        if key.value not in given:
            own += [_statement(key.value, text, _line(head)) for text, _ in _texts(value)]
    return SampleEntity(
        id=identifier,
        labels=_labels(label, fields.get("renamed"), _line(head)),
        other_labels=tuple((key.value, value.value) for key, value in getattr(fields.get("labels"), "value", ())),
        other_aliases=(),
        description=description,
        aliases=tuple(alias.strip() for alias in short.get("also", "").split(";") if alias.strip()),
        article=None if (title := short.get("article", label)) in ("none", _NO_LABEL) else title,
        datatype=datatype,
        statements=tuple(own),
        reach=_reach(short.get("exists", "1.."), _line(head)),
        line=_line(head),
    )


def _about(node: yaml.Node) -> tuple[str, dict[str, str], list[SampleStatement]]:
    """The description, the clauses that are not statements, and the statements of an `about` line."""
    if not isinstance(node, yaml.ScalarNode):
        raise wrong(_line(node), "an entity with fields needs an `about`")
    description, *clauses = _clauses(node.value)
    short: dict[str, str] = {}
    statements: list[SampleStatement] = []
    for clause in clauses:
        word, _, rest = clause.partition(" ")
        if _is_property(word):
            statements.append(_statement(word, rest, _line(node)))
        elif word in ("also", "exists", "article"):
            short[word] = rest
        else:
            raise wrong(_line(node), f"'{clause}' begins with neither a property nor also, exists, article")
    return description, short, statements


def _is_property(word: str) -> bool:
    return bool(re.fullmatch(r"P[1-9]\d*", word))


def _texts(node: yaml.Node) -> list[tuple[str, int]]:
    nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
    return [(each.value, _line(each)) for each in nodes]


def _labels(label: str, renamed: yaml.Node | None, line: int) -> tuple[DatedValue, ...]:
    first = () if label == _NO_LABEL else (DatedValue(label, line),)
    return first + tuple(_mention(text, at) for text, at in (_texts(renamed) if renamed is not None else ()))


def _clauses(text: str) -> list[str]:
    return [clause.strip() for clause in text.split(" | ")]


def _reach(text: str, line: int) -> Reach:
    matched = _RANGE.fullmatch(text.strip())
    if not matched:
        raise wrong(line, f"'{text}' is not a range of snapshots such as 2, 1..2 or 2..")
    first, dots, last = matched.groups()
    return Reach(int(first), int(last or 3) if dots else int(first))


def _mention(text: str, line: int) -> DatedValue:
    """Parse a value that may end in "@RANGE"."""
    value, at, reach = text.rpartition(" @")
    return DatedValue(value, line, _reach(reach, line)) if at else DatedValue(text, line)


def _statement(property_id: str, text: str, line: int) -> SampleStatement:
    first, *rest = _clauses(text)
    values, ranks = [DatedValue(first, line)], []
    qualifiers, references = [], []
    reach = Reach()
    for clause in rest:
        word, _, tail = clause.partition(" ")
        if word in _QUALIFIER_WORDS or _is_property(word):
            qualifiers.append(Qualifier(_QUALIFIER_WORDS.get(word, word), _mention(tail, line)))
        elif word == "ref":
            name, _, value = tail.partition(" ")
            references.append(Qualifier(name, _mention(value, line)))
        elif word == "becomes":
            values.append(_mention(tail, line))
        elif word == "in":
            reach = _reach(tail, line)
        elif word == "rank" and tail.split(" ")[0] in _RANKS:
            ranks.append(_mention(tail, line))
        else:
            raise wrong(line, f"'{clause}' is not a clause of a statement")
    return SampleStatement(property_id, tuple(values), tuple(ranks), tuple(qualifiers), tuple(references), reach, line)


def _redirect(node: yaml.Node) -> tuple[str, int]:
    target = _mention(node.value, _line(node))
    return target.text.split(" ")[0], target.reach.first


def _case(node: yaml.Node) -> tuple[str, tuple[str, ...]]:
    parts = {key.value: value for key, value in node.value}
    return parts["expect"].value, _places(parts["see"])


def _places(node: yaml.Node) -> tuple[str, ...]:
    return tuple(each.value for each in node.value)
