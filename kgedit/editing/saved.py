"""Edited models on disk: a folder that lists the edits and contains them as plain weights, an adapter or a memory.

    kgedit.json          edits, base model and method: a `SavedEdits`
    README.md            a model card with the same content
    *.safetensors, ...   edited weights for transformers, or an adapter for peft; loadable without kgedit
    memory.json,         state outside of the weights: codebooks, side copies, stored facts; read by `load_saved`
    memory.safetensors
    base/                the base model of an adapter or a memory, if it cannot be loaded by name; if it was loaded from
                         a folder and not changed before the edits, a symbolic link to it

WISE's side copies are a memory and are never merged into the matrix: a merged matrix would change every prompt.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from kgedit import __version__
from kgedit.checksums import decoding
from kgedit.editing import METHODS, make_editor
from kgedit.editing.editor import Editor, EditorState
from kgedit.editing.model_card import model_card
from kgedit.editing.row_tables import TableRows
from kgedit.errors import ModelError
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.loading import ServedModel, load_model
from kgedit.llm.model_files import whole_folder
from kgedit.llm.surgery.matrices import EditedParameter
from kgedit.records.cases import Case
from kgedit.records.published import SavedContext, SavedEdit, SavedEdits

_SAVE_AGAIN = "Save the edited model again: kgedit run-edit --save-model"


FORMAT = 2
"""Version of kgedit.json; newer versions of kgedit read older ones."""


_ADAPTER = "adapter_model.safetensors"


_TABLE = "table/"
"""Prefix of the names of a table's columns in memory.safetensors, and key of all labels in memory.json."""


@dataclass(frozen=True, slots=True)
class LoadedEdits:
    """An edited model from a folder.

    Attributes:
        editor: Editor whose model contains the edits.
        saved: Content of kgedit.json.
        can_restore: Whether the edits can be undone: false if the folder contains only edited weights.
    """

    editor: Editor[Any]
    saved: SavedEdits
    can_restore: bool


def save_edited(
    editor: Editor[Any],
    folder: Path,
    *,
    method: str,
    edits: Sequence[Case],
    base_fingerprint: str | None = None,
    earlier: SavedEdits | None = None,
) -> Path:
    """Write an edited model.

    Args:
        folder: Target folder, which must not exist; it is created atomically.
        method: Name of the editor's method.
        edits: The applied edits.
        base_fingerprint: Fingerprint of the model before the first edit; None if `fingerprint` was computed then.
        earlier: Content of kgedit.json of the folder that the model was loaded from, with the edits that are still in
            it; None if it was not loaded from such a folder.

    Raises:
        ModelError: if the folder exists, or the method edits nothing.
    """
    capabilities, model = editor.capabilities, editor.model
    if folder.exists():
        raise ModelError(f"{folder} already exists. Nothing was changed. Give another folder.")
    if not capabilities.edits_anything:
        raise ModelError(f"{method} edits nothing, so there is nothing to save.")
    weights = capabilities.changes_weights
    base = _base_of(model, base_fingerprint or model.fingerprint, earlier, weights=weights)
    saved = SavedEdits(
        format=FORMAT,
        kgedit=__version__,
        method=method,
        source=capabilities.source,
        base_model=base.name,
        base_revision=base.revision,
        base_fingerprint=base.fingerprint,
        base_shape=_shape(model),
        base_format=base.format,
        weights="model" if weights else "adapter" if capabilities.adds_modules else "none",
        memory=editor.has_memory,
        settings=editor.settings.model_dump(),
        contexts=tuple(
            SavedContext(name=one.name, template=one.template, in_chat=one.in_chat, demonstrations=one.demonstrations)
            for one in editor.contexts
        ),
        seed=editor.seed,
        edits=(*(earlier.edits if earlier else ()), *(_edit(case) for case in edits)),
    )
    with whole_folder(folder) as partial:
        if capabilities.in_files_of_a_model:
            editor.save_model(partial)
        # A served model has no weights here.
        if not weights and not model.by_name and not isinstance(model, ServedModel):
            _save_base(editor, partial / "base", saved.base_fingerprint)
        if editor.has_memory:
            _write_memory(partial, editor.memory())
        _write_json(partial / "kgedit.json", msgspec.to_builtins(saved))
        card = model_card(saved, by_name=base.by_name, is_narrow=model.module.dtype != torch.float32)
        (partial / "README.md").write_text(card, encoding="utf-8")
    return folder


@dataclass(frozen=True, slots=True)
class _Base:
    """The model before any edit."""

    name: str
    revision: str
    fingerprint: str
    format: str
    by_name: bool


def _base_of(model: LanguageModel, fingerprint: str, earlier: SavedEdits | None, *, weights: bool) -> _Base:
    """The base of an edited model: the model itself, or that of the folder that it was loaded from.

    A model that was loaded from a saved folder is named after that folder, and edited weights are not the base model's.
    """
    if earlier and (weights or (not model.by_name and fingerprint == earlier.base_fingerprint)):
        return _Base(
            earlier.base_model,
            earlier.base_revision,
            earlier.base_fingerprint,
            earlier.base_format,
            by_name=weights and bool(earlier.base_revision),
        )
    return _Base(model.public_name, model.revision, fingerprint, _format(model), by_name=model.by_name)


def load_saved(
    folder: Path, *, base: LanguageModel | None = None, device: str = "cpu", dtype: str = "float32"
) -> LoadedEdits:
    """Load a folder written by `save_edited`.

    Args:
        base: The unedited model, if it is already loaded; not for a folder with edited weights.
        device: Device to which the model is loaded.
        dtype: Number format of the loaded model.

    Raises:
        ModelError: if the folder contains no edited model, its base cannot be found, or `base` has other layers or is
            given for edited weights.
    """
    saved = read_saved(folder)
    if saved.weights == "model":
        if base is not None:
            raise ModelError(
                f"{folder} contains edited weights, which cannot be put into the model given. Leave out the model: the "
                "folder is loaded as one."
            )
        base = load_model(str(folder), device=device, dtype=dtype)
        _undo_rounding(base, folder)
    elif base is None:
        base = _load_base(folder, saved, device=device, dtype=dtype)
        _check_shape(base, saved, folder, which=f"the model {base.name}")
        # A copy is not compared: transformers may read a tokenizer in memory back as one of another class.
        is_copy = _has_copy_of_base(folder)
        if not is_copy and _format(base) == saved.base_format and base.fingerprint != saved.base_fingerprint:
            warnings.warn(
                f"The edits in {folder} were made in {saved.base_model or 'another model'}; the model {base.name} "
                "differs from it in weights, configuration or tokenizer, or this version of transformers reads them "
                "differently, so that its answers may differ too.",
                stacklevel=3,
            )
    else:
        _check_shape(base, saved, folder, which="the model given")
        if base.fingerprint != saved.base_fingerprint:
            warnings.warn(
                f"The edits in {folder} were made in {saved.base_model}; the model given differs from it in weights, "
                "number format or device kind, so that its answers may differ too.",
                stacklevel=3,
            )
    _ = base.fingerprint  # before an adapter or a memory is attached
    kept = saved.weights == "model" and not saved.memory
    contexts = [
        Context(one.name, one.template, one.in_chat, demonstrations=one.demonstrations).for_model(base.chat)
        for one in saved.contexts
    ]
    editor = make_editor(
        "none" if kept else saved.method, base, {} if kept else saved.settings, contexts=contexts, seed=saved.seed
    )
    if saved.weights == "adapter":
        with decoding(folder / _ADAPTER, fix=_SAVE_AGAIN):
            adapter = load_file(folder / _ADAPTER)
        editor.load_state(EditorState(adapter))
    if saved.memory:
        editor.load_memory(_read_memory(folder))
    return LoadedEdits(editor, saved, can_restore=saved.weights != "model")


def _undo_rounding(model: LanguageModel, folder: Path) -> None:
    """Put edited layers back in float32, the format that a narrower model is edited and saved in.

    A folder of float32 only is of a model in float32, which is loaded in the format asked for.
    """
    wide: list[tuple[Path, str]] = []
    others = 0
    for path in sorted(folder.glob("model*.safetensors")):
        with safe_open(path, framework="pt") as file:
            names = [name for name in file.keys() if file.get_slice(name).get_dtype() == "F32"]  # noqa: SIM118
            others += len(file.keys()) - len(names)
        wide += [(path, name) for name in names]
    if not others:
        return
    loaded = dict(model.module.named_parameters())
    for path, name in wide:
        if name in loaded and loaded[name].dtype != torch.float32:
            layer, _, own = name.rpartition(".")
            with safe_open(path, framework="pt") as file:
                EditedParameter(model.module.get_submodule(layer), own).write(file.get_tensor(name))
    model.forget_fingerprint()  # that of the rounded weights


def _shape(model: LanguageModel) -> tuple[int, ...]:
    config = model.module.config.get_text_config()
    return int(config.num_hidden_layers), int(config.hidden_size)


def _format(model: LanguageModel) -> str:
    """Number format and kind of device."""
    return f"{model.module.dtype} on {model.device.type}".removeprefix("torch.")


def _check_shape(base: LanguageModel, saved: SavedEdits, folder: Path, *, which: str) -> None:
    """Check that the edits fit into a base model.

    Raises:
        ModelError: if they are in its layers, and it has others.
    """
    if saved.base_shape and _shape(base) != saved.base_shape and (saved.weights == "adapter" or _in_layers(saved)):
        raise ModelError(
            f"The edits in {folder} are of a model with {_described(saved.base_shape)}; {which} has "
            f"{_described(_shape(base))}. Give {saved.base_model or 'that model'}."
        )


def _described(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} blocks of width {shape[1]}"


def _in_layers(saved: SavedEdits) -> bool:
    """Whether the memory is read by a layer of the model."""
    return METHODS[saved.method].capabilities.changes_forward


def read_saved(folder: Path) -> SavedEdits:
    """Read kgedit.json.

    Raises:
        ModelError: if it does not exist, or was written by a newer kgedit.
    """
    path = folder / "kgedit.json"
    if not path.is_file():
        raise ModelError(f"{folder} contains no edited model (no kgedit.json). Save one: kgedit run-edit --save-model")
    with decoding(path, fix=_SAVE_AGAIN):
        raw = json.loads(path.read_bytes())
        written_by = raw.get("format", 0)
    if written_by > FORMAT:
        raise ModelError(f"{path} was written by kgedit {raw.get('kgedit')}, which is newer than this one. Upgrade.")
    try:
        saved = msgspec.convert(raw, SavedEdits)
    except msgspec.ValidationError as error:
        raise ModelError(f"{path} cannot be read: {error}. Save the edited model again.") from error
    if saved.method not in METHODS:
        raise ModelError(f"{folder} was edited by '{saved.method}', which is not installed here.")
    return saved


def _save_base(editor: Editor[Any], folder: Path, fingerprint: str) -> None:
    """Link to the unedited model's folder, which may have gigabytes, or write the model if it is no longer that one.

    An adapter is detached temporarily, so that its modules are not in the files.
    """
    if editor.model.folder is not None and editor.model.folder_fingerprint == fingerprint:
        folder.symlink_to(editor.model.folder)
        return
    folder.mkdir()
    if not editor.capabilities.adds_modules:
        editor.model.save_pretrained(folder)
        return
    state = editor.state()
    editor.restore()
    try:
        editor.model.save_pretrained(folder)
    finally:
        editor.load_state(state)


def _load_base(folder: Path, saved: SavedEdits, *, device: str, dtype: str) -> LanguageModel:
    """Load the base model from base/, or by its name.

    Raises:
        ModelError: if the folder is a link to one that is not there.
    """
    base = folder / "base"
    if base.is_symlink() and not base.is_dir():
        raise ModelError(
            f"{base} is a link to the base model in {base.readlink()}, which is not there. Replace the link by it."
        )
    model = load_model(str(base) if base.is_dir() else saved.base_model, device=device, dtype=dtype)
    if _has_copy_of_base(folder):
        _undo_rounding(model, base)  # it may have been edited itself; what a link leads to was loaded without this
    return model


def _has_copy_of_base(folder: Path) -> bool:
    return (folder / "base").is_dir() and not (folder / "base").is_symlink()


def _edit(case: Case) -> SavedEdit:
    return SavedEdit(case_id=case.id_in_run, subject=case.fact.subject_label, prompt=case.question, target=case.answer)


def _write_memory(folder: Path, memory: EditorState) -> None:
    tensors = {name: tensor.detach().contiguous().cpu() for name, tensor in memory.tensors.items()}
    labels = {}
    for name, table in memory.tables.items():
        labels[name] = list(table.labels)
        tensors |= {f"{_TABLE}{name}/{column}": rows.contiguous().cpu() for column, rows in table.columns.items()}
    save_file(tensors, folder / "memory.safetensors")
    _write_json(folder / "memory.json", {**memory.record, **({_TABLE: labels} if labels else {})})


def _read_memory(folder: Path) -> EditorState:
    with decoding(folder / "memory.json", fix=_SAVE_AGAIN):
        record = json.loads((folder / "memory.json").read_bytes())
        listed = dict(record.pop(_TABLE, {}))
    with decoding(folder / "memory.safetensors", fix=_SAVE_AGAIN):
        tensors, tables = load_file(folder / "memory.safetensors"), {}
    for name, labels in listed.items():
        head = f"{_TABLE}{name}/"
        columns = {key.removeprefix(head): tensors.pop(key) for key in list(tensors) if key.startswith(head)}
        tables[name] = TableRows(len(labels), None, columns, tuple(labels))
    return EditorState(tensors, record, tables)


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
