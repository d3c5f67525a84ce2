"""Scales all values to the mean norm of pilot edits of the unedited model (NAS).

Values grow from edit to edit if they are searched for in a previously edited model, and the weights grow with them; the
norm of an MLP's output then carries no information about the edit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import torch

from kgedit.records.cases import Case, KnownFact
from kgedit.resources import home

_LONGEST = 2.0
"""Values with more than this multiple of the anchor's norm are dropped."""


@dataclass(frozen=True, slots=True)
class AnchoredValues:
    """Values after scaling.

    Attributes:
        wanted: Desired output of the block, edits x width; the current output for dropped edits.
        dropped: Whether each edit was dropped.
    """

    wanted: torch.Tensor
    dropped: torch.Tensor


def anchored(before: torch.Tensor, written: torch.Tensor, added: torch.Tensor, *, norm: float) -> AnchoredValues:
    """z = (h - v0) + norm * v* / |v*|, with v* = v0 + d; edits with |v*| above twice the norm are dropped.

    Args:
        before: h, the block's outputs, edits x width.
        written: v0, the MLP's contribution to them.
        added: d, the vectors found by the search.
        norm: a, the anchor.
    """
    values = written + added
    lengths = values.norm(dim=1, keepdim=True).clamp(min=1e-12)
    dropped = lengths.squeeze(1) > _LONGEST * norm
    scaled = before - written + norm * values / lengths
    return AnchoredValues(torch.where(dropped[:, None], before, scaled), dropped)


def pilot_cases(known: Sequence[KnownFact], count: int) -> list[Case]:
    """Turn known facts into edits, each to the next other answer of its relation, or of any relation if there is none.

    Relations of edit files often have one answer; facts without any other answer are omitted.
    """
    by_relation: dict[str, list[str]] = {}
    for fact in known:
        by_relation.setdefault(fact.fact.property, []).append(fact.answer)
    every = [fact.answer for fact in known]
    seen = dict.fromkeys(by_relation, 0)
    cases = []
    for index, fact in enumerate(known[:count]):
        seen[fact.fact.property] += 1
        answer = _next_other(by_relation[fact.fact.property], seen[fact.fact.property], fact.answer)
        if answer is None:
            answer = _next_other(every, index + 1, fact.answer)
        if answer is None:
            continue
        cases.append(
            Case(
                case_id=f"pilot:{index}",
                timestep="",
                tag="update",
                fact=fact.fact,
                question=fact.question,
                answer=answer,
                cloze=fact.cloze,
                old_objects=(),
                old_answers=(),
                probes=(),
            )
        )
    return cases


def _next_other(answers: Sequence[str], start: int, own: str) -> str | None:
    """First answer that differs from the fact's own, starting at an index and wrapping around."""
    return next((answer for answer in chain(islice(answers, start, None), answers) if answer != own), None)


def anchor_path(fingerprint: str, layer: int, key: object) -> Path:
    """File of a layer's anchor for a model, by all other inputs that it depends on."""
    digest = hashlib.sha256(json.dumps(key, ensure_ascii=False, sort_keys=True).encode()).hexdigest()[:16]
    return home() / "stats" / fingerprint / f"anchor{layer:03d}-{digest}.safetensors"
