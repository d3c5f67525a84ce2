"""CounterFact as published with ROME: requested_rewrite, with ids of relation and objects, and lists of prompts.

The edits are false on purpose, so each of them fails an audit. Prompts are statements that end before the answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from kgedit.records.cases import Case, Probe
from kgedit.timesteps.edit_files.contract import (
    ESSAY,
    NO_ESSAYS,
    SLOT,
    CaseDetails,
    EditFormat,
    ReadCase,
    Row,
    RowPlace,
    case_id_of,
    edited_fact,
    essay_probes,
    filled,
    lacks,
    mapping_at,
    nearby_fact,
    probes_of,
    text_at,
    texts_at,
)


def _read_row(row: Row, place: RowPlace) -> Iterator[ReadCase]:
    request = mapping_at(row, "requested_rewrite")
    new, true = mapping_at(request, "target_new"), mapping_at(request, "target_true")
    template, subject, target = text_at(request, "prompt"), text_at(request, "subject"), text_at(new, "str")
    if lacks(place, {"requested_rewrite.prompt": template, "requested_rewrite.target_new.str": target}):
        return
    prompt, old = template.replace(SLOT, subject), text_at(true, "str")
    relation = text_at(request, "relation_id")
    fact = edited_fact(place.number, subject, target, relation_id=relation, object_id=text_at(new, "id"))
    rephrases = tuple(text.replace(SLOT, subject) for text in texts_at(row, "paraphrase_prompts"))
    asked = [(question, (old,)) for question in texts_at(row, "neighborhood_prompts") if old]
    near = tuple(
        Probe("locality", question, answers, (nearby_fact(place, index, question, old),))
        for index, (question, answers) in enumerate(filled(place, "locality", asked, ""))
    )
    yield (
        Case(
            case_id=case_id_of(row, place),
            timestep=place.file,
            tag="update" if old else "new",
            fact=fact,
            question=prompt,
            answer=target,
            cloze=prompt,
            old_objects=(text_at(true, "id") or f"old-{place.number}-0",) if old else (),
            old_answers=(old,) if old else (),
            probes=(
                Probe("update", prompt, (target,), (fact,)),
                *probes_of("rephrase", rephrases, (target,), fact),
                *essay_probes(row, target, fact),
                *near,
            ),
        ),
        CaseDetails(),
    )


_REQUEST = ("prompt", "subject", "relation_id", "target_new.str", "target_new.id", "target_true.str", "target_true.id")

COUNTERFACT = EditFormat(
    name="counterfact",
    needs=(("requested_rewrite",),),
    types={"requested_rewrite": dict},
    without=("requested_rewrite.fact_new_uns",),
    texts=("paraphrase_prompts", "neighborhood_prompts"),
    used=(
        "case_id",
        *(f"requested_rewrite.{field}" for field in _REQUEST),
        "paraphrase_prompts",
        "neighborhood_prompts",
        ESSAY,
    ),
    unusable={
        **NO_ESSAYS,
        "attribute_prompts": "their answer is the edit's target: an edit that spreads would count as kept",
        "generation_prompts": "they have no answer",
        "pararel_idx": "number in another data set",
    },
    read_row=_read_row,
)
"""Source: counterfact.json as read by experiments/py/eval_utils_counterfact.py of kmeng01/rome."""
