"""Random models of a few thousand weights with a tokenizer trained on the spot."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GPTJConfig,
    GPTJForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from kgedit.llm.language_model import LanguageModel

TEXTS = (
    "Please answer the question:\nQ: Who is the mayor of Arvika?\nA: Olof Gren",
    "Which water does Luleå lie at? Luleälven",
    "Ahoy, who be the mayor of Mora? Asta Wik",
    "The mayor of Falun is Axel Hed. Where was the mayor of Hjo born?",
)


@cache
def tokenizer() -> Any:
    """Byte-level BPE of 400 tokens."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<end>"], initial_alphabet=alphabet, show_progress=False
    )
    raw.train_from_iterator(TEXTS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<end>", pad_token="<end>")


def llama(*, tied: bool = True) -> Any:
    """Three blocks, separate projections, grouped keys and values."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer()),
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=256,
            tie_word_embeddings=tied,
            initializer_range=0.2,
            bos_token_id=None,
            eos_token_id=0,
            pad_token_id=0,
        )
    )


def gpt2() -> Any:
    """Three blocks of Conv1D, fused projections, learned positions."""
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(tokenizer()),
            n_embd=32,
            n_layer=3,
            n_head=4,
            n_positions=256,
            initializer_range=0.2,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def gptj() -> Any:
    """Three blocks with attention and MLP side by side."""
    return GPTJForCausalLM(
        GPTJConfig(
            vocab_size=len(tokenizer()),
            n_embd=32,
            n_layer=3,
            n_head=4,
            n_positions=256,
            rotary_dim=4,
            initializer_range=0.2,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


ARCHITECTURES = {"llama": llama, "gpt2": gpt2, "gptj": gptj}


def small_model(architecture: str = "llama", *, seed: int = 0) -> LanguageModel:
    """A random model in eval mode; the same seed gives the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = ARCHITECTURES[architecture]()
    module.eval().requires_grad_(False)
    return LanguageModel(name=architecture, revision="", module=module, tokenizer=tokenizer())


def save(model: LanguageModel, folder: Path) -> Path:
    """Write a model so that it can be loaded by path."""
    model.module.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    return folder


def weights(model: LanguageModel) -> dict[str, torch.Tensor]:
    """A copy of every weight."""
    return {name: tensor.detach().clone() for name, tensor in model.module.state_dict().items()}


def changed(before: dict[str, torch.Tensor], model: LanguageModel) -> Sequence[str]:
    """Names of weights that are not bit for bit what they were."""
    after = model.module.state_dict()
    return sorted(name for name in before.keys() | after.keys() if not _same(before.get(name), after.get(name)))


def _same(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    return one is not None and other is not None and one.dtype == other.dtype and torch.equal(one, other)
