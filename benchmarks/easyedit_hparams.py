"""EasyEdit's hyperparameters equivalent to kgedit's resolved settings, one function per method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

Hparams = dict[str, Any]


def of_ft_m(editor: Any, common: Hparams) -> Hparams:
    """Hyperparameters of FT-M."""
    own = editor.settings
    return common | {
        "alg_name": "FT",
        "layers": list(own.trained_blocks),
        "num_steps": own.steps,
        "lr": own.learning_rate,
        "weight_decay": 0,
        "kl_factor": 0,
        "norm_constraint": False,
        "objective_optimization": "target_new",
        "rewrite_module_tmp": f"{common['rewrite_module_tmp']}.weight",
    }


def of_search(editor: Any, common: Hparams) -> Hparams:
    """Hyperparameters shared by ROME, MEMIT and AlphaEdit."""
    own = editor.settings
    return common | {
        "layers": list(editor.layers),
        "fact_token": "subject_last",
        "v_num_grad_steps": own.steps,
        "v_lr": own.learning_rate,
        "v_loss_layer": len(editor.model.blocks) - 1,
        "v_weight_decay": own.weight_decay,
        "clamp_norm_factor": own.clamp,
        "kl_factor": own.drift_weight,
        "mom2_adjustment": True,
        "mom2_dataset": "",
        "mom2_n_samples": 0,
        "mom2_dtype": "float32",
        "stats_dir": "",
    }


def of_rome(editor: Any, common: Hparams) -> Hparams:
    """Hyperparameters of ROME."""
    lengths = [[editor.settings.prefix_tokens, editor.settings.prompts - 1]]
    return of_search(editor, common) | {"alg_name": "ROME", "context_template_length_params": lengths}


def of_memit(editor: Any, common: Hparams) -> Hparams:
    """Hyperparameters of MEMIT."""
    weight = editor.preserve(editor.layers[0])
    return of_search(editor, common) | {
        "alg_name": "MEMIT",
        "layer_selection": "all",
        "mom2_update_weight": weight,
    }


def of_alphaedit(editor: Any, common: Hparams) -> Hparams:
    """Hyperparameters of AlphaEdit. The null space is written to a file, as if EasyEdit had computed it before."""
    path = Path(common["model_name"]).parent / "null_space.pt"
    if not path.is_file():
        spaces = [editor.basis(layer) for layer in editor.layers]
        torch.save(torch.stack([(basis @ basis.T).float() for basis in spaces]), path)
    return of_search(editor, common) | {
        "alg_name": "AlphaEdit",
        "layer_selection": "all",
        "mom2_update_weight": 0,
        "nullspace_threshold": 0,
        "L2": editor.settings.penalty,
        "P_loc": str(path),
    }


def of_grace(editor: Any, common: Hparams) -> Hparams:
    """Hyperparameters of GRACE."""
    own = editor.settings
    return {
        "edit_lr": own.learning_rate,
        "n_iter": own.steps,
        "eps": own.radius,
        "dist_fn": "euc",
        "val_init": own.start,
        "val_train": "sgd",
        "val_reg": "None",
        "reg": "early_stop",
        "replacement": "replace_last",
        "eps_expand": "coverage",
        "num_pert": 8,
        "dropout": 0.0,
        "inner_params": [_memory_layer(editor)],
        "device": "cpu",
        "alg_name": "GRACE",
        "model_name": common["model_name"],
    }


def of_wise(editor: Any, common: Hparams) -> Hparams:
    """Hyperparameters of WISE."""
    own = editor.settings
    return {
        "edit_lr": own.learning_rate,
        "n_iter": own.steps,
        "objective_optimization": "only_label",
        "mask_ratio": own.share,
        "alpha": own.alpha * own.unit,
        "beta": own.beta * own.unit,
        "gamma": own.gamma * own.unit,
        "act_ratio": own.ratio,
        "merge_freq": own.merge_every,
        "retrieve": own.retrieve,
        "replay": False,
        "save_freq": own.shard,
        "merge_alg": own.merge,
        "norm_constraint": own.clamp,
        "inner_params": [_memory_layer(editor)],
        "weights": 1.0,
        "densities": own.density,
        "device": "cpu",
        "alg_name": "WISE",
        "model_name": common["model_name"],
    }


def _memory_layer(editor: Any) -> str:
    """Layer of a method with a side memory, named as in EasyEdit's configurations for Llama."""
    return f"model.layers[{editor.layer}].mlp.down_proj.weight"
