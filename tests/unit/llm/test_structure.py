"""Parts of a model are found by running it."""

from __future__ import annotations

import pytest
from world.small_models import small_model

QUERY_VALUE = {
    "llama": ("model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.v_proj"),
    "gpt2": ("transformer.h.1.attn.c_attn",),
    "gptj": ("transformer.h.1.attn.q_proj", "transformer.h.1.attn.v_proj"),
}
DOWN = {
    "llama": "model.layers.1.mlp.down_proj",
    "gpt2": "transformer.h.1.mlp.c_proj",
    "gptj": "transformer.h.1.mlp.fc_out",
}
INNER = {"llama": 48, "gpt2": 128, "gptj": 128}


@pytest.mark.parametrize("architecture", QUERY_VALUE)
def test_the_projections_of_a_block_are_found_whatever_they_are_called(architecture: str) -> None:
    model = small_model(architecture)
    block = model.blocks[1]

    assert len(model.blocks) == 3
    assert block.query_value == QUERY_VALUE[architecture]
    assert block.down_projection is model.module.get_submodule(DOWN[architecture])
    assert block.inner_width == INNER[architecture]
