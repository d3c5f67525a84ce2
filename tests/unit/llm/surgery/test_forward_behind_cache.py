"""The upper blocks behind a key-value cache."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from world.small_models import ALL_ARCHITECTURES, KEEP_TOKENS, small_model
from world.small_timestep import write_timestep

from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.forward_above import forward_above
from kgedit.llm.training import encode_targets
from kgedit.records.cases import Case
from kgedit.timesteps.timestep import Timestep


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def timestep(tmp_path_factory: pytest.TempPathFactory) -> Timestep:
    return write_timestep(tmp_path_factory.mktemp("timestep"))


@pytest.fixture(scope="module")
def cases(timestep: Timestep) -> list[Case]:
    return list(timestep.cases())


def _double(architecture: str = "llama", *, seed: int = 0) -> LanguageModel:
    model = small_model(architecture, seed=seed)
    if architecture != "gemma2":  # whose padding is NaN in float64: its mask's lowest value overflows
        model.module.double()
    return model


def _exactness(model: LanguageModel) -> float:
    """How near two ways of computing the same come; GPT-J's rotary positions are float32 in any model."""
    return 1e-6 if model.module.dtype == torch.float64 else 1e-4


@pytest.mark.parametrize("architecture", KEEP_TOKENS)
def test_forwards_behind_a_cache_gives_the_logits_of_the_whole_model(architecture: str, cases: list[Case]) -> None:
    model = _double(architecture)
    targets = encode_targets(model, [(case.question, case.answer) for case in cases[:4]], learn_end=False)
    whole = model.forward(targets.ids, targets.mask, last=targets.last).logits
    start = targets.ids.shape[1] - targets.last - 2

    real = targets.mask[:, -targets.last :].bool()  # what stands at padding means nothing
    with forward_above(model, 1, targets, start=start) as logits:
        assert torch.allclose(logits()[real], whole[real], atol=_exactness(model))
        assert torch.allclose(logits()[real], whole[real], atol=_exactness(model))
        kept = torch.tensor([2, 0])
        logits.select_rows(kept)
        assert torch.allclose(logits()[real[kept]], whole[kept][real[kept]], atol=_exactness(model))


def test_only_keys_and_values_of_tokens_can_be_gone_on_from_several_times() -> None:
    assert [name for name in ALL_ARCHITECTURES if small_model(name).keeps_tokens] == KEEP_TOKENS
