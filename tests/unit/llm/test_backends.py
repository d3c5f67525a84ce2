"""Every backend gives the replies of the model that is loaded here; what one cannot do is refused before a run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from world.fault_server import Complete, FaultServer, fault_server
from world.small_models import save, small_model
from world.small_timestep import NEW_MAYORS, OLD_MAYORS, TOWNS, write_timestep

from kgedit.errors import MissingExtraError, ModelError, SpecError
from kgedit.llm.backends import BACKENDS
from kgedit.llm.backends.contract import Backend, DevicePlacement, TransformersBackend
from kgedit.llm.backends.openai import OpenAIBackend
from kgedit.llm.backends.vllm import VllmBackend
from kgedit.llm.generation import PresetQuestion, Question
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.loading import BUILT_IN, ModelFiles, describe_model
from kgedit.llm.presets import PRESETS
from kgedit.llm.remote.prices import Spending
from kgedit.llm.tokenization import ChatFormat
from kgedit.runs.run_folder import RunFolder
from kgedit.runs.runner import run
from kgedit.runs.spec import resolve

BRIEF = {name: replace(PRESETS[name], max_new_tokens=7) for name in ("synthetic", "wild", "wild_line", "free_text")}
URL = "http://127.0.0.1:9/v1"


def _asked(*presets: str) -> list[PresetQuestion]:
    return [
        PresetQuestion(
            Question(f"Who is the mayor of {town}?", new, (old,) if name == "synthetic" else ()), BRIEF[name]
        )
        for name in presets
        for town, new, old in zip(TOWNS[:4], NEW_MAYORS, OLD_MAYORS, strict=False)
    ]


def _greedy(model: LanguageModel, prompt: list[int], limit: int, stop_ids: set[int], stops: list[str]) -> list[int]:
    said: list[int] = []
    while len(said) < limit:
        with torch.no_grad():
            said.append(int(model.module(torch.tensor([prompt + said])).logits[0, -1].argmax()))
        if said[-1] in stop_ids or any(stop in model.decode(said) for stop in stops):
            break
    return said


@dataclass
class _Params:
    """vLLM's SamplingParams, as far as it is used."""

    temperature: float
    max_tokens: int
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    prompt_logprobs: int | None = None


class _Engine:
    """vLLM's LLM, computing with a small model."""

    made: ClassVar[list[dict[str, Any]]] = []

    def __init__(
        self,
        model: str,
        *,
        revision: str | None,
        dtype: str,
        trust_remote_code: bool,
        tensor_parallel_size: int,
        enable_prefix_caching: bool,
    ) -> None:
        assert enable_prefix_caching
        self.made.append(
            {"model": model, "dtype": dtype, "gpus": tensor_parallel_size, "own_code": trust_remote_code}
            | {"revision": revision}
        )
        self.model = small_model()

    def generate(self, prompts: list[dict[str, list[int]]], params: list[_Params], *, use_tqdm: bool) -> list[Any]:
        assert {own.temperature for own in params} == {0.0}
        return [self._one(prompt["prompt_token_ids"], own) for prompt, own in zip(prompts, params, strict=True)]

    def _one(self, ids: list[int], params: _Params) -> Any:
        said = _greedy(self.model, ids, params.max_tokens, set(params.stop_token_ids), list(params.stop))
        reported: list[Any] = [None]
        if params.prompt_logprobs:
            with torch.no_grad():
                scores = self.model.module(torch.tensor([ids])).logits[0].log_softmax(-1)
            for at, token in zip(scores[:-1], ids[1:], strict=True):
                both = (int(at.argmax()), token)
                reported.append({one: SimpleNamespace(logprob=float(at[one])) for one in both})
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=said)], prompt_logprobs=reported)


def _served_by(model: LanguageModel) -> Complete:
    """Greedy decoding by a small model, as a server's model."""

    def complete(body: dict[str, Any]) -> tuple[str, int, int]:
        prompt = body["prompt"] if "prompt" in body else body["messages"][0]["content"]
        ids = model.encode(prompt)
        said = _greedy(model, ids, body["max_tokens"], set(model.end_ids), body.get("stop", []))
        text = model.decode(said)
        for stop in body.get("stop", []):
            text = text.partition(stop)[0]
        return text, len(ids), len(said)

    return complete


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultServer]:
    monkeypatch.setenv("KGEDIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("kgedit.llm.remote.server._FIRST_WAIT", 0.01)
    with fault_server() as world:
        world.complete = _served_by(small_model())
        yield world


def _same(found: Any, expected: Any) -> None:
    assert [(one.text, one.token_match, one.prompt_tokens) for one in found] == [
        (one.text, one.token_match, one.prompt_tokens) for one in expected
    ]
    for one, other in zip(found, expected, strict=True):
        for ours, theirs in ((one.probability, other.probability), (one.old_probability, other.old_probability)):
            assert (ours is None) == (theirs is None)
            assert ours is None or ours == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_backend_declares_what_it_needs_and_what_it_can_do(name: str) -> None:
    backend = BACKENDS[name]
    assert issubclass(backend, Backend)
    assert backend.__doc__
    assert {type(backend.needs_weights), type(backend.needs_url), type(backend.feeds_answers)} == {bool}
    assert len(backend.package) == 2


def test_vllm_replies_as_transformers_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=_Engine, SamplingParams=_Params))
    model, asked = small_model(), _asked("wild", "synthetic", "free_text")
    backend = VllmBackend(model)
    expected = TransformersBackend(model).ask(asked)

    _same(backend.ask(asked), expected)
    assert backend.plan(asked) == [[4, 5, 6, 7], [0, 1, 2, 3, 8, 9, 10, 11]]
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingExtraError, match=r"kgedit\[vllm\]"):
        VllmBackend(model).ask(asked[:1])


@pytest.mark.parametrize(
    ("device", "gpus", "used"), [("cuda", 8, 1), ("cuda:all", 1, 1), ("cuda:all", 2, 2), ("cuda:all", 7, 4)]
)
def test_vllm_gets_number_format_and_as_many_gpus_as_heads_can_be_split_over(
    device: str, gpus: int, used: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=_Engine, SamplingParams=_Params))
    monkeypatch.setattr(_Engine, "made", [])
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    placement = DevicePlacement(device, "bfloat16", trust_remote_code=True)
    VllmBackend(small_model(), placement=placement).ask(_asked("wild")[:1])
    assert _Engine.made == [
        {"model": "llama", "dtype": "bfloat16", "gpus": used, "own_code": True, "revision": None}
    ], "four heads, two of keys"


def test_a_run_hands_its_number_format_to_vllm(
    installed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=_Engine, SamplingParams=_Params))
    monkeypatch.setattr(_Engine, "made", [])
    raw = {**installed, "method": "none", "backend": "vllm", "device": "cpu", "dtype": "bfloat16", "limit": 1}
    run(resolve(raw), tmp_path / "run")
    assert [made["dtype"] for made in _Engine.made] == ["bfloat16"]


def test_one_of_several_gpus_is_refused_by_vllm_before_the_model_is_loaded() -> None:
    with pytest.raises(ModelError, match="CUDA_VISIBLE_DEVICES=1"):
        VllmBackend(small_model(), placement=DevicePlacement("cuda:1"))


def test_a_server_replies_as_transformers_does(server: FaultServer) -> None:
    model = small_model()
    asked = [replace(one, question=replace(one.question, gold="")) for one in _asked("wild", "wild_line")]
    backend = OpenAIBackend(model, server.url)

    _same(backend.ask(asked), TransformersBackend(model).ask(asked))
    assert backend.plan(asked) == [list(range(8))]
    assert all("prompt" in body for body in server.bodies)
    assert {tuple(body["stop"]) for body in server.bodies} == {("\n", "."), ("\n",)}
    assert {(body["model"], body["temperature"], body["max_tokens"]) for body in server.bodies} == {("llama", 0, 7)}


def test_a_chat_presets_prompt_goes_to_the_server_without_the_template(server: FaultServer) -> None:
    model = small_model()
    model.__dict__["chat"] = ChatFormat("<user>", "<assistant>", "", None)
    preset = replace(PRESETS["wild_chat"], max_new_tokens=3)
    OpenAIBackend(model, server.url).ask([PresetQuestion(Question("<user>Who?\nA:<assistant>", "Asta"), preset)])

    (body,) = server.bodies
    assert body["messages"] == [{"role": "user", "content": "Who?\nA:"}]


def test_a_server_never_stops_at_a_period_of_a_sentence_that_is_cut_here(server: FaultServer) -> None:
    said = " The head coach of A.S. Roma is Daniele De Rossi. He was born in 1983."
    server.complete = lambda body: (said, 9, 20)
    question = Question("Who?", "Daniele De Rossi")
    (reply,) = OpenAIBackend(small_model(), server.url).ask([PresetQuestion(question, PRESETS["wild_chat"])])

    assert reply.text == "The head coach of A.S. Roma is Daniele De Rossi."
    assert [body["stop"] for body in server.bodies] == [["\n"]]


def test_a_reply_of_a_server_is_paid_for_once_and_takes_no_time_again(server: FaultServer) -> None:
    asked = _asked("wild")
    first = OpenAIBackend(small_model(), server.url).ask([*asked, asked[0]])
    again = OpenAIBackend(small_model(), server.url).ask(asked)
    assert server.paid.total() == len(asked) == 4
    assert [replace(one, seconds=0.0) for one in first[:4]] == again
    assert all(one.seconds > 0 for one in first)
    assert {one.seconds for one in again} == {0.0}


def test_an_overloaded_server_is_asked_again_and_one_that_is_broken_is_told(server: FaultServer) -> None:
    asked = _asked("wild")
    server.fault = lambda message, tries: "429" if tries == 1 else None
    assert len(OpenAIBackend(small_model(), server.url).ask(asked)) == 4
    assert server.paid.total() == 4

    broken = asked[1].question.prompt
    server.fault = lambda message, tries: "no text" if message == broken else None
    preset = replace(BRIEF["wild"], max_new_tokens=5)
    with pytest.raises(ModelError, match=r"did not answer 1 of 4 questions \(no text: 1\)"):
        OpenAIBackend(small_model(), server.url).ask([replace(one, preset=preset) for one in asked])
    assert server.paid.total() == 7, "the other answers came and are kept"


def test_no_more_is_spent_than_the_budget_holds(server: FaultServer, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("llama: {prompt: 1, reply: 1}\n", encoding="utf-8")
    poor = OpenAIBackend(small_model(), server.url, spending=Spending(0.00014, prices))
    with pytest.raises(ModelError, match=r"The budget of \$0.00014 does not cover all"):
        poor.ask(_asked("wild"))
    paid = server.paid.total()
    assert 0 < paid < 4
    assert len(OpenAIBackend(small_model(), server.url, spending=Spending(1.0, prices)).ask(_asked("wild"))) == 4
    assert set(server.paid.values()) == {1}
    with pytest.raises(ModelError, match="The price of 'llama' is unknown"):
        OpenAIBackend(small_model(), server.url, spending=Spending(1.0)).ask(_asked("wild"))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """A spec whose backend's package is there."""
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("kgedit.runs.spec.find_spec", lambda name: True)
    write_timestep(tmp_path / "timestep", towns=range(3))
    folder = save(small_model(), tmp_path / "model")
    return {"timesteps": [str(tmp_path / "timestep")], "model": str(folder), "presets": ["wild"]}


STOPPING = {"name": "sure", "context": "instruction", "generation": "greedy", "truncation": "newline"}
STOPPING |= {"metric": "contains", "stop_entropy": 2.5}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"backend": "openai"}, "give backend_url"),
        ({"backend": "vllm", "backend_url": URL}, "asks no server"),
        ({"backend_url": URL}, "give backend openai"),
        ({"backend": "vlm"}, "did you mean 'vllm'"),
        ({"backend": "openai", "backend_url": URL, "method": "ft_m"}, "edits the model itself"),
        ({"backend": "vllm", "method": "grace"}, "edits the model itself"),
        ({"backend": "openai", "backend_url": URL, "model": "tiny"}, "tiny is trained at the start of each run"),
        ({"backend": "vllm", "method": "none", "quantize": "4bit"}, "quantize is for models that kgedit loads"),
        ({"backend": "openai", "backend_url": URL, "presets": ["wild", "synthetic"]}, "synthetic needs"),
        ({"backend": "vllm", "method": "none", "presets": [STOPPING]}, "the stop_entropy of sure needs"),
        ({"backend": "openai", "backend_url": URL, "presets": [STOPPING]}, "the stop_entropy of sure needs"),
    ],
)
def test_what_a_backend_cannot_do_is_refused_before_the_run(
    given: dict[str, Any], said: str, installed: dict[str, Any]
) -> None:
    with pytest.raises(SpecError, match=said):
        resolve({"method": "rag", **installed, **given})


def test_a_backend_whose_package_is_missing_says_what_brings_it(
    installed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgedit.runs.spec.find_spec", lambda name: None)
    with pytest.raises(SpecError, match=r"pip install 'kgedit\[vllm\]'"):
        resolve({**installed, "method": "none", "backend": "vllm"})


def test_a_saved_model_with_edits_beside_its_weights_is_not_served(installed: dict[str, Any]) -> None:
    for weights, refused in (("adapter", True), ("none", True), ("model", False)):
        (Path(installed["model"]) / "kgedit.json").write_text(f'{{"weights": "{weights}"}}')
        raw = {**installed, "method": "none", "backend": "vllm"}
        if refused:
            with pytest.raises(SpecError, match="contains edits beside the weights"):
                resolve(raw)
        else:
            assert resolve(raw).backend == "vllm"


@pytest.mark.slow
def test_a_run_on_a_server_gives_the_answers_of_a_run_here(
    installed: dict[str, Any], tmp_path: Path, server: FaultServer
) -> None:
    raw = {**installed, "method": "rag", "settings": {"embedder": "character-ngrams"}}
    raw["presets"] = ["wild"]
    here = RunFolder(run(resolve(raw), tmp_path / "here")).answers()
    there = RunFolder(
        run(resolve({**raw, "backend": "openai", "backend_url": server.url}), tmp_path / "there")
    ).answers()

    assert len(there) == len(here) > 20
    assert 20 < server.paid.total() <= len(there)
    key = {(one.model_state, one.case_id, one.axis, one.question): (one.prompt, one.text) for one in here}
    assert {(one.model_state, one.case_id, one.axis, one.question): (one.prompt, one.text) for one in there} == key
    assert "backend_url: http" in (tmp_path / "there" / "spec.yaml").read_text()
    assert "backend" not in (tmp_path / "here" / "spec.yaml").read_text()


def test_a_budget_where_nothing_is_paid_is_refused(installed: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="transformers has no costs"):
        run(resolve({**installed, "method": "none"}), tmp_path / "run", spending=Spending(1.0))


def test_a_served_model_has_its_tokenizer_and_no_weights(tmp_path: Path) -> None:
    folder = str(save(small_model(), tmp_path / "model"))
    model = describe_model(folder, served_at="openai one")

    assert model.encode("Who?") == small_model().encode("Who?")
    assert {parameter.device.type for parameter in model.module.parameters()} == {"meta"}
    assert model.positions == 256
    assert model.fingerprint != describe_model(folder, served_at="openai two").fingerprint
    with pytest.raises(ModelError, match="tokenizer and configuration"):
        describe_model(str(tmp_path), served_at="")


def test_a_built_in_model_is_served_under_its_name_and_read_by_vllm_from_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_CACHE", str(tmp_path / "cache"))
    folder = str(save(small_model(), tmp_path / "model"))
    monkeypatch.setitem(BUILT_IN, "small", lambda _lesson, _progress: ModelFiles(folder, "1.2"))
    model = describe_model("small", served_at="vllm", weights_here=True)
    assert (model.name, model.revision, model.by_name) == ("small", "1.2", True)
    assert model.encode("Who?") == small_model().encode("Who?")

    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=_Engine, SamplingParams=_Params))
    monkeypatch.setattr(_Engine, "made", [])
    VllmBackend(model).ask(_asked("wild")[:1])
    assert [(made["model"], made["revision"]) for made in _Engine.made] == [(folder, None)]


def test_the_hub_is_asked_once_for_a_served_model_that_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def no_network(_api: Any, name: str, *, timeout: float) -> None:
        asked.append(name)
        raise OSError("no network")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", no_network)
    with pytest.raises(ModelError, match="tokenizer and configuration of 'org/model' cannot be found"):
        describe_model("org/model", served_at="openai")
    assert asked == ["org/model"]
