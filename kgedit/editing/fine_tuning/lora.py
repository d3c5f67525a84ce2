"""`lora`, `lora_merge`: one low-rank adapter, trained further in each timestep (LoRA-FT of WikiBigEdit), or merged.

`lora_merge` interpolates the adapters of successive timesteps (LoRA-Merge of WikiBigEdit). The paper describes two
variants. In appendix C.4 a share of a new adapter is merged into the weights at each timestep; in section 4.4 the
factors of the adapter are interpolated with those of the previous timestep, so that the rank remains the same for all
edits together. Both start the next timestep from the merged result.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from transformers.pytorch_utils import Conv1D

from kgedit.editing.editor import NO_RUN, AppliedEdits, Capabilities, Editor, EditorState, RunContext
from kgedit.editing.hparams.fine_tuning import LoraMergeSettings, LoraSettings
from kgedit.editing.training import examples, resume_training, seed_for, smaller_batch, training_state
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.matrices import EditedMatrix, keep_loaded
from kgedit.llm.training import backward, encode_targets, loss_scaler, seeded, take_step, target_loss
from kgedit.records.cases import Case


def targets_of(model: LanguageModel) -> list[str]:
    """Full names of the query and value projections of all blocks (the fused projection if there is one)."""
    return [name for block in model.blocks for name in block.query_value]


def attach(model: LanguageModel, settings: LoraSettings) -> PeftModel:
    """Add a new adapter, which does not change outputs yet; its weights are sampled from torch's random state."""
    names = targets_of(model)
    for name in names:
        keep_loaded(model.module.get_submodule(name))  # peft would put an adapter's weights on the meta device
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=names,
        fan_in_fan_out=isinstance(model.module.get_submodule(names[0]), Conv1D),
        bias="none",
    )
    adapted = get_peft_model(model.module, config)
    # New modules start in training mode, in which dropout would change the answers of a resumed run.
    return adapted.eval()


def detach(adapted: PeftModel) -> None:
    """Remove the adapter; the model's own weights were never changed."""
    adapted.unload()
    _forget(adapted)


def merge(adapted: PeftModel) -> None:
    """Merge the adapter into the model's weights and remove it."""
    adapted.merge_and_unload()
    _forget(adapted)


def _forget(adapted: PeftModel) -> None:
    # peft marks the model as adapted and would warn at the next adapter.
    for name in ("peft_config", "_hf_peft_config_loaded"):
        vars(adapted.base_model.model).pop(name, None)


def train(
    model: LanguageModel,
    settings: LoraSettings,
    adapted: PeftModel,
    pairs: Sequence[tuple[str, str]],
    *,
    seed: int,
    run: RunContext,
) -> float:
    """Train an attached adapter on (prompt, answer) pairs, by default shuffled in each epoch.

    Args:
        seed: Seed of the order; dropout uses torch's random state.
        run: Run context; training is resumable after each epoch except the last.

    Returns:
        Mean loss of the last epoch.
    """
    parameters = [parameter for parameter in adapted.parameters() if parameter.requires_grad]
    peak = settings.learning_rate
    optimizer = torch.optim.Adam(parameters, lr=peak)
    order = random.Random(seed)
    at_once = smaller_batch(settings.batch, count=len(pairs), epochs=settings.epochs, least_steps=settings.least_steps)
    each = math.ceil(len(pairs) / at_once)
    shuffled, steps, losses = list(pairs), settings.epochs * each, [0.0]
    scaler = loss_scaler(model)
    begun = resume_training(optimizer, run.resume, scaler=scaler) if run.resume else 0
    step = begun * each

    def loss_of(rows: Sequence[tuple[str, str]]) -> torch.Tensor:
        targets = encode_targets(model, rows, learn_end=settings.learn_end)
        return target_loss(model.forward(targets.ids, targets.mask, last=targets.last).logits, targets)

    with _training_mode(model.module, recompute=settings.recompute):
        for epoch in range(settings.epochs):
            if settings.shuffle:
                order.shuffle(shuffled)
            if epoch < begun:
                continue
            losses = []
            for start in range(0, len(shuffled), at_once):
                batch = shuffled[start : start + at_once]
                optimizer.param_groups[0]["lr"] = peak * rate(step, steps, warmup=settings.warmup)
                losses.append(backward(model, batch, loss_of, optimizer=optimizer, scaler=scaler))
                take_step(optimizer, scaler, max_norm=settings.max_grad_norm)
                step += 1
                run.progress(step / steps)
            if epoch + 1 < settings.epochs:
                run.checkpoint(partial(training_state, optimizer, epochs=epoch + 1, scaler=scaler))
    return sum(losses) / len(losses)


@contextmanager
def _training_mode(module: Any, *, recompute: bool) -> Iterator[None]:
    """Context with dropout and, if wanted, with recomputed activations; an interruption leaves neither on."""
    try:
        module.train()
        if recompute:
            _recompute(module)
        yield
    finally:
        if recompute:
            _keep(module)
        module.eval()


def _recompute(module: Any) -> None:
    """Keep only the inputs of blocks for the backward pass; transformers 5 renamed the function."""
    if hasattr(module, "activation_checkpointing_enable"):
        module.activation_checkpointing_enable({"use_reentrant": False})
    else:
        module.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def _keep(module: Any) -> None:
    if hasattr(module, "activation_checkpointing_disable"):
        module.activation_checkpointing_disable()
    else:
        module.gradient_checkpointing_disable()


def rate(step: int, steps: int, *, warmup: float) -> float:
    """Learning rate at a step (from 0), as a share of the peak: linear warm-up, then cosine decay; never 0."""
    rising = math.ceil(warmup * steps)
    if step < rising:
        return (step + 1) / (rising + 1)
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / (steps - rising)))


class LoraFineTuning(Editor[LoraSettings]):
    """Adds one low-rank adapter to the query and value projections and trains it further on each call."""

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        adds_modules=True,
        resumes_calls=True,
        source="WikiBigEdit, arXiv 2503.05683 appendix C.4; LoRA, arXiv 2106.09685",
    )
    settings_type = LoraSettings

    def __init__(self, model: LanguageModel, settings: LoraSettings, *, contexts: Sequence[Context], seed: int) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self._adapted: PeftModel | None = None

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Train the adapter on the cases."""
        adapted = self._adapter()
        seed = seed_for(self.seed, cases)
        with seeded(seed, self.model.device):
            loss = train(self.model, self.settings, adapted, examples(cases, self.contexts), seed=seed, run=run)
        return AppliedEdits(loss=loss)

    def details(self) -> dict[str, Any]:
        """Adapted modules of the first block."""
        return {"first_modules": list(self.model.blocks[0].query_value)}

    def save_model(self, folder: Path) -> None:
        """Save only the adapter, in the format of peft with the base model's name, and the tokenizer."""
        adapted = self._adapter()
        adapted.peft_config[adapted.active_adapter].base_model_name_or_path = self.model.public_name
        self.model.tokenizer.save_pretrained(folder)
        # Embeddings are not adapted; "auto" would look the base model up on the hub to find that out.
        adapted.save_pretrained(str(folder), save_embedding_layers=False)

    def restore(self) -> None:
        """Remove the adapter."""
        if self._adapted is not None:
            detach(self._adapted)
            self._adapted = None

    def state(self) -> EditorState:
        """Return the adapter's two matrices per module."""
        if self._adapted is None:
            return EditorState()
        tensors = get_peft_model_state_dict(self._adapted, save_embedding_layers=False)
        return EditorState(tensors={name: tensor.detach().clone() for name, tensor in tensors.items()})

    def load_state(self, state: EditorState) -> None:
        """Load the adapter."""
        if state.tensors:
            set_peft_model_state_dict(self._adapter(), state.tensors)

    def _adapter(self) -> PeftModel:
        if self._adapted is None:
            with seeded(self.seed, self.model.device):
                self._adapted = attach(self.model, self.settings)
        return self._adapted


_FACTORS = "adapter."
"""Prefix of the names of the adapter's factors in a saved state."""


class LoraMerge(Editor[LoraMergeSettings]):
    """Trains a low-rank adapter on each call and merges a share of it into the weights or the previous adapter."""

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        resumes_calls=True,
        source="WikiBigEdit, arXiv 2503.05683 section 4.4 and appendix C.4",
    )
    settings_type = LoraMergeSettings

    def __init__(
        self, model: LanguageModel, settings: LoraMergeSettings, *, contexts: Sequence[Context], seed: int
    ) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        modules = {name: model.module.get_submodule(name) for name in targets_of(model)}
        self._matrices = {name: EditedMatrix(module) for name, module in modules.items()}
        self._factors: dict[str, torch.Tensor] = {}

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Adapt, interpolate, and merge in float32."""
        if self.settings.into == "adapter":
            return self._merge_into_adapter(cases, run)
        weights = {name: matrix.editable() for name, matrix in self._matrices.items()}
        before = {name: weight.detach().clone() for name, weight in weights.items()}
        seed = seed_for(self.seed, cases)
        with seeded(seed, self.model.device):
            adapted = attach(self.model, self.settings)
            try:
                loss = self._train(adapted, cases, seed, run)
            except BaseException:
                detach(adapted)
                raise
        merge(adapted)
        for name, matrix in self._matrices.items():
            # lerp is exact at both ends: share 0 is the previous model, share 1 the adapted one.
            matrix.write(torch.lerp(before[name], matrix.weight.detach(), self.settings.share))
        return AppliedEdits(loss=loss)

    def _merge_into_adapter(self, cases: Sequence[Case], run: RunContext) -> AppliedEdits:
        for matrix in self._matrices.values():
            matrix.write(matrix.before)
        with seeded(self.seed, self.model.device):
            adapted = attach(self.model, self.settings)
        if self._factors:
            set_peft_model_state_dict(adapted, self._factors)
        before = _factors_of(adapted)
        seed = seed_for(self.seed, cases)
        try:
            with seeded(seed, self.model.device):
                loss = self._train(adapted, cases, seed, run)
            trained, share = _factors_of(adapted), self.settings.share
            self._factors = {name: torch.lerp(before[name], own, share) for name, own in trained.items()}
        finally:
            # If the training was interrupted, these are the factors of the preceding call.
            if self._factors:
                set_peft_model_state_dict(adapted, self._factors)
                merge(adapted)
            else:
                detach(adapted)
        return AppliedEdits(loss=loss)

    def _train(self, adapted: PeftModel, cases: Sequence[Case], seed: int, run: RunContext) -> float:
        return train(self.model, self.settings, adapted, examples(cases, self.contexts), seed=seed, run=run)

    def details(self) -> dict[str, Any]:
        """Adapted modules of the first block."""
        return {"first_modules": list(self.model.blocks[0].query_value)}

    def restore(self) -> None:
        """Restore the model's own matrices."""
        for matrix in self._matrices.values():
            matrix.restore()
        self._factors = {}

    def state(self) -> EditorState:
        """Return the merged matrices, and the factors of an adapter that is trained further."""
        tensors = {name: matrix.weight.detach().float().clone() for name, matrix in self._matrices.items()}
        return EditorState(tensors | {_FACTORS + name: own.clone() for name, own in self._factors.items()})

    def load_state(self, state: EditorState) -> None:
        """Write the merged matrices to the model."""
        for name, matrix in self._matrices.items():
            matrix.write(state.tensors[name])
        kept = {name: own for name, own in state.tensors.items() if name.startswith(_FACTORS)}
        self._factors = {name.removeprefix(_FACTORS): own.clone() for name, own in kept.items()}


def _factors_of(adapted: PeftModel) -> dict[str, torch.Tensor]:
    """A copy of both factors of each adapted module."""
    factors = get_peft_model_state_dict(adapted, save_embedding_layers=False)
    return {name: own.detach().clone() for name, own in factors.items()}
