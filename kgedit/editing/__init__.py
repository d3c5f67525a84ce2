"""Editing methods: `editor.py` defines the contract, and each family of methods has a folder."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kgedit.errors import SpecError
from kgedit.registry import Registry

if TYPE_CHECKING:
    from kgedit.editing.editor import Editor
    from kgedit.editing.hparams.settings import Settings
    from kgedit.llm.contexts import Context
    from kgedit.llm.language_model import LanguageModel

_METHODS = {
    "none": ("editor:Unedited", "settings:NoSettings"),
    "ft": ("fine_tuning.ft:FineTuning", "fine_tuning:FineTuningSettings"),
    "ft_l": ("fine_tuning.ft:ClampedFineTuning", "fine_tuning:FtlSettings"),
    "ft_m": ("fine_tuning.ft:MaskedFineTuning", "fine_tuning:FtmSettings"),
    "locft_bf": ("fine_tuning.ft:BreadthFirstFineTuning", "fine_tuning:LocFtSettings"),
    "crispedit": ("fine_tuning.crispedit:CrispEdit", "fine_tuning:CrispEditSettings"),
    "galore": ("fine_tuning.selective:GaLore", "fine_tuning:GaLoreSettings"),
    "bitfit": ("fine_tuning.selective:BitFit", "fine_tuning:BitFitSettings"),
    "ln_tuning": ("fine_tuning.selective:LnTuning", "fine_tuning:LnTuningSettings"),
    "ewc": ("fine_tuning.consolidation:ElasticWeights", "fine_tuning:EwcSettings"),
    "si": ("fine_tuning.consolidation:SynapticIntelligence", "fine_tuning:SynapticSettings"),
    "lora": ("fine_tuning.lora:LoraFineTuning", "fine_tuning:LoraSettings"),
    "lora_merge": ("fine_tuning.lora:LoraMerge", "fine_tuning:LoraMergeSettings"),
    "mend": ("gradient_transform.mend:Mend", "gradient_transform:MendSettings"),
    "grace": ("side_memory.grace:Grace", "memory_based:GraceSettings"),
    "memoir": ("side_memory.memoir:Memoir", "memory_based:MemoirSettings"),
    "wise": ("side_memory.wise:Wise", "memory_based:WiseSettings"),
    "ultraedit": ("gradient_transform.ultraedit:UltraEdit", "gradient_transform:UltraEditSettings"),
    "stableedit": ("gradient_transform.ultraedit:StableEdit", "gradient_transform:StableEditSettings"),
    "prompt": ("in_context.prompts:Prompting", "memory_based:PromptSettings"),
    "ike": ("in_context.ike:InContextEditing", "memory_based:IkeSettings"),
    "graph_rag": ("in_context.prompts:GraphRetrieval", "memory_based:GraphRagSettings"),
    "rag": ("in_context.prompts:Rag", "memory_based:RagSettings"),
    "rome": ("locate_then_edit.rome:Rome", "locate_then_edit:RomeSettings"),
    "r_rome": ("locate_then_edit.rome:RRome", "locate_then_edit:RomeSettings"),
    "c_rome": ("locate_then_edit.rome:CRome", "locate_then_edit:RomeSettings"),
    "memit": ("locate_then_edit.memit:Memit", "locate_then_edit:MemitSettings"),
    "encore": ("locate_then_edit.memit:Encore", "locate_then_edit:EncoreSettings"),
    "rlsedit": ("locate_then_edit.memit:RlsEdit", "locate_then_edit:RlsEditSettings"),
    "lyaplock": ("locate_then_edit.memit:LyapLock", "locate_then_edit:LyapLockSettings"),
    "anyedit": ("locate_then_edit.unke:AnyEdit", "locate_then_edit:AnyEditSettings"),
    "unke": ("locate_then_edit.unke:Unke", "locate_then_edit:UnkeSettings"),
    "alphaedit": ("locate_then_edit.memit:AlphaEdit", "locate_then_edit:AlphaEditSettings"),
}
"""Editor (in kgedit.editing) and settings (in kgedit.editing.hparams) of each method.

An editor also names its settings; they are repeated here because completion and `kgedit configs` read them without
importing torch."""

METHODS: Registry[type[Editor[Any]]] = Registry(
    "editing method",
    {name: f"kgedit.editing.{editor}" for name, (editor, _) in _METHODS.items()},
    group="kgedit.methods",
)
"""All editing methods by name; other packages register theirs through the entry-point group."""

_SETTINGS: Registry[type[Settings]] = Registry(
    "editing method", {name: f"kgedit.editing.hparams.{settings}" for name, (_, settings) in _METHODS.items()}
)


def settings_type_of(method: str) -> type[Settings]:
    """Settings class of a method; imports other packages, including torch, only for third-party methods.

    Raises:
        UnknownNameError: if the method does not exist.
    """
    return _SETTINGS[method] if method in _SETTINGS else METHODS[method].settings_type


def make_editor(
    method: str,
    model: LanguageModel,
    settings: Mapping[str, object] | None = None,
    *,
    contexts: Sequence[Context] = (),
    seed: int = 0,
) -> Editor[Any]:
    """Create an editor for an unedited model, with settings resolved for that model.

    Args:
        method: Name in METHODS.
        settings: Hyperparameters by name; all others are the published ones for the model, defaults, or derived.
        contexts: Contexts that edits are trained in, with the model's chat template filled in; empty means the bare
            question.
        seed: Source of all randomness.

    Raises:
        UnknownNameError: if there is no such method.
        SpecError: listing all problems with the settings.
    """
    from kgedit.editing.hparams.settings import read_settings
    from kgedit.llm.contexts import BARE, read_context

    kind = METHODS[method]
    given, problems = read_settings(kind.settings_type, settings or {}, method=method)
    if given is None:
        raise SpecError(problems, of="The settings are wrong")
    return kind(model, given.resolve(model).settings, contexts=contexts or (read_context(BARE),), seed=seed)


def method_summary(name: str) -> dict[str, str]:
    """Name of a method, what it changes, its source and the first sentence of its docstring.

    Raises:
        UnknownNameError: if there is no such method.
    """
    method = METHODS[name]
    about = inspect.cleandoc(method.__doc__ or "").partition("\n\n")[0]
    capabilities = method.capabilities
    return {
        "method": name,
        "changes": capabilities.changes,
        "about": " ".join(about.split()).partition(". ")[0].removesuffix("."),
        "source": capabilities.source,
    }
