"""EasyEdit's hyperparameter files become run specs; the texts here are written for the tests, key by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from world.small_timestep import write_timestep

from kgedit.cli import main
from kgedit.editing import METHODS
from kgedit.editing.hparams.easyedit import FOUND_BY_ITSELF, METHODS_OF, TABLES, GivenSpec, translate
from kgedit.errors import SpecError
from kgedit.runs.spec import problems_of, read_spec

LOCATE = """
v_num_grad_steps: 21
v_lr: 4e-1
v_weight_decay: 1e-3
clamp_norm_factor: 3
kl_factor: 0.05
context_template_length_params: [[7, 3], [7, 2]]
fact_token: subject_last
layer_selection: all
rewrite_module_tmp: model.layers.{}.mlp.down_proj
mom2_adjustment: true
mom2_dataset: wikipedia
mom2_n_samples: 100000
mom2_dtype: float32
v_loss_layer: 31
stats_dir: elsewhere
"""
FOUND = {"steps": 21, "learning_rate": "4e-1", "weight_decay": "1e-3", "clamp": 3, "drift_weight": 0.05}
SEARCHED = {**FOUND, "prompts": 6, "prefix_tokens": 7}
STATISTICS = ("mom2_dataset is 'wikipedia'", "mom2_n_samples is 100000")
TUNING = "num_steps: 12\nlr: 5e-4\nweight_decay: 0\nkl_factor: 0\nmax_length: 40\nbatch_size: 1\n"
FT = "alg_name: FT\nlayers: [21]\nrewrite_module_tmp: model.layers.{}.mlp.down_proj.weight\n" + TUNING
TUNED = {"layer": 21, "steps": 12, "learning_rate": "5e-4"}

CASES: dict[str, tuple[str, str, dict[str, Any], tuple[str, ...]]] = {
    "FT-L": (
        FT + "norm_constraint: 5e-5\nobjective_optimization: prompt_last\n",
        "ft_l",
        {**TUNED, "norm": "5e-5"},
        (),
    ),
    "FT": (FT + "norm_constraint: false\nobjective_optimization: prompt_last\n", "ft", TUNED, ()),
    "FT-M": (FT + "norm_constraint: false\nobjective_optimization: target_new\n", "ft_m", TUNED, ()),
    "FT of older files": (FT + "norm_constraint: 0.1\n", "ft_m", {**TUNED, "norm": 0.1}, ("objective_optim",)),
    "FT of others": (
        "alg_name: FT\nlayers: [3, 4]\nbatch_size: 3\nweight_decay: 0.1\nobjective_optimization: target_new\n"
        "rewrite_module_tmp: h.{}.mlp.c_fc\nfp16: true\nuse_chat_template: true\nnovel: 1\n",
        "ft_m",
        {"layer": 3},
        ("layers is", "batch_size is 3", "weight_decay is 0.1", "rewrite_module_tmp", "fp16", "use_chat", "novel: kg"),
    ),
    "LoRA": (
        "alg_name: LoRA\nlayers: []\nrank: 8\nlora_alpha: 32\nlora_dropout: 0.05\nnorm_constraint: false\n"
        "lora_type: adalora\ntarget_modules: [q_proj, v_proj]\n" + TUNING.replace("size: 1", "size: 4"),
        "lora",
        {"rank": 8, "alpha": 32, "dropout": 0.05, "epochs": 12, "learning_rate": "5e-4", "batch": 4},
        ("lora_type is 'adalora'",),
    ),
    "LoRA elsewhere": ("alg_name: LoRA\nlayers: [1]\ntarget_modules: [up_proj]", "lora", {}, ("layers", "target_mod")),
    "ROME": ("alg_name: ROME\nlayers: [5]\n" + LOCATE, "rome", {**SEARCHED, "layer": 5}, STATISTICS),
    "R-ROME": ("alg_name: R-ROME\nlayers: [6]\n" + LOCATE, "r_rome", {**SEARCHED, "layer": 6}, STATISTICS),
    "ROME without statistics": (
        "alg_name: ROME\nlayers: [5]\nmom2_adjustment: false\nfact_token: last\n"
        "context_template_length_params: [[5, 10], [10, 10]]\n",
        "rome",
        {"layer": 5, "prompts": 21, "prefix_tokens": 10},
        ("mom2_adjustment is False", "fact_token is 'last'", "one length here: 10"),
    ),
    "MEMIT": (
        "alg_name: MEMIT\nlayers: [4, 5, 6]\nmom2_update_weight: 15000\n" + LOCATE,
        "memit",
        {**SEARCHED, "layers": "4,5,6", "preserve": 15000},
        STATISTICS,
    ),
    "AlphaEdit": (
        "alg_name: AlphaEdit\nlayers: [4, 5]\nmom2_update_weight: 15000\nnullspace_threshold: 2e-2\nL2: 9\nP_loc: x\n"
        + LOCATE,
        "alphaedit",
        {**SEARCHED, "layers": "4,5", "threshold": "2e-2", "relative": False, "penalty": 9},
        STATISTICS,
    ),
    "GRACE": (
        "alg_name: Grace\ninner_params: ['transformer.h[25].mlp.fc_out.weight']\nedit_lr: 0.9\nn_iter: 60\neps: 2.0\n"
        "dist_fn: euc\nval_init: warm\nval_train: sgd\nval_reg: None\nreg: early_stop\nreplacement: replace_last\n"
        "eps_expand: coverage\nnum_pert: 8\ndropout: 0.0\n",
        "grace",
        {"layer": 25, "learning_rate": 0.9, "steps": 60, "radius": 2.0, "start": "warm"},
        (),
    ),
    "GRACE otherwise": (
        "alg_name: GRACE\ninner_params: ['transformer.h[35].mlp.c_fc']\nval_init: cold\nreplacement: replace_all",
        "grace",
        {"layer": 35, "start": "cold"},
        ("inner_params is", "replacement is 'replace_all'"),
    ),
    "WISE": (
        "alg_name: WISE\ninner_params: ['model.layers[27].mlp.down_proj.weight']\nedit_lr: 1.0\nn_iter: 30\n"
        "act_margin: [2, 20, 10]\nact_ratio: 0.5\nmask_ratio: 0.3\nsave_freq: 400\nmerge_freq: 800\ndensities: 0.6\n"
        "weights: 1.0\nmerge_alg: ties\nnorm_constraint: 1.0\nobjective_optimization: only_label\nretrieve: True\n"
        "replay: True\nload_path: somewhere\n",
        "wise",
        {
            **{"layer": 27, "learning_rate": 1.0, "steps": 30, "alpha": 2, "beta": 20, "gamma": 10, "unit": 1.0},
            **{"margin_weight": 1.0},
            **{"ratio": 0.5, "share": 0.3, "shard": 400, "merge_every": 800, "density": 0.6},
            **{"clamp": 1.0, "merge": "ties", "retrieve": True, "replay": 1000},
        },
        ("replay is True", "load_path is 'somewhere'"),
    ),
    "WISE otherwise": (
        "alg_name: WISE\ninner_params: ['transformer.h[8].mlp.c_fc.weight']\nmerge_alg: slerp\nretrieve: False\n"
        "norm_constraint: none\n",
        "wise",
        {"layer": 8, "matrix": "up", "retrieve": False, "clamp": "null"},
        ("merge_alg is 'slerp'",),
    ),
    "MEND": (
        "alg_name: MEND\narchive: net.pt\nalg: MEND\nlr: 1e-6\nedit_lr: 1e-4\nlr_lr: 1e-4\ncedit: 0.2\ncloc: 1.0\n"
        "cbase: 1.0\nrank: 64\nmax_iters: 500\nbatch_size: 1\naccumulate_bs: 10\ngrad_clip: 1.\nopt: Adam\n"
        "inner_params: [h.46.mlp.c_proj.weight, h.46.mlp.c_fc.weight, h.47.mlp.c_proj.weight, h.47.mlp.c_fc.weight]\n"
        "early_stop_patience: 20000\ndropout: 0.0\nlr_scale: 1.0\ntrain_base: False\nno_grad_layers: null\n"
        "one_sided: False\nx_only: False\ndelta_only: False\nnorm: True\ncombine: True\nshared: True\nn_hidden: 1\n"
        "hidden_dim: null\ninit: id\nact: gelu\nmlp_class: IDMLP\nhalf: False\nseed: 42\nsilent: False\n",
        "mend",
        {
            **{"blocks": 2, "matrices": "up,down", "learning_rate": "1e-6", "edit_rate": "1e-4"},
            **{"edit_weight": 0.2, "rank": 64, "train_steps": 500},
        },
        ("archive is", "lr_lr is", "accumulate_bs is 10", "early_stop_patience is", "act is 'gelu'"),
    ),
    "IKE": (
        "alg_name: IKE\nk: 12\nsentence_model_name: ./cache/all-MiniLM-L6-v2\nresults_dir: out\n",
        "ike",
        {"k": 12, "embedder": "all-minilm-l6-v2"},
        (),
    ),
    "UltraEdit": (
        "alg_name: ULTRAEDIT\ninner_params: [model.layers.29.mlp.down_proj, model.layers.30.mlp.down_proj]\nlr: 1e-6\n"
        "batch_size: 50\ntoken: mask\nalg: ULTRAEDIT\ndropout: 0.0\nno_grad_layers: null\nhalf: true\n"
        "batch_size_once: 10\neditor_batch_size: 1024\n",
        "ultraedit",
        {"layers": "29,30", "matrices": "down", "learning_rate": "1e-6", "batch": 50},
        ("half is True",),
    ),
    "UltraEdit of other matrices": (
        "alg_name: ULTRAEDIT\n"
        "inner_params: [model.layers.12.mlp.gate_proj, model.layers.13.mlp.up_proj, layers.13.self_attn.o_proj]\n",
        "ultraedit",
        {"layers": "12.gate,13.up"},
        ("only, not o_proj",),
    ),
}


def _read(text: str) -> GivenSpec:
    return translate(yaml.safe_load(text))


@pytest.mark.parametrize("name", CASES)
def test_a_file_becomes_the_settings_of_our_method_and_says_what_it_leaves_out(name: str) -> None:
    text, method, settings, outcome = CASES[name]
    given = _read(text)

    assert given.raw["method"] == method
    assert given.raw["settings"] == settings
    assert problems_of(given.raw) == [], "numbers such as 5e-4, which YAML reads as text, are numbers to resolve"
    assert len(given.notes) == len(outcome), given.notes
    assert [part for part in outcome if not any(part in note for note in given.notes)] == []


def test_every_target_is_a_setting_of_its_method_and_every_key_is_tried_above() -> None:
    everywhere = {"fp16", "bf16", "half", "use_chat_template", "enable_thinking", "batch_size"}
    for algorithm, rules in TABLES.items():
        methods = ("ft_l", "ft_m") if algorithm == "FT" else (METHODS_OF[algorithm],)
        targets = {target for rule in rules.values() for target in rule.targets}
        for method in methods:
            assert targets <= METHODS[method].settings_type.model_fields.keys(), algorithm
        own = [yaml.safe_load(text) for text, *_ in CASES.values()]
        tried = {key for raw in own if raw["alg_name"].upper() == algorithm for key in raw}
        assert rules.keys() - everywhere <= tried, algorithm
        assert not rules.keys() & FOUND_BY_ITSELF


def test_model_seed_and_device_are_taken_over_where_the_device_is_there() -> None:
    given = _read("{alg_name: IKE, model_name: some/model, seed: 42, device: cpu}")
    assert {"model": "some/model", "seed": 42, "device": "cpu"}.items() <= given.raw.items()

    elsewhere = _read("{alg_name: IKE, device: 999}")
    assert "device" not in elsewhere.raw
    assert "there is no cuda:999 here" in elsewhere.notes[0]


def test_a_method_that_kgedit_does_not_have_is_an_error_that_names_those_it_has() -> None:
    with pytest.raises(SpecError, match=r"'MEMITT'; did you mean 'MEMIT'\? known: ALPHAEDIT, FT,.*WISE"):
        _read("alg_name: MEMITT")


@pytest.mark.parametrize("line", ["inner_params: [head.weight]", "inner_params: a.1.b", "act_margin: [1, 2]"])
def test_a_value_that_makes_no_sense_is_named_with_its_key(line: str) -> None:
    with pytest.raises(SpecError, match=rf"{line.partition(':')[0]}: .* makes no sense"):
        _read(f"alg_name: WISE\n{line}\n")


@pytest.mark.parametrize(
    ("given", "layer", "layers"),
    [("12", 12, "12"), ("'12'", 12, "12"), ("4,5", 4, "4,5"), ("4-6", 4, "4,5,6"), ("['7', 5]", 7, "7,5")],
)
def test_blocks_are_a_number_a_text_or_a_list(given: str, layer: int, layers: str) -> None:
    assert _read(f"alg_name: ROME\nlayers: {given}").raw["settings"] == {"layer": layer}
    assert _read(f"alg_name: MEMIT\nlayers: {given}").raw["settings"] == {"layers": layers}


@pytest.mark.parametrize("given", ["[5.7]", "[true]", "true", "5.7", "[]", "''", "null", "8-4", "[4-8]", "[-1]", "all"])
@pytest.mark.parametrize("algorithm", ["ROME", "MEMIT", "FT"])
def test_other_blocks_are_refused(algorithm: str, given: str) -> None:
    with pytest.raises(SpecError, match=r"layers: .* makes no sense here \(expected a list of blocks such as \[4, 5\]"):
        _read(f"alg_name: {algorithm}\nlayers: {given}")


def test_run_edit_takes_such_a_file_and_tells_on_stderr_what_it_ignores(tmp_path: Path) -> None:
    write_timestep(tmp_path / "step")
    (tmp_path / "ft.yaml").write_text(FT + "objective_optimization: prompt_last\ndevice: cpu\nnovel: 3\n", "utf-8")
    given = read_spec(tmp_path / "ft.yaml")
    flags = ["--timestep", str(tmp_path / "step"), "--model", "no-such/model", "--set", "steps=many"]

    result = CliRunner().invoke(main, ["run-edit", str(tmp_path / "ft.yaml"), *flags])

    assert given.raw["method"] == "ft"
    assert result.exit_code == 1
    assert f"{tmp_path / 'ft.yaml'}: ignored: novel: kgedit does not know this key of FT" in result.stderr
    assert "settings.steps: expected a whole number" in result.stderr
