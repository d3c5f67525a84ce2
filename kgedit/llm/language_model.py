"""A causal language model with its tokenizer: token ids in, token ids out. Editors and evaluation share one object."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

import torch

from kgedit.llm.batch_limit import BatchLimit
from kgedit.llm.chat import ChatFormat, usable_chat_format
from kgedit.llm.fingerprints import configuration_digest, joined_digest, tokenizer_digest, weights_digest
from kgedit.llm.key_values import kept_cache
from kgedit.llm.surgery.offloading import input_device
from kgedit.llm.surgery.packed_matrices import PackedMatrices
from kgedit.llm.surgery.structure import Block, find_blocks, hooks


@dataclass(frozen=True, slots=True)
class Reading:
    """The prompts of the current forward pass, for editors with a memory beside the model.

    Attributes:
        mask: Attention mask, rows x whole length.
        ends: Column of each row's last prompt token; None when prompts were read by an earlier call, into the cache.
        rows: Where each row stood in the batch when its prompt was read: rows that have ended leave the batch.
        ends_unknown: Whether the caller did not say where prompts end: any token may be the last one of a prompt.
    """

    mask: torch.Tensor
    ends: torch.Tensor | None
    rows: tuple[int, ...]
    ends_unknown: bool = False


@dataclass(frozen=True)
class LanguageModel:
    """A loaded model.

    Attributes:
        name: Name or path that the user gave.
        revision: Commit on the hub, or version of the package that carries it, or "".
        module: The transformers model, in eval mode; its parameters need no gradient.
        tokenizer: A fast tokenizer.
        by_name: Whether `load_model` finds the same model by its name alone.
        readings: The current forward passes, the innermost last; written by `forward` and by `InstalledHook`.
        row_readers: Hooks that read `reading`, and so need rows that stand whole beside one another; while there are
            any, no two rows share what they begin with.
        asked_at_once: Most tokens of questions that fit into the device's memory.
        trained_at_once: Most rows of a training step that do.
        packed: Copies of matrices for products on a CPU.
    """

    name: str
    revision: str
    module: Any
    tokenizer: Any
    by_name: bool = True
    readings: list[Reading] = field(default_factory=list, init=False, repr=False, compare=False)
    row_readers: list[object] = field(default_factory=list, init=False, repr=False, compare=False)
    asked_at_once: BatchLimit = field(
        default_factory=lambda: BatchLimit("tokens of questions"), init=False, repr=False, compare=False
    )
    trained_at_once: BatchLimit = field(
        default_factory=lambda: BatchLimit("rows of a training step"), init=False, repr=False, compare=False
    )
    packed: PackedMatrices = field(default_factory=PackedMatrices, init=False, repr=False, compare=False)

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
        """Digest of all weights, configuration, tokenizer, end tokens and device kind: names what is cached.

        Computed at first use and then kept: use it before the first edit. After a change of weights that no editor
        made, call `forget_fingerprint`.
        """
        end = " ".join(map(str, sorted(self.end_ids)))
        return joined_digest(
            (weights_digest(self.module), self._answering_digest, f"ends {end}", f"device {self.device.type}")
        )

    def forget_fingerprint(self) -> None:
        """Compute the fingerprint again at its next use: the weights may have changed."""
        self.__dict__.pop("fingerprint", None)

    @cached_property
    def _answering_digest(self) -> str:
        return joined_digest((configuration_digest(self.module.config), tokenizer_digest(self.tokenizer)))

    @cached_property
    def chat(self) -> ChatFormat | None:
        """What the tokenizer's chat template puts around turns; None where it has none that can be used."""
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
        """Context length by the model's configuration; None if it sets none."""
        found: int | None = getattr(self.module.config.get_text_config(), "max_position_embeddings", None)
        return found

    @cached_property
    def window(self) -> int | None:
        """Tokens beyond which some block no longer attends to all of the text; None if the configuration sets none."""
        config = self.module.config.get_text_config()
        found = [getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size", "window_size")]
        return min((length for length in found if isinstance(length, int) and length > 0), default=None)

    @cached_property
    def _reads_trees(self) -> bool:
        from kgedit.llm.shared_reading import reads_trees

        return reads_trees(self)

    def shares_beginnings(self, longest: int) -> bool:
        """Whether texts may be read so that what they begin with in common is computed once, with the same result.

        Not where a hook reads rows, where some block does not see the whole text, or where the model, tried once with
        texts of a few tokens, gives other logits so.

        Args:
            longest: Tokens of the longest text, with its answer.
        """
        seen = self.window is None or longest <= self.window
        return seen and not self.row_readers and self._reads_trees

    @cached_property
    def keeps_tokens(self) -> bool:
        """Whether a cache holds keys and values of each token and nothing else, so that it can be gone on from again.

        Linear attention (Qwen 3.5) keeps one state of the whole text, which every further token changes.
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

    @overload
    def ask(self, question: str, *, preset: str = "question_only") -> str: ...

    @overload
    def ask(self, question: list[str], *, preset: str = "question_only") -> list[str]: ...

    def ask(self, question: str | list[str], *, preset: str = "question_only") -> str | list[str]:
        """What the model answers, decoded greedily, with the edits that are in it.

        Text that `rag`, `ike` or `prompt` put ahead of questions is added by `EditedModel.ask` only.

        Args:
            question: One question, or several, which are asked in batches.
            preset: wild, wild_line, question_only or few_shot: how the question is put and where the answer ends.

        Raises:
            SpecError: if there is no such preset.
        """
        from kgedit.llm.contexts import read_context
        from kgedit.llm.free_answers import answer_freely, free_preset
        from kgedit.llm.generation import Question

        chosen = free_preset(preset)
        context = read_context(chosen.context)
        texts = [question] if isinstance(question, str) else question
        answers = answer_freely(self, [Question(context.prompt(text), "") for text in texts], chosen)
        return answers[0] if isinstance(question, str) else answers

    def encode(self, prompt: str) -> list[int]:
        """Tokens of a prompt, with the special tokens that the tokenizer puts first."""
        ids: list[int] = self.tokenizer.encode(prompt)
        return ids[:-1] if len(ids) > 1 and ids[-1] == self.tokenizer.eos_token_id else ids

    def leading_ids(self) -> list[int]:
        """What the tokenizer puts ahead of every text (a beginning-of-text token, or nothing)."""
        ids = self.encode("a")
        return ids[: len(ids) - len(self.tokenizer.encode("a", add_special_tokens=False))]

    def encode_target(self, answer: str, *, after: str = "") -> list[int]:
        """Tokens of an answer, to be appended to those of a prompt.

        Args:
            after: The prompt. An answer follows it after a space, but not where the prompt ends in white space itself;
                in a chat as the template says.
        """
        joint = "" if after[-1:].isspace() else " "
        if self.chat and self._opens_turn(after):
            joint = self.chat.joint
        text = answer if self._marks_word_starts else f"{joint}{answer}"
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def end_of_answer(self, after: str) -> list[int]:
        """The token that ends an answer to a prompt: in a chat that of a turn; none where there is no such token."""
        end = self.chat.end if self.chat and self._opens_turn(after) else None
        end = self.tokenizer.eos_token_id if end is None else end
        return [] if end is None else [end]

    def _opens_turn(self, prompt: str) -> bool:
        return bool(self.chat and self.chat.after and prompt.endswith(self.chat.after))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of generated tokens, without special ones."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def ids_containing(self, texts: Sequence[str]) -> frozenset[int]:
        """Tokens whose own text holds one of the texts."""
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
            ids: Token ids, rows x length; with a cache, only the tokens that are new.
            mask: Attention mask, rows x whole length.
            last: Logits are computed for so many last positions only (where the model can leave out the others).
            cache: What kept_cache found in the output of an earlier call.
            keep: Whether to return a cache.
            ends: Column of each row's last prompt token; None with a cache that holds the prompts already, and where
                nobody needs to know.
            rows: With a cache, where each row stood in the batch of prompts; None if all are there still.

        Returns:
            The model's output; ``logits`` is rows x last x vocabulary.
        """
        options: dict[str, Any] = {"attention_mask": mask, "use_cache": keep}
        if cache is not None:
            options[self._cache_argument] = cache
        if "position_ids" in self._accepted:
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
        """Run the model on tokens that say themselves what they attend to.

        Args:
            ids: Token ids, rows x length; with a cache, only the tokens that are new.
            visible: Which tokens each token attends to, rows x length x whole length.
            positions: Index of each token in its text, rows x length.
            picks: Rows and columns of the tokens whose logits are computed.
            cache: Of transformers; it takes the tokens' keys and values.

        Returns:
            The model's output; ``logits`` is picks x vocabulary.
        """
        numbers = self.module.get_input_embeddings().weight.dtype
        mask = torch.zeros(visible.shape, dtype=numbers, device=visible.device)
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

    def _dense_head(self) -> AbstractContextManager[None]:
        """Give the head contiguous input: a slice of positions would be multiplied row by row, several times slower."""
        head = self.module.get_output_embeddings()
        if head is None:
            return nullcontext()
        return hooks(head.register_forward_pre_hook(lambda _, inputs: (inputs[0].contiguous(), *inputs[1:])))

    def pad_left(self, rows: Sequence[Sequence[int]], *, width: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        """Left-padded token ids and attention mask; the mask, not the pad id, says what is padding.

        Args:
            width: Columns, where no row is longer.
        """
        width = max(width, *map(len, rows))
        fill = next(iter(sorted(self.end_ids)), 0)
        ids = [[fill] * (width - len(row)) + list(row) for row in rows]
        mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
        return torch.tensor(ids, device=self.device), torch.tensor(mask, device=self.device)
