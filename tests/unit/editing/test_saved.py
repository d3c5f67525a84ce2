"""Every method's edits can be saved to a folder and loaded."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import stat
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM
from world.small_models import changed, save, small_model, weights
from world.small_timestep import a_case, write_timestep

import kgedit
from kgedit.editing import METHODS, make_editor
from kgedit.editing.editor import Editor
from kgedit.editing.saved import load_saved, read_saved, save_edited
from kgedit.errors import ModelError
from kgedit.llm.contexts import read_context
from kgedit.llm.generation import Question, ask
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.loading import BUILT_IN, ModelFiles, describe_model, load_model, wrap_model
from kgedit.llm.presets import PRESETS
from kgedit.progress import ignore
from kgedit.timesteps.timestep import Timestep

SEARCH = {"steps": 3, "prompts": 3, "prefix_tokens": 3, "tokens": 400, "length": 32}
SETTINGS: dict[str, dict[str, Any]] = {
    "ft_m": {"steps": 4},
    "bitfit": {"steps": 4, "least_steps": 0},
    "lora": {"epochs": 2},
    "grace": {"steps": 20},
    "wise": {"steps": 20},
    "graph_rag": {"embedder": "character-ngrams"},
    "rag": {"embedder": "character-ngrams"},
    "ike": {"embedder": "character-ngrams", "k": 2},
    "prompt": {},
    "c_rome": SEARCH,
}

BRIEF = replace(PRESETS["question_only"], max_new_tokens=3)
"""A random model never ends its answer."""


@pytest.fixture(scope="module")
def timestep(tmp_path_factory: pytest.TempPathFactory) -> Timestep:
    return write_timestep(tmp_path_factory.mktemp("timestep"), towns=range(4))


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path_factory.getbasetemp() / "saved-home"))


BARE = read_context("question_only")


def _edited(method: str, model: LanguageModel, timestep: Timestep) -> Editor[Any]:
    assert model.fingerprint
    contexts = [read_context("instruction")]
    editor = make_editor(method, model, SETTINGS[method], contexts=contexts, seed=3)
    if editor.capabilities.needs_known_facts:
        editor.prepare(timestep.known_facts(), advance=ignore)
    editor.apply(list(timestep.cases())[:3])
    return editor


def _answers(editor: Editor[Any], timestep: Timestep) -> list[tuple[str, str]]:
    questions = [probe.question for case in timestep.cases() for probe in case.probes]
    prompts = [
        BARE.prompt(asked, facts=prefix.worded(BARE))
        for prefix, asked in zip(editor.prefixes(questions), questions, strict=True)
    ]
    replies = ask(editor.model, [Question(prompt, "x") for prompt in prompts], BRIEF)
    return [(prompt, reply.text) for prompt, reply in zip(prompts, replies, strict=True)]


@pytest.mark.parametrize("by_name", [True, False])
@pytest.mark.parametrize("method", SETTINGS)
@pytest.mark.slow
def test_a_loaded_model_answers_as_the_saved_one_did(
    method: str, by_name: bool, timestep: Timestep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(save(small_model(), tmp_path / "base"))
    monkeypatch.setitem(BUILT_IN, "small", lambda _lesson, _progress: ModelFiles(path))
    model = load_model("small" if by_name else path, device="cpu", dtype="float32")
    editor = _edited(method, model, timestep)
    before = _answers(editor, timestep)
    folder = save_edited(editor, tmp_path / "edited", method=method, edits=list(timestep.cases())[:3])

    assert _answers(editor, timestep) == before, "saving changes nothing"
    loaded = load_saved(folder)
    assert _answers(loaded.editor, timestep) == before
    assert loaded.can_restore == (method not in ("ft_m", "c_rome", "bitfit"))
    assert (folder / "base").is_dir() == (not by_name and loaded.can_restore)
    editor.restore()
    if loaded.can_restore:
        loaded.editor.restore()
        assert _answers(loaded.editor, timestep) == _answers(editor, timestep)


def test_a_folder_says_what_was_edited_and_keeps_no_path_of_ours(
    timestep: Timestep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = load_model(str(save(small_model(), tmp_path / "cache" / "model")), device="cpu", dtype="float32")
    for method in ("ft_m", "lora", "grace"):
        model = LanguageModel("org/model", "abc", kept.module, kept.tokenizer)
        editor = _edited(method, model, timestep)
        folder = save_edited(editor, tmp_path / method, method=method, edits=list(timestep.cases())[:3])
        editor.restore()

        card = (folder / "README.md").read_text(encoding="utf-8")
        assert 'base_model: "org/model"' in card
        assert "| Arvika | Who is the mayor of Arvika? | Olof Gren |" in card
        saved = read_saved(folder)
        assert [edit.target for edit in saved.edits] == ["Olof Gren", "Tove Friis", "Karl Ros"]
        assert (saved.base_model, saved.base_revision, saved.method) == ("org/model", "abc", method)
        for path in folder.rglob("*"):
            assert str(tmp_path).encode() not in path.read_bytes(), path
    config = json.loads((tmp_path / "lora" / "adapter_config.json").read_text(encoding="utf-8"))
    assert config["base_model_name_or_path"] == "org/model"


@pytest.mark.parametrize("method", ["lora", "grace", "ft_m"])
def test_edits_of_a_model_in_a_folder_are_loaded_from_elsewhere_and_keep_no_path(
    method: str, timestep: Timestep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    save(small_model(), here / "taught")
    monkeypatch.chdir(here)
    for name in ("taught", str(here / "taught")):
        editor = _edited(method, load_model(name, device="cpu", dtype="float32"), timestep)
        before = _answers(editor, timestep)
        folder = save_edited(editor, there / "edited", method=method, edits=list(timestep.cases())[:3])

        card = (folder / "README.md").read_text(encoding="utf-8")
        assert "# taught, edited\n\n3 facts of taught were" in card
        assert "base_model" not in card
        assert read_saved(folder).base_model == "taught"
        assert all(str(here).encode() not in path.read_bytes() for path in folder.rglob("*") if path.is_file())
        with monkeypatch.context() as elsewhere:
            elsewhere.chdir(there)
            assert _answers(load_saved(Path("edited")).editor, timestep) == before
        assert (folder / "base").is_symlink() == (method != "ft_m")
        shutil.rmtree(folder)


def test_a_link_to_a_base_model_that_is_gone_says_so(timestep: Timestep, tmp_path: Path) -> None:
    path = save(small_model(), tmp_path / "taught")
    editor = _edited("grace", load_model(str(path), device="cpu", dtype="float32"), timestep)
    folder = save_edited(editor, tmp_path / "edited", method="grace", edits=[])
    shutil.rmtree(path)
    with pytest.raises(ModelError, match=rf"a link to the base model in {re.escape(str(path))}, which is not there"):
        load_saved(folder)


@pytest.mark.parametrize("method", ["lora", "grace"])
def test_a_base_model_that_was_itself_edited_is_saved_as_it_was(
    method: str, timestep: Timestep, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    path = str(save(small_model(), tmp_path / "base"))
    cases, given = list(timestep.cases()), SETTINGS[method]
    model = load_model(path, device="cpu", dtype="float32")
    once = kgedit.edit(model, method, cases=cases[1:2], settings=given)
    assert (once.save(tmp_path / "once") / "base").is_symlink()
    once.restore()
    kgedit.edit(model, "ft_m", cases=cases[:1], settings=SETTINGS["ft_m"])
    twice = kgedit.edit(model, method, cases=cases[1:2], settings=given)
    # A narrower model's layers are edited in float32, which its folder is loaded in by `load_edited` only.
    narrow = load_model(path, device="cpu", dtype="bfloat16")
    first = kgedit.edit(narrow, "ft_m", cases=cases[:1], settings=SETTINGS["ft_m"]).save(tmp_path / "first")
    wide = kgedit.load_edited(first, device="cpu", dtype="bfloat16")
    of_wide = kgedit.edit(wide.model, method, cases=cases[1:2], settings=given)
    rounded = kgedit.edit(
        load_model(str(first), device="cpu", dtype="bfloat16"), method, cases=cases[:1], settings=given
    )
    for name, edited, dtype in (
        ("twice", twice, "float32"), ("wide", of_wide, "bfloat16"), ("rounded", rounded, "bfloat16"),
    ):  # fmt: skip
        folder = edited.save(tmp_path / name)
        loaded = kgedit.load_edited(folder, device="cpu", dtype=dtype)
        assert changed(weights(edited.model), loaded.model) == [], name
        assert (folder / "base").is_symlink() == (name == "rounded")
        again = kgedit.load_edited(loaded.save(tmp_path / f"{name} again"), device="cpu", dtype=dtype)
        assert changed(weights(edited.model), again.model) == [], name
    assert [str(one.message) for one in recwarn if "edits" in str(one.message)] == []


def test_a_base_model_in_whose_folder_another_one_is_now_is_noticed(timestep: Timestep, tmp_path: Path) -> None:
    path = save(small_model(), tmp_path / "taught")
    editor = _edited("grace", load_model(str(path), device="cpu", dtype="float32"), timestep)
    folder = save_edited(editor, tmp_path / "edited", method="grace", edits=[])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*edits")
        load_saved(folder)
        load_saved(folder, dtype="bfloat16")  # another number format is no other model
    shutil.rmtree(path)
    save(small_model(seed=1), path)
    with pytest.warns(UserWarning, match="were made in taught; the model .* differs from it in weights"):
        load_saved(folder)
    record = json.loads((folder / "kgedit.json").read_text(encoding="utf-8"))
    deeper = record | {"base_shape": [record["base_shape"][0] + 1, record["base_shape"][1]]}
    (folder / "kgedit.json").write_text(json.dumps(deeper), encoding="utf-8")
    with pytest.raises(ModelError, match=r"blocks of width \d+; the model .*base has"):
        load_saved(folder)


def test_a_copy_of_the_base_model_gives_no_warning(timestep: Timestep, tmp_path: Path) -> None:
    given = small_model("qwen2")  # whose tokenizer is read back differently
    editor = _edited("grace", wrap_model(given.module, given.tokenizer), timestep)
    folder = save_edited(editor, tmp_path / "edited", method="grace", edits=[])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*edits")
        load_saved(folder)


def test_only_names_of_the_hub_and_built_in_ones_lead_to_a_model_from_elsewhere(
    timestep: Timestep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(save(small_model(), tmp_path / "taught"))
    monkeypatch.setitem(BUILT_IN, "small", lambda _lesson, _progress: ModelFiles(path))
    loaded = load_model("small", device="cpu", dtype="float32")
    folder = save_edited(_edited("grace", loaded, timestep), tmp_path / "edited", method="grace", edits=[])
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "# small, edited" in card
    assert "base_model" not in card  # a name of kgedit's, not of the hub
    given = wrap_model(AutoModelForCausalLM.from_pretrained(path))
    assert (given.by_name, given.public_name) == (False, "taught")
    given.module.name_or_path = "org/model"
    named = wrap_model(given.module, given.tokenizer)
    assert (named.by_name, named.public_name) == (True, "org/model")
    served = describe_model(path, served_at="openai")
    editor = make_editor("prompt", served, {}, contexts=[BARE], seed=3)
    editor.apply([a_case()])
    folder = save_edited(editor, tmp_path / "served", method="prompt", edits=[a_case()])
    assert sorted(found.name for found in folder.iterdir()) == [
        "README.md", "kgedit.json", "memory.json", "memory.safetensors",
    ]  # fmt: skip
    assert read_saved(folder).base_model == "taught"


@pytest.mark.parametrize("base", ["taught", "small", "org/model"])
def test_the_code_in_the_card_of_an_adapter_loads_the_base_model_and_the_adapter(
    base: str, timestep: Timestep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(save(small_model(), tmp_path / "taught"))
    monkeypatch.setitem(BUILT_IN, "small", lambda _lesson, _progress: ModelFiles(path))
    model = load_model(path if base == "taught" else "small", device="cpu", dtype="float32")
    if base == "org/model":
        model = LanguageModel(base, "abc", model.module, model.tokenizer)
    editor = _edited("lora", model, timestep)
    folder = save_edited(editor, tmp_path / "edited", method="lora", edits=[])
    ids = model.tokenizer("Who is the mayor of Arvika?", return_tensors="pt")
    expected = model.module(**ids).logits
    code = (folder / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    hub = 'AutoModelForCausalLM.from_pretrained("org/model", revision="abc")'
    assert (hub in code) == (base == "org/model")
    names: dict[str, Any] = {}
    here = code.replace(hub, f"AutoModelForCausalLM.from_pretrained({path!r})").replace("PATH", str(folder))
    exec(here, names)
    asked = names["tokenizer"]("Who is the mayor of Arvika?", return_tensors="pt")
    assert names["model"](**asked).logits.equal(expected)


def test_edited_weights_need_no_kgedit(timestep: Timestep, tmp_path: Path) -> None:
    editor = _edited("ft_m", small_model(), timestep)
    save_edited(editor, tmp_path / "edited", method="ft_m", edits=[])
    module = AutoModelForCausalLM.from_pretrained(tmp_path / "edited")
    own = editor.model.module.state_dict()

    assert all(tensor.equal(own[name]) for name, tensor in module.state_dict().items())


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
@pytest.mark.parametrize("method", ["ft_m", "bitfit"])
def test_a_model_in_bfloat16_is_loaded_with_its_edited_weights_in_float32(
    method: str, architecture: str, timestep: Timestep, tmp_path: Path
) -> None:
    """Such a weight rounds away what an edit has changed in it."""
    narrow = small_model(architecture)
    narrow.module.to(torch.bfloat16)
    model = load_model(str(save(narrow, tmp_path / "base")), device="cpu", dtype="bfloat16")
    folder = save_edited(_edited(method, model, timestep), tmp_path / "edited", method=method, edits=[])
    loaded = load_saved(folder, dtype="bfloat16").editor.model

    assert changed(weights(model), loaded) == []
    assert {value.dtype for value in weights(loaded).values()} == {torch.bfloat16, torch.float32}
    ids = torch.tensor([model.encode("Who is the mayor of Arvika?")])
    with torch.no_grad():
        assert loaded.module(ids).logits.equal(model.module(ids).logits)
    assert "transformers rounds them" in (folder / "README.md").read_text(encoding="utf-8")


def test_a_model_in_float32_is_loaded_in_any_format(timestep: Timestep, tmp_path: Path) -> None:
    folder = save_edited(_edited("ft_m", small_model(), timestep), tmp_path / "edited", method="ft_m", edits=[])

    assert {one.dtype for one in weights(load_saved(folder, dtype="bfloat16").editor.model).values()} == {
        torch.bfloat16
    }
    assert "transformers rounds them" not in (folder / "README.md").read_text(encoding="utf-8")


def test_files_get_the_usual_mode(timestep: Timestep, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        folder = save_edited(_edited("grace", small_model(), timestep), tmp_path / "edited", method="grace", edits=[])
    finally:
        os.umask(before)

    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o640}


def test_a_link_to_a_folder_that_does_not_exist_yet_stays(timestep: Timestep, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "edited").symlink_to(tmp_path / "disk" / "edited")
    save_edited(_edited("grace", small_model(), timestep), tmp_path / "edited", method="grace", edits=[])
    assert (tmp_path / "edited").is_symlink()
    assert (tmp_path / "disk" / "edited" / "kgedit.json").is_file()


def test_a_folder_that_cannot_be_read_says_why(timestep: Timestep, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="contains no edited model"):
        load_saved(tmp_path)
    editor = _edited("prompt", small_model(), timestep)
    folder = save_edited(editor, tmp_path / "edited", method="prompt", edits=[])
    with pytest.raises(ModelError, match="already exists"):
        save_edited(editor, folder, method="prompt", edits=[])
    raw = json.loads((folder / "kgedit.json").read_text(encoding="utf-8"))
    for change, said in (({"format": 99}, "newer than this one"), ({"seed": "x"}, "cannot be read")):
        (folder / "kgedit.json").write_text(json.dumps(raw | change), encoding="utf-8")
        with pytest.raises(ModelError, match=said):
            load_saved(folder)
    with pytest.raises(ModelError, match="edits nothing"):
        save_edited(make_editor("none", small_model()), tmp_path / "none", method="none", edits=[])
    assert "none" in METHODS


def test_another_base_than_the_saved_one_is_warned_of(timestep: Timestep, tmp_path: Path) -> None:
    editor = _edited("grace", small_model(), timestep)
    folder = save_edited(editor, tmp_path / "edited", method="grace", edits=[])
    with pytest.warns(UserWarning, match="its answers may differ"):
        load_saved(folder, base=small_model(seed=1))


@pytest.mark.parametrize("method", ["grace", "lora", "prompt"])
def test_edits_in_layers_are_not_loaded_into_a_model_with_others(
    method: str, timestep: Timestep, tmp_path: Path
) -> None:
    folder = save_edited(_edited(method, small_model(), timestep), tmp_path / "edited", method=method, edits=[])
    record = json.loads((folder / "kgedit.json").read_text(encoding="utf-8"))
    deeper = record | {"base_shape": [record["base_shape"][0] + 1, record["base_shape"][1]]}
    (folder / "kgedit.json").write_text(json.dumps(deeper), encoding="utf-8")
    model = small_model(seed=1)
    before = [name for name, _ in model.module.named_modules()]
    if method == "prompt":
        with pytest.warns(UserWarning, match="its answers may differ"):
            load_saved(folder, base=model)
        return
    with pytest.raises(ModelError, match=r"are of a model with \d+ blocks of width \d+; the model given has"):
        load_saved(folder, base=model)
    assert [name for name, _ in model.module.named_modules()] == before


def test_a_model_is_not_taken_for_edited_weights(timestep: Timestep, tmp_path: Path) -> None:
    folder = save_edited(_edited("ft_m", small_model(), timestep), tmp_path / "edited", method="ft_m", edits=[])
    with pytest.raises(ModelError, match="Leave out the model"):
        kgedit.load_edited(folder, model=small_model())


def test_contexts_that_edits_were_trained_in_are_saved_as_they_were(tmp_path: Path) -> None:
    model = small_model()
    tokenizer = copy.deepcopy(model.tokenizer)
    tokenizer.chat_template = "[{{ messages[0].content }}]"
    model = LanguageModel("chatty", "", model.module, tokenizer, by_name=False)
    shown = read_context("chat:instruction").with_demonstrations((("When?", "Now"),)).for_model(model.chat)
    assert model.fingerprint
    editor = make_editor("lora", model, {"epochs": 1}, contexts=[shown], seed=3)
    editor.apply([a_case()])

    loaded = load_saved(save_edited(editor, tmp_path / "saved", method="lora", edits=[a_case()]))

    assert loaded.editor.contexts == (shown,)
    assert shown.prompt("Who?") == "[Please answer the question:\nQ: When?\nA: Now\nQ: Who?\nA:]"
