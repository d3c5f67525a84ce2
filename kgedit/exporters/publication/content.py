"""Content of a publication: its questions as flat tables, the publisher's description, and its citation.

The tables are one per axis, for `datasets.load_dataset`: a timestep's own tables have different columns, so the hub's
loader cannot read them as one data set.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from kgedit.errors import TimestepError
from kgedit.records.cases import AXES, Case, Fact, Probe
from kgedit.resources import citation_file
from kgedit.timesteps.crosslingual import languages_of
from kgedit.timesteps.timestep import Timestep
from kgedit.yaml_files import load_yaml

_STRINGS = pa.list_(pa.string())

QUESTIONS = pa.schema(
    [
        ("case_id", pa.string()),
        ("question", pa.string()),
        ("answers", _STRINGS),
        ("facts", _STRINGS),
        ("second_case_id", pa.string()),
        ("changed", pa.bool_()),
        ("edit_question", pa.string()),
        ("edit_cloze", pa.string()),
        ("edit_answer", pa.string()),
        ("old_answers", _STRINGS),
        ("tag", pa.string()),
        ("kind", pa.string()),
        ("subject", pa.string()),
        ("subject_label", pa.string()),
        ("relation", pa.string()),
        ("relation_label", pa.string()),
        ("object", pa.string()),
        ("object_label", pa.string()),
        ("start_time", pa.string()),
        ("point_in_time", pa.string()),
        ("as_of", pa.string()),
        ("projected", pa.bool_()),
    ]
)
"""One row per question, in the order of the cases. COLUMNS describes the columns."""

COLUMNS = {
    "case_id": "the edit that the question belongs to, SUBJECT:PROPERTY:OBJECT",
    "question": "the question",
    "answers": "accepted answers, the label first, then aliases",
    "facts": "the facts that answer it, SUBJECT:PROPERTY:OBJECT; two to four, in order, for a multi-hop question",
    "second_case_id": "the edit that a two-hop question's second fact belongs to; null if it is not an edit",
    "changed": "locality: the fact became true in the window itself, so a model of the older date does not know it",
    "edit_question": "the edit's prompt",
    "edit_cloze": "the edit as a statement that ends before the answer",
    "edit_answer": "the edit's target",
    "old_answers": "answers at the older date; empty if the subject had no value",
    "tag": "update: an old value was replaced; new: there was none",
    "kind": "kind of the change (update, backfill, ...); null if not determined",
    "subject": "Wikidata's id of the edit's subject",
    "subject_label": "its label",
    "relation": "Wikidata's id of the edit's property",
    "relation_label": "its label",
    "object": "Wikidata's id of the edit's object",
    "object_label": "its label",
    "start_time": "start of the fact in the statement, at its precision; null without one",
    "point_in_time": "date in the statement on which the fact held, likewise",
    "as_of": "day of the newer snapshot, on which the edit holds",
    "projected": "one of the two snapshots is projected from a later dump",
}
"""Description of each column of QUESTIONS, used by the card and Croissant."""


@dataclass(frozen=True, slots=True)
class PublishedTimestep:
    """A timestep as a configuration of a data set.

    Attributes:
        config: Name of the configuration: that of the timestep, plus the profile unless it is wikibigedit.
        timestep: The timestep.
        questions: Axis -> rows of QUESTIONS; axes without questions are absent.
    """

    config: str
    timestep: Timestep
    questions: dict[str, pa.Table]

    @property
    def cases(self) -> int:
        """Number of edits; each has one update question."""
        return int(self.questions["update"].num_rows)

    @property
    def dates(self) -> tuple[str, str]:
        """Dates of the older and the newer snapshot, YYYY-MM-DD."""
        older, newer = (f"{day[:4]}-{day[4:6]}-{day[6:]}" for day in self.timestep.name.split("_"))
        return older, newer


def publish_timestep(timestep: Timestep) -> PublishedTimestep:
    """Convert a timestep's questions to tables.

    Raises:
        TimestepError: if it has no case, or its name does not consist of two dates.
    """
    if not re.fullmatch(r"\d{8}_\d{8}", timestep.name, re.ASCII):
        raise TimestepError(
            f"The timestep {timestep.folder} is called '{timestep.name}'. Only one that is called by two days, as "
            "20210104_20230227, can be published."
        )
    profile = timestep.manifest.get("profile", "wikibigedit")
    config = timestep.name + ("" if profile == "wikibigedit" else f"_{profile}")
    questions = question_tables(timestep)
    if not questions:
        raise TimestepError(f"The timestep {timestep.folder} has no case: there is nothing to publish. Leave it out.")
    return PublishedTimestep(config, timestep, questions)


def question_tables(timestep: Timestep) -> dict[str, pa.Table]:
    """Axis -> rows of QUESTIONS, in the order of AXES; axes without questions are left out."""
    rows: dict[str, list[dict[str, object]]] = {axis: [] for axis in AXES}
    for case in timestep.cases(two_hop_rephrases=True):
        of_edit = _case(case) | {"projected": timestep.is_projected}
        for probe in case.probes:
            rows[probe.axis].append(_probe(probe) | of_edit)
    return {axis: pa.Table.from_pylist(found, schema=QUESTIONS) for axis, found in rows.items() if found}


def _probe(probe: Probe) -> dict[str, object]:
    return {
        "question": probe.question,
        "answers": list(probe.answers),
        "facts": [_ids(fact) for fact in probe.facts],
        "second_case_id": probe.second_case_id,
        "changed": probe.changed,
    }


def _case(case: Case) -> dict[str, object]:
    return {
        "case_id": case.case_id,
        "edit_question": case.question,
        "edit_cloze": case.cloze,
        "edit_answer": case.answer,
        "old_answers": list(case.old_answers),
        "tag": case.tag,
        "kind": case.kind,
        "subject": case.fact.subject,
        "subject_label": case.fact.subject_label,
        "relation": case.fact.property,
        "relation_label": case.fact.property_label,
        "object": case.fact.object,
        "object_label": case.fact.object_label,
        "start_time": case.start_time,
        "point_in_time": case.point_in_time,
        "as_of": case.as_of,
    }


def _ids(fact: Fact) -> str:
    return f"{fact.subject}:{fact.property}:{fact.object}"


LICENSE_URLS = {
    "cc0-1.0": "https://creativecommons.org/publicdomain/zero/1.0/",
    "cc-by-4.0": "https://creativecommons.org/licenses/by/4.0/",
    "cc-by-sa-4.0": "https://creativecommons.org/licenses/by-sa/4.0/",
    "apache-2.0": "https://www.apache.org/licenses/LICENSE-2.0",
    "mit": "https://opensource.org/license/mit",
}
"""Name of a licence on the hub -> URL of its text; other licences are only named."""

TASK_FOLDER = "lm_eval"
"""Folder of the tasks of lm-evaluation-harness."""

RUNS_CONFIG = "runs"
RUNS_SPLIT = "scores"


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Description given by the publisher.

    Attributes:
        name: Name of the data set: letters, digits, "-", "_" and ".".
        version: Version of the data set.
        license: Licence, as named by the hub (lower case).
        url: Future address; None if unknown.
        date: Day of publication (YYYY-MM-DD); None if not given, so that the same input gives the same bytes.
    """

    name: str
    version: str = "1.0.0"
    license: str = "cc0-1.0"
    url: str | None = None
    date: str | None = None


@dataclass(frozen=True, slots=True)
class Publication:
    """Content of a publication.

    Attributes:
        about: The publisher's description.
        timesteps: Timesteps, ordered by the name of their configuration.
        results: Rows of kgedit.records.published.RESULTS; None without runs.
    """

    about: About
    timesteps: Sequence[PublishedTimestep]
    results: pa.Table | None = None

    @property
    def tables(self) -> dict[PurePosixPath, pa.Table]:
        """All tables of the data set by their path in the folder, in order."""
        tables = {
            data_path(step.config, axis): rows for step in self.timesteps for axis, rows in step.questions.items()
        }
        return tables if self.results is None else tables | {data_path(RUNS_CONFIG, RUNS_SPLIT): self.results}

    @property
    def languages(self) -> list[str]:
        """Codes of the languages of all questions, sorted."""
        return sorted(set().union(*(languages_of(step.timestep) for step in self.timesteps)))

    @property
    def summary(self) -> str:
        """Description in one paragraph."""
        first, last = min(step.dates[0] for step in self.timesteps), max(step.dates[1] for step in self.timesteps)
        cases = sum(step.cases for step in self.timesteps)
        questions = sum(rows.num_rows for step in self.timesteps for rows in step.questions.values())
        return (
            f"What changed in Wikidata between {first} and {last}, as edits for language models: {cases:,} changed "
            f"facts and {questions:,} questions about them, in {_listed(self.languages)}. Made with kgedit."
        )


LANGUAGES = {"en": "English", "de": "German", "es": "Spanish", "fr": "French", "zh": "Chinese"}
"""Code of a language of questions -> its name in English."""


def _listed(languages: Sequence[str]) -> str:
    """English names of languages: "French, German and Spanish"."""
    *others, last = sorted(LANGUAGES.get(code, code) for code in languages)
    return f"{', '.join(others)} and {last}" if others else last


def data_path(config: str, split: str) -> PurePosixPath:
    """Path in the folder of the rows of a configuration's split."""
    return PurePosixPath("data", config, f"{split}.parquet")


def citation_text() -> str:
    """Content of CITATION.cff."""
    return citation_file().read_text(encoding="utf-8")


def citation_bibtex() -> str:
    """CITATION.cff as a BibTeX entry."""
    cited: dict[str, Any] = load_yaml(citation_text())
    fields = {
        "title": f"{{{cited['title']}}}",
        "author": " and ".join(map(_author, cited["authors"])),
        "version": str(cited["version"]),
        **({"year": str(cited["date-released"])[:4]} if "date-released" in cited else {}),
        **({"doi": cited["doi"]} if "doi" in cited else {}),
        **({"url": cited["repository-code"]} if "repository-code" in cited else {}),
    }
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@misc{{{cited['title']},\n{lines}\n}}"


def _author(author: dict[str, str]) -> str:
    """A person by family name and given names; braces keep an organisation's name whole."""
    if "family-names" in author:
        return ", ".join(author[part] for part in ("family-names", "given-names") if part in author)
    return f"{{{author['name']}}}"


def task_tag(config: str) -> str:
    """Name of the group of all tasks of a timestep; `kgedit` is the group of all timesteps."""
    return f"kgedit_{config}"
