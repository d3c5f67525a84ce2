"""A causal language model with its tokenizer: token ids in, token ids out. Editors and evaluation share one object.

Editors with an external memory read where prompts end (`Reading`). kgedit's own calls pass the ends to
`LanguageModel.forward`; for calls from outside, by `generate`, a pipeline or an evaluation harness, they are inferred
from arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from kgedit.errors import ModelError
from kgedit.llm.devices import BatchLimit
from kgedit.llm.model_files import configuration_digest, joined_digest, tokenizer_digest, weights_digest
from kgedit.llm.surgery.matrices import input_device
from kgedit.llm.surgery.onednn import PackedMatrices
from kgedit.llm.surgery.structure import Block, find_blocks, hooks
from kgedit.llm.tokenization import ChatFormat, usable_chat_format


@dataclass(frozen=True, slots=True)
class Reading:
    """Prompts of the current forward pass, for editors with an external memory.

    Attributes:
        mask: Attention mask, rows x whole length.
        ends: Column of each row's last prompt token; None if an earlier call already read the prompts into the cache.
        rows: Index of each row in the batch when its prompt was read; finished rows leave the batch.
        ends_unknown: Whether the caller did not specify where prompts end: any token may be the last one of a prompt.
    """

    mask: torch.Tensor
    ends: torch.Tensor | None
    rows: tuple[int, ...]
    ends_unknown: bool = False


@dataclass(frozen=True)
class LanguageModel:
    """A loaded model.

    Attributes:
        name: Name or path given by the user.
        revision: Commit on the hub, or version of the package that contains it, or "".
        module: The transformers model, in eval mode; its parameters do not require gradients.
        tokenizer: A fast tokenizer.
        by_name: Whether `load_model` loads the same model by name alone, on any machine; false for a folder.
        folder: The user's folder from which it was loaded, or of a served model the folder with its files; None for
            others.
        folder_fingerprint: Its fingerprint when it was loaded from there; "" for others.
        readings: Current forward passes, innermost last; set by `forward` and by `InstalledHook`.
        row_readers: Hooks that use `reading` and therefore need complete, separate rows; while there are any, rows do
            not share prefixes.
        asked_at_once: Limit of tokens of questions that fit into the device's memory.
        trained_at_once: Limit of rows of a training step that fit.
        packed: Repacked copies of matrices for products on a CPU.
        tested: Results of tests of the model by name, so that each test runs once; filled by the modules that test.
    """

    name: str
    revision: str
    module: Any
    tokenizer: Any
    by_name: bool = True
    folder: Path | None = None
    folder_fingerprint: str = ""
    readings: list[Reading] = field(default_factory=list, init=False, repr=False, compare=False)
    row_readers: list[object] = field(default_factory=list, init=False, repr=False, compare=False)
    asked_at_once: BatchLimit = field(
        default_factory=lambda: BatchLimit("tokens of questions"), init=False, repr=False, compare=False
    )
    trained_at_once: BatchLimit = field(
        default_factory=lambda: BatchLimit("rows of a training step"), init=False, repr=False, compare=False
    )
    packed: PackedMatrices = field(default_factory=PackedMatrices, init=False, repr=False, compare=False)
    tested: dict[str, bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def public_name(self) -> str:
        """Name without the path on this machine, for files that others read: of a folder, its own name."""
        return self.name if self.by_name or not self.name else Path(self.name).resolve().name

    @property
    def reading(self) -> Reading | None:
        """The current forward pass; None outside of one."""
        return self.readings[-1] if self.readings else None

    @property
    def device(self) -> torch.device:
        """Device of the inputs."""
        return input_device(self.module)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Decoder blocks, lowest first, found by running the model."""
        return find_blocks(self.module)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of all weights, configuration, tokenizer, end tokens and device type, used as a cache key.

        Computed at first use and then stored: read it before the first edit. After changing weights without an editor,
        call `forget_fingerprint`.
        """
        end = " ".join(map(str, sorted(self.end_ids)))
        return joined_digest(
            (weights_digest(self.module), self._answering_digest, f"ends {end}", f"device {self.device.type}")
        )

    def forget_fingerprint(self) -> None:
        """Recompute the fingerprint at its next use, because the weights may have changed."""
        self.__dict__.pop("fingerprint", None)

    @cached_property
    def _answering_digest(self) -> str:
        return joined_digest((configuration_digest(self.module.config), tokenizer_digest(self.tokenizer)))

    @cached_property
    def chat(self) -> ChatFormat | None:
        """Chat format of the tokenizer; None if it has no usable chat template."""
        return usable_chat_format(self.tokenizer)

    @cached_property
    def end_ids(self) -> frozenset[int]:
        """Tokens that end a text, or a turn of a chat."""
        found = {self.tokenizer.eos_token_id, self.chat.end if self.chat else None}
        for config in (self.module.config, getattr(self.module, "generation_config", None)):
            ids = getattr(config, "eos_token_id", None)
            found.update(ids if isinstance(ids, list) else [ids])
        return frozenset(found - {None})

    @cached_property
    def positions(self) -> int | None:
        """Context length in the model's configuration; None if it sets none."""
        found: int | None = getattr(self.module.config.get_text_config(), "max_position_embeddings", None)
        return found

    @cached_property
    def most_positions(self) -> int | None:
        """Most tokens that the model can read, because it has a table of positions; None if it computes positions."""
        if self.positions is None:
            return None
        own = self.module.get_input_embeddings()
        parts = [part for part in self.module.modules() if isinstance(part, torch.nn.Embedding) and part is not own]
        rows = [part.num_embeddings for part in parts]
        rows += [len(table) for name, table in self.module.named_buffers() if name.endswith("embed_positions")]  # GPT-J
        # OPT's table has two rows more.
        return self.positions if any(0 <= count - self.positions <= 2 for count in rows) else None

    @cached_property
    def window(self) -> int | None:
        """Tokens beyond which some block does not attend to the whole text; None if the configuration sets none."""
        config = self.module.config.get_text_config()
        found = [getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size", "window_size")]
        return min((length for length in found if isinstance(length, int) and length > 0), default=None)

    @cached_property
    def keeps_tokens(self) -> bool:
        """Whether a cache contains only keys and values of each token, so that it can be continued repeatedly.

        Linear attention (Qwen 3.5) keeps one state for the whole text, which every new token changes.
        """
        from transformers.cache_utils import DynamicLayer

        ids = torch.zeros((1, 1), dtype=torch.long, device=self.device)
        with torch.no_grad():
            cache = kept_cache(self.forward(ids, torch.ones_like(ids), last=1, keep=True))
        return all(isinstance(layer, DynamicLayer) for layer in cache.layers)

    @cached_property
    def _marks_word_starts(self) -> bool:
        """Whether the tokenizer adds a space before every text (SentencePiece)."""
        ids = self.tokenizer.encode("a", add_special_tokens=False)
        return bool(self.tokenizer.convert_ids_to_tokens(ids)[0].startswith("▁"))

    @cached_property
    def _cache_argument(self) -> str:
        return "cache" if "cache" in self._accepted else "past_key_values"

    @cached_property
    def _accepted(self) -> frozenset[str]:
        return frozenset(inspect.signature(self.module.forward).parameters)

    @cached_property
    def _ids_by_text(self) -> dict[str, frozenset[int]]:
        return {}

    @cached_property
    def _token_texts(self) -> list[str]:
        return list(self.tokenizer.batch_decode([[index] for index in range(len(self.tokenizer))]))

    def encode(self, prompt: str) -> list[int]:
        """Tokenize a prompt, with the special tokens that the tokenizer prepends.

        Returns:
            Token ids; for an empty prompt the beginning-of-text token, or none if the tokenizer has no such token.
        """
        ids: list[int] = self.tokenizer.encode(prompt)
        if not ids and self.tokenizer.bos_token_id is not None:
            return [self.tokenizer.bos_token_id]
        # Some tokenizers append an end-of-text token, after which a model does not answer.
        return ids[:-1] if len(ids) > 1 and ids[-1] == self.tokenizer.eos_token_id else ids

    def leading_ids(self) -> list[int]:
        """Tokens that the tokenizer prepends to every text (a beginning-of-text token, or nothing)."""
        ids = self.encode("a")
        return ids[: len(ids) - len(self.tokenizer.encode("a", add_special_tokens=False))]

    def encode_target(self, answer: str, *, after: str = "") -> list[int]:
        """Tokenize an answer, to be appended to the tokens of a prompt.

        Args:
            after: The prompt. The answer is separated from it by a space, unless the prompt ends in white space; in a
                chat as defined by the template.
        """
        joint = "" if after[-1:].isspace() else " "
        if self.chat and self._opens_turn(after):
            joint = self.chat.joint
        text = answer if self._marks_word_starts else f"{joint}{answer}"
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def end_of_answer(self, after: str) -> list[int]:
        """The token that ends an answer to a prompt, in a chat the end of a turn; empty if there is no such token."""
        end = self.chat.end if self.chat and self._opens_turn(after) else None
        end = self.tokenizer.eos_token_id if end is None else end
        return [] if end is None else [end]

    def _opens_turn(self, prompt: str) -> bool:
        return bool(self.chat and self.chat.after and prompt.endswith(self.chat.after))

    def decode(self, ids: Sequence[int]) -> str:
        """Decode generated tokens, without special ones."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def ids_containing(self, texts: Sequence[str]) -> frozenset[int]:
        """Tokens whose text contains one of the texts."""
        found = self._ids_by_text
        for text in texts:
            if text not in found:
                found[text] = frozenset(i for i, own in enumerate(self._token_texts) if text in own)
        return frozenset().union(*(found[text] for text in texts))

    def forward(
        self,
        ids: torch.Tensor,
        mask: torch.Tensor,
        *,
        last: int,
        cache: Any = None,
        keep: bool = False,
        ends: torch.Tensor | None = None,
        rows: Sequence[int] | None = None,
    ) -> Any:
        """Run the model on left-padded tokens.

        Args:
            ids: Token ids, rows x length; with a cache, only the new tokens.
            mask: Attention mask, rows x whole length.
            last: Number of last positions for which logits are computed, if the model can skip the others.
            cache: Result of `kept_cache` on the output of an earlier call.
            keep: Whether to return a cache.
            ends: Column of each row's last prompt token; None if the cache already contains the prompts, or if the ends
                are not needed.
            rows: With a cache, index of each row in the batch of prompts; None if no row has left.

        Returns:
            The model's output; ``logits`` is rows x last x vocabulary.

        Raises:
            ModelError: if a row has more tokens than the model has positions.
        """
        if self.most_positions is not None and mask.shape[1] > self.most_positions:
            self._refuse_longer(int(mask.sum(-1).max()))
        options: dict[str, Any] = {"attention_mask": mask, "use_cache": keep}
        if cache is not None:
            options[self._cache_argument] = cache
        if "position_ids" in self._accepted:
            # Without explicit positions, some models count the padding on the left.
            positions = (mask.cumsum(-1) - 1).clamp(min=0)
            options["position_ids"] = positions[:, -ids.shape[1] :]
        if "logits_to_keep" in self._accepted:
            options["logits_to_keep"] = last
        self.readings.append(Reading(mask, ends, tuple(range(len(ids)) if rows is None else rows)))
        try:
            with self._dense_head():
                output = self.module(ids, **options)
        finally:
            self.readings.pop()
        output.logits = output.logits[:, -last:]
        return output

    def forward_tree(
        self,
        ids: torch.Tensor,
        visible: torch.Tensor,
        positions: torch.Tensor,
        *,
        picks: tuple[torch.Tensor, torch.Tensor],
        cache: Any = None,
    ) -> Any:
        """Run the model with an explicit attention pattern for each token.

        Args:
            ids: Token ids, rows x length; with a cache, only the new tokens.
            visible: Which tokens each token attends to, rows x length x whole length.
            positions: Index of each token in its text, rows x length.
            picks: Rows and columns of the tokens whose logits are computed.
            cache: Cache of transformers, to which the tokens' keys and values are added.

        Returns:
            The model's output; ``logits`` is picks x vocabulary.

        Raises:
            ModelError: if a text has more tokens than the model has positions.
        """
        if self.most_positions is not None and visible.shape[-1] > self.most_positions:
            self._refuse_longer(int(positions.max()) + 1)
        numbers = self.module.get_input_embeddings().weight.dtype
        mask = torch.zeros(visible.shape, dtype=numbers, device=visible.device)
        # The lowest number instead of -inf: a row that attends to nothing would give NaN.
        mask.masked_fill_(~visible, torch.finfo(numbers).min)
        head = self.module.get_output_embeddings()
        with hooks(
            head.register_forward_pre_hook(lambda _, inputs: (inputs[0][picks].unsqueeze(0).contiguous(), *inputs[1:]))
        ):
            output = self.module(
                ids,
                attention_mask=mask.unsqueeze(1),
                position_ids=positions,
                use_cache=cache is not None,
                **{self._cache_argument: cache},
            )
        output.logits = output.logits[0]
        return output

    def _refuse_longer(self, tokens: int) -> None:
        if self.most_positions is not None and tokens > self.most_positions:
            raise ModelError(
                f"A text of {tokens} tokens is longer than the {self.most_positions} positions of "
                f"{self.name or 'the model'}. Shorten it, or take a model with a longer context."
            )

    def _dense_head(self) -> AbstractContextManager[None]:
        """Make the head's input contiguous: a slice of positions is multiplied row by row, several times slower."""
        head = self.module.get_output_embeddings()
        if head is None:
            return nullcontext()
        return hooks(head.register_forward_pre_hook(lambda _, inputs: (inputs[0].contiguous(), *inputs[1:])))

    def pad_left(self, rows: Sequence[Sequence[int]], *, width: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        """Left-pad token ids; returns ids and attention mask. Only the mask marks padding, not the pad id.

        Args:
            width: Minimum number of columns.
        """
        width = max(width, *map(len, rows))
        # Any token will do, since the mask hides it; many tokenizers have no token for padding.
        fill = next(iter(sorted(self.end_ids)), 0)
        ids = [[fill] * (width - len(row)) + list(row) for row in rows]
        mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
        return torch.tensor(ids, device=self.device), torch.tensor(mask, device=self.device)

    def save_pretrained(self, folder: Path) -> None:
        """Save the model and its tokenizer in the format of transformers."""
        for part in (self.tokenizer, self.module):
            part.save_pretrained(folder)


def kept_cache(output: Any) -> Any:
    """The key-value cache in a model's output: `cache` since transformers 5.24, `past_key_values` before."""
    return output.cache if "cache" in output else output.past_key_values


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
