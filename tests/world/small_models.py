"""Random models with a few thousand weights, and a tokenizer trained on the fly."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from transformers import PreTrainedTokenizerFast

from kgedit.llm.decoding import Decoding, decode
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.shared_reading import reads_trees
from kgedit.llm.surgery.onednn import PackedMatrices
from kgedit.llm.surgery.structure import find_blocks
from kgedit.records.cases import Case

TEXTS = (
    "Please answer the question:\nQ: Who is the mayor of Arvika?\nA: Olof Gren",
    "Which water does Luleå lie at? Luleälven",
    "Ahoy, who be the mayor of Mora? Asta Wik",
    "The mayor of Falun is Axel Hed. Where was the mayor of Hjo born?",
)


@cache
def tokenizer() -> Any:
    """Byte-level BPE with 400 tokens."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<end>"], initial_alphabet=alphabet, show_progress=False
    )
    raw.train_from_iterator(TEXTS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<end>", pad_token="<end>")


_COMMON = {
    "vocab_size": 0,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
    "bos_token_id": None,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
_OLD = {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 256, "initializer_range": 0.2}


def _build(name: str, given: Mapping[str, Any], **more: Any) -> Any:
    """Causal language model for a configuration class of transformers."""
    config = getattr(transformers, f"{name}Config")(**{**given, "vocab_size": len(tokenizer()), **more})
    return transformers.AutoModelForCausalLM.from_config(config)


def _without(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key != name}


def llama(*, tied: bool = True) -> Any:
    """Three blocks with separate projections and grouped keys and values."""
    return _build("Llama", _COMMON, tie_word_embeddings=tied)


ARCHITECTURES: dict[str, Callable[[], Any]] = {
    "llama": llama,
    "gpt2": lambda: _build("GPT2", _OLD, bos_token_id=0, eos_token_id=0),
    "gptj": lambda: _build("GPTJ", _OLD, rotary_dim=4, bos_token_id=0, eos_token_id=0),
}
"""The three that differ most: gated MLP, grouped keys; Conv1D, fused projections; attention parallel to the MLP."""

MORE_ARCHITECTURES: dict[str, Callable[[], Any]] = {
    "gptneox": lambda: _build("GPTNeoX", _without(_COMMON, "head_dim")),
    "mistral": lambda: _build("Mistral", _COMMON, sliding_window=64),
    "gemma2": lambda: _build("Gemma2", _COMMON, sliding_window=64, query_pre_attn_scalar=8),
    "gemma3": lambda: _build("Gemma3Text", _COMMON, sliding_window=64, query_pre_attn_scalar=8),
    "qwen2": lambda: _build("Qwen2", _COMMON),
    "qwen3": lambda: _build("Qwen3", _COMMON),
    "qwen3_5": lambda: _build(
        "Qwen3_5Text",
        _COMMON,
        layer_types=["linear_attention", "linear_attention", "full_attention"],
        **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim"), 8),
        **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"), 4),
    ),
    "phi": lambda: _build("Phi", _COMMON),
    "opt": lambda: _build("OPT", _COMMON, ffn_dim=48, word_embed_proj_dim=32, init_std=0.2),
    "falcon": lambda: _build("Falcon", _without(_COMMON, "head_dim"), ffn_hidden_size=48),
}
"""The other architectures that every method is tested on."""

_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}

MIXTURES: dict[str, Callable[[], Any]] = {
    "mixtral": lambda: _build("Mixtral", _COMMON, num_local_experts=4, num_experts_per_tok=2),
    "qwen2_moe": lambda: _build("Qwen2Moe", _COMMON, **_EXPERTS, shared_expert_intermediate_size=40),
    "qwen3_moe": lambda: _build("Qwen3Moe", _COMMON, **_EXPERTS, mlp_only_layers=[0]),
}
"""Mixtures of experts: none shared; one shared; none shared with a dense first block."""

ALL_ARCHITECTURES = {**ARCHITECTURES, **MORE_ARCHITECTURES}

KEEP_TOKENS = [name for name in ALL_ARCHITECTURES if name != "qwen3_5"]
"""Architectures whose cache consists of keys and values per token, without a state of the whole text."""

_OTHERS = {
    "llama_of_64": lambda: _build("Llama", {**_COMMON, "hidden_size": 64, "intermediate_size": 128, "head_dim": 16})
}
"""Widths that bitsandbytes can quantize on a CPU."""

EVERY_ARCHITECTURE = [*ARCHITECTURES, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE_ARCHITECTURES)]
"""For parametrize: plain pytest uses the three that differ most, `make test` all."""


def small_model(architecture: str = "llama", *, seed: int = 0) -> LanguageModel:
    """A random model in eval mode; equal seeds give equal weights."""
    module, blocks = _prototype(architecture, seed).copied()
    model = LanguageModel(name=architecture, revision="", module=module, tokenizer=tokenizer())
    # Support for tree attention and blocks are found once per model, in 30 ms each; copies are alike on any device.
    model.tested["reads_trees"] = _prototype_reads_trees(architecture, seed)
    model.__dict__["blocks"] = blocks
    return model


@cache
def _prototype_reads_trees(architecture: str, seed: int) -> bool:
    return reads_trees(LanguageModel("", "", _prototype(architecture, seed).copied()[0], tokenizer()))


@cache
def _prototype(architecture: str, seed: int) -> _Prototype:
    """Built once: a copy takes a sixth of the time of a new model."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = {**ALL_ARCHITECTURES, **MIXTURES, **_OTHERS}[architecture]()
    module.eval().requires_grad_(False)
    return _Prototype((module, find_blocks(module)))


class _Prototype:
    """An object with tensors in it. Copies take a quarter of copy.deepcopy's time: Python copies only the tensors."""

    def __init__(self, content: Any) -> None:
        file = BytesIO()
        pickler = _TensorsApart(file)
        pickler.dump(content)
        self._pickled, self._tensors = file.getvalue(), pickler.tensors

    def copied(self) -> Any:
        return _WithTensors(BytesIO(self._pickled), copy.deepcopy(self._tensors)).load()


class _TensorsApart(pickle.Pickler):
    def __init__(self, file: BytesIO) -> None:
        super().__init__(file)
        self.tensors: dict[int, torch.Tensor] = {}

    def persistent_id(self, obj: Any) -> int | None:
        if not isinstance(obj, torch.Tensor):
            return None
        self.tensors[id(obj)] = obj  # tied weights are one tensor in copies too
        return id(obj)


class _WithTensors(pickle.Unpickler):
    def __init__(self, file: BytesIO, tensors: Mapping[int, torch.Tensor]) -> None:
        super().__init__(file)
        self._tensors = tensors

    def persistent_load(self, pid: Any) -> torch.Tensor:
        return self._tensors[pid]


class _LayersOnly:
    """As much of a language model as faster products look at."""

    def __init__(self, *layers: nn.Linear) -> None:
        self.module, self.packed = nn.Sequential(*layers), PackedMatrices()


def model_of(*layers: nn.Linear) -> LanguageModel:
    """Linear layers in place of a model."""
    return _LayersOnly(*layers)  # type: ignore[return-value]


def save(model: LanguageModel, folder: Path) -> Path:
    """Write a model so that it can be loaded by path."""
    model.module.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    return folder


def weights(model: LanguageModel) -> dict[str, torch.Tensor]:
    """Copies of all weights."""
    return {name: tensor.detach().clone() for name, tensor in model.module.state_dict().items()}


def changed(before: dict[str, torch.Tensor], model: LanguageModel) -> Sequence[str]:
    """Names of weights that are not bit-identical to the given ones."""
    after = model.module.state_dict()
    return sorted(name for name in before.keys() | after.keys() if not _same(before.get(name), after.get(name)))


def _same(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    return one is not None and other is not None and one.dtype == other.dtype and torch.equal(one, other)


def double_model(architecture: str = "llama", *, seed: int = 0) -> LanguageModel:
    """A small model in float64, so that two ways of computing the same are compared to many digits."""
    model = small_model(architecture, seed=seed)
    if architecture != "gemma2":  # whose padding is NaN in float64: its mask's lowest value overflows
        model.module.double()
    return model


def exactness(model: LanguageModel) -> float:
    """How near two ways of computing the same come; GPT-J's rotary positions are float32 in any model."""
    return 1e-6 if model.module.dtype == torch.float64 else 1e-4


def mean_loss(model: LanguageModel, cases: list[Case]) -> float:
    """Mean cross-entropy of the cases' answers, computed from the logits alone."""
    with torch.no_grad():
        losses = []
        for case in cases:
            prompt, target = model.encode(case.question), model.encode_target(case.answer)
            logits = model.module(torch.tensor([prompt + target])).logits[0, len(prompt) - 1 : -1]
            losses.append(torch.nn.functional.cross_entropy(logits.float(), torch.tensor(target)).item())
        return sum(losses) / len(losses)


def decode_greedily(
    model: LanguageModel, prompts: Sequence[list[int]], *, stops: Sequence[str], limits: Sequence[int]
) -> list[list[int]]:
    """Decode prompts greedily, in one batch.

    Args:
        prompts: Token ids.
        stops: Texts that end an answer, in addition to the model's end-of-text token.
        limits: Maximum number of new tokens of each row.

    Returns:
        New tokens of each row, including the one that ended it.
    """
    stop_ids = model.ids_containing(stops) | model.end_ids
    rows = [Decoding(prompt, stop_ids, limit) for prompt, limit in zip(prompts, limits, strict=True)]
    return decode(model, rows, most_tokens=len(rows) * max(len(row.prompt) + row.limit for row in rows))
