"""UnKE and AKEW: edits whose target is a text of several sentences, with questions about single statements of it.

The text is the answer to the edit's question, as in both publications. Questions about its statements are asked on the
axis consequence: the share answered right is the recall of the text in pieces. AKEW publishes CounterFact, MQuAKE-CF
and updates of Wikidata with a text for each fact; its structured edits are those of CounterFact and MQuAKE themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from kgedit.records.cases import Case, Fact, Probe
from kgedit.timesteps.edit_files.contract import (
    CaseDetails,
    EditFormat,
    ReadCase,
    Row,
    RowPlace,
    case_id_of,
    edited_fact,
    lacks,
    mapping_at,
    mappings_at,
    nearby_fact,
    probes_of,
    questions_with_answers,
    text_at,
    texts_at,
    texts_of,
)


def _read_unke(row: Row, place: RowPlace) -> Iterator[ReadCase]:
    question, text = text_at(row, "question"), text_at(row, "answer")
    if lacks(place, {"question": question, "answer": text}):
        return
    fact = edited_fact(place.number, "", text)
    probes = (
        Probe("update", question, (text,), (fact,)),
        *probes_of("rephrase", texts_at(row, "para_question"), (text,), fact),
        *_statements(place, fact, _pairs(row, "sub_question", "sub_answer")),
        *_locality(place, _answered(place, _pairs(row, "loc", "loc_ans"))),
    )
    yield _case(case_id_of(row, place), place, fact=fact, question=question, probes=probes), CaseDetails()


def _read_akew(row: Row, place: RowPlace) -> Iterator[ReadCase]:
    rewrites = mappings_at(row, "requested_rewrite") or [mapping_at(row, "requested_rewrite")]
    near = _near(row, place)
    for index, rewrite in enumerate(rewrites):
        template, subject, text = (text_at(rewrite, name) for name in ("prompt", "subject", "fact_new_uns"))
        if lacks(place, {"requested_rewrite.prompt": template, "requested_rewrite.fact_new_uns": text}):
            continue
        cloze = text_at(rewrite, "prompt_full") or template.replace("{}", subject)
        question = text_at(rewrite, "question") or cloze
        fact = edited_fact(place.number, subject, text, relation_id=text_at(rewrite, "relation_id"))
        asked = [
            (text_at(one, "prompt").replace("{}", text_at(one, "subject")), text_at(one, "target"))
            for one in mappings_at(rewrite, "unsfact_triplets_GPT")
        ]
        others = texts_at(row, "paraphrase_prompts") if index == 0 else ()
        probes = (
            Probe("update", question, (text,), (fact,)),
            *probes_of("rephrase", others, (text,), fact),
            *_statements(place, fact, asked, of=index),
            *(near if index == 0 else ()),
        )
        own = case_id_of(row, place) if len(rewrites) == 1 else f"{case_id_of(row, place)}-{index}"
        old = text_at(mapping_at(rewrite, "target_true"), "str") or text_at(rewrite, "answer_true")
        yield _case(own, place, fact=fact, question=question, probes=probes, cloze=cloze, old=old), CaseDetails()


def _pairs(row: Row, questions: str, answers: str) -> list[tuple[str, str]]:
    """Questions and answers at the same places of two lists; "" where one has none. A text is a list of one."""
    asked, answered = (_entries(row.get(name)) for name in (questions, answers))
    return [pair for pair in zip_longest(asked, answered, fillvalue="") if any(pair)]


def _entries(value: Any) -> list[str]:
    return [next(iter(texts_of(one)), "") for one in (value if isinstance(value, list) else [value])]


def _answered(place: RowPlace, asked: Iterable[tuple[str, str]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for question, answer in asked:
        if question and answer:
            yield question, (answer,)
        else:
            place.left_out["locality questions without an answer"] += 1


def _case(
    case_id: str,
    place: RowPlace,
    *,
    fact: Fact,
    question: str,
    probes: tuple[Probe, ...],
    cloze: str = "",
    old: str = "",
) -> Case:
    return Case(
        case_id=case_id,
        timestep=place.file,
        tag="update" if old else "new",
        fact=fact,
        question=question,
        answer=fact.object_label,
        cloze=cloze,
        old_objects=(f"old-{case_id}",) if old else (),
        old_answers=(old,) if old else (),
        probes=probes,
    )


def _statements(place: RowPlace, fact: Fact, asked: Sequence[tuple[str, str]], *, of: int = 0) -> Iterator[Probe]:
    """Yield the questions about single statements of a text, each with a separate fact."""
    for index, (question, answer) in enumerate(asked):
        if not question or not answer:
            place.left_out["questions about a text without an answer"] += 1
            continue
        own = f"{place.number}-{of}-{index}"
        stated = Fact(fact.object, "", f"statement-{own}", "", f"statement-object-{own}", answer)
        yield Probe("consequence", question, (answer,), (fact, stated))


def _near(row: Row, place: RowPlace) -> tuple[Probe, ...]:
    """Locality probes: CounterFact's neighbours, which share the old answer, or a question of Natural Questions."""
    rewrite = mapping_at(row, "requested_rewrite")
    old = text_at(mapping_at(rewrite, "target_true"), "str")
    asked: list[tuple[str, tuple[str, ...]]] = []
    asked += [(question, (old,)) for question in texts_at(row, "neighborhood_prompts") if old]
    asked += questions_with_answers(place, "locality", row.get("loc"), row.get("loc_ans"))
    return _locality(place, asked)


def _locality(place: RowPlace, asked: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[Probe, ...]:
    return tuple(
        Probe("locality", question, answers, (nearby_fact(place, index, question, answers[0]),))
        for index, (question, answers) in enumerate(asked)
    )


UNKE = EditFormat(
    name="unke",
    needs=(("question",), ("answer",), ("sub_question", "para_question")),
    texts=("question", "answer", "para_question", "sub_question", "sub_answer", "loc", "loc_ans"),
    used=("id", "question", "answer", "para_question", "sub_question", "sub_answer", "loc", "loc_ans"),
    unusable={
        **{f"mmlu_{part}": "questions of MMLU: measure them with --ability lm-eval:mmlu" for part in
           ("questions", "answer", "choices")},
    },
    read_row=_read_unke,
)  # fmt: skip
"""Source: data/final_data_v3.json of TrustedLLM/UnKE, as its code reads it; `loc` and `loc_ans` are kgedit's."""

_REWRITE = (
    "prompt", "prompt_full", "question", "subject", "relation_id", "fact_new_uns", "target_true.str", "answer_true",
    "unsfact_triplets_GPT.prompt", "unsfact_triplets_GPT.subject", "unsfact_triplets_GPT.target",
)  # fmt: skip

AKEW = EditFormat(
    name="akew",
    needs=(("requested_rewrite",),),
    inside=("requested_rewrite.fact_new_uns",),
    texts=("paraphrase_prompts", "neighborhood_prompts", "loc", "loc_ans"),
    used=(
        "case_id",
        *(f"requested_rewrite.{field}" for field in _REWRITE),
        "paraphrase_prompts",
        "neighborhood_prompts",
        "loc",
        "loc_ans",
    ),
    unusable={
        **{
            f"requested_rewrite.{field}": "the text states it; the edit's target is the text"
            for field in ("target_new", "target_new.str", "target_new.id", "target_true.id", "answer_new")
        },
        "attribute_prompts": "their answer is the edit's target: an edit that spreads would count as kept",
        "generation_prompts": "they have no answer",
        "questions": "multi-hop questions need every edit of a chain as a fact: use MQuAKE's own file",
    },
    read_row=_read_akew,
)
"""Source: CounterFact.json, MQuAKE-CF.json and WikiUpdate.json of AKEW, as code that evaluates on them reads them."""
