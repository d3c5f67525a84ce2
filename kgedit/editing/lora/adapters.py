"""Low-rank adapters on the query and value projections, and their training; used by `lora` and `lora_merge`."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers.pytorch_utils import Conv1D

from kgedit.editing.editor import RunContext
from kgedit.editing.hparams.fine_tuning import LoraSettings
from kgedit.editing.training import resume_training, smaller_batch, training_state
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.matrices import keep_loaded
from kgedit.llm.training import backward, encode_targets, loss_scaler, take_step, target_loss


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
    model.module.train()
    if settings.recompute:
        _recompute(model.module)

    def loss_of(rows: Sequence[tuple[str, str]]) -> torch.Tensor:
        targets = encode_targets(model, rows, learn_end=settings.learn_end)
        return target_loss(model.forward(targets.ids, targets.mask, last=targets.last).logits, targets)

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
            take_step(optimizer, scaler)
            step += 1
            run.progress(step / steps)
        if epoch + 1 < settings.epochs:
            run.checkpoint(partial(training_state, optimizer, epochs=epoch + 1, scaler=scaler))
    if settings.recompute:
        _keep(model.module)
    model.module.eval()
    return sum(losses) / len(losses)


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
