"""A fingerprint changes with everything that changes answers, and with nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import xxhash
from transformers import LlamaConfig, LlamaForCausalLM
from world.small_models import save, small_model, tokenizer
from world.small_timestep import write_timestep

import kgedit
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.loading import describe_model
from kgedit.llm.model_files import folder_digest, tensor_digest


@pytest.fixture
def wide() -> LanguageModel:
    """512 neurons in a block: the length of a row is a multiple of 1/4,096 of the matrix."""
    config = LlamaConfig(
        vocab_size=len(tokenizer()), hidden_size=64, intermediate_size=512, num_hidden_layers=1, num_attention_heads=4
    )
    return LanguageModel("wide", "", LlamaForCausalLM(config).eval().requires_grad_(False), tokenizer())


def _again(model: LanguageModel) -> str:
    return LanguageModel(model.name, "", model.module, model.tokenizer).fingerprint


def test_neurons_that_are_set_to_zero_change_the_fingerprint(wide: LanguageModel) -> None:
    before, down = wide.fingerprint, wide.module.model.layers[0].mlp.down_proj.weight
    read_before = torch.arange(0, 512, 8)
    kept = down[:, read_before].clone()
    down.zero_()
    down[:, read_before] = kept
    assert _again(wide) != before


@pytest.mark.parametrize(
    "change", [lambda w: w[5, 3].add_(1e-6), lambda w: w.copy_(w.flip(0)), lambda w: w.data[9].neg_()]
)
def test_one_number_the_order_of_rows_and_uncounted_changes_are_noticed(
    wide: LanguageModel, change: Callable[[torch.Tensor], Any]
) -> None:
    before = wide.fingerprint
    change(wide.module.model.layers[0].mlp.up_proj.weight)
    assert wide.fingerprint == before, "it names the model of the first use"
    assert _again(wide) != before
    wide.forget_fingerprint()
    assert wide.fingerprint == _again(wide)


def test_configuration_and_tokenizer_are_part_of_it_and_places_are_not(wide: LanguageModel, tmp_path: Path) -> None:
    before = wide.fingerprint
    wide.module.config._name_or_path = str(tmp_path)
    wide.module.config.use_cache = False
    assert _again(wide) == before
    wide.tokenizer("texts of many tokens", truncation=True, max_length=2)
    assert _again(wide) == before
    wide.module.config.rms_norm_eps = 1e-3
    assert _again(wide) != before


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "gptj", "gemma2", "qwen2_moe"])
def test_a_model_that_is_saved_and_loaded_keeps_its_fingerprint(architecture: str, tmp_path: Path) -> None:
    model = small_model(architecture)
    folder = str(save(model, tmp_path / "model"))
    assert kgedit.load_model(folder, device="cpu").fingerprint == model.fingerprint


def test_every_number_format_has_a_digest() -> None:
    ones = torch.ones(3, 4)
    formats = [torch.float32, torch.bfloat16, torch.float16, torch.int8, torch.bool, torch.float64]
    assert len({tensor_digest(ones.to(number_format)) for number_format in formats}) >= 5
    assert tensor_digest(ones.t()) == tensor_digest(torch.ones(4, 3))
    assert tensor_digest(torch.tensor(2.0)) != tensor_digest(torch.tensor(3.0))


def test_statistics_of_a_model_that_was_trained_since_are_not_those_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    step, model = write_timestep(tmp_path / "timestep"), small_model()
    given: dict[str, Any] = {
        "cases": list(step.cases())[:1],
        "known_facts": step.known_facts(),
        "settings": {"steps": 1, "prompts": 1, "tokens": 50, "length": 16, "layer": 1},
    }
    for _ in range(2):
        kgedit.edit(model, "rome", **given).restore()
        stored = sorted((tmp_path / "home" / "stats").iterdir())
        model.module.model.layers[0].mlp.down_proj.weight.data.mul_(2)
    assert len(stored) == 2


def test_a_folder_of_other_weights_is_another_served_model_though_its_path_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_CACHE", str(tmp_path / "cache"))
    folder = save(small_model(), tmp_path / "model")
    first = describe_model(str(folder), served_at="vllm", weights_here=True).fingerprint
    assert describe_model(str(folder), served_at="vllm", weights_here=True).fingerprint == first
    save(small_model(seed=1), folder)
    assert describe_model(str(folder), served_at="vllm", weights_here=True).fingerprint != first


def test_a_weight_file_is_read_once_for_each_of_its_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_CACHE", str(tmp_path / "cache"))
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"one")
    first, digest = folder_digest(tmp_path), xxhash.xxh3_128
    monkeypatch.setattr(xxhash, "xxh3_128", lambda: pytest.fail("read again"))
    assert folder_digest(tmp_path) == first
    monkeypatch.setattr(xxhash, "xxh3_128", digest)
    old = weights.stat()
    weights.write_bytes(b"two")
    os.utime(weights, ns=(old.st_atime_ns, old.st_mtime_ns))  # as a copy that keeps times
    assert folder_digest(tmp_path) != first
