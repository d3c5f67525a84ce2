"""Editing methods: `editor.py` defines the contract, and each family of methods has a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kgedit.errors import SpecError
from kgedit.registry import Registry

if TYPE_CHECKING:
    from kgedit.editing.editor import Editor
    from kgedit.llm.contexts import Context
    from kgedit.llm.language_model import LanguageModel

METHODS: Registry[type[Editor[Any]]] = Registry(
    "editing method",
    {
        "none": "kgedit.editing.unedited:Unedited",
        "ft": "kgedit.editing.fine_tuning.ft:FineTuning",
        "ft_l": "kgedit.editing.fine_tuning.ft_l:ClampedFineTuning",
        "ft_m": "kgedit.editing.fine_tuning.ft_m:MaskedFineTuning",
        "locft_bf": "kgedit.editing.fine_tuning.locft_bf:BreadthFirstFineTuning",
        "crispedit": "kgedit.editing.fine_tuning.crispedit:CrispEdit",
        "galore": "kgedit.editing.fine_tuning.galore:GaLore",
        "bitfit": "kgedit.editing.fine_tuning.selective:BitFit",
        "ln_tuning": "kgedit.editing.fine_tuning.selective:LnTuning",
        "ewc": "kgedit.editing.fine_tuning.consolidation:ElasticWeights",
        "si": "kgedit.editing.fine_tuning.consolidation:SynapticIntelligence",
        "lora": "kgedit.editing.lora.lora:LoraFineTuning",
        "lora_merge": "kgedit.editing.lora.lora_merge:LoraMerge",
        "mend": "kgedit.editing.gradient_transform.mend:Mend",
        "grace": "kgedit.editing.side_memory.grace:Grace",
        "wise": "kgedit.editing.side_memory.wise:Wise",
        "ultraedit": "kgedit.editing.gradient_transform.ultraedit:UltraEdit",
        "stableedit": "kgedit.editing.gradient_transform.stableedit:StableEdit",
        "prompt": "kgedit.editing.in_context.prompt:Prompting",
        "ike": "kgedit.editing.in_context.ike:InContextEditing",
        "graph_rag": "kgedit.editing.in_context.graph_rag:GraphRetrieval",
        "rag": "kgedit.editing.in_context.rag:Rag",
        "rome": "kgedit.editing.locate_then_edit.rome:Rome",
        "r_rome": "kgedit.editing.locate_then_edit.rome:RRome",
        "c_rome": "kgedit.editing.locate_then_edit.rome:CRome",
        "memit": "kgedit.editing.locate_then_edit.memit:Memit",
        "encore": "kgedit.editing.locate_then_edit.encore:Encore",
        "rlsedit": "kgedit.editing.locate_then_edit.rlsedit:RlsEdit",
        "alphaedit": "kgedit.editing.locate_then_edit.alphaedit:AlphaEdit",
    },
    group="kgedit.methods",
)
"""All editing methods by name; other packages register theirs through the entry-point group."""


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
    from kgedit.hparams.settings import read_settings
    from kgedit.llm.contexts import BARE, read_context

    kind = METHODS[method]
    given, problems = read_settings(kind.settings_type, settings or {}, method=method)
    if given is None:
        raise SpecError(problems)
    return kind(model, given.resolve(model).settings, contexts=contexts or (read_context(BARE),), seed=seed)
