"""Prints what deviations make that no run shows: counts over the data, and changes compared. deviation_checks.py EDITS

The figures are quoted in the deviations that each family of methods declares (docs/methods.md).
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path

import torch

from kgedit.benchmark.edit_files import open_edits
from kgedit.editing import make_editor
from kgedit.editing.fine_tuning.curvature import curvatures
from kgedit.editing.gradient_transform.ultraedit import closed_form
from kgedit.editing.locate_then_edit.accumulated_solve import AccumulatedSolve, inverse
from kgedit.editing.locate_then_edit.several_layers import SeveralLayersEditor
from kgedit.editing.locate_then_edit.whitening import damped
from kgedit.editing.training_examples import examples
from kgedit.llm.contexts import BARE, read_context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.loading import load_model
from kgedit.llm.surgery.gradient_factors import gradient_factors
from kgedit.llm.targets import TargetBatch, encode_targets
from kgedit.records.cases import Case, KnownFact
from kgedit.runs.runner import unasked

MODEL = "smollm2-135m"
EDITS = 20
BARE_PROMPTS = (read_context(BARE),)


def checks(path: Path) -> Iterator[str]:
    """One finding a line."""
    model = load_model(MODEL, device="cpu", dtype="float32")
    edits = open_edits(path)
    every = list(edits.cases())
    cases, known = every[:EDITS], edits.known_facts()
    yield from _counts(model, every[:1000])
    asked = len(known) - len(unasked(known, cases))
    yield f"known facts that a probe of {EDITS} edits asks for: {asked} of {len(known)}"
    yield from _ultraedit(model, cases)
    yield _crispedit(model, cases)
    yield from _closed_forms(model, cases, unasked(known, cases))


def _counts(model: LanguageModel, cases: Sequence[Case]) -> Iterator[str]:
    targets = [tuple(model.encode_target(case.answer, after=case.question)) for case in cases]
    lengths = Counter(map(len, targets))
    yield f"targets of {len(cases)} edits by their number of tokens: {dict(sorted(lengths.items()))}"
    groups: dict[Fraction, set[tuple[int, ...]]] = defaultdict(set)
    for target in targets:
        groups[Fraction(sum(target), len(target))].add(target)
    shared = sum(len(own) > 1 for own in groups.values())
    yield f"different targets with the same mean of their token ids: {shared} groups of {len(set(targets))} targets"
    answers: dict[str, set[str]] = defaultdict(set)
    for case in cases:
        answers[case.question].add(case.answer)
    yield f"prompts that come with two targets: {sum(len(own) > 1 for own in answers.values())}"


def _ultraedit(model: LanguageModel, cases: Sequence[Case]) -> Iterator[str]:
    """The closed form as wide as the batch in float64, and as wide as the layer in float32."""
    editor = make_editor("ultraedit", model)
    targets = encode_targets(model, examples(cases, BARE_PROMPTS), learn_end=False)
    factors, _ = gradient_factors(model, editor.matrices, targets)
    for number, name in ((0, "lowest"), (-1, "highest")):
        read = factors[number].inputs[targets.predicting]
        slopes = factors[number].gradients[targets.predicting].double()
        ours = closed_form(read, read.double(), slopes, learning_rate=1.0)
        values = -read.square().sum(1, keepdim=True) * slopes.float()
        wide = torch.linalg.solve(read.T @ read + torch.eye(read.shape[1]), read.T @ values)
        yield f"ultraedit, {name} matrix: the wide solve in float32 differs by {_apart(wide, ours):.1e} of the change"


def _crispedit(model: LanguageModel, cases: Sequence[Case]) -> str:
    """Curvature of past edits of the targets alone, and of prompt and target."""
    editor = make_editor("crispedit", model)
    targets = encode_targets(model, examples(cases, BARE_PROMPTS), learn_end=True)
    whole = _with_prompts(targets)
    ours, theirs = (curvatures(model, editor.layers, [own])[editor.layers[0]] for own in (targets, whole))
    return (
        f"crispedit, block {editor.layers[0]}: cosine of the factors with and without prompts: inputs "
        f"{_cosine(ours.inputs, theirs.inputs):.3f}, gradients {_cosine(ours.outputs, theirs.outputs):.3f}"
    )


def _with_prompts(targets: TargetBatch) -> TargetBatch:
    """Every token but a row's first is to be predicted."""
    predicted = targets.mask[:, 1:].bool() & targets.mask[:, :-1].bool()
    return replace(targets, labels=targets.ids[:, 1:].masked_fill(~predicted, -100))


def _closed_forms(model: LanguageModel, cases: Sequence[Case], known: Sequence[KnownFact]) -> Iterator[str]:
    """Changes of MEMIT's lowest block for the same values."""
    editor = make_editor("memit", model, contexts=BARE_PROMPTS)
    assert isinstance(editor, SeveralLayersEditor)
    editor.prepare(known, advance=lambda done, total: None)  # noqa: ARG005 - the shape of Advance
    layer, top = editor.layers[0], editor.layers[-1]
    requests = list(islice(map(editor.request_of, cases), 5))
    found = editor.search(model.blocks[top].module, requests, layer=top)
    missing = (editor.wanted(found, requests, layer=top)[0] - editor.reached(requests, layer=top)) / len(editor.layers)
    keys = editor.keys(requests, layer=layer)
    moment, weight = editor.second_moment(layer).matrix, editor.settings.preserve

    def change(damping: float, residuals: torch.Tensor) -> torch.Tensor:
        return AccumulatedSolve(inverse(weight * damped(moment, damping))).change(residuals, keys)

    ours, without = change(editor.settings.damping, missing.T), change(0.0, missing.T)
    apart, cosine = _apart(without, ours), _cosine(without, ours)
    yield f"memit: without damping the change differs by {apart:.1e}, cosine {cosine:.6f}"
    twice = change(editor.settings.damping, missing.T - editor.matrices[layer].products(keys))
    longer, cosine = float(twice.norm() / ours.norm()), _cosine(twice, ours)
    yield f"rlsedit: with W K taken off twice the change is {longer:.2f} times as long, cosine {cosine:.3f}"


def _apart(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one.double() - other).norm() / other.norm())


def _cosine(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one * other).sum() / one.norm() / other.norm())


if __name__ == "__main__":
    for line in checks(Path(sys.argv[1])):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
