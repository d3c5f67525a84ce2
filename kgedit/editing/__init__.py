"""Editing methods and the runner that applies them to a model, timestep by timestep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kgedit.registry import Registry

if TYPE_CHECKING:
    from kgedit.editing.contract import Editor

METHODS: Registry[type[Editor[Any]]] = Registry(
    "editing method",
    {
        "none": "kgedit.editing.methods.none:Unedited",
        "ft": "kgedit.editing.methods.ft:FineTuning",
        "ft_l": "kgedit.editing.methods.ft_l:ClampedFineTuning",
        "ft_m": "kgedit.editing.methods.ft_m:MaskedFineTuning",
        "locft_bf": "kgedit.editing.methods.locft_bf:BreadthFirstFineTuning",
        "lora": "kgedit.editing.methods.lora:LoraFineTuning",
        "lora_merge": "kgedit.editing.methods.lora_merge:LoraMerge",
        "mend": "kgedit.editing.methods.mend:Mend",
        "grace": "kgedit.editing.methods.grace:Grace",
        "wise": "kgedit.editing.methods.wise:Wise",
        "ultraedit": "kgedit.editing.methods.ultraedit:UltraEdit",
        "prompt": "kgedit.editing.methods.prompt:Prompting",
        "ike": "kgedit.editing.methods.ike:InContextEditing",
        "rag": "kgedit.editing.methods.rag:Retrieval",
        "rome": "kgedit.editing.methods.rome:Rome",
        "r_rome": "kgedit.editing.methods.rome:RRome",
        "c_rome": "kgedit.editing.methods.rome:CRome",
        "memit": "kgedit.editing.methods.memit:Memit",
        "alphaedit": "kgedit.editing.methods.alphaedit:AlphaEdit",
    },
    group="kgedit.methods",
)
"""Every way of editing by name; other packages add theirs through the entry-point group."""
