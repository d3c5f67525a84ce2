"""`kgedit publish`: its output is readable by others, reproducible, and complete or absent."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner, Result
from world.small_runs import SYNTHETIC, WILD, answer, write_run
from world.small_timestep import NEW_MAYORS, OLD_MAYORS, write_timestep
from world.submitted_runs import add_hashes

from kgedit.cli import main
from kgedit.exporters.publication.content import COLUMNS, LANGUAGES, QUESTIONS
from kgedit.records.runs import HashedInput, ModelRecord, RunEnvironment
from kgedit.runs.scoring import write_scores
from kgedit.timesteps.edit_files import EditFile
from kgedit.timesteps.timestep import Timestep
from kgedit.wording.catalogues import language_codes
from kgedit.wording.personas import persona_version
from kgedit.wording.templates import template_version

FIRST, SECOND = "20200101_20210101", "20210101_20220101"
SPLITS = ["update", "rephrase", "personas", "mhop", "locality"]


def publish(folder: Path, *timesteps: Path, more: tuple[str, ...] = ()) -> Result:
    named = [part for step in timesteps for part in ("--timestep", str(step))]
    return CliRunner().invoke(main, ["publish", str(folder), *named, *more])


@pytest.fixture(scope="module")
def timesteps(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two: four towns get new mayors, then two of these get their old ones back, of whom the probes differ."""
    folder = tmp_path_factory.mktemp("benchmark")
    add_hashes(write_timestep(folder / FIRST, name=FIRST, towns=range(4)))
    add_hashes(write_timestep(folder / SECOND, name=SECOND, towns=range(2), names=OLD_MAYORS, prefix="1"))
    return [folder / FIRST, folder / SECOND]


@pytest.fixture(scope="module")
def published(timesteps: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "mayors"
    result = publish(folder, *timesteps)
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == str(folder)
    assert f"{FIRST}: 4 cases; questions: 4 update, 4 rephrase, 4 personas, 4 mhop, 4 locality" in result.stderr
    return folder


def test_the_hubs_own_loader_reads_every_configuration_and_split(published: Path, tmp_path: Path) -> None:
    import datasets

    assert datasets.get_dataset_config_names(str(published)) == [FIRST, SECOND]
    for config, towns in ((FIRST, 4), (SECOND, 2)):
        loaded = datasets.load_dataset(str(published), config, cache_dir=str(tmp_path))
        assert {split: rows.num_rows for split, rows in loaded.items()} == dict.fromkeys(SPLITS, towns)
        assert all(rows.column_names == QUESTIONS.names for rows in loaded.values())
    default = datasets.load_dataset(str(published), split="mhop", cache_dir=str(tmp_path))
    assert default[0]["question"] == "Where was the mayor of Arvika born?"
    assert default[0]["answers"] == ["Eksjö"]
    assert default[0]["facts"] == ["Q100:P6:Q20", "Q100:P19:Q40"]
    assert (default[0]["edit_answer"], default[0]["old_answers"]) == ("Olof Gren", ["Nils Ek"])


def test_croissants_own_reader_finds_no_fault_and_reads_every_row(published: Path, timesteps: list[Path]) -> None:
    import mlcroissant

    croissant = mlcroissant.Dataset(jsonld=published / "croissant.json")
    assert croissant.metadata.ctx.issues.errors == set()
    # The day of publication is written only if it is given: the same input gives the same bytes.
    assert [text for text in croissant.metadata.ctx.issues.warnings if "datePublished" not in text] == []
    assert len(croissant.metadata.record_sets) == 2 * len(SPLITS)
    rows = list(croissant.records(f"{FIRST}_update"))
    assert [row[f"{FIRST}_update/edit_answer"].decode() for row in rows] == NEW_MAYORS[:4]
    assert [name.decode() for name in rows[0][f"{FIRST}_update/answers"]] == ["Olof Gren", "Olof Gren the Elder"]
    dated = publish(published.with_name("dated"), timesteps[0], more=("--date", "2022-02-02"))
    assert dated.exit_code == 0, dated.output
    again = mlcroissant.Dataset(jsonld=published.with_name("dated") / "croissant.json").metadata
    assert again.ctx.issues.warnings == set()
    assert str(again.date_published).startswith("2022-02-02")


def test_other_forms_are_read_by_their_readers(published: Path, timesteps: list[Path], tmp_path: Path) -> None:
    import datasets

    folder = published / "timesteps" / FIRST
    asked = [case.question for case in Timestep.open(timesteps[0]).cases()]
    for name in ("easyedit.json", "wikibigedit.json"):
        assert [case.question for case in EditFile.open(folder / name).cases()] == asked
    easyedit = json.loads((folder / "easyedit.json").read_text(encoding="utf-8"))
    assert [row["target_new"] for row in easyedit] == NEW_MAYORS[:4]
    for name, column in (("wikibigedit.json", "ans"), ("wikifactdiff.jsonl", "objects")):
        loaded = datasets.load_dataset("json", data_files=str(folder / name), cache_dir=str(tmp_path), split="train")
        outcome = loaded[column] if column == "ans" else [row[0]["label"] for row in loaded[column]]
        assert list(outcome) == NEW_MAYORS[:4]


def test_kgedit_edits_with_the_published_timestep_and_its_hash_is_the_same(
    published: Path, timesteps: list[Path]
) -> None:
    copy, original = Timestep.open(published / "timesteps" / SECOND), Timestep.open(timesteps[1])
    assert (copy.sha256, list(copy.cases())) == (original.sha256, list(original.cases()))


def test_publication_json_has_the_hash_of_every_other_file(published: Path) -> None:
    manifest = json.loads((published / "publication.json").read_text(encoding="utf-8"))
    files = {str(path.relative_to(published)): path for path in published.rglob("*") if path.is_file()}
    del files["publication.json"]
    hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    assert {name: outcome["sha256"] for name, outcome in manifest["files"].items()} == hashes
    assert [step["config"] for step in manifest["timesteps"]] == [FIRST, SECOND]


def test_the_same_timesteps_give_the_same_bytes(published: Path, timesteps: list[Path], tmp_path: Path) -> None:
    result = publish(tmp_path / "mayors", *timesteps)
    assert result.exit_code == 0, result.output
    first, second = (_bytes(folder) for folder in (published, tmp_path / "mayors"))
    assert first == second
    result = publish(tmp_path / "mayors", *timesteps, more=("--overwrite",))
    assert result.exit_code == 0, result.output
    assert _bytes(tmp_path / "mayors") == first
    assert [path.name for path in tmp_path.iterdir()] == ["mayors"]


def test_a_link_to_a_folder_stays_a_link(published: Path, timesteps: list[Path], tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "mayors").symlink_to(tmp_path / "disk")
    for more in ((), ("--overwrite",)):
        assert publish(tmp_path / "mayors", *timesteps, more=more).exit_code == 0
        assert (tmp_path / "mayors").readlink() == tmp_path / "disk"
        assert _bytes(tmp_path / "disk") == _bytes(published)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "mayors"]


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_card_says_licence_citation_and_what_columns_mean(published: Path) -> None:
    _, front, text = (published / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    header = yaml.safe_load(front)
    assert (header["license"], header["pretty_name"], header["size_categories"]) == ("cc0-1.0", "mayors", ["n<1K"])
    assert header["language"] == ["en"]
    assert "title = {{kgedit}}" in text
    assert (published / "CITATION.cff").read_text(encoding="utf-8").startswith("cff-version:")
    assert set(COLUMNS) == set(QUESTIONS.names)
    assert all(f"| `{name}` | {meaning} |" in text for name, meaning in COLUMNS.items())
    assert f"| `{FIRST}` | 2020-01-01 | 2021-01-01 | no | 4 | 4 | 4 | 4 | 4 |" in text
    assert "| consequence |" not in text


def test_the_languages_of_the_questions_are_named_in_card_and_croissant(tmp_path: Path) -> None:
    import mlcroissant

    for name, more, codes, said in (
        ("german", {}, ["de"], "German"),
        ("both", {"crosslingual": {"language": "fr"}}, ["de", "fr"], "French and German"),
    ):
        step = write_timestep(tmp_path / f"step-{name}", name=FIRST, towns=range(2))
        manifest = {"timestep": FIRST, "profile": "wikibigedit", "settings": {"language": "de"}, **more}
        (step.folder / "timestep.json").write_text(json.dumps(manifest), encoding="utf-8")
        add_hashes(Timestep.open(step.folder))
        assert publish(tmp_path / name, step.folder).exit_code == 0
        _, front, text = (tmp_path / name / "README.md").read_text(encoding="utf-8").split("---\n", 2)
        assert yaml.safe_load(front)["language"] == codes
        described = mlcroissant.Dataset(jsonld=tmp_path / name / "croissant.json").metadata
        assert described.in_language == codes
        assert f"questions about them, in {said}. Made" in text
        assert described.description in text


def test_the_card_has_the_hash_of_each_file_that_was_read_to_its_end(tmp_path: Path) -> None:
    step = write_timestep(tmp_path / "step", name=FIRST, towns=range(2))
    snapshots = [
        {"date": "2020-01-01", "source": {"name": "a.json.gz", "sha256": None}, "limit": 1650},
        {"date": "2021-01-01", "source": {"name": "b.json.gz", "sha256": "7c05"}, "limit": None},
    ]
    manifest = {"timestep": FIRST, "profile": "wikibigedit", "snapshots": snapshots}
    (step.folder / "timestep.json").write_text(json.dumps(manifest), encoding="utf-8")
    add_hashes(Timestep.open(step.folder))
    assert publish(tmp_path / "mayors", step.folder).exit_code == 0
    text = (tmp_path / "mayors" / "README.md").read_text(encoding="utf-8")
    assert f"| `{FIRST}` | 2020-01-01 | a.json.gz | none: the first 1,650 lines |" in text
    assert f"| `{FIRST}` | 2021-01-01 | b.json.gz | `7c05` |" in text


APACHE = "questions are rendered from kgedit's templates, whose own text is under Apache 2.0"
BY_GPT = {"model": "gpt-x", "axes": {"update": {"sources": {"model": 3, "template": 1}}, "mhop": {"sources": {}}}}


@pytest.mark.parametrize(
    ("manifest", "licence"),
    [
        ({"settings": {"templates": template_version()}}, f"{APACHE}.\n"),
        (
            {"settings": {"templates": "92d8", "personas": persona_version()}},
            "questions are rendered from templates; templates of kgedit are under Apache 2.0:\n\n"
            f"- `{FIRST}`: templates of another version of kgedit, or of the user (hash 92d8)\n",
        ),
        (
            {"settings": {"personas": "17e2"}},
            f"{APACHE}, except:\n\n- `{FIRST}`: personas of another version of kgedit, or of the user (hash 17e2)\n",
        ),
        (
            {"verbalizer": BY_GPT},
            f"{APACHE}, except:\n\n- `{FIRST}`: worded by the language model gpt-x: 3 of 4 update\n",
        ),
        ({"verbalizer": {"model": "gpt-x", "axes": {"personas": {"sources": {"template": 4}}}}}, f"{APACHE}.\n"),
    ],
)
def test_the_licence_names_questions_that_are_not_of_kgedits_templates(
    manifest: dict[str, Any], licence: str, tmp_path: Path
) -> None:
    step = write_timestep(tmp_path / "step", name=FIRST, towns=range(2))
    content = {"timestep": FIRST, "profile": "wikibigedit"} | manifest
    (step.folder / "timestep.json").write_text(json.dumps(content), encoding="utf-8")
    add_hashes(Timestep.open(step.folder))
    assert publish(tmp_path / "mayors", step.folder).exit_code == 0
    text = (tmp_path / "mayors" / "README.md").read_text(encoding="utf-8")
    assert f"under CC0 1.0; {licence}" in text
    croissant = json.loads((tmp_path / "mayors" / "croissant.json").read_text(encoding="utf-8"))
    assert croissant["rai:dataLimitations"] in text
    assert ("language model" in croissant["rai:dataLimitations"]) == ("gpt-x" in licence)


def test_every_language_of_questions_has_a_name() -> None:
    assert set(language_codes()) == set(LANGUAGES)


def test_projected_snapshots_are_told_as_such_in_card_and_rows(tmp_path: Path) -> None:
    step = write_timestep(tmp_path / "step", name=FIRST, towns=range(2))
    manifest = {"timestep": FIRST, "profile": "other", "snapshots": [{"date": "2020-01-01", "projected": {}}]}
    (step.folder / "timestep.json").write_text(json.dumps(manifest), encoding="utf-8")
    add_hashes(Timestep.open(step.folder))
    result = publish(tmp_path / "mayors", step.folder)
    assert result.exit_code == 0, result.output
    text = (tmp_path / "mayors" / "README.md").read_text(encoding="utf-8")
    config = f"{FIRST}_other"
    assert f"| `{config}` | 2020-01-01 | 2021-01-01 | yes |" in text
    assert "Projected: a snapshot shows an earlier day" in text
    rows = pq.read_table(tmp_path / "mayors" / "data" / config / "update.parquet")
    assert rows["projected"].to_pylist() == [True, True]


def test_a_licence_that_the_hub_does_not_name_is_other(timesteps: list[Path], tmp_path: Path) -> None:
    publish(tmp_path / "mayors", timesteps[0], more=("--license", "Own-1.0"))
    front = (tmp_path / "mayors" / "README.md").read_text(encoding="utf-8").split("---\n", 2)[1]
    assert {"license": "other", "license_name": "own-1.0"}.items() <= yaml.safe_load(front).items()


@pytest.mark.parametrize(
    ("url", "loaded"),
    [
        ("https://huggingface.co/datasets/me/mayors", "me/mayors"),
        ("https://huggingface.co/datasets/me/mayors/", "me/mayors"),
        ("https://huggingface.co/datasets/me/mayors/tree/main", "FOLDER"),
        ("https://example.org/data/mayors", "FOLDER"),
    ],
)
def test_the_card_loads_a_dataset_of_the_hub_by_its_id_and_others_from_their_folder(
    url: str, loaded: str, timesteps: list[Path], tmp_path: Path
) -> None:
    assert publish(tmp_path / "mayors", timesteps[0], more=("--url", url)).exit_code == 0
    assert f'load_dataset("{loaded}", "{FIRST}"' in (tmp_path / "mayors" / "README.md").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "mayors" / "croissant.json").read_text(encoding="utf-8"))["url"] == url


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--url", "me/mayors"), "'me/mayors' is not an address that begins with https://"),
        (("--url", ""), "'' is not an address"),
        (("--version", ""), "'' is not a version MAJOR.MINOR.PATCH"),
        (("--version", "v1"), "'v1' is not a version"),
        (("--version", "1.0"), "'1.0' is not a version"),
        (("--license", " "), "The license is empty"),
    ],
)
def test_a_description_that_readers_refuse_is_not_published(
    more: tuple[str, str], said: str, timesteps: list[Path], tmp_path: Path
) -> None:
    refused = publish(tmp_path / "mayors", timesteps[0], more=more)
    assert (refused.exit_code, said in refused.output) == (1, True), refused.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("prepare", "more", "said"),
    [
        ({"publication.json": '{"files": {}}'}, (), "already exists"),
        ({"notes.txt": "mine"}, ("--overwrite",), "was not written by kgedit publish"),
        ({"publication.json": '{"files": {}}', ".git/HEAD": "mine"}, ("--overwrite",), r".git/HEAD. Nothing was"),
    ],
)
def test_what_kgedit_did_not_write_is_not_replaced(
    prepare: dict[str, str], more: tuple[str, ...], said: str, timesteps: list[Path], tmp_path: Path
) -> None:
    folder = tmp_path / "mayors"
    for name, text in prepare.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    result = publish(folder, timesteps[0], more=more)
    assert (result.exit_code, said in result.output) == (1, True), result.output
    assert _bytes(folder) == {name: text.encode() for name, text in prepare.items()}


def test_changed_files_are_not_replaced_until_they_are_moved_away(timesteps: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "mayors"
    assert publish(folder, timesteps[0]).exit_code == 0
    first = _bytes(folder)
    for name in ("README.md", f"lm_eval/kgedit_{FIRST}_update.yaml"):
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write("mine")
    changed = _bytes(folder)
    refused = publish(folder, timesteps[0], more=("--overwrite",))
    assert (refused.exit_code, _bytes(folder)) == (1, changed)
    assert f"changed since kgedit wrote them: README.md, lm_eval/kgedit_{FIRST}_update.yaml." in refused.output
    (folder / "README.md").rename(tmp_path / "mine.md")
    (folder / f"lm_eval/kgedit_{FIRST}_update.yaml").unlink()
    assert publish(folder, timesteps[0], more=("--overwrite",)).exit_code == 0
    assert _bytes(folder) == first
    (folder / "publication.json").write_text('{"files": []}', encoding="utf-8")
    refused = publish(folder, timesteps[0], more=("--overwrite",))
    assert (refused.exit_code, "cannot be decoded" in refused.output) == (1, True)


def test_what_fails_halfway_leaves_nothing(
    timesteps: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Timestep) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("kgedit.exporters.publication.EXPORTERS", {"easyedit": full})
    result = publish(tmp_path / "mayors", timesteps[0])
    assert (result.exit_code, "Traceback" in result.output) == (1, False)
    assert "give the same command again" in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_timestep_with_a_damaged_or_unchecked_table_is_not_published(tmp_path: Path) -> None:
    step = write_timestep(tmp_path / "step", name=FIRST, towns=range(2))
    assert "has no hashes of its tables" in publish(tmp_path / "out", step.folder).output
    table = add_hashes(step).folder / "two_hops.parquet"
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 1
    table.write_bytes(content)
    result = publish(tmp_path / "out", step.folder)
    assert (result.exit_code, result.exception.__class__) == (1, SystemExit)
    assert f"{table} is damaged" in result.output
    assert "kgedit export-timestep" in result.output
    assert not (tmp_path / "out").exists()


def test_timesteps_without_cases_and_twins_are_refused(timesteps: list[Path], tmp_path: Path) -> None:
    add_hashes(write_timestep(tmp_path / "empty", towns=range(0)))
    assert "has no case" in publish(tmp_path / "out", tmp_path / "empty").output
    add_hashes(write_timestep(tmp_path / "twin", name=FIRST, towns=range(2)))
    assert f"are both called {FIRST}" in publish(tmp_path / "out", timesteps[0], tmp_path / "twin").output
    assert "is not the name of a dataset" in publish(tmp_path / "out", timesteps[0], more=("--name", "a b")).output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("field", ["timestep", "profile"])
@pytest.mark.parametrize("name", ["../../../escaped", "/escaped", "a/b", "..", None, ["x"]])
def test_a_timestep_whose_name_leads_out_of_the_folder_is_refused(
    timesteps: list[Path], tmp_path: Path, field: str, name: object
) -> None:
    hostile = tmp_path / "timesteps" / "hostile"
    shutil.copytree(timesteps[0], hostile)
    manifest = json.loads((hostile / "timestep.json").read_text(encoding="utf-8"))
    (hostile / "timestep.json").write_text(json.dumps(manifest | {field: name}), encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    refused = publish(tmp_path / "published" / "mayors", hostile)
    assert refused.exit_code == 1
    assert "cannot be the name of a file or folder" in refused.output
    assert sorted(tmp_path.rglob("*")) == before


def test_a_timestep_that_is_not_called_by_two_days_is_refused(timesteps: list[Path], tmp_path: Path) -> None:
    add_hashes(write_timestep(tmp_path / "odd", name="spring", towns=range(2)))
    refused = publish(tmp_path / "out", tmp_path / "odd")
    assert (refused.exit_code, "called by two days" in refused.output) == (1, True)


def run_on(timestep: Path, folder: Path) -> Path:
    """A scored run of two answers, one right, on a timestep."""
    case_ids = [case.case_id for case in Timestep.open(timestep).cases()]
    texts = ("Justin Trudeau", "nobody")
    answers = [
        answer(name, after=FIRST, timestep=FIRST, text=text) for name, text in zip(case_ids, texts, strict=False)
    ]
    write_run(folder, answers, timesteps=(str(timestep),), presets=(SYNTHETIC, WILD))
    model = ModelRecord(name="m", class_name="M", revision="", fingerprint="", parameters=1)
    environment = RunEnvironment(
        packages={}, python="", platform="", device="", threads=1, git_commit=None, seed=7, model=model, source="",
        settings={}, contexts={}, timesteps=(HashedInput(name=FIRST, sha256=Timestep.open(timestep).sha256),),
    )  # fmt: skip
    (folder / "environment.json").write_bytes(msgspec.json.encode(environment))
    write_scores(folder)
    return folder


@pytest.mark.slow
def test_scores_of_runs_go_with_the_timesteps_that_they_were_made_on(timesteps: list[Path], tmp_path: Path) -> None:
    import datasets
    import mlcroissant

    run = run_on(timesteps[0], tmp_path / "runs" / "first")
    result = publish(tmp_path / "mayors", timesteps[0], more=("--runs", str(run)))
    assert result.exit_code == 0, result.output
    scores = datasets.load_dataset(
        str(tmp_path / "mayors"), "runs", split="scores", cache_dir=str(tmp_path / "cache")
    ).to_list()
    own = [row for row in scores if row["stage"] == "own" and row["main"] and row["timestep"] is None]
    assert [(row["run"], row["method"], row["axis"], row["n"], row["mean"]) for row in own] == [
        ("first", "ft-m", "update", 2, 0.5)
    ]
    assert "| first | smollm2-135m | ft-m | 0 | update | wild | exact_match | 2 | 50.0" in (
        tmp_path / "mayors" / "README.md"
    ).read_text(encoding="utf-8")
    croissant = mlcroissant.Dataset(jsonld=tmp_path / "mayors" / "croissant.json")
    assert len(list(croissant.records("runs_scores"))) == len(scores)
    other = publish(tmp_path / "other", timesteps[1], more=("--runs", str(run)))
    assert f"was made on {FIRST}, which is not published here" in other.output
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_the_real_harness_finds_the_tasks_from_any_folder_and_scores_them(
    timesteps: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stand-in answers: the gold answer with other case and a period, and the old answer always likelier."""
    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    class OldMayors(LM):
        """Knows who the new mayors are when asked freely, and finds every old one likelier."""

        def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
            return [f" {request.doc['answers'][-1].upper()}.\nQuestion" for request in requests]

        def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
            return [(0.0 if request.args[1].strip() in OLD_MAYORS else -1.0, False) for request in requests]

        def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
            raise NotImplementedError

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    published = tmp_path / "mayors"
    assert publish(published, *timesteps).exit_code == 0
    moved = published.rename(tmp_path / "elsewhere")
    monkeypatch.chdir("/")
    manager = TaskManager(include_path=str(moved / "lm_eval"), include_defaults=False)
    results = simple_evaluate(
        model=OldMayors(), tasks=[f"kgedit_{FIRST}"], task_manager=manager, bootstrap_iters=0, log_samples=False
    )
    found = {name.removeprefix(f"kgedit_{FIRST}_"): outcome for name, outcome in results["results"].items()}
    assert {name: outcome["exact_match,first_line"] for name, outcome in found.items() if name != "new_or_old"} == (
        dict.fromkeys(SPLITS, 1.0)
    )
    assert found["new_or_old"]["acc,none"] == 0.0
    assert pq.read_metadata(moved / "data" / SECOND / "update.parquet").num_rows == 2
    assert {f"kgedit_{SECOND}_{name}" for name in (*SPLITS, "new_or_old")} <= set(manager.all_tasks)
