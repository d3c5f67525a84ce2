"""`vllm`: vLLM in this process, for models that need its batching or several GPUs. vLLM plans its own batches.

With the device cuda:all each matrix is split over the GPUs (tensor parallelism). kgedit's tests have no GPU and never
run vLLM: they check the calls with a stand-in that uses vLLM's names (`LLM.generate`, `SamplingParams`,
`prompt_logprobs`, as of vLLM 0.10).
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch

from kgedit.errors import MissingExtraError, ModelError
from kgedit.llm.backends.contract import Backend
from kgedit.llm.decoding import up_to
from kgedit.llm.devices import ALL_GPUS
from kgedit.llm.generation import PresetQuestion, free_reply, reason
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.presets import STOPS
from kgedit.llm.replies import Reply, fed_reply, match_of

_AT_ONCE = 1024
"""Number of questions between two writes of a run."""


class VllmBackend(Backend):
    """Greedy decoding with stop strings, and teacher forcing by the log-probabilities of prompts."""

    needs_weights = False
    feeds_answers = True
    package = ("vllm", "vllm")

    def _check_placement(self) -> None:
        index = self._placement.device.removeprefix("cuda:")
        if index.isdigit() and int(index) > 0:
            raise ModelError(
                f"vLLM computes on the first GPU that it sees, not on number {index}. Choose the GPU by the "
                f"environment: CUDA_VISIBLE_DEVICES={index}, with --device cuda."
            )

    def plan(self, asked: Sequence[PresetQuestion]) -> list[list[int]]:
        """Batches in the order of the questions, with one generation setting each."""
        batches = []
        for forced in (True, False):
            own = [index for index, one in enumerate(asked) if one.is_forced == forced]
            batches += [own[start : start + _AT_ONCE] for start in range(0, len(own), _AT_ONCE)]
        return batches

    def ask(self, asked: Sequence[PresetQuestion]) -> list[Reply]:
        """Ask vLLM, all questions of each generation setting at once."""
        started = time.perf_counter()
        replies: list[Reply | None] = [None] * len(asked)
        for forced, way in ((True, self._fed), (False, self._decoded)):
            own = [index for index, one in enumerate(asked) if one.is_forced == forced]
            if own:
                for index, reply in zip(own, way([asked[index] for index in own]), strict=True):
                    replies[index] = reply
        seconds = round((time.perf_counter() - started) / len(asked), 6)
        return [replace(reply, seconds=seconds) for reply in replies if reply is not None]

    @cached_property
    def _vllm(self) -> Any:
        try:
            return importlib.import_module("vllm")
        except ModuleNotFoundError as error:
            raise MissingExtraError(*self.package) from error

    @cached_property
    def _engine(self) -> Any:
        model, placement = self._model, self._placement
        return self._vllm.LLM(
            model=str(model.folder or model.name),
            revision=None if model.folder else model.revision or None,
            dtype=placement.dtype,
            trust_remote_code=placement.trust_remote_code,
            tensor_parallel_size=_gpus(model) if placement.device == ALL_GPUS else 1,
            enable_prefix_caching=True,
        )

    def _generate(self, ids: Sequence[list[int]], options: Sequence[dict[str, Any]]) -> list[Any]:
        params = [self._vllm.SamplingParams(temperature=0.0, **own) for own in options]
        return list(self._engine.generate([{"prompt_token_ids": own} for own in ids], params, use_tqdm=False))

    def _decoded(self, asked: Sequence[PresetQuestion]) -> list[Reply]:
        model = self._model
        reasoned = reason(model, asked, self._continued)
        asked = [one.asked for one in reasoned]
        golds = [model.encode_target(one.question.gold, after=one.question.prompt) for one in asked]
        options = [
            {
                "max_tokens": len(gold) if one.preset.truncation == "gold_length" else one.preset.max_new_tokens,
                "stop": list(STOPS[one.preset.truncation]),
                "stop_token_ids": sorted(model.end_ids),
            }
            for one, gold in zip(asked, golds, strict=True)
        ]
        results = self._generate([one.ids for one in reasoned], options)
        said = [list(result.outputs[0].token_ids) for result in results]
        return [free_reply(model, one, ids, gold) for one, ids, gold in zip(reasoned, said, golds, strict=True)]

    def _continued(self, prompts: Sequence[list[int]], limits: Sequence[int], closes: str) -> list[list[int]]:
        # A stop text does not match special tokens, which vLLM leaves out of texts.
        ends = sorted(up_to(self._model, closes).stop_ids)
        options = [{"max_tokens": limit, "stop": [closes], "stop_token_ids": ends} for limit in limits]
        return [list(result.outputs[0].token_ids) for result in self._generate(prompts, options)]

    def _fed(self, asked: Sequence[PresetQuestion]) -> list[Reply]:
        model = self._model
        prompts = [model.encode(one.question.prompt) for one in asked]
        targets = [[model.encode_target(text, after=one.question.prompt) for text in one.question.fed] for one in asked]
        rows = [prompt + target for prompt, own in zip(prompts, targets, strict=True) for target in own]
        found = iter(self._generate(rows, [{"max_tokens": 1, "prompt_logprobs": 1}] * len(rows)))
        replies = []
        for one, prompt, own in zip(asked, prompts, targets, strict=True):
            read = [_read_prompt(next(found).prompt_logprobs[len(prompt) :], target) for target in own]
            (best, probability), others = read[0], iter([other for _, other in read[1:]])
            question = one.question
            old, static, alternatives = (
                [next(others) for _ in answers] for answers in (question.old, question.static, question.alternatives)
            )
            reply = Reply(
                text=model.decode(best).strip(),
                token_match=match_of(best, own[0]),
                prompt_tokens=len(prompt),
                new_tokens=len(own[0]),
                seconds=0.0,
            )
            replies.append(fed_reply(reply, probability, old, static, alternatives))
        return replies


def _gpus(model: LanguageModel) -> int:
    """Largest number of available GPUs over which attention heads and key heads divide evenly."""
    config = model.module.config.get_text_config()
    heads = config.num_attention_heads
    keys = getattr(config, "num_key_value_heads", None) or heads
    fits = (
        count
        for count in range(torch.cuda.device_count(), 0, -1)
        if heads % count == 0 and (keys % count == 0 or count % keys == 0)  # vLLM repeats keys on more GPUs than heads
    )
    return next(fits, 1)


def _read_prompt(logged: Sequence[dict[int, Any]], target: Sequence[int]) -> tuple[list[int], float]:
    """Arg max and probability from vLLM's output at each token: that token and the most likely one, by id."""
    best = [max(own, key=lambda token: own[token].logprob) for own in logged]
    logprobs = [own[token].logprob for own, token in zip(logged, target, strict=True)]
    return best, math.exp(math.fsum(logprobs) / len(target))
