"""The memory: learns edits as a graph and finds the facts that a question needs, including both facts of two hops.

It ranks paths of relations instead of facts: whether a path fits the wording of a question does not depend on the
subject. A search embeds the questions only, and learning embeds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.columns import NumberColumn, TextColumn
from kgedit.graph_memory.asked_names import AskedNames
from kgedit.graph_memory.chains import steps_of
from kgedit.graph_memory.dates import UNKNOWN_END, DatedQuestion, date_number, period_of
from kgedit.graph_memory.facts import FactTable, conflicting_rows, find_conflicts
from kgedit.graph_memory.gate import Gate, read_gate, read_match_gate
from kgedit.graph_memory.languages import ENGLISH, guess_language, has_marks, read_lexicon
from kgedit.graph_memory.learning import Learner, MemoryChange, fresh_rows, table_of_cases
from kgedit.graph_memory.longer_names import name_goes_on, read_date_beside_names
from kgedit.graph_memory.matched_search import MatchedSearch
from kgedit.graph_memory.matching import RelationMatcher
from kgedit.graph_memory.other_names import OtherNames, is_written_as_name
from kgedit.graph_memory.relations import SLOT, CatalogueWordings, RelationIndex
from kgedit.graph_memory.retrieval import Finding, FoundPath, Remembered, Retriever, Search, Walk, without_repeats
from kgedit.graph_memory.scoring import QuestionWindow, RelationPath, windows_of
from kgedit.llm.embeddings import Embedder, Vectors
from kgedit.records.cases import Case
from kgedit.wording.name_index import Mention, NameIndex, composed, name_key

__all__ = ["Finding", "FoundPath", "GraphMemory", "Remembered", "Search"]

_MOST_MENTIONS = 12
_AT_ONCE = 256
LEARNED_AT_ONCE = 65_536
"""Rows that are read from a table at once: Python objects of them take 200 MB."""
_MOST_PATHS = 200
"""Paths of relations from a name that are compared with a question about a chain."""
_USUAL = Search()

Unused = Literal["excluded", "no fact", "no fact then", "not asked"]
"""excluded: the name is not what the question is about. no fact, no fact then: its subjects have no current fact, or
none at the time that is asked about. not asked: they have facts, but the question's words ask for none of them."""


class GraphMemory:
    """Edits as a graph that is searched with questions.

    Args:
        embed: Computes vectors of texts.
        catalogue: Wordings of relations; None means the shipped catalogue.
        gate: Gate fitted for the embedder; None means that of all-minilm-l6-v2 (kgedit.graph_memory.gate.read_gate).
        matcher: Relation matcher trained for the embedder (kgedit.graph_memory.matching.read_matcher); None ranks
            paths by the catalogue's wordings alone.
        language: Language of labels and questions (kgedit.graph_memory.languages); `load_tables` replaces it.
    """

    def __init__(
        self,
        embed: Embedder,
        *,
        catalogue: CatalogueWordings | Path | None = None,
        gate: Gate | None = None,
        matcher: RelationMatcher | None = None,
        language: str = ENGLISH,
    ) -> None:
        self._lexicon = read_lexicon(language)
        self._embed, self._gate, self._matcher = embed, gate or read_gate(), matcher
        self._catalogue = catalogue if isinstance(catalogue, CatalogueWordings) else CatalogueWordings(embed, catalogue)
        self.clear()

    def __len__(self) -> int:
        """Number of learned facts, including ended ones."""
        return len(self._facts)

    @property
    def nbytes(self) -> int:
        """Size of facts and names in bytes, without the vectors of the catalogue."""
        aliases = self._alias_subjects.nbytes + self._aliases.nbytes
        descriptions = self._described.nbytes + self._descriptions.nbytes
        return self._facts.nbytes + self._names.nbytes + aliases + descriptions

    def clear(self) -> None:
        """Forget everything."""
        self._relations = RelationIndex(self._embed, self._catalogue)
        self._facts = FactTable(self._relations.identifiers)
        self._names = NameIndex()
        self._wordings: dict[str, int] = {}
        self._worded: list[str] = []
        self._alias_subjects, self._aliases = NumberColumn(), TextColumn()
        self._described, self._descriptions = NumberColumn(), TextColumn()
        more = [] if self._lexicon is None else [self._lexicon.names_of]
        self._other_names = OtherNames(self._facts, self._relations.identifiers, *more)
        self._asked_names = AskedNames(self._names, self._other_names, self._relations, self._facts)
        self._conflicts: frozenset[int] | None = None

    @property
    def language(self) -> str:
        """Code of the language of labels and questions."""
        return ENGLISH if self._lexicon is None else self._lexicon.language

    def prepare(self) -> None:
        """Index the names that are derived from facts now, instead of at the next search."""
        if self._matcher is not None:
            self._other_names.catch_up()

    def learn(self, cases: Iterable[Case]) -> None:
        """Add edits. Each one ends the old answers of its case."""
        self.learn_table(table_of_cases(cases))

    def learn_table(self, table: pa.Table) -> None:
        """Add facts of a table with the schema kgedit.graph_memory.learning.LEARNED, in its order."""
        self._conflicts = None
        for start in range(0, table.num_rows, LEARNED_AT_ONCE):
            self._learn_some(table.slice(start, LEARNED_AT_ONCE))

    def _learn_some(self, table: pa.Table) -> None:
        column = {name: table[name].to_pylist() for name in table.column_names}
        subjects = self._numbers(column["subject"], column["subject_label"])
        things = self._numbers(column["object"], column["object_label"])
        wordings = [
            self._wording(question, label)
            for question, label in zip(column["question"], column["subject_label"], strict=True)
        ]
        relations = self._relation_numbers(column["property"], column["property_label"], wordings)
        if self._lexicon is not None:
            own = [self._lexicon.questions.get(name, "") for name in column["property"]]
            wordings = [self._wording(text, "") if text else one for text, one in zip(own, wordings, strict=True)]
        rows, new = self._facts.rows_for(subjects, relations, np.array(wordings, dtype=np.int32))
        old = self._numbers(*(pc.list_flatten(table[name]).to_pylist() for name in ("old_objects", "old_answers")))
        learner, at = Learner(self._facts), 0
        for place, (row, fresh) in enumerate(zip(rows.tolist(), fresh_rows(rows, new), strict=True)):
            before = column["old_answers"][place]
            change = MemoryChange(
                thing=int(things[place]),
                label=column["answer"][place],
                case=column["case_id"][place],
                since=date_number(column["since"][place]),
                ended=list(zip(old[at : at + len(before)].tolist(), before, strict=True)),
            )
            at += len(before)
            learner.take(row, change, fresh=fresh)
        learner.finish()
        self._name(subjects, column)

    def end_values(self, subjects: pa.Array, relations: pa.Array, objects: pa.Array, until: pa.Array) -> None:
        """End values without replacing them. Unknown values and values that have ended are not changed.

        Args:
            subjects: Ids of the subjects.
            relations: Ids of the relations.
            objects: Ids of the values.
            until: First day on which each value no longer held, as an ISO date of any precision; "" if unknown.
        """
        self._conflicts = None
        numbers = {name: number for number, name in enumerate(self._relations.identifiers)}
        columns = (column.to_pylist() for column in (subjects, relations, objects, until))
        for subject, relation, thing, end in zip(*columns, strict=True):
            if relation in numbers:
                number = date_number(end) or UNKNOWN_END
                self._facts.end_value(self._facts.number_of(subject), numbers[relation], thing, number)

    def names_in(self, question: str) -> list[tuple[str, tuple[str, ...]]]:
        """Names of subjects as written in a question, each with the ids of all subjects of that name."""
        text = composed(question)
        return [
            (text[mention.start : mention.end], tuple(self._facts.ids[subject] for subject in mention.subjects))
            for mention in self._mentions(text, misspelt=True)
        ]

    def why_unused(self, question: str, search: Search, *, as_of: str = "") -> dict[str, Unused]:
        """Reason why a search for a question finds nothing about a name, for each name in it. Arguments: see `find`."""
        text = self._read(question)
        dated = DatedQuestion(text, "") if as_of or not search.dated else self._asked_names.read_date(text)
        period = period_of(as_of) if as_of else dated.period
        asked = {subject for mention in self._asked(dated.text, search) for subject in mention.subjects}

        def reason(subjects: list[int]) -> Unused:
            if asked.isdisjoint(subjects):
                return "excluded"
            facts = self._facts.steps(np.array(subjects, dtype=np.int32), period, ended=self._matcher is not None)
            return "not asked" if len(facts[0]) else "no fact" if period is None else "no fact then"

        return {
            name: reason([self._facts.number_of(each) for each in several]) for name, several in self.names_in(question)
        }

    def _asked(self, text: str, search: Search) -> list[Mention]:
        """Names that a question may be about."""
        if self._matcher is None:
            return self._mentions(text, misspelt=search.misspelt)
        return self._asked_names.asked(text, misspelt=search.misspelt)

    def label_of(self, identifier: str) -> str:
        """Label of an entity; "" for an unknown id."""
        number = self._facts.number_of(identifier)
        return self._facts.label(number) if number >= 0 else ""

    def counts(self) -> dict[str, int]:
        """Number of facts, ended facts, rows (one subject and relation each) and relations."""
        ended = len(self) - int(self._facts.several_hold()[0].sum())
        relations = len(self._relations.relations)
        return {"facts": len(self), "ended": ended, "rows": self._facts.rows, "relations": relations}

    def _name(self, subjects: Any, column: Mapping[str, list[Any]]) -> None:
        """Index the subjects of a table by label and alias, and store the descriptions that distinguish namesakes."""
        labels = dict(zip(subjects.tolist(), column["subject_label"], strict=True))
        self._names.extend(list(labels.values()), list(labels))
        aliases = {
            (number, alias): None
            for number, several in zip(subjects.tolist(), column["subject_aliases"], strict=True)
            for alias in several
        }
        self._add_aliases([number for number, _ in aliases], [alias for _, alias in aliases])
        given = dict(zip(subjects.tolist(), column["subject_description"], strict=True))
        described = {number: text for number, text in given.items() if text and self.description(number) != text}
        self._described.extend(np.full(max(0, len(self._facts.ids) - len(self._described)), -1))
        self._described.view[list(described)] = np.arange(
            len(self._descriptions), len(self._descriptions) + len(described)
        )
        self._descriptions.extend(list(described.values()))

    def description(self, thing: int) -> str:
        """Description that distinguishes an entity from others of its name; "" if none was given."""
        number = int(self._described.view[thing]) if thing < len(self._described) else -1
        return self._descriptions[number] if number >= 0 else ""

    def _has_namesake(self, thing: int) -> bool:
        """Whether another subject has the label of an entity."""
        label = self._facts.label(thing)
        return any(other != thing and self._facts.label(other) == label for other in self._names.subjects_of(label))

    def find(
        self, questions: Sequence[str | Sequence[str]], search: Search = _USUAL, *, as_of: str = ""
    ) -> list[Finding]:
        """Find the facts that questions need.

        Args:
            questions: Texts of the questions. The turns of a conversation, user and assistant in turn, are a question
                too: the last one, in which a pronoun or an omission may refer to the others.
            search: Search options.
            as_of: ISO date of any precision ("2019", "2021-03", "2021-03-31") on which the facts must hold; "" means
                now, or the date in the question (`Search.dated`).

        Returns:
            One finding per question; it does not depend on the other questions.
        """
        found: list[Finding] = []
        for start in range(0, len(questions), _AT_ONCE):
            turns = [[each] if isinstance(each, str) else list(each) for each in questions[start : start + _AT_ONCE]]
            if self._matcher is None:
                read = turns if self._lexicon is None else [[self._read(turn) for turn in several] for several in turns]
                found += self._find_worded([composed(several[-1]) for several in read], search, as_of)
            else:
                found += self._find_in_any_language(turns, search, as_of)
        return found

    def _read(self, turn: str, *, inner: bool = False) -> str:
        """A text with the words around its names in English; it is in the memory's language, or in a guessed one.

        Args:
            turn: The text.
            inner: See `Lexicon.read_around`.
        """
        text, indexes = composed(turn), (self._names, self._other_names)
        if self._lexicon is None and not has_marks(text):
            return text
        self._other_names.catch_up()
        found = [each for names in indexes for each in (*names.find(text), *names.find_genitives(text))]
        lexicon = self._lexicon or read_lexicon(guess_language(text, found))
        return text if lexicon is None else lexicon.read_around(text, found, inner=inner)

    def _read_again(self, turn: str) -> str:
        """A second reading: in an English memory the original."""
        return composed(turn) if self._lexicon is None else self._read(turn, inner=True)

    def _find_in_any_language(self, turns: Sequence[Sequence[str]], search: Search, as_of: str) -> list[Finding]:
        """Find by the matcher. Questions are translated word by word first; one that finds nothing is read again."""
        read = [[self._read(turn) for turn in several] for several in turns]
        found = self._find_matched(read, search, as_of)
        again = {
            place: other
            for place, several in enumerate(turns)
            if not found[place].paths and (other := [self._read_again(turn) for turn in several])[-1] != read[place][-1]
        }
        others = self._find_matched(list(again.values()), search, as_of) if again else []
        for place, each in zip(again, others, strict=True):
            if each.paths or (each.probability or 0.0) > (found[place].probability or 0.0):
                found[place] = each
        return found

    def _find_matched(self, turns: Sequence[Sequence[str]], search: Search, as_of: str) -> list[Finding]:
        """Find by the matcher, and relations that it does not know by their wordings."""
        assert self._matcher is not None
        found = self._matched_search(self._matcher).find(turns, search, as_of)
        unknown = self._relations.identifiers_besides(self._matcher.asked)
        open_places = [place for place, each in enumerate(found) if not each.paths and unknown]
        if not open_places:
            return found
        worded = self._find_worded([composed(turns[place][-1]) for place in open_places], search, as_of)
        for place, each in zip(open_places, worded, strict=True):
            if each.paths and any(row.relation in unknown for row in each.paths[0].rows):
                found[place] = each
        return found

    def _matched_search(self, matcher: RelationMatcher) -> MatchedSearch:
        retriever = self._retriever()
        return MatchedSearch(self._asked_names, self._relations, retriever, matcher, read_match_gate(), self._embed)

    def conflicts(self) -> pa.Table:
        """Rows with several current values although their relation usually has one.

        Returns:
            A table with the schema kgedit.graph_memory.facts.CONFLICTS: one row per value, grouped by subject and
            relation.
        """
        return find_conflicts(self._facts, self._relations.identifiers)

    def tables(self) -> dict[str, pa.Table]:
        """The whole memory, as tables by name."""
        relations = self._relations.relations
        language = {} if self._lexicon is None else {"language": pa.table({"code": [self.language]})}
        return {
            **language,
            **self._facts.tables(),
            **self._names.tables(),
            "aliases": pa.table({"thing": self._alias_subjects.view, "alias": self._aliases.to_arrow()}),
            "descriptions": pa.table({"text": self._descriptions.to_arrow()}),
            "described": pa.table({"number": self._described.view}),
            "relations": pa.table(
                {
                    "id": pa.array([relation.identifier for relation in relations], pa.string()),
                    "name": pa.array([relation.name for relation in relations], pa.string()),
                    "questions": pa.array([relation.questions for relation in relations], pa.list_(pa.string())),
                }
            ),
            "wordings": pa.table({"wording": pa.array(self._worded, pa.string())}),
        }

    def load_tables(self, tables: Mapping[str, pa.Table]) -> None:
        """Replace the memory with the result of `tables`."""
        self._lexicon = read_lexicon(tables["language"]["code"][0].as_py() if "language" in tables else ENGLISH)
        self.clear()
        for relation in tables["relations"].to_pylist():
            number = self._relations.number(relation["id"], relation["name"])
            for question in relation["questions"]:
                self._relations.add_question(number, question)
        self._worded = tables["wordings"]["wording"].to_pylist()
        self._wordings = {wording: number for number, wording in enumerate(self._worded)}
        self._facts.load(tables)
        self._names.load(tables)
        self._alias_subjects.extend(tables["aliases"]["thing"].to_numpy())
        self._aliases.extend(tables["aliases"]["alias"].to_pylist())
        self._descriptions.extend(tables["descriptions"]["text"].to_pylist())
        self._described.extend(tables["described"]["number"].to_numpy())

    def state(self) -> dict[str, Any]:
        """The whole memory as JSON values; files of large memories have `tables` (kgedit.graph_memory.memory_file)."""
        return {name: table.to_pydict() for name, table in self.tables().items()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Replace the memory with the result of `state`."""
        schemas = {name: table.schema for name, table in self.tables().items()}
        self.load_tables({name: pa.table(columns, schema=schemas.get(name)) for name, columns in state.items()})

    def _numbers(self, identifiers: Sequence[str], labels: Sequence[str]) -> Any:
        """Numbers of entities; an entity without an id is identified by its label."""
        named = [name or name_key(label) for name, label in zip(identifiers, labels, strict=True)]
        return self._facts.numbers(named, labels)

    def _relation_numbers(self, identifiers: Sequence[str], names: Sequence[str], wordings: Sequence[int]) -> Any:
        """Numbers of relations, with their wordings added; a relation without an id is identified by its wording."""
        keys = list(zip(identifiers, names, wordings, strict=True))
        numbers: dict[tuple[str, str, int], int] = {}
        for identifier, name, wording in dict.fromkeys(keys):
            worded = self._worded[wording]
            number = numbers[identifier, name, wording] = self._relations.number(identifier or worded, name)
            if SLOT in worded:
                self._relations.add_question(number, worded)
        return np.array([numbers[key] for key in keys], dtype=np.int32)

    def _add_aliases(self, numbers: Sequence[int], aliases: Sequence[str]) -> None:
        self._names.extend(aliases, numbers)
        self._alias_subjects.extend(np.array(numbers, dtype=np.int32))
        self._aliases.extend(aliases)

    def _wording(self, question: str, label: str) -> int:
        """Number of a question's wording: the subject's label, if it occurs, is replaced by a slot."""
        worded = question.replace(label, SLOT, 1) if label and SLOT not in question else question
        number = self._wordings.setdefault(worded, len(self._worded))
        if number == len(self._worded):
            self._worded.append(worded)
        return number

    def _retriever(self) -> Retriever:
        if self._conflicts is None:
            self._conflicts = conflicting_rows(self._facts)
        return Retriever(
            self._facts,
            self._relations,
            self._worded,
            self.description,
            self._has_namesake,
            self._gate,
            self._conflicts,
            self._lexicon,
        )

    def _find_worded(self, texts: Sequence[str], search: Search, as_of: str) -> list[Finding]:
        """Find by the wordings of the catalogue."""
        dated = [
            read_date_beside_names(text, self._names.find) if search.dated and not as_of else DatedQuestion(text, "")
            for text in texts
        ]
        asked = [each.text for each in dated]
        mentions = [self._mentions(text, misspelt=search.misspelt) for text in asked]
        windows = [
            [windows_of(text, mention.start, mention.end) for mention in several]
            for text, several in zip(asked, mentions, strict=True)
        ]
        vectors = self._embedded({window for several in windows for each in several for window in each})
        retriever = self._retriever()
        periods = [period_of(as_of) if as_of else each.period for each in dated]
        walks = [
            [
                _few(without_repeats(retriever.walks(mention, _hops_for(own, search), period), text), search.plain_hops)
                for mention, own in zip(several, each, strict=True)
            ]
            for text, several, each, period in zip(asked, mentions, windows, periods, strict=True)
        ]
        # Paths that are new to the memory are embedded in one call for all questions.
        self._relations.vectors([path for several in walks for each in several for path in each])
        return [
            retriever.find(
                several,
                [[QuestionWindow.of(window, vectors[window]) for window in own] for own in each],
                walked,
                search,
                period,
            )
            for several, each, walked, period in zip(mentions, windows, walks, periods, strict=True)
        ]

    def _mentions(self, text: str, *, misspelt: bool) -> list[Mention]:
        found = self._names.find(text)
        if not found and misspelt:
            found = self._names.find_misspelt(text)
        if self._matcher is not None:
            labels = {each: [self._facts.label(subject) for subject in each.subjects] for each in found}
            found = [
                each
                for each in found
                if is_written_as_name(text, each) and not name_goes_on(text, each, labels[each], found)
            ]
        return sorted(found, key=lambda mention: (mention.nested, mention.start))[:_MOST_MENTIONS]

    def _embedded(self, texts: set[str]) -> dict[str, Vectors]:
        ordered = sorted(texts)
        return dict(zip(ordered, self._embed(ordered), strict=True)) if ordered else {}


def _hops_for(windows: Sequence[str], search: Search) -> int:
    """Length of the paths whose wordings are compared with a question."""
    return search.hops if any(steps_of(window) for window in windows) else search.plain_hops


def _few(walks: Mapping[RelationPath, list[Walk]], hops: int) -> Mapping[RelationPath, list[Walk]]:
    """Walks along paths of any length if these are few, because their wordings are embedded; else the short ones."""
    return walks if len(walks) <= _MOST_PATHS else {path: each for path, each in walks.items() if len(path) <= hops}
