"""Hyperparameters: typed settings, published values and EasyEdit's files. Does not import torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgedit.registry import Registry

if TYPE_CHECKING:
    from kgedit.hparams.settings import Settings

SETTINGS: Registry[type[Settings]] = Registry(
    "editing method",
    {
        "none": "kgedit.hparams.settings:NoSettings",
        "ft": "kgedit.hparams.fine_tuning:FineTuningSettings",
        "ft_l": "kgedit.hparams.fine_tuning:FtlSettings",
        "ft_m": "kgedit.hparams.fine_tuning:FtmSettings",
        "locft_bf": "kgedit.hparams.fine_tuning:LocFtSettings",
        "crispedit": "kgedit.hparams.fine_tuning:CrispEditSettings",
        "galore": "kgedit.hparams.fine_tuning:GaLoreSettings",
        "bitfit": "kgedit.hparams.fine_tuning:BitFitSettings",
        "ln_tuning": "kgedit.hparams.fine_tuning:LnTuningSettings",
        "ewc": "kgedit.hparams.fine_tuning:EwcSettings",
        "si": "kgedit.hparams.fine_tuning:SynapticSettings",
        "lora": "kgedit.hparams.lora:LoraSettings",
        "lora_merge": "kgedit.hparams.lora:LoraMergeSettings",
        "mend": "kgedit.hparams.gradient_transform:MendSettings",
        "grace": "kgedit.hparams.side_memory:GraceSettings",
        "wise": "kgedit.hparams.side_memory:WiseSettings",
        "ultraedit": "kgedit.hparams.gradient_transform:UltraEditSettings",
        "stableedit": "kgedit.hparams.gradient_transform:StableEditSettings",
        "prompt": "kgedit.hparams.in_context:PromptSettings",
        "ike": "kgedit.hparams.in_context:IkeSettings",
        "graph_rag": "kgedit.hparams.in_context:GraphRagSettings",
        "rag": "kgedit.hparams.in_context:RagSettings",
        "rome": "kgedit.hparams.locate_then_edit:RomeSettings",
        "r_rome": "kgedit.hparams.locate_then_edit:RomeSettings",
        "c_rome": "kgedit.hparams.locate_then_edit:RomeSettings",
        "memit": "kgedit.hparams.locate_then_edit:MemitSettings",
        "encore": "kgedit.hparams.locate_then_edit:EncoreSettings",
        "rlsedit": "kgedit.hparams.locate_then_edit:RlsEditSettings",
        "alphaedit": "kgedit.hparams.locate_then_edit:AlphaEditSettings",
    },
)
"""Settings of kgedit's own methods by method name, for code that runs without torch."""
