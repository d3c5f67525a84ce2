"""MQuAKE: an object has one or several edits, and multi-hop questions that are only answerable after all of them.

Each edit is a case; the cases of an object share a group. The last one has the multi-hop questions, with the chain of
facts that answers them, and a question about each of these facts alone. The question is used both to edit and to
evaluate, as in every format; MQuAKE's statement becomes the cloze. MQuAKE-Remastered has targets as plain texts and
chains at the top level of its objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kgedit.records.cases import Case, Chain, Fact, KnownFact, Probe
from kgedit.timesteps.edit_files.contract import (
    CaseDetails,
    EditFormat,
    ReadCase,
    Row,
    RowPlace,
    case_id_of,
    edited_fact,
    lacks,
    malformed_at,
    mapping_at,
    mappings_at,
    text_at,
    texts_at,
)


@dataclass(frozen=True, slots=True)
class _Hop:
    """A fact of a chain, with its own question."""

    fact: Fact
    question: str
    cloze: str
    answers: tuple[str, ...]

    @property
    def known(self) -> KnownFact:
        return KnownFact(self.fact, self.question, "", self.cloze, self.answers[0])


def _read_row(row: Row, place: RowPlace) -> Iterator[ReadCase]:
    rewrites = mappings_at(row, "requested_rewrite")
    whole = rewrites if not malformed_at(row, "requested_rewrite") else ()
    if lacks(place, {"requested_rewrite": whole}):
        return
    for rewrite in rewrites:
        prompt, (target, _) = text_at(rewrite, "prompt"), _target(rewrite, "target_new")
        if lacks(place, {"requested_rewrite.prompt": prompt, "requested_rewrite.target_new.str": target}):
            return  # without one of its edits, the object has a different chain
    group = case_id_of(row, place)
    hops, old_hops = _hops(row, place, "new_"), _hops(row, place, "")
    edits = [_edit(rewrite, index, place, hops) for index, rewrite in enumerate(rewrites)]
    edited = {(fact.subject, fact.property) for fact, _ in edits}
    known = [hop.known for hop in (*old_hops, *hops) if hop.question and hop.answers]
    # An edited fact in the chain after the edits was not known before.
    was_so = {(hop.fact.subject, hop.fact.property): hop.fact.object for hop in old_hops}
    known = [one for one in known if _held(one.fact, edited, was_so)]
    for index, (rewrite, (fact, answers)) in enumerate(zip(rewrites, edits, strict=True)):
        is_last = index + 1 == len(rewrites)
        asked = (*_chain_probes(row, place, group, hops), *_hop_probes(hops)) if is_last else ()
        yield (
            _case(rewrite, f"{group}-{index}", place, fact=fact, answers=answers, group=group, asked=asked),
            CaseDetails(known_facts=tuple(known) if is_last else ()),
        )


def _held(fact: Fact, edited: set[tuple[str, str]], was_so: dict[tuple[str, str], str]) -> bool:
    key = (fact.subject, fact.property)
    return key not in edited or was_so.get(key) == fact.object


def _case(
    rewrite: Row,
    case_id: str,
    place: RowPlace,
    *,
    fact: Fact,
    answers: tuple[str, ...],
    group: str,
    asked: tuple[Probe, ...],
) -> Case:
    old, old_id = _target(rewrite, "target_true")
    cloze = text_at(rewrite, "prompt").replace("{}", fact.subject_label)
    question = text_at(rewrite, "question") or cloze
    return Case(
        case_id=case_id,
        timestep=place.file,
        tag="update" if old else "new",
        fact=fact,
        question=question,
        answer=answers[0],
        cloze=cloze,
        old_objects=(old_id or f"old-{case_id}",) if old else (),
        old_answers=(old,) if old else (),
        probes=(Probe("update", question, answers, (fact,)), *asked),
        group=group,
    )


def _edit(rewrite: Row, index: int, place: RowPlace, hops: list[_Hop]) -> tuple[Fact, tuple[str, ...]]:
    """Edited fact with its accepted answers: those of the same fact in the chain, if it is part of it."""
    relation, subject = text_at(rewrite, "relation_id"), text_at(rewrite, "subject")
    target, _ = _target(rewrite, "target_new")
    for hop in hops:
        named = (hop.fact.property, hop.fact.subject_label) == (relation, subject)
        if named and target in (hop.fact.object_label, *hop.answers):
            return replace(hop.fact, object_label=target), tuple(dict.fromkeys((target, *hop.answers)))
    fact = edited_fact(place.number, subject, target, relation_id=relation)
    return Fact(f"{fact.subject}-{index}", subject, *_rest(fact)), (target,)


def _target(rewrite: Row, which: str) -> tuple[str, str]:
    """Label and id of an edit's new or old object; MQuAKE-Remastered has only the label."""
    found = mapping_at(rewrite, which)
    return text_at(found, "str") or text_at(rewrite, f"{which}_str"), text_at(found, "id")


def _rest(fact: Fact) -> tuple[str, str, str, str]:
    return fact.property, fact.property_label, fact.object, fact.object_label


def _hops(row: Row, place: RowPlace, which: str) -> list[_Hop]:
    """Chain of facts before the edits (`which` is "") or after them ("new_")."""
    asked, orig, top = mappings_at(row, f"{which}single_hops"), mapping_at(row, "orig"), f"{which or 'orig_'}triples"
    ids = _triples(orig, f"{which}triples") or _triples(row, top)
    labels = _triples(orig, f"{which}triples_labeled") or _triples(row, f"{top}_labeled")
    hops = []
    for index in range(max(len(asked), len(ids))):
        entry = asked[index] if index < len(asked) else {}
        made_up = tuple(f"{which}hop-{part}-{place.number}-{index}" for part in ("subject", "relation", "object"))
        subject, relation, thing = ids[index] if index < len(ids) and all(ids[index]) else made_up
        named = labels[index] if index < len(labels) else ("", "", "")
        aliases = texts_at(entry, "answer_alias") if which else ()
        answers = tuple(dict.fromkeys((*texts_at(entry, "answer"), *aliases)))
        label = named[2] or (answers[0] if answers else "")
        fact = Fact(subject, named[0], relation, named[1], thing, label)
        hops.append(_Hop(fact, text_at(entry, "question"), text_at(entry, "cloze"), answers))
    return hops


def _triples(orig: Row, name: str) -> list[tuple[str, str, str]]:
    """Lists of three texts; "" for a value that is not a text, and for all three if the entry is not such a list."""
    listed = orig.get(name)
    found: list[tuple[str, str, str]] = []
    for triple in listed if isinstance(listed, list) else ():
        parts = [part.strip() if isinstance(part, str) else "" for part in triple] if isinstance(triple, list) else []
        subject, relation, thing = parts if len(parts) == 3 else ("", "", "")
        found.append((subject, relation, thing))
    return found


def _chain_probes(row: Row, place: RowPlace, group: str, hops: list[_Hop]) -> Iterator[Probe]:
    """Yield every wording of the multi-hop question; all accept the answer after the edits."""
    questions = texts_at(row, "questions")
    answers = tuple(dict.fromkeys((*texts_at(row, "new_answer"), *texts_at(row, "new_answer_alias"))))
    if questions and (not answers or len(hops) < 2):
        place.left_out["multi-hop questions without an answer or a chain of facts"] += len(questions)
        return
    old = (*texts_at(row, "answer"), *texts_at(row, "answer_alias"), *texts_at(row, "answer_extended"))
    chain = Chain(
        group,
        len(hops),
        tuple(hop.question for hop in hops if hop.question and hop.answers),
        tuple(dict.fromkeys(text for text in old if text not in answers)),
    )
    facts = tuple(hop.fact for hop in hops)
    yield from (Probe("mhop", question, answers, facts, chain=chain) for question in questions)


def _hop_probes(hops: list[_Hop]) -> Iterator[Probe]:
    """Yield the question about each fact of the chain alone."""
    asked = set()
    for hop in hops:
        if hop.question and hop.answers and hop.question not in asked:
            asked.add(hop.question)
            yield Probe("hop", hop.question, hop.answers, (hop.fact,), cloze=hop.cloze)


_REWRITE = (
    *("prompt", "question", "subject", "relation_id"),
    *(f"{target}{field}" for target in ("target_new", "target_true") for field in (".str", "_str")),
    "target_true.id",
)
_HOP = ("question", "cloze", "answer")

_TRIPLES = ("orig.", "orig.new_", "orig_", "new_")

MQUAKE = EditFormat(
    name="mquake",
    needs=(("requested_rewrite",),),
    types={"requested_rewrite": list},
    without=("requested_rewrite.fact_new_uns",),
    texts=("questions", "answer", "answer_alias", "answer_extended", "new_answer", "new_answer_alias"),
    used=(
        "case_id",
        *(f"requested_rewrite.{field}" for field in _REWRITE),
        *("questions", "answer", "answer_alias", "answer_extended", "new_answer", "new_answer_alias"),
        *(f"{which}single_hops.{field}" for which in ("", "new_") for field in _HOP),
        "new_single_hops.answer_alias",
        *(f"{which}triples{labeled}" for which in _TRIPLES for labeled in ("", "_labeled")),
    ),
    unusable={
        "orig.edit_triples": "the edits of requested_rewrite again, by id",
        "single_hops.answer_alias": "a known fact has one answer",
        "requested_rewrite.target_new.id": "the chain has it, and Remastered has it there alone",
        "edit_triples": "the edits of requested_rewrite again, by id",
        "edit_triples_labeled": "the edits of requested_rewrite again",
        "split.*": "which instances a setting of MQuAKE-Remastered edits: name them with --only-cases",
    },
    read_row=_read_row,
)
"""Source: Zhong et al. 2023, MQuAKE, section 3, and the description of the files in princeton-nlp/MQuAKE.

Of the other format: eval/mquake_remastered/mquake_dataset.py in henryzhongsc/MQuAKE-Remastered.
"""
