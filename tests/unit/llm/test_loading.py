"""Models by path or name, and what is said when there is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from world.small_models import save, small_model
from world.small_timestep import write_timestep

from kgedit.editing import make_editor
from kgedit.errors import ModelError, SpecError
from kgedit.llm.contexts import read_context
from kgedit.llm.devices import device_name, enough_memory, resolve_device, resolve_dtype, wait_for
from kgedit.llm.generation import Question, ask
from kgedit.llm.load_options import LoadOptions, parse_max_memory
from kgedit.llm.loading import load_model
from kgedit.llm.presets import PRESETS


def test_a_model_is_loaded_by_path_and_keeps_its_fingerprint(tmp_path: Path) -> None:
    model = small_model()
    loaded = load_model(str(save(model, tmp_path / "model")), device="cpu", dtype="float32")

    assert loaded.fingerprint == model.fingerprint
    assert small_model(seed=1).fingerprint != model.fingerprint
    assert not any(parameter.requires_grad for parameter in loaded.module.parameters())


def test_a_model_that_is_nowhere_is_an_error_that_says_what_to_do(
    tmp_path: Path,
) -> None:
    with pytest.raises(ModelError, match="smollm2-135m, tiny") as caught:
        load_model(str(tmp_path / "nothing-here"), device="cpu", dtype="float32")
    assert "config.json" in str(caught.value)
    with pytest.raises(ModelError, match="contains no model"):
        load_model(str(tmp_path), device="cpu", dtype="float32")


def test_a_gpu_that_is_not_there_or_too_small_is_an_error_that_names_the_options() -> None:
    with pytest.raises(ModelError, match="device cpu"):
        resolve_device("cuda:99")
    if not torch.cuda.is_available():
        with pytest.raises(ModelError, match="torch sees 0 GPUs"):
            resolve_device("cuda:all")
    with pytest.raises(ModelError, match="auto, cpu, cuda"):
        resolve_device("gpu")
    with pytest.raises(ModelError, match="dtype bfloat16"), enough_memory("this test"):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")


def test_every_gpu_is_waited_for_before_a_clock_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[object] = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for device in ("cpu", "cuda:1", "cuda:all"):
        wait_for(device)
    assert waited == ["cuda:1", 0, 1]


class _Gpus:
    """torch.cuda with GPUs of some compute capabilities; those below 8 emulate bfloat16."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *majors: int) -> None:
        self._majors, self._current = majors, 0
        monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(majors))
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(majors))
        monkeypatch.setattr(torch.cuda, "current_device", lambda: self._current)
        monkeypatch.setattr(torch.cuda, "device", self._select)
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", self._has_bfloat16)

    @contextmanager
    def _select(self, index: int) -> Iterator[None]:
        before, self._current = self._current, index
        yield
        self._current = before

    def _has_bfloat16(self, including_emulation: bool = True) -> bool:
        return including_emulation or self._majors[self._current] >= 8


@pytest.mark.parametrize(
    ("majors", "device", "chosen"),
    [
        ((7,), "cuda", "float16"),
        ((8,), "cuda", "bfloat16"),
        ((8, 7), "cuda:1", "float16"),
        ((7, 9), "cuda:1", "bfloat16"),
        ((8, 7), "cuda:all", "float16"),
        ((8, 9), "cuda:all", "bfloat16"),
    ],
)
def test_auto_is_bfloat16_only_where_every_gpu_of_the_device_computes_in_it(
    majors: tuple[int, ...], device: str, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T4 and V100 (capability 7) emulate it."""
    _Gpus(monkeypatch, *majors)
    assert resolve_dtype("auto", device) == chosen


def test_auto_takes_apples_gpu_where_there_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    _Gpus(monkeypatch)
    with pytest.raises(ModelError, match="Mac"):
        resolve_device("mps")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert resolve_device("auto") == "mps"
    assert resolve_device("mps") == "mps"
    assert resolve_dtype("auto", "mps") == "float32"
    assert resolve_dtype("float16", "mps") == "float16"
    waited: list[bool] = []
    monkeypatch.setattr(torch.mps, "synchronize", lambda: waited.append(True))
    wait_for("mps")
    assert waited
    assert device_name("mps").startswith("Apple GPU")
    _Gpus(monkeypatch, 8)
    assert resolve_device("auto") == "cuda"


def test_auto_on_the_cpu_is_float32() -> None:
    assert resolve_dtype("auto", "cpu") == "float32"
    with pytest.raises(ModelError, match="float32, bfloat16, float16"):
        resolve_dtype("int3", "cpu")


@pytest.mark.models
@pytest.mark.slow
def test_smollm2_is_loaded_without_a_hub_and_answers_in_words() -> None:
    pytest.importorskip("gguf")
    model = load_model("smollm2-135m", device="cpu", dtype="float32")
    prompt = "Q: What is the capital of Japan?\nA: Tokyo\nQ: What is the capital of France?\nA:"

    reply = ask(model, [Question(prompt, "Paris")], PRESETS["few_shot"])[0]

    assert model.module.num_parameters() == pytest.approx(134.5e6, rel=0.01)
    assert len(model.blocks) == 30
    assert reply.text == "Paris"


@pytest.mark.models
@pytest.mark.slow
def test_the_gguf_is_read_once_for_the_tokenizer_the_configuration_and_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gguf = pytest.importorskip("gguf")
    read: list[str] = []

    class CountedReader(gguf.GGUFReader):  # type: ignore[misc]  # gguf has no types
        def __init__(self, path: str) -> None:
            read.append(path)
            super().__init__(path)

    monkeypatch.setattr(gguf, "GGUFReader", CountedReader)
    monkeypatch.setenv("KGEDIT_CACHE", str(tmp_path))
    load_model("smollm2-135m", device="cpu", dtype="float32")
    assert len(read) == 1
    assert gguf.GGUFReader is CountedReader
    assert "Converting" not in capsys.readouterr().err


def test_memory_of_each_device_is_read_and_a_wrong_size_is_named() -> None:
    assert parse_max_memory("0=20GiB, 1=40GiB,cpu=100GiB") == {0: "20GiB", 1: "40GiB", "cpu": "100GiB"}
    assert LoadOptions("0=20GiB").arguments(torch.float32) == {"trust_remote_code": False, "max_memory": {0: "20GiB"}}
    for wrong in ("20GiB", "gpu=20GiB", "0=much"):
        with pytest.raises(SpecError, match="max_memory"):
            LoadOptions(wrong)


def test_code_that_comes_with_a_model_runs_only_where_the_user_says_so(tmp_path: Path) -> None:
    folder = save(small_model(), tmp_path / "model")
    code = (
        "from pathlib import Path\n"
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        f"Path({str(tmp_path / 'ran')!r}).touch()\n"
        "class OwnConfig(LlamaConfig):\n    model_type = 'own'\n"
        "class OwnModel(LlamaForCausalLM):\n    config_class = OwnConfig\n"
    )
    (folder / "own.py").write_text(code)
    config = json.loads((folder / "config.json").read_text())
    own = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "own", "auto_map": own}))

    with pytest.raises(ModelError, match="trust_remote_code=True"):
        load_model(str(folder), device="cpu", dtype="float32")
    assert not (tmp_path / "ran").exists()
    loaded = load_model(str(folder), device="cpu", dtype="float32", options=LoadOptions(trust_remote_code=True))
    assert (tmp_path / "ran").exists()
    assert type(loaded.module).__name__ == "OwnModel"


@pytest.mark.slow
def test_weights_of_four_bits_answer_nearly_as_before_and_take_edits_that_leave_them_alone(tmp_path: Path) -> None:
    folder = str(save(small_model("llama_of_64"), tmp_path / "model"))
    whole = load_model(folder, device="cpu", dtype="float32")
    rounded = load_model(folder, device="cpu", dtype="float32", options=LoadOptions(quantize="4bit"))
    ids = torch.tensor([[5, 9, 40, 7]])
    with torch.inference_mode():
        before, after = (model.module(ids).logits for model in (whole, rounded))
    assert rounded.blocks[0].down_projection.weight.dtype == torch.uint8
    assert 0 < float((after - before).norm() / before.norm()) < 0.5

    case = next(iter(write_timestep(tmp_path / "timestep").cases()))
    for method, given in (("lora", {"epochs": 30, "learning_rate": 1e-2}), ("grace", {"layer": 1})):
        editor = make_editor(method, rounded, given, contexts=(read_context("question_only"),), seed=0)
        question = Question(case.question, case.answer)
        likely = ask(rounded, [question], PRESETS["synthetic"])[0].probability
        editor.apply([case])
        assert ask(rounded, [question], PRESETS["synthetic"])[0].probability > 2 * likely
        editor.restore()
        assert ask(rounded, [question], PRESETS["synthetic"])[0].probability == likely
