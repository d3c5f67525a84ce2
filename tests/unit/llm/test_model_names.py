"""What a model's name that leads nowhere is answered with; no hub is contacted."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgedit.llm.loading import model_not_found


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("smollm2", "There is no model 'smollm2'. Did you mean 'smollm2-135m'? Built-in models: smollm2-135m, tiny."),
        ("Tiny", "Did you mean 'tiny'?"),
        (
            "meta/llama",
            "There is no model 'meta/llama'. Built-in models: smollm2-135m, tiny. It is not a folder either",
        ),
        ("HuggingFaceTB/SmolLM2-135M", "Did you mean 'smollm2-135m'?"),
        ("./my-model", "There is no folder ./my-model. Give a folder with config.json"),
        ("/models/a/b", "There is no folder /models/a/b."),
        ("empty", "The folder empty contains no model that transformers can read"),
        ("notes.txt", "notes.txt is a file. Give the folder of a model"),
    ],
)
def test_a_near_name_a_missing_folder_and_a_hub_name_are_told_apart(
    name: str, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("notes.txt").touch()
    assert answer in str(model_not_found(name, "no network"))
