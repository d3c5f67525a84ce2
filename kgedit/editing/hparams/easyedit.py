"""Converts EasyEdit's hyperparameter files to kgedit's run specs, by one table of keys per method.

A key maps to settings of kgedit, or must have the value that corresponds to kgedit's fixed behaviour, or restates
something that kgedit finds by itself. Keys that would change the result but have no counterpart are reported with the
reason, and so are unknown keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from kgedit.editing.hparams.settings import unknown
from kgedit.errors import ModelError, SpecError
from kgedit.llm.surgery.layers import parse_layers

_WHOLE_SPEC = frozenset({"alg_name", "model_name", "device", "seed"})


@dataclass(frozen=True, slots=True)
class GivenSpec:
    """A run spec as given by a file, without defaults, and the ignored parts of the file with their reasons."""

    raw: dict[str, Any]
    notes: tuple[str, ...]


def is_easyedit(raw: Mapping[str, Any]) -> bool:
    """Whether a mapping is the content of one of EasyEdit's files."""
    return "alg_name" in raw


def translate(raw: Mapping[str, Any]) -> GivenSpec:
    """Convert the content of one of EasyEdit's files to a run spec.

    Raises:
        SpecError: if its method is unknown, or values are invalid.
    """
    method = method_of(raw)
    rules = TABLES[_algorithm(raw)]
    settings: dict[str, Any] = {}
    notes, problems = _missing(raw), []
    for key, value in raw.items():
        if key in _WHOLE_SPEC or key in FOUND_BY_ITSELF:
            continue
        if key not in rules:
            notes.append(f"{key}: kgedit does not know this key of {raw['alg_name']}; it is left out")
            continue
        try:
            values, note = rules[key].read(value)
        except (ValueError, TypeError, AttributeError) as error:
            problems.append(f"{key}: {value!r} makes no sense here ({error})")
            continue
        # A disabled bound belongs to the methods without one.
        settings |= {name: given for name, given in zip(rules[key].targets, values, strict=True) if given is not None}
        if note:
            notes.append(f"{key} is {value!r}: {note}")
    if problems:
        raise SpecError(problems)
    spec: dict[str, Any] = {"method": method, "settings": settings}
    if raw.get("model_name"):
        spec["model"] = raw["model_name"]
    if raw.get("seed") is not None:
        spec["seed"] = raw["seed"]
    spec |= _device(raw.get("device"), notes)
    return GivenSpec(spec, tuple(notes))


def method_of(raw: Mapping[str, Any]) -> str:
    """kgedit's name of the method of a file.

    Raises:
        SpecError: if kgedit has no such method.
    """
    name = _algorithm(raw)
    if name != "FT":
        return METHODS_OF[name]
    if raw.get("objective_optimization", "target_new") != "prompt_last":
        return "ft_m"
    return "ft" if bound(raw.get("norm_constraint"))[0][0] is None else "ft_l"


def _algorithm(raw: Mapping[str, Any]) -> str:
    name = str(raw["alg_name"]).upper()
    if name not in TABLES:
        known = [*METHODS_OF, "FT"]
        raise SpecError([f"alg_name: {unknown('method of EasyEdit that kgedit has', raw['alg_name'], known)}"])
    return name


def _missing(raw: Mapping[str, Any]) -> list[str]:
    if _algorithm(raw) == "FT" and "objective_optimization" not in raw:
        return ["objective_optimization is missing: taken as 'target_new' (ft_m); for 'prompt_last' give --method ft_l"]
    return []


def _device(given: object, notes: list[str]) -> dict[str, str]:
    """Convert a device; a number refers to a GPU of the machine on which the file was written."""
    if given is None:
        return {}
    name = str(given) if not str(given).isdigit() else f"cuda:{given}"
    try:
        from kgedit.llm.devices import resolve_device
    except ModuleNotFoundError:  # without torch the file can be checked, but no run starts
        return {"device": name}
    try:
        return {"device": resolve_device(name)}
    except ModelError:
        notes.append(f"device is {given!r}: there is no {name} here, so 'auto' is taken; --device names another")
        return {}


Read = Callable[[Any], tuple[tuple[object, ...], str]]
"""Converts a key's value to the values of its settings and a note for the user or ""; raises ValueError if invalid."""


@dataclass(frozen=True, slots=True)
class EasyEditKey:
    """Conversion of one key: the settings to which it maps, if any, and the conversion of its value."""

    targets: tuple[str, ...]
    read: Read


def _plain(value: object) -> object:
    """Parse numbers and lower-case words, because YAML reads 5e-4 and None as strings."""
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return value.lower()


def _to(name: str) -> EasyEditKey:
    """A key whose value is used under kgedit's name."""
    return EasyEditKey((name,), lambda value: ((value,), ""))


def _only(reason: str, *expected: object) -> EasyEditKey:
    """A key without counterpart: the reason is reported, unless the value is kgedit's fixed behaviour."""
    return EasyEditKey((), lambda value: ((), "" if _plain(value) in expected else reason))


def _unused() -> EasyEditKey:
    """A key that neither EasyEdit's method nor kgedit's uses."""
    return EasyEditKey((), lambda value: ((), ""))  # noqa: ARG005 - the shape of Read


def _blocks(value: Any) -> list[int]:
    """Blocks given as a number, as a text such as "4-8" or "4,5", or as a list, in the given order."""
    try:
        given = list(parse_layers(value)) if isinstance(value, str) else value if isinstance(value, list) else [value]
    except SpecError:
        given = []
    if not given or any(isinstance(block, bool) or not str(block).isdecimal() for block in given):
        raise ValueError("expected a list of blocks such as [4, 5]")
    return [int(block) for block in given]


def _one_block(value: Any) -> tuple[tuple[object, ...], str]:
    blocks = _blocks(value)
    more = f"kgedit edits one block; it takes {blocks[0]}" if len(blocks) > 1 else ""
    return (blocks[0],), more


def _several_blocks(value: Any) -> tuple[tuple[object, ...], str]:
    return (",".join(map(str, _blocks(value))),), ""


def bound(value: Any) -> tuple[tuple[object, ...], str]:
    """Maximum change of a weight; None if it is disabled."""
    off = _plain(value) in (None, False, "false", "none")
    return (None if off else value,), ""


def _bound_or_null(value: Any) -> tuple[tuple[object, ...], str]:
    """Likewise for a setting that is a bound by default, which null turns off."""
    (found,), note = bound(value)
    return ("null" if found is None else found,), note


def _random_prefixes(value: Any) -> tuple[tuple[object, ...], str]:
    """Convert [[length, count], ...] to the number of prompts, with the bare one, and the length of all prefixes."""
    lengths, counts = [int(length) for length, _ in value], [int(count) for _, count in value]
    note = f"random prefixes are all of one length here: {max(lengths)}" if len(set(lengths)) > 1 else ""
    return (1 + sum(counts), max(lengths)), note


def _margins(value: Any) -> tuple[tuple[object, ...], str]:
    """EasyEdit's margins are absolute, so their unit is 1, and their loss has the same weight as the answer's."""
    alpha, beta, gamma = value
    return (alpha, beta, gamma, 1.0, 1.0), ""


def _merge(value: Any) -> tuple[tuple[object, ...], str]:
    if value == "slerp":
        return (None,), "kgedit's slerp takes two copies, and not the matrix and the first copy; it merges by TIES"
    if value not in ("ties", "dare_ties", "dare_linear", "magnitude", "linear"):
        return (None,), "kgedit has no such merge; it merges by TIES"
    return (value,), ""


def _replay(value: Any) -> tuple[tuple[object, ...], str]:
    if not value:
        return (0,), ""
    return (1000,), "kgedit replays the bare prompts of a sample: of 1,000 edits of each copy, one with each new edit"


def _embedder(value: Any) -> tuple[tuple[object, ...], str]:
    name = PurePosixPath(str(value)).name.lower()
    return (name if name == "all-minilm-l6-v2" else value,), ""


def _threshold(value: Any) -> tuple[tuple[object, ...], str]:
    """EasyEdit's threshold is an eigenvalue of C, not a share of its trace."""
    return (value, False), ""


_DOWN = {"down_proj", "c_proj", "fc_out", "fc2", "dense_4h_to_h", "w2", "wo"}
_ROLES = {
    "up": {"up_proj", "c_fc", "fc_in", "fc1", "dense_h_to_4h", "w3", "wi"},
    "gate": {"gate_proj", "w1"},
    "down": _DOWN,
}
_OTHER_MATRIX = "kgedit edits down-projections only, those of the same blocks"


def _matrix(value: Any) -> str:
    """Last part of a matrix name."""
    return str(value).removesuffix(".weight").rpartition(".")[2]


def _rewritten(value: Any) -> tuple[tuple[object, ...], str]:
    return (), "" if _matrix(value) in _DOWN else _OTHER_MATRIX


def _blocks_of(names: Any) -> tuple[list[int], str]:
    """Blocks of the named matrices, ascending, and a note if they are not down-projections."""
    if isinstance(names, str):
        raise ValueError("expected a list of names")
    found = [re.search(r"[.\[](\d+)[\].]", str(name)) for name in names]
    blocks = sorted({int(number[1]) for number in found if number})
    if not blocks:
        raise ValueError("none of them contains its block")
    return blocks, "" if all(_matrix(name) in _DOWN for name in names) else _OTHER_MATRIX


def _inner_block(value: Any) -> tuple[tuple[object, ...], str]:
    down = [name for name in value if _matrix(name) in _DOWN] if isinstance(value, list) else value
    blocks, note = _blocks_of(down or value)
    chosen, more = _one_block(blocks)
    return chosen, "; ".join(filter(None, (note, more)))


def _layer_and_matrix(value: Any) -> tuple[tuple[object, ...], str]:
    """Block and role of the single matrix that is copied."""
    names = value if isinstance(value, list) else [value]
    roles = sorted({_role(name) for name in names})
    if roles != ["up"]:
        layer, note = _inner_block(value)
        return (*layer, None), note
    chosen, note = _one_block(_blocks_of(names)[0])
    return (*chosen, "up"), note


def _role(name: Any) -> str:
    """Role of the named matrix, or ""."""
    return next((role for role, known in _ROLES.items() if _matrix(name) in known), "")


def _matrices_of(names: Any) -> tuple[list[tuple[int, str]], list[str]]:
    """Block and role of each MLP matrix, and notes for the user; down-projections if no matrix is named."""
    _blocks_of(names)
    strange = sorted({_matrix(name) for name in names if not _role(name)})
    known = [name for name in names if _role(name)]
    matrices = {(_blocks_of([name])[0][0], _role(name) or "down") for name in known or names}
    return sorted(matrices), [f"kgedit edits matrices of MLPs only, not {', '.join(strange)}"] if strange else []


def _blocks_and_roles(matrices: list[tuple[int, str]]) -> tuple[list[int], str, bool]:
    """Blocks, roles in the form of the setting `matrices`, and whether every block has every role."""
    blocks = sorted({block for block, _ in matrices})
    roles = [role for role in _ROLES if any(own == role for _, own in matrices)]
    return blocks, ",".join(roles), len(matrices) == len(blocks) * len(roles)


def _inner_matrices(value: Any) -> tuple[tuple[object, ...], str]:
    matrices, notes = _matrices_of(value)
    blocks, roles, same = _blocks_and_roles(matrices)
    if same:
        return (",".join(map(str, blocks)), roles), "; ".join(notes)
    return (",".join(f"{block}.{role}" for block, role in matrices), None), "; ".join(notes)


def _last_blocks(value: Any) -> tuple[tuple[object, ...], str]:
    matrices, notes = _matrices_of(value)
    blocks, roles, same = _blocks_and_roles(matrices)
    if not same:
        notes.append("kgedit edits the same matrices in every block")
    if blocks != list(range(blocks[0], blocks[-1] + 1)):
        notes.append("kgedit takes the last blocks without a gap")
    return (len(blocks), roles), "; ".join(notes)


def _query_and_value(value: Any) -> tuple[tuple[object, ...], str]:
    fused = {"c_attn", "query_key_value", "qkv_proj"}
    note = "" if {"q_proj", "v_proj"} == set(value) or set(value) <= fused else "kgedit adapts queries and values"
    return (), note


FOUND_BY_ITSELF = frozenset({
    # Parts of the model, which are found by structure, and loading of the model.
    "layer_module_tmp", "mlp_module_tmp", "attn_module_tmp", "ln_f_module", "lm_head_module", "v_loss_layer",
    "model_class", "class_name", "tokenizer_class", "tokenizer_name", "model_parallel", "padding_side",
    "attn_implementation", "language_model_only",
    # File paths; statistics and null spaces are stored in the home folder.
    "stats_dir", "P_loc", "results_dir", "save_path",
    # Amount and number format of data in memory.
    "batch_size_once", "editor_batch_size", "mom2_dtype", "max_length",
    # Output and checkpoints of the training of a network.
    "silent", "verbose", "debug", "save", "log_interval", "eval_log_interval", "final_eval", "val_interval",
    "val_batch_size", "val_steps", "model_save_pt", "eval_only", "early_stop_key",
})  # fmt: skip
"""Keys of all methods that restate what kgedit finds, stores or prints by itself."""

_WITHOUT = "kgedit trains without it"
_BATCH = "the protocol determines how many edits are made together: --protocol sequential --batch-size N"
_FORMAT = "the model's number format is an option: --dtype float16 or bfloat16"
_CHAT = "the format of training is the run's: --train-context NAME"
_NO_TOKENS = "kgedit's statistics are of `tokens` tokens: --set tokens=N"

_COMMON = {
    "batch_size": _only(_BATCH, 1),
    "fp16": _only(_FORMAT, False),
    "bf16": _only(_FORMAT, False),
    "half": _only(_FORMAT, False),
    "use_chat_template": _only(_CHAT, False),
    "enable_thinking": _only(_CHAT, True),
}

_LOCATE = {
    **_COMMON,
    "v_num_grad_steps": _to("steps"),
    "v_lr": _to("learning_rate"),
    "v_weight_decay": _to("weight_decay"),
    "clamp_norm_factor": _to("clamp"),
    "kl_factor": _to("drift_weight"),
    "context_template_length_params": EasyEditKey(("prompts", "prefix_tokens"), _random_prefixes),
    "fact_token": _only("kgedit edits at the subject's last token", "subject_last"),
    "layer_selection": _only("kgedit edits every layer that is named", "all"),
    "rewrite_module_tmp": EasyEditKey((), _rewritten),
    "mom2_adjustment": _only("kgedit always makes use of the statistics", True),
    "mom2_dataset": _only("kgedit's statistics are of the timestep's known facts, or a text: --set corpus=FILE"),
    "mom2_n_samples": _only(_NO_TOKENS),
}
_ROME = {**_LOCATE, "layers": EasyEditKey(("layer",), _one_block)}
_SPREAD = {**_LOCATE, "layers": EasyEditKey(("layers",), _several_blocks)}

_TUNING = {
    **_COMMON,
    "num_steps": _to("steps"),
    "lr": _to("learning_rate"),
    "weight_decay": _only(_WITHOUT, 0),
    "kl_factor": _only(_WITHOUT, 0),
}
_FT = {
    **_TUNING,
    "layers": EasyEditKey(("layer",), _one_block),
    "norm_constraint": EasyEditKey(("norm",), bound),
    "rewrite_module_tmp": EasyEditKey((), _rewritten),
    "objective_optimization": _only("expected prompt_last or target_new; taken as target_new",
                                    "prompt_last", "target_new"),
}  # fmt: skip
_LORA = {
    **_TUNING,
    "num_steps": _to("epochs"),
    "batch_size": _to("batch"),
    "rank": _to("rank"),
    "lora_alpha": _to("alpha"),
    "lora_dropout": _to("dropout"),
    "layers": _only("kgedit adapts every block", []),
    "target_modules": EasyEditKey((), _query_and_value),
    "norm_constraint": _only("kgedit sets an adapter no bound", False),
    "lora_type": _only("kgedit has plain LoRA only", "lora"),
}

_GRACE = {
    **_COMMON,
    "inner_params": EasyEditKey(("layer",), _inner_block),
    "edit_lr": _to("learning_rate"),
    "n_iter": _to("steps"),
    "eps": _to("radius"),
    "dist_fn": _only("kgedit's keys are near by Euclidean distance", "euc"),
    "val_init": _to("start"),
    "val_train": _only("kgedit learns values without perturbing them", "sgd"),
    "val_reg": _only("kgedit learns values without a penalty", None, "none"),
    "reg": _only("kgedit stops early, at stop_loss", "early_stop"),
    "replacement": _only("kgedit replaces at the prompt's last token", "replace_last"),
    "eps_expand": _only("kgedit widens a radius just to the new key", "coverage"),
    "num_pert": _unused(),
    "dropout": _only(_WITHOUT, 0),
}

_WISE = {
    **_COMMON,
    "inner_params": EasyEditKey(("layer", "matrix"), _layer_and_matrix),
    "edit_lr": _to("learning_rate"),
    "n_iter": _to("steps"),
    "act_margin": EasyEditKey(("alpha", "beta", "gamma", "unit", "margin_weight"), _margins),
    "act_ratio": _to("ratio"),
    "mask_ratio": _to("share"),
    "save_freq": _to("shard"),
    "merge_freq": _to("merge_every"),
    "densities": _to("density"),
    "weights": _only("kgedit merges copies with equal weights", 1),
    "merge_alg": EasyEditKey(("merge",), _merge),
    "norm_constraint": EasyEditKey(("clamp",), _bound_or_null),
    "objective_optimization": _only("kgedit's loss is that of the answer", "only_label"),
    "retrieve": _to("retrieve"),
    "replay": EasyEditKey(("replay",), _replay),
    "load_path": _only("kgedit begins without edits; a run resumes by itself", None, "none"),
}

_ONE_WAY = "kgedit's network is built one way: shared, two low-rank residual layers, normalised, for both parts"
_MEND = {
    **_COMMON,
    "inner_params": EasyEditKey(("blocks", "matrices"), _last_blocks),
    "rank": _to("rank"),
    "lr": _to("learning_rate"),
    "edit_lr": _to("edit_rate"),
    "cedit": _to("edit_weight"),
    "max_iters": _to("train_steps"),
    "batch_size": _only("kgedit's network learns from one edit at a time", 1),
    "archive": _only("kgedit cannot read this network and trains its own (--set train_steps=N), once per model and "
                     "facts", None, "none"),
    "lr_lr": _only("kgedit learns the rates' logarithms, whose speed is another number: --set rate_speed=X"),
    "cloc": _only("kgedit weighs the divergence by 1", 1),
    "cbase": _unused(),
    "accumulate_bs": _only("kgedit's network learns from one edit at a time", 1),
    "grad_clip": _only("kgedit clips gradients at 1", 1),
    "early_stop_patience": _only("kgedit trains for train_steps, without early stopping"),
    "opt": _only("kgedit trains with Adam", "adam"),
    "alg": _only(_ONE_WAY, "mend"),
    "dropout": _only(_WITHOUT, 0),
    "lr_scale": _only(_ONE_WAY, 1),
    "train_base": _only("kgedit does not change the model while the network is trained", False),
    "no_grad_layers": _only("kgedit needs no such list", None, "none"),
    **{key: _only(_ONE_WAY, False) for key in ("one_sided", "x_only", "delta_only")},
    **{key: _only(_ONE_WAY, True) for key in ("norm", "combine", "shared")},
    "n_hidden": _only(_ONE_WAY, 1),
    "hidden_dim": _only(_ONE_WAY, None, "none"),
    "init": _only(_ONE_WAY, "id"),
    "act": _only(_ONE_WAY, "relu"),
    "mlp_class": _only(_ONE_WAY, "idmlp"),
}  # fmt: skip

_IKE = {**_COMMON, "k": _to("k"), "sentence_model_name": EasyEditKey(("embedder",), _embedder)}

_ULTRAEDIT = {
    **_COMMON,
    "inner_params": EasyEditKey(("layers", "matrices"), _inner_matrices),
    "lr": _to("learning_rate"),
    "batch_size": _to("batch"),
    "token": _only("kgedit's keys are read where the answer is predicted", "mask"),
    "alg": _only("kgedit has one form of it", "ultraedit"),
    "dropout": _only(_WITHOUT, 0),
    "no_grad_layers": _only("kgedit needs no such list", None, "none"),
}

TABLES: dict[str, Mapping[str, EasyEditKey]] = {
    "FT": _FT,
    "LORA": _LORA,
    "ROME": _ROME,
    "R-ROME": _ROME,
    "MEMIT": {**_SPREAD, "mom2_update_weight": _to("preserve")},
    "ALPHAEDIT": {
        **_SPREAD,
        "mom2_update_weight": _unused(),
        "nullspace_threshold": EasyEditKey(("threshold", "relative"), _threshold),
        "L2": _to("penalty"),
    },
    "GRACE": _GRACE,
    "WISE": _WISE,
    "MEND": _MEND,
    "IKE": _IKE,
    "ULTRAEDIT": _ULTRAEDIT,
}
"""Conversions of keys, by alg_name in upper case."""

METHODS_OF = {
    "LORA": "lora",
    "ROME": "rome",
    "R-ROME": "r_rome",
    "MEMIT": "memit",
    "ALPHAEDIT": "alphaedit",
    "GRACE": "grace",
    "WISE": "wise",
    "MEND": "mend",
    "IKE": "ike",
    "ULTRAEDIT": "ultraedit",
}
"""kgedit's method names by alg_name, except FT, which is three methods here (`method_of`)."""
