"""Editing methods and the runner that applies them to a model, timestep by timestep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kgedit.registry import Registry

if TYPE_CHECKING:
    from kgedit.editing.editor import Editor

METHODS: Registry[type[Editor[Any]]] = Registry(
    "editing method",
    {
        "none": "kgedit.editing.unedited:Unedited",
        "ft": "kgedit.editing.fine_tuning.ft:FineTuning",
        "ft_l": "kgedit.editing.fine_tuning.ft_l:ClampedFineTuning",
        "ft_m": "kgedit.editing.fine_tuning.ft_m:MaskedFineTuning",
        "locft_bf": "kgedit.editing.fine_tuning.locft_bf:BreadthFirstFineTuning",
        "lora": "kgedit.editing.lora.lora:LoraFineTuning",
        "lora_merge": "kgedit.editing.lora.lora_merge:LoraMerge",
        "mend": "kgedit.editing.gradient_transform.mend:Mend",
        "grace": "kgedit.editing.side_memory.grace:Grace",
        "wise": "kgedit.editing.side_memory.wise:Wise",
        "ultraedit": "kgedit.editing.gradient_transform.ultraedit:UltraEdit",
        "prompt": "kgedit.editing.in_context.prompt:Prompting",
        "ike": "kgedit.editing.in_context.ike:InContextEditing",
        "rag": "kgedit.editing.in_context.rag:Retrieval",
        "rome": "kgedit.editing.locate_then_edit.rome:Rome",
        "r_rome": "kgedit.editing.locate_then_edit.rome:RRome",
        "c_rome": "kgedit.editing.locate_then_edit.rome:CRome",
        "memit": "kgedit.editing.locate_then_edit.memit:Memit",
        "alphaedit": "kgedit.editing.locate_then_edit.alphaedit:AlphaEdit",
    },
    group="kgedit.methods",
)
"""Every way of editing by name; other packages add theirs through the entry-point group."""
