"""Methods for answers of many tokens and prompts without a subject: `unke` and `anyedit`.

`unke` searches for a block's output at the last prompt token, then trains the whole block to produce it. `anyedit`
edits an answer of many sentences in chunks, each with a separate value before its first token.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from kgedit.editing.editor import NO_RUN, AppliedEdits, Capabilities, Editor, EditorState, RunContext
from kgedit.editing.hparams.locate_then_edit import AnyEditSettings, UnkeSettings
from kgedit.editing.locate_then_edit.memit import NullSpaceEditor
from kgedit.editing.locate_then_edit.second_moments import eigen
from kgedit.editing.locate_then_edit.subject_prompts import SubjectPrompt, encode_with_subject, inputs_of
from kgedit.editing.locate_then_edit.value_search import (
    EditRequest,
    FoundValues,
    ValueSearchSettings,
    search_stage,
    search_values,
)
from kgedit.editing.training import UnrelatedPrompts, fusible, seed_for
from kgedit.llm.contexts import Context
from kgedit.llm.devices import BatchLimit, in_float64
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.layers import check_layer
from kgedit.llm.surgery.matrices import EditedParameter
from kgedit.llm.surgery.structure import by_row, hidden_of, hooks, is_linear, is_norm
from kgedit.llm.training import loss_scaler, take_step
from kgedit.progress import Advance
from kgedit.records.cases import Case, KnownFact
from kgedit.records.runs import EditFailure

_PENALTY_SHARE = 0.1


def answer_requests(
    model: LanguageModel,
    case: Case,
    contexts: Sequence[Context],
    *,
    chunk: int | None,
    learn_end: bool,
    random_prefixes: Sequence[Sequence[int]] = (),
) -> list[EditRequest]:
    """Build one request per chunk of a case's answer; its vector is added at the token before the chunk.

    Args:
        contexts: Contexts of the prompts; the first one determines the target's tokens.
        chunk: Number of tokens per chunk, of which the last may have fewer; None means the whole answer.
        learn_end: Whether the answer includes the end of the text.
        random_prefixes: Token ids of texts before further prompts in the first context.
    """
    texts = [context.prompt(case.question) for context in contexts]
    prompts = [encode_with_subject(model, text, len(text)) for text in texts]
    prompts += [encode_with_subject(model, texts[0], len(texts[0]), random_prefix=ids) for ids in random_prefixes]
    target = model.encode_target(case.answer, after=texts[0])
    target += model.end_of_answer(texts[0]) if learn_end else []
    size = chunk or len(target)
    return [
        EditRequest(
            tuple(SubjectPrompt((*prompt.ids, *target[:start]), len(prompt.ids) + start - 1) for prompt in prompts),
            drift_prompt(model, case),
            tuple(target[start : start + size]),
            distances=tuple(start - earlier for earlier in range(0, start, size)),
        )
        for start in range(0, len(target), size)
    ]


def drift_prompt(model: LanguageModel, case: Case) -> SubjectPrompt:
    """A prompt about the case's subject, or its question if it has no subject."""
    subject = case.fact.subject_label or case.question
    return encode_with_subject(model, f"{subject} is a", len(subject))


class _ReachedError(Exception):
    """Passes the arguments of the edited block out of the forward pass."""


@dataclass(frozen=True, slots=True)
class WantedOutputs:
    """Texts with the outputs that the block should produce for them.

    Attributes:
        args: Positional arguments of the block for these texts.
        kwargs: Its other arguments.
        outputs: Wanted outputs, rows x length x width, float32.
        mask: 1 for real tokens, rows x length.
        ends: Row and column of each edit's last prompt token; other tokens keep their outputs.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: torch.Tensor
    mask: torch.Tensor
    ends: tuple[torch.Tensor, torch.Tensor]


class Unke(Editor[UnkeSettings]):
    """Trains all weights of one block so that its output at the end of the prompt makes the model give a long answer.

    The block's outputs at all other tokens of the prompts, and for unrelated texts, should not change. No subject is
    needed. Edits of a call are trained together.
    """

    capabilities = Capabilities(
        protocols=("single", "per_timestep", "sequential"),
        changes_weights=True,
        needs_known_facts=True,
        source="UnKE, arXiv 2405.15349",
    )
    settings_type = UnkeSettings

    def __init__(self, model: LanguageModel, settings: UnkeSettings, *, contexts: Sequence[Context], seed: int) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self.layer = check_layer(model, settings.layer)
        self._block = model.blocks[self.layer].module
        self._unrelated_prompts = UnrelatedPrompts(model, seed=seed)
        self._searched_at_once = BatchLimit("edits of a value search")
        self.parameters = {
            f"{name}.{own}": EditedParameter(layer, own)
            for name, layer in self._block.named_modules()
            if is_linear(layer) or is_norm(layer)
            for own in ("weight", "bias")
            if getattr(layer, own, None) is not None
        }

    def prepare(self, known: Sequence[KnownFact], *, advance: Advance) -> None:  # noqa: ARG002 - the contract's shape
        """Store the facts from which unrelated texts are sampled."""
        self._unrelated_prompts.known = tuple(dict.fromkeys(known))

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Search for the values of all edits, and train the block; the loss is that of the search."""
        requests = [self.request_of(case, context) for case in cases for context in self.contexts]
        found = [self._search(request) for request in requests]
        run.progress(0.5)
        values = torch.cat([value for value, _ in found])
        draw = random.Random(seed_for(self.seed, cases))
        others = self._unrelated_prompts.to(cases) if self.settings.unrelated else []
        unrelated = draw.sample(others, min(len(others), self.settings.unrelated))
        wanted = self.wanted_outputs(requests, values, unrelated)
        self._train(wanted)
        run.progress(1.0)
        losses = [loss for _, loss in found]
        return AppliedEdits(loss=sum(losses) / len(losses))

    def request_of(self, case: Case, context: Context) -> EditRequest:
        """A case's prompt in a context with its whole answer."""
        return answer_requests(self.model, case, [context], chunk=None, learn_end=self.settings.learn_end)[0]

    def _search(self, request: EditRequest) -> tuple[torch.Tensor, float]:
        """Block output at the prompt's last token with which the model gives the answer, and the loss."""
        own = self.settings
        search = ValueSearchSettings(
            steps=own.steps,
            learning_rate=own.learning_rate,
            weight_decay=own.weight_decay,
            clamp=own.clamp,
            drift_weight=0.0,
            stop_loss=own.stop_loss,
        )
        found = search_values(self.model, self.layer, self._block, [request], search)
        return found.before + found.added, found.losses[0]

    def wanted_outputs(
        self, requests: Sequence[EditRequest], values: torch.Tensor, unrelated: Sequence[str]
    ) -> WantedOutputs:
        """Current outputs of the block for prompts and unrelated texts, with the values at the ends of the prompts.

        Args:
            values: Wanted output of each request, requests x width.
            unrelated: Texts whose outputs should not change.
        """
        prompts = [list(request.prompts[0].ids) for request in requests]
        ids, mask = self.model.pad_left([*prompts, *map(self.model.encode, unrelated)])
        args, kwargs = self._arguments(ids, mask)
        with torch.no_grad():
            outputs = by_row(hidden_of(self._block(*args, **kwargs)), len(ids)).float()
        rows = torch.arange(len(prompts), device=outputs.device)
        ends = rows, torch.full_like(rows, ids.shape[1] - 1)
        outputs = outputs.clone()
        outputs[ends] = values.to(outputs)
        return WantedOutputs(args, kwargs, outputs, mask.to(outputs.device), ends)

    def block_loss(self, wanted: WantedOutputs) -> torch.Tensor:
        """Mean squared error at the ends of the prompts, plus that at all other tokens."""
        outputs = by_row(hidden_of(self._block(*wanted.args, **wanted.kwargs)), len(wanted.mask)).float()
        errors = (outputs - wanted.outputs).square().mean(-1)
        other = wanted.mask.to(errors.dtype).clone()
        other[wanted.ends] = 0.0
        return errors[wanted.ends].mean() + (errors * other).sum() / other.sum().clamp(min=1)

    def _train(self, wanted: WantedOutputs) -> None:
        """Adam on all weights of the block."""
        trained = [parameter.editable().requires_grad_(True) for parameter in self.parameters.values()]
        optimizer = torch.optim.Adam(trained, lr=self.settings.train_rate, fused=fusible(trained))
        scaler = loss_scaler(self.model)
        try:
            with torch.enable_grad():
                for _ in range(self.settings.train_steps):
                    optimizer.zero_grad()
                    scaler.scale(self.block_loss(wanted)).backward()  # type: ignore[no-untyped-call]
                    take_step(optimizer, scaler)
        finally:
            for parameter in trained:
                parameter.requires_grad_(False)
                parameter.grad = None

    def _arguments(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments with which the model calls the block for some texts."""

        def stop(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            raise _ReachedError(args, kwargs)

        with hooks(self._block.register_forward_pre_hook(stop, with_kwargs=True)), torch.no_grad():
            try:
                self.model.forward(ids, mask, last=1)
            except _ReachedError as reached:
                args, kwargs = reached.args
                return args, kwargs
        raise RuntimeError(f"the forward pass never reached block {self.layer}")

    def restore(self) -> None:
        """Restore the model's own weights."""
        for parameter in self.parameters.values():
            parameter.restore()

    def state(self) -> EditorState:
        """Return the block's weights."""
        return EditorState({name: one.value.detach().clone() for name, one in self.parameters.items()})

    def load_state(self, state: EditorState) -> None:
        """Load the block's weights."""
        for name, parameter in self.parameters.items():
            parameter.write(state.tensors[name])


class AnyEdit(NullSpaceEditor[AnyEditSettings]):
    """Like AlphaEdit, with an answer split into chunks that are edited together.

    The value of a chunk is searched for at the token before it, with the prompt and the earlier chunks as context and
    their vectors in place: one value determines few tokens well. No subject is needed. The equations preserve the
    outputs for all other tokens of prompts and answers, and not those of past edits, as published.
    """

    capabilities = Capabilities(
        protocols=("single", "per_timestep", "sequential"),
        changes_weights=True,
        needs_known_facts=True,
        resumes_calls=True,
        source="AnyEdit, arXiv 2502.05628",
    )
    settings_type = AnyEditSettings

    @property
    def remembers(self) -> bool:
        """False: past edits are not preserved."""
        return False

    def penalty(self, layer: int, basis: torch.Tensor) -> float:
        """The setting `penalty`, or a share of the mean squared length of text's keys in the null space.

        Chunks end in frequent words, whose keys lie mostly outside the null space. (SmolLM2-135M: a squared length of
        about 1 is left of them, 10 of subjects' keys. With the published 10, none of 8 CounterFact edits was learned;
        with 1, 0.1 and 0.01, all.)
        """
        if self.settings.penalty is not None:
            return self.settings.penalty
        # The mean square is the sum of C's eigenvalues in the null space, which come first.
        return _PENALTY_SHARE * float(eigen(self.second_moment(layer))[0].clamp(min=0)[: basis.shape[1]].sum())

    def details(self) -> dict[str, Any]:
        """Also returns the penalty of each layer."""
        found = super().details()
        if found["statistics"] is None:
            return found
        return {**found, "penalty": {str(layer): self.penalty(layer, self.basis(layer)) for layer in self.layers}}

    def editable(self, cases: Sequence[Case]) -> tuple[list[Case], tuple[EditFailure, ...]]:
        """Return all cases: no subject is needed."""
        return list(cases), ()

    def requests_of(self, case: Case) -> list[EditRequest]:
        """One request per chunk of the answer."""
        own = self.settings
        return answer_requests(
            self.model,
            case,
            self.contexts,
            chunk=own.chunk,
            learn_end=own.learn_end,
            random_prefixes=self.random_prefixes(),
        )

    def search(
        self, module: Any, requests: Sequence[EditRequest], *, layer: int, run: RunContext = NO_RUN
    ) -> FoundValues:
        """Search for the values of the first chunk of all answers, then for those of the second, and so on."""
        one_round, added = super().search, dict[int, torch.Tensor]()
        numbers = [len(request.distances) for request in requests]
        found: list[FoundValues] = []
        for number in range(max(numbers) + 1):
            own = [index for index, one in enumerate(numbers) if one == number]
            # The chunks of an answer follow each other.
            earlier = [[added[place] for place in range(index - number, index)] for index in own]
            given = [
                replace(requests[index], vectors=torch.stack(vectors) if vectors else None)
                for index, vectors in zip(own, earlier, strict=True)
            ]
            found.append(
                search_stage(
                    lambda own_run, given=given: one_round(module, given, layer=layer, run=own_run),  # type: ignore[misc]
                    found,
                    stages=max(numbers) + 1,
                    run=run,
                    device=self.matrices[layer].weight.device,
                    prefix="chunks.",
                )
            )
            added |= dict(zip(own, found[-1].added, strict=True))
        order = list(added)
        return FoundValues.joined(found).in_order(sorted(range(len(order)), key=order.__getitem__))

    def kept_keys(self, requests: Sequence[EditRequest], *, layer: int) -> torch.Tensor:
        """Keys of the tokens of prompts and answers that have no value."""
        begins = [not request.distances for request in requests]
        ends = [request for request, last in zip(requests, [*begins[1:], True], strict=True) if last]
        texts = [([*prompt.ids, *request.target], prompt.subject, request.distances)
                 for request in ends for prompt in request.prompts]  # fmt: skip
        rows = inputs_of(self.model, layer, [ids for ids, _, _ in texts])
        for index, (ids, last, distances) in enumerate(texts):
            edited = {last, *(last - distance for distance in distances)}
            rows[index] = rows[index][[place for place in range(len(ids)) if place not in edited]]
        return in_float64(torch.cat(rows)).T
