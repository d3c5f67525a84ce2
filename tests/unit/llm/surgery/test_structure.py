"""Parts of a model are found by running it; layers are named as settings name them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from world.small_models import ALL_ARCHITECTURES, llama, small_model

from kgedit.errors import ModelError, SpecError
from kgedit.llm.surgery.layers import parse_layers
from kgedit.llm.surgery.structure import find_blocks, hidden_of, hooks, with_hidden

LLAMA = {
    "attention": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "output": "self_attn.o_proj",
    "up": "mlp.up_proj",
    "gate": "mlp.gate_proj",
    "down": "mlp.down_proj",
    "norms": ("input_layernorm", "post_attention_layernorm"),
    "after": None,
    "final": "model.norm",
    "block": "model.layers.1.",
}
GEMMA = {
    **LLAMA,
    "norms": (*LLAMA["norms"], "pre_feedforward_layernorm", "post_feedforward_layernorm"),
    "after": "post_feedforward_layernorm",
}
EXPECTED: dict[str, dict[str, Any]] = {
    "llama": LLAMA,
    "mistral": LLAMA,
    "qwen2": LLAMA,
    "qwen3": LLAMA,
    "qwen3_5": {**LLAMA, "attention": tuple(f"linear_attn.in_proj_{part}" for part in ("qkv", "z", "b", "a"))},
    "gemma2": GEMMA,
    "gemma3": GEMMA,
    "gpt2": {
        "attention": ("attn.c_attn",),
        "up": "mlp.c_fc",
        "gate": None,
        "down": "mlp.c_proj",
        "after": None,
        "block": "transformer.h.1.",
    },
    "gptj": {
        "attention": ("attn.q_proj", "attn.k_proj", "attn.v_proj"),
        "up": "mlp.fc_in",
        "gate": None,
        "down": "mlp.fc_out",
        "after": None,
        "block": "transformer.h.1.",
    },
    "gptneox": {
        "attention": ("attention.query_key_value",),
        "up": "mlp.dense_h_to_4h",
        "gate": None,
        "down": "mlp.dense_4h_to_h",
        "after": None,
        "block": "gpt_neox.layers.1.",
    },
    "phi": {
        "attention": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "up": "mlp.fc1",
        "gate": None,
        "down": "mlp.fc2",
        "after": None,
        "block": "model.layers.1.",
    },
    "opt": {
        "attention": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "up": "fc1",
        "gate": None,
        "down": "fc2",
        "after": None,
        "block": "model.decoder.layers.1.",
    },
    "falcon": {
        "attention": ("self_attention.query_key_value",),
        "up": "mlp.dense_h_to_4h",
        "gate": None,
        "down": "mlp.dense_4h_to_h",
        "after": None,
        "block": "transformer.h.1.",
    },
}


@pytest.mark.parametrize("architecture", ALL_ARCHITECTURES)
def test_the_parts_of_a_model_are_found_whatever_they_are_called(architecture: str) -> None:
    model, expected = small_model(architecture), EXPECTED[architecture]
    block, prefix = model.blocks[1], expected["block"]
    names = {module: name for name, module in model.module.named_modules()}

    assert len(model.blocks) == 3
    assert names[block.module] == prefix.removesuffix(".")
    assert tuple(part.name.removeprefix(prefix) for part in block.attention_inputs) == expected["attention"]
    for part, name in ((block.up, "up"), (block.down, "down")):
        assert part.name == prefix + expected[name]
        assert model.module.get_submodule(part.name) is part.layer
    assert (block.gate and block.gate.name) == (expected["gate"] and prefix + expected["gate"])
    after = block.norm_after_mlp
    assert (after and names[after]) == (expected["after"] and prefix + expected["after"])


@pytest.mark.parametrize("architecture", ALL_ARCHITECTURES)
def test_a_layers_widths_and_orientation_are_those_of_its_inputs_and_outputs(architecture: str) -> None:
    model = small_model(architecture)
    block = model.blocks[1]
    shapes: dict[str, tuple[int, int]] = {}
    parts = [*block.attention_inputs, block.up, block.down]

    def note(name: str) -> Any:
        return lambda _, given, output: shapes.update({name: (given[0].shape[-1], output.shape[-1])})

    with hooks(*(part.layer.register_forward_hook(note(part.name)) for part in parts)), torch.no_grad():
        model.module(torch.tensor([model.encode("The mayor of Mora is")]))

    assert shapes == {part.name: (part.in_width, part.out_width) for part in parts}
    assert block.down.rows_are_inputs == (architecture == "gpt2")
    assert block.inner_width == block.down.in_width == shapes[block.down.name][0]


def test_the_hidden_state_of_a_block_is_read_and_replaced_in_tensors_and_tuples() -> None:
    first, second = torch.zeros(2), torch.ones(2)

    assert hidden_of(first) is first
    assert hidden_of((first, "cache")) is first
    assert with_hidden(first, second) is second
    assert with_hidden((first, "cache"), second) == (second, "cache")


@pytest.mark.parametrize("architecture", ALL_ARCHITECTURES)
def test_a_hidden_state_put_in_reaches_the_head(architecture: str) -> None:
    model = small_model(architecture)
    ids = torch.tensor([model.encode("The mayor of Mora is")])
    with torch.no_grad():
        before = model.module(ids).logits
        handle = model.blocks[0].module.register_forward_hook(lambda _, __, out: with_hidden(out, hidden_of(out) + 1))
        with hooks(handle):
            during = model.module(ids).logits
        after = model.module(ids).logits

    assert not torch.allclose(before, during)
    assert torch.equal(before, after)


def test_a_model_without_blocks_is_refused_with_what_to_do() -> None:
    module = llama().eval()
    module.model.layers = nn.ModuleList(list(module.model.layers)[:2])

    with pytest.raises(ModelError, match="no list of 3 decoder blocks"):
        find_blocks(module)


def test_layers_are_written_as_ranges_or_lists() -> None:
    assert parse_layers("4-8") == (4, 5, 6, 7, 8)
    assert parse_layers("7, 3,5") == (3, 5, 7)
    for text in ("four", "", "8-4", "4-8-12", "3,8-4"):
        with pytest.raises(SpecError, match=f"4-8 or 3,5,7, not '{text}'"):
            parse_layers(text)
