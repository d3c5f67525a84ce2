"""Calls of a model from outside kgedit: by `generate`, a pipeline or an evaluation harness.

kgedit's own calls pass the ends of prompts (`LanguageModel.forward`); for other calls they are inferred from arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from kgedit.llm.language_model import LanguageModel, Reading

Hook = Callable[[Any, tuple[torch.Tensor, ...], torch.Tensor], torch.Tensor | None]
"""A forward hook: module, inputs, output; a returned value replaces the output."""


class InstalledHook:
    """A forward hook on one layer that has a `Reading` whichever code calls the model, until it is removed."""

    def __init__(self, model: LanguageModel, layer: Any, hook: Hook) -> None:
        self._model = model
        self._inferred: Reading | None = None
        self._parameters = inspect.signature(model.module.forward)
        self._handles = (
            model.module.register_forward_pre_hook(self._enter, with_kwargs=True),
            model.module.register_forward_hook(self._leave, always_call=True),
            layer.register_forward_hook(hook),
        )
        model.row_readers.append(self)

    def remove(self) -> None:
        """Remove all hooks."""
        for handle in self._handles:
            handle.remove()
        self._model.row_readers[:] = [one for one in self._model.row_readers if one is not self]

    def _enter(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._leave()  # a call interrupted by Ctrl-C did not clean up
        if self._model.reading is None:
            named = self._parameters.bind_partial(*args, **kwargs).arguments
            self._inferred = infer_reading(kwargs | named)  # a renamed argument is in kwargs only
            self._model.readings.append(self._inferred)

    def _leave(self, *_: Any) -> None:
        if self._inferred is not None:
            self._model.readings[:] = [one for one in self._model.readings if one is not self._inferred]
            self._inferred = None


_CACHES = ("cache", "past_key_values")
"""Names of the cache argument of models: transformers 5.24 renames it."""


def infer_reading(arguments: Mapping[str, Any]) -> Reading:
    """Infer the `Reading` of a call of a transformers model.

    `generate` passes an empty cache with a whole prompt, whose end is therefore known, and then one token at a time. A
    call without a cache may be anything, for example a prompt with an answer to be scored, so a prompt may end at each
    of its tokens. The same holds for a call with several tokens after a cache.

    Args:
        arguments: Arguments of the model's forward, by name.
    """
    ids = arguments.get("input_ids")
    tokens = ids if ids is not None else arguments["inputs_embeds"]
    rows, length = tokens.shape[:2]
    cache = next((arguments[name] for name in _CACHES if arguments.get(name) is not None), None)
    cached = int(cache.get_seq_length()) if cache is not None else 0
    mask = arguments.get("attention_mask")
    if not isinstance(mask, torch.Tensor) or mask.dim() != 2:
        own = _real_tokens(ids) if ids is not None and cache is None else tokens.new_ones((rows, length))
        mask = torch.cat([own.new_ones((rows, cached)), own], dim=1)
    whole_prompt = cache is not None and cached == 0
    last = mask.shape[1] - 1 - mask.bool().long().flip(1).argmax(1)
    return Reading(
        mask=mask[:, : cached + length].long(),
        ends=last if whole_prompt else None,
        rows=tuple(range(rows)),
        ends_unknown=not whole_prompt and (length > 1 or cached == 0),
    )


def _real_tokens(ids: torch.Tensor) -> torch.Tensor:
    """Attention mask of a right-padded batch that came without one: 1 for tokens, 0 for padding.

    Evaluation harnesses pad this way; a token repeated up to the end counts once.
    """
    same = ids == ids[:, -1:]
    repeated = same.flip(1).long().cumprod(1).flip(1).bool()
    first = torch.zeros_like(repeated)
    first[:, 1:] = repeated[:, 1:] & ~repeated[:, :-1]
    first[:, 0] = repeated[:, 0]
    return (~repeated | first).long()
