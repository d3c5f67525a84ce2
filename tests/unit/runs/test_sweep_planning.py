"""A sweep's spec: its runs, their names, and every mistake with its line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from world.small_timestep import write_timestep

from kgedit.errors import SpecError
from kgedit.runs.sweeps import LocatedYaml, find_sweep, read_located, shipped_sweeps
from kgedit.runs.sweeps.planning import SweepPlan, plan_sweep, run_name


@pytest.fixture
def base(tmp_path: Path) -> dict[str, Any]:
    write_timestep(tmp_path / "step")
    return {"model": "tiny", "timesteps": [str(tmp_path / "step")], "presets": ["synthetic"], "device": "cpu"}


def _names(plan: SweepPlan) -> list[str]:
    return [run.name for run in plan.runs]


def _plan(base: Mapping[str, Any], **parts: Any) -> SweepPlan:
    return plan_sweep(LocatedYaml({"base": base, **parts}))


def _problems(text: str, folder: Path) -> list[str]:
    path = folder / "sweep.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        plan_sweep(read_located(path))
    return [problem.removeprefix(f"{path}:") for problem in caught.value.problems]


def test_a_grid_is_a_product_and_names_its_runs_after_its_lists(base: dict[str, Any]) -> None:
    plan = _plan(
        base, grid={"method": "rag", "settings": {"k": [1, 10], "embedder": "character-ngrams"}, "seed": [0, 1]}
    )

    assert _names(plan) == ["rag-k=1-seed=0", "rag-k=1-seed=1", "rag-k=10-seed=0", "rag-k=10-seed=1"]
    assert plan.runs[2].spec.settings == {"k": 10, "embedder": "character-ngrams"}
    assert [run.spec.seed for run in plan.runs] == [0, 1, 0, 1]


def test_several_grids_give_each_method_its_own_settings(base: dict[str, Any]) -> None:
    grids = [{"method": "rag", "settings": {"k": [1, 2]}}, {"method": ["lora"], "settings": {"rank": [4, 64]}}]
    assert _names(_plan(base, grid=grids)) == ["rag-k=1", "rag-k=2", "lora-rank=4", "lora-rank=64"]


def test_single_runs_stand_besides_and_are_named_after_all_that_they_give(base: dict[str, Any]) -> None:
    runs = [{"method": "memit", "protocol": "sequential", "batch_size": 3}, {"method": "none"}]
    assert _names(_plan(base, runs=runs)) == ["memit-protocol=sequential-batch_size=3", "none"]


def test_the_names_that_a_grid_had_stay_when_it_grows(base: dict[str, Any]) -> None:
    one = _names(_plan(base, grid={"method": ["ft_m"], "seed": [0]}))
    more = _names(_plan(base, grid={"method": ["ft_m", "rome"], "seed": [0, 1]}))
    assert one == ["ft_m-seed=0"]
    assert set(one) < set(more)


def test_a_name_loses_the_suffix_of_a_file_and_no_part_of_a_models_name(
    base: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    models = ["org/Llama-3.1-8B", "org/Llama-3.2-1B"]
    for name in models:
        Path(name).mkdir(parents=True)
    plan = _plan({**base, "model": None}, grid={"method": "none", "model": models})
    assert _names(plan) == ["none-model=Llama-3.1-8B", "none-model=Llama-3.2-1B"]
    assert {run.former_name for run in plan.runs} == {"none-model=Llama-3"}
    for suffix in (".json", ".jsonl", ".csv", ".parquet", ".yaml"):
        assert run_name("none", {("timesteps",): f"a/edits{suffix}"}) == "none-timesteps=edits"


def test_what_is_excluded_is_left_out_and_counted(base: dict[str, Any]) -> None:
    grid = {"method": ["ft_m", "ft_l"], "settings": {"steps": [5, 25]}}
    plan = _plan(base, grid=grid, exclude=[{"method": ["ft_m"], "settings": {"steps": [25, 50]}}])
    assert _names(plan) == ["ft_m-steps=5", "ft_l-steps=5", "ft_l-steps=25"]
    assert plan.excluded == 1


def test_combinations_that_differ_in_what_the_method_ignores_are_one_run(base: dict[str, Any]) -> None:
    plan = _plan(base, grid={"method": ["rag", "lora"], "train_context": ["question_only", "instruction"]})
    assert _names(plan) == [
        "rag-train_context=question_only",
        "lora-train_context=question_only",
        "lora-train_context=instruction",
    ]
    assert plan.repeated == 1


def test_alternatives_of_a_list_are_names_or_lists_and_presets_of_the_sweep_are_among_them(
    base: dict[str, Any],
) -> None:
    own = {"context": "chat", "generation": "greedy", "truncation": "newline", "metric": "contains"}
    grid = {"method": "none", "presets": ["wild", ["synthetic", "mine"]]}
    plan = _plan({**base, "presets": None}, grid=grid, presets={"mine": own})

    assert _names(plan) == ["none-presets=wild", "none-presets=synthetic+mine"]
    mine = plan.runs[1].spec.presets[1]
    assert (mine.name, mine.context, mine.truncation, mine.metric) == ("mine", "chat", "newline", "contains")


def test_folders_of_runs_with_the_same_name_differ(base: dict[str, Any], tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_timestep(tmp_path / name / "step")
    paths = [str(tmp_path / name / "step") for name in ("a", "b")]
    names = _names(_plan(base, grid={"method": "none", "timesteps": paths}))
    again = _names(_plan(base, grid={"method": "none", "timesteps": paths[::-1]}))

    assert len(set(names)) == 2
    assert all(name.startswith("none-timesteps=step-") for name in names)
    assert names == again[::-1]


def test_flags_go_before_the_base_and_not_before_the_grid(base: dict[str, Any]) -> None:
    source = LocatedYaml({"base": {**base, "limit": 3}, "grid": {"method": ["ft_m"], "seed": [1, 2]}})
    assert [run.spec.limit for run in plan_sweep(source, base={"limit": "2"}).runs] == [2, 2]
    with pytest.raises(SpecError, match=r"grid\.seed\[1\]: seed is set here"):
        plan_sweep(source, base={"seed": 7})


WRONG = """\
presets:
  wild: {context: question_only}
  fed: {context: question_only, generation: teacher_forcing, truncation: gold_length, metric: contains}
base:
  model: tiny
  timesteps: [nowhere.json]
  presets: [synthetic, fedd]
  sead: 3
grid:
  - method: [ft_m, rom]
    settings: {steps: [5, 0], k: 3}
    limit: [1, x]
  - method: [rag]
    batch_size: []
    batch_size: [2]
runs:
  - {method: memit, protocol: single, batch_size: 4, limit: 3, sample: 4}
exclude:
  - {method: mend}
extra: 3
method: ft_m
"""

TOLD = """\
2: presets.wild: kgedit has a preset of this name
3: presets.fed: the metric contains cannot judge teacher_forcing; take exact_match
6: base.timesteps: There is no file nowhere.json
7: base.presets: there is no preset 'fedd'; did you mean 'fed'?
8: base.sead: there is no field 'sead'; did you mean 'seed'?
10: grid[1].method[2]: there is no editing method 'rom'; did you mean 'rome'?
11: grid[1].settings.k: there is no setting of ft_m 'k'
11: grid[1].settings.steps[2]: must be at least 1, not 0
12: grid[1].limit[2]: expected a whole number, not 'x'
15: grid[2].batch_size: is given twice; the first is ignored
15: grid[2].batch_size[1]: batch_size is for the protocol 'sequential'; 'per_timestep' fixes it
17: runs[1].batch_size: batch_size is for the protocol 'sequential'; 'single' fixes it
17: runs[1].limit: limit takes the first cases and sample draws them
19: exclude[1]: leaves out no run
20: extra: there is no part of a sweep 'extra'
21: method: a field of runs: put it under base
"""


def test_every_mistake_is_told_at_once_with_its_line_and_near_names(tmp_path: Path) -> None:
    found = _problems(WRONG, tmp_path)
    expected = TOLD.splitlines()
    assert [problem for problem, begins in zip(found, expected, strict=True) if not problem.startswith(begins)] == []


def test_what_is_wrong_with_a_whole_run_names_the_runs(base: dict[str, Any], tmp_path: Path) -> None:
    content = {
        "base": {key: value for key, value in base.items() if key != "model"},
        "grid": {"method": ["ft_m", "rome", "none"]},
    }
    (result,) = _problems(yaml.safe_dump(content), tmp_path)
    assert "grid: ft_m and 2 more: model is missing" in result


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n", "must be a mapping"),
        ("base: {model: tiny}\n", "neither a grid nor a list of runs"),
        ("base: [1]\nruns: {method: none}\n", "runs: must be a list of mappings"),
        ("grid: {method: none, settings: 3}\n", "grid.settings: must be a mapping of hyperparameters"),
        ("grid: {method: [none\n", "line 2: the YAML is broken"),
        ("base: {method: [none, rag]}\ngrid: {seed: [1]}\n", "1: base.method: must be the name of a method"),
    ],
)
def test_a_spec_of_another_shape_is_told_what_it_should_be(text: str, said: str, tmp_path: Path) -> None:
    assert said in "\n".join(_problems(text, tmp_path))


def test_a_spec_that_excludes_everything_is_refused(base: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="exclude: leaves no run"):
        _plan(base, grid={"method": ["ft_m"]}, exclude=[{"method": "ft_m"}])


@pytest.mark.parametrize("shipped", shipped_sweeps(), ids=lambda shipped: shipped.name)
def test_a_shipped_spec_says_what_it_is_and_stands_for_runs(shipped: Any, base: dict[str, Any]) -> None:
    content = yaml.safe_load(shipped.path.read_text(encoding="utf-8"))
    given = {name: base[name] for name in ("model", "timesteps") if name not in content["base"]}
    plan = plan_sweep(read_located(shipped.path), base=given)

    assert len(shipped.about) > 40
    assert shipped.command.startswith(f"kgedit sweep {shipped.name}")
    assert plan.runs
    assert find_sweep(shipped.name) == shipped.path


def test_the_ablations_of_the_papers_are_expressed(base: dict[str, Any]) -> None:
    def names(name: str) -> list[str]:
        return _names(plan_sweep(read_located(find_sweep(name)), base=base | {"device": "cpu"}))

    wikibigedit = names("wikibigedit-ablations")
    assert {"rag-k=1", "rag-k=100", "lora-rank=4", "lora-rank=64", "lora_merge-share=0.25"} < set(wikibigedit)
    assert {"memit-limit=1000-batch_size=1000", "mend-limit=100-batch_size=16"} < set(names("mirage-batches"))
    study = plan_sweep(read_located(find_sweep("module-study")), base=base | {"presets": None}).runs[0].spec
    assert study.presets[0].name == "synthetic"


def test_an_unknown_shipped_spec_is_met_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="Did you mean 'module-study'"):
        find_sweep("modulestudy")
