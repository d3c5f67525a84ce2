"""Prints what deviations make that no run shows, by counting and comparing changes: deviation_checks.py EDITS [PART...]

The figures are quoted in the deviations that each family of methods declares (docs/methods.md).
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from operator import eq
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from kgedit.editing import make_editor
from kgedit.editing.fine_tuning.crispedit import CrispEdit, curvatures
from kgedit.editing.gradient_transform.mend import Mend
from kgedit.editing.gradient_transform.ultraedit import UltraEdit, closed_form
from kgedit.editing.locate_then_edit.closed_form import pilot_cases
from kgedit.editing.locate_then_edit.memit import PreservingEditor
from kgedit.editing.locate_then_edit.rome import Rome
from kgedit.editing.locate_then_edit.several_layers import SeveralLayersEditor
from kgedit.editing.locate_then_edit.value_search import EditRequest, FoundValues
from kgedit.editing.training import examples
from kgedit.llm.contexts import BARE, read_context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.loading import load_model
from kgedit.llm.surgery.forward_above import gradient_factors
from kgedit.llm.training import TargetBatch, encode_targets
from kgedit.records.cases import Case, KnownFact
from kgedit.runs.setup import unasked
from kgedit.timesteps.edit_files import open_edits
from kgedit.timesteps.known_facts import sample_facts

MODEL = "smollm2-135m"
EDITS = 20
BARE_PROMPTS = (read_context(BARE),)
MEMIT: tuple[dict[str, object], ...] = (
    {},
    {"damping": 0.0},
    {"preserve": 15_000},
    {"tokens": 2000},
    {"tokens": 2000, "enough": 0},
    {"corpus": "prose", "enough": 0},
)
PREFIXES: tuple[dict[str, object], ...] = ({"prefix_likeliest": 5}, {"prompts": 21})

Answer = tuple[list[int], list[int]]
"""Tokens said, and those of the target."""


def checks(path: Path, only: Sequence[str]) -> Iterator[str]:
    """One finding a line.

    Args:
        only: Names of PARTS; none for all.
    """
    model = load_model(MODEL, device="cpu", dtype="float32")
    edits = open_edits(path)
    for name in only or PARTS:
        yield from PARTS[name](model, list(edits.cases()), edits.known_facts())


def _counts(model: LanguageModel, every: Sequence[Case], known: Sequence[KnownFact]) -> Iterator[str]:
    asked = len(known) - len(unasked(known, every[:EDITS]))
    yield f"known facts that a probe of {EDITS} edits asks for: {asked} of {len(known)}"
    cases = every[:1000]
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


def _ultraedit(model: LanguageModel, every: Sequence[Case], _: Sequence[KnownFact]) -> Iterator[str]:
    """The closed form as wide as the batch in float64, and as wide as the layer in float32."""
    editor = make_editor("ultraedit", model)
    assert isinstance(editor, UltraEdit)
    targets = encode_targets(model, examples(every[:EDITS], BARE_PROMPTS), learn_end=False)
    factors, _loss = gradient_factors(model, editor.matrices, targets)
    for number, name in ((0, "lowest"), (-1, "highest")):
        read = factors[number].inputs[targets.predicting]
        slopes = factors[number].gradients[targets.predicting].double()
        ours = closed_form(read, read.double(), slopes, learning_rate=1.0)
        values = -read.square().sum(1, keepdim=True) * slopes.float()
        wide = torch.linalg.solve(read.T @ read + torch.eye(read.shape[1]), read.T @ values)
        yield f"ultraedit, {name} matrix: the wide solve in float32 differs by {_apart(wide, ours):.1e} of the change"


def _mend(model: LanguageModel, _: Sequence[Case], __: Sequence[KnownFact]) -> Iterator[str]:
    """Tokens of facts of the bundled sample that the published code leaves out."""
    editor, empty, tokens = make_editor("mend", model), Counter[str](), 0
    assert isinstance(editor, Mend)
    for fact in sample_facts()[:40]:
        targets = encode_targets(model, [(fact.question, fact.answer)], learn_end=False)
        factors, _loss = gradient_factors(model, editor.matrices, targets)
        tokens += int(targets.mask.sum())
        for matrix, own in zip(editor.matrices, factors, strict=True):
            zeros = (own.gradients == 0).all(-1) | (own.inputs == 0).all(-1)
            empty[matrix.name] += int(zeros[targets.mask.bool()].sum())
    for name, count in empty.items():
        yield f"mend, {name}: input or gradient 0 at {count} of {tokens} tokens, {count / tokens:.0%}"


def _crispedit(model: LanguageModel, every: Sequence[Case], _: Sequence[KnownFact]) -> Iterator[str]:
    """Curvature of past edits of the targets alone, and of prompt and target."""
    editor = make_editor("crispedit", model)
    assert isinstance(editor, CrispEdit)
    targets = encode_targets(model, examples(every[:EDITS], BARE_PROMPTS), learn_end=True)
    whole = _with_prompts(targets)
    ours, theirs = (curvatures(model, editor.layers, [own])[editor.layers[0]] for own in (targets, whole))
    inputs, gradients = _cosine(ours.inputs, theirs.inputs), _cosine(ours.outputs, theirs.outputs)
    yield (
        f"crispedit, block {editor.layers[0]}: cosine of the factors with and without prompts: "
        f"inputs {inputs:.3f}, gradients {gradients:.3f}"
    )


def _with_prompts(targets: TargetBatch) -> TargetBatch:
    """Every token but a row's first is to be predicted."""
    predicted = targets.mask[:, 1:].bool() & targets.mask[:, :-1].bool()
    return replace(targets, labels=targets.ids[:, 1:].masked_fill(~predicted, -100))


def _memit(model: LanguageModel, every: Sequence[Case], known: Sequence[KnownFact]) -> Iterator[str]:
    """MEMIT's closed form otherwise, for the same values."""
    cases = every[:EDITS]
    known = unasked(known, cases)
    editor = _several_layers("memit", model, {}, known)
    requests = list(map(editor.request_of, cases))
    found = editor.search(model.blocks[editor.layers[-1]].module, requests, layer=editor.layers[-1])
    before = _answers(model, cases)
    yield _change_otherwise(editor, requests, found)
    for given in MEMIT:
        own = _several_layers("memit", model, given, known)
        own.search = lambda *_, **__: found  # type: ignore[method-assign]
        own.apply(cases)
        changes = [matrix.weight.detach() - matrix.before for matrix in own.matrices.values()]
        length = float(torch.stack([change.norm() for change in changes]).norm())
        lambdas = f"lambda {own.preserve(own.layers[0]):,.0f}, " if isinstance(own, PreservingEditor) else ""
        tokens = own.second_moment(own.layers[0]).tokens
        scores = _scores(_answers(model, cases), before)
        yield f"memit {given}: {tokens:,} tokens, {lambdas}change {length:.2f}, {scores}"
        own.restore()


def _several_layers(
    method: str, model: LanguageModel, given: Mapping[str, object], known: Sequence[KnownFact]
) -> SeveralLayersEditor[Any]:
    editor = make_editor(method, model, given, contexts=BARE_PROMPTS)
    assert isinstance(editor, SeveralLayersEditor)
    editor.prepare(known, advance=_quietly)
    return editor


def _change_otherwise(editor: SeveralLayersEditor[Any], requests: Sequence[EditRequest], found: FoundValues) -> str:
    """The change of the lowest block, and what RLSEdit's code would make of it."""
    layer, top = editor.layers[0], editor.layers[-1]
    missing = (editor.wanted(found, requests, layer=top)[0] - editor.reached(requests, layer=top)) / len(editor.layers)
    keys, solve = editor.keys(requests, layer=layer), editor.solve(layer)
    ours = solve.change(missing.T, keys)
    twice = solve.change(missing.T - editor.matrices[layer].products(keys), keys)
    longer, cosine = float(twice.norm() / ours.norm()), _cosine(twice, ours)
    return f"rlsedit: with W K taken off twice the change is {longer:.2f} times as long, cosine {cosine:.3f}"


def _rome(model: LanguageModel, every: Sequence[Case], known: Sequence[KnownFact]) -> Iterator[str]:
    """ROME's change in the metric of C, and in that of the identity.

    A change is what is missing at the edit's key times a direction; another subject's key meets as much of it as its
    product with the direction says.
    """
    keys, editor = _rome_keys(model, every[:EDITS], known, {})
    means, met = _means(keys), torch.stack([own[0] for own in keys])
    directions = {name: own / (own * met).sum(1, keepdim=True) for name, own in _directions(editor, means).items()}
    others = ~torch.eye(len(keys), dtype=torch.bool)
    for name, own in directions.items():
        meets, length = float((own @ met.T)[others].abs().mean()), float(own.norm(dim=1).mean())
        yield f"rome, {name}: mean length {length:.3f}, other keys meet {meets:.3f} of the change"
    yield f"rome: mean cosine of the two directions {_mean_cosine(directions['C'], directions['identity']):.3f}"
    for given in PREFIXES:
        otherwise = _directions(editor, _means(_rome_keys(model, every[:EDITS], known, given)[0]))
        cosine = _mean_cosine(directions["C"], otherwise["C"])
        yield f"rome {given}: mean cosine of the directions with ours {cosine:.3f}"


def _rome_keys(
    model: LanguageModel, cases: Sequence[Case], known: Sequence[KnownFact], given: Mapping[str, object]
) -> tuple[list[torch.Tensor], Rome]:
    editor = make_editor("rome", model, given, contexts=BARE_PROMPTS)
    assert isinstance(editor, Rome)
    editor.prepare(unasked(known, cases), advance=_quietly)
    return editor.key_rows([editor.request_of(case) for case in cases], layer=editor.layer), editor


def _means(keys: Sequence[torch.Tensor]) -> torch.Tensor:
    """The keys that changes are computed for, edits x inputs."""
    return torch.stack([own.mean(0) for own in keys])


def _directions(editor: Rome, means: torch.Tensor) -> dict[str, torch.Tensor]:
    factor = torch.linalg.cholesky(editor.damped(editor.layer))
    return {"C": torch.cholesky_solve(means.T, factor).T, "identity": means}


def _mean_cosine(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(one, other).mean())


def _nas(model: LanguageModel, every: Sequence[Case], known: Sequence[KnownFact]) -> Iterator[str]:
    """The anchor of MEMIT's values by fewer pilot edits, and without the longest."""
    editor = _several_layers("memit", model, {}, unasked(known, every[:EDITS]))
    top = editor.layers[-1]
    cases, _ = editor.editable(pilot_cases(unasked(known, every[:EDITS]), editor.settings.pilots))
    requests = list(map(editor.request_of, cases))
    found = editor.search(model.blocks[top].module, requests, layer=top)
    lengths = (editor.written(requests, layer=top) + found.added.double()).norm(dim=1)
    shortened = lengths.sort().values[:-1]
    error = float(lengths.std()) / len(lengths) ** 0.5
    yield (
        f"nas: {len(lengths)} pilot edits give {float(lengths.mean()):.3f} (standard error {error:.3f}), "
        f"without the longest {float(shortened.mean()):.3f}, half of them {float(lengths[::2].mean()):.3f}"
    )


def _quietly(done: int, total: int) -> None:
    """An Advance that says nothing."""


def _answers(model: LanguageModel, cases: Sequence[Case]) -> dict[str, list[Answer]]:
    """Of each question the tokens that the model gives by teacher forcing, and those of the answer."""
    found: dict[str, list[Answer]] = {}
    for axis in ("update", "rephrase", "locality"):
        probes = [probe for case in cases for probe in case.probes if probe.axis == axis]
        targets = encode_targets(model, [(probe.question, probe.answers[0]) for probe in probes], learn_end=False)
        with torch.no_grad():
            said = model.forward(targets.ids, targets.mask, last=targets.last).logits[:, :-1].argmax(-1)
        asked = targets.labels != -100
        found[axis] = [
            (said[row][asked[row]].tolist(), targets.labels[row][asked[row]].tolist()) for row in range(len(probes))
        ]
    return found


def _scores(after: Mapping[str, Sequence[Answer]], before: Mapping[str, Sequence[Answer]]) -> str:
    """In %."""
    right = {axis: mean(mean(map(eq, said, target)) for said, target in after[axis]) for axis in ("update", "rephrase")}
    kept = mean(said == earlier for (said, _), (earlier, _) in zip(after["locality"], before["locality"], strict=True))
    return ", ".join(f"{name} {100 * share:.1f}" for name, share in (*right.items(), ("unchanged", kept)))


def _apart(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one.double() - other).norm() / other.norm())


def _cosine(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one * other).sum() / one.norm() / other.norm())


PARTS = {
    "counts": _counts,
    "ultraedit": _ultraedit,
    "mend": _mend,
    "crispedit": _crispedit,
    "nas": _nas,
    "memit": _memit,
    "rome": _rome,
}

if __name__ == "__main__":
    for line in checks(Path(sys.argv[1]), sys.argv[2:]):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
