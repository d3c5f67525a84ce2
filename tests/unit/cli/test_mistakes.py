"""Users' mistakes and their messages: what happened, where, and what to do next."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from world.audited import snapshots
from world.small_memory import write_small_memory
from world.small_timestep import write_timestep

from kgedit.cli import main

NAME = "20210104_20230227"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with a home in it, and with files that are not what they are taken for."""
    made = tmp_path_factory.mktemp("mistakes")
    home = made / "kgedit-data"
    home.mkdir()
    loaded = snapshots(tmp_path_factory.mktemp("audited"))[0].folder.parents[1]
    shutil.copytree(loaded / "snapshots", home / "snapshots")
    write_timestep(home / "timesteps" / NAME)
    write_small_memory(made / "facts.kgmemory")
    (made / "empty").mkdir()
    (made / "notes.txt").write_text("hello\n", encoding="utf-8")
    (made / "broken.yaml").write_text("method: ft_m\nsettings: [\n", encoding="utf-8")
    (made / "dump.json").write_text("[\n{}\n]\n", encoding="utf-8")
    return made


def _run(folder: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("KGEDIT_HOME", raising=False)
    return CliRunner().invoke(main, shlex.split(line), prog_name="kgedit")


TIMESTEPS = f"Timesteps in kgedit-data/timesteps: {NAME}."
METHODS = "There are: alphaedit, anyedit, bitfit"

MISTAKES = [
    # Commands and options.
    (2, "lod-dump x", "There is no command 'lod-dump'. Did you mean 'load-dump'?"),
    (2, "load", "Did you mean 'load-changes' or 'load-dump'?"),
    (2, "export --all", "Did you mean 'export-timestep'?"),
    (2, "ask", "Did you mean 'memory ask'?"),
    (2, "nonsense", "There is no command 'nonsense'.\n"),
    (2, "graph sttop", "Did you mean 'stop'?"),
    (2, "memory askk", "Did you mean 'ask'?"),
    (2, "configs validat", "Did you mean 'validate'?"),
    (2, "run-edit --timstep x", "There is no option '--timstep'. Did you mean '--timestep'?"),
    (2, "run-edit --batch_size 3", "Did you mean '--batch-size'?"),
    (2, "build-qaedit q.json --base-url http://h/v1", "There is no option '--base-url'. Did you mean '--model-url'?"),
    (2, "run-edit --judge-url http://h/v1", "Did you mean '--backend-url'?"),
    (2, "run-edit -timestep x", "There is no option '-timestep'. Did you mean '--timestep'?"),
    (2, "load-dump --dat 2021-01-04 x", "Did you mean '--date'?"),
    (2, "load-dump --date 2021-01-04", "Missing argument 'PATH'."),
    (2, "load-dump dump.json --date 2021-01-04 --limit x", "'x' is not a whole number."),
    (2, "run-edit --method", f"The option --method needs a value. {METHODS}"),
    (2, "run-edit --timestep", f"The option --timestep needs a value. There are: {NAME}."),
    (2, "run-edit --timestep --model tiny", f"needs a value, but --model follows. There are: {NAME}."),
    (2, "memory build --out x --timestep", f"There are: {NAME}."),
    (2, "score empty", "Missing option '--metric'. There are: archive_drop, archived,"),
    (2, "drop-snapshot", "There are: 2021-01-04, 2023-02-27."),
    # Dates and snapshots.
    (2, "load-dump dump.json --date 2021-02-30", "'2021-02-30' is not a date: February 2021 has 28 days."),
    (2, "load-dump dump.json --date '4 Jan 2021'", "is not a date that kgedit reads. Write 2021-01-04."),
    (2, "load-dump dump.json --date 04/01/2021", "Write 2021-01-04 or 2021-04-01."),
    (2, "load-dump dump.json --as-of 2010-12-31,2010-02-30", "'2010-02-30' is not a date: February 2010 has 28 days."),
    (2, "load-dump dump.json", "Give either --date, the day of the dump, or --as-of"),
    (2, "load-dump 20210104.json.gz", "Its name has a day: --date 2021-01-04"),
    (2, "fetch-dump yesterday", "Give latest or a day, or list the days there are: --list"),
    (1, "drop-snapshot 2020/01/01", "No snapshot of 2020-01-01 is loaded in"),
    (1, "drop-snapshot 20200101", "(loaded: 2021-01-04, 2023-02-27). Nothing was removed."),
    (1, "relations --date 2020-1-1", "(loaded: 2021-01-04, 2023-02-27). Load it: kgedit load-dump"),
    (1, f"audit {NAME} --from 2023-02-27 --to 2021-01-04", "2023-02-27 is not before 2021-01-04: give the older day"),
    (1, "export-timestep --from 2021-01-04 --to 2021-01-04 --profile wikifactdiff --out x", "two different days"),
    (1, "up 2021-02-30 2023-02-27 --dry-run", "February 2021 has 28 days."),
    (1, "up old.gz new.gz --dry-run", "There is no file old.gz, and it is not the day of a loaded snapshot"),
    (1, "query changed_edges -p from=2021-02-30 -p to=2023-02-27", "Parameter from: '2021-02-30' is not a date"),
    # Files and folders.
    (1, "load-dump nofile.json --date 2022-01-04 --no-graph", "There is no file nofile.json. Give the path of a"),
    (1, "load-dump empty --date 2022-01-04 --no-graph", "empty is not a file. Give the path of a Wikidata dump"),
    (1, "load-dump dump.json --date 2022-01-04 --no-graph --redirects notes.txt", "notes.txt contains no redirect."),
    (1, "load-dump dump.json --date 2022-01-04 --no-graph --source-format json", "Did you mean 'wikidata_json'?"),
    (1, "write-sample /proc/x", "/proc/x: No such file or directory. Check the path, its permissions"),
    (1, "build-qaedit nofile --out o.json", "The questions nofile cannot be read: No such file or directory."),
    (1, "memory ask nofile Who?", "There is no memory nofile. Memories there are: facts.kgmemory."),
    (1, "memory serve nofile --upstream http://127.0.0.1:9/v1", "Memories there are: facts.kgmemory."),
    (1, "memory ask notes.txt Who?", "notes.txt is not a memory, or is damaged"),
    (1, f"memory build --timestep {NAME} --out facts.kgmemory", "To replace it, add --overwrite"),
    (1, "describe nofile.json", "There is no file nofile.json."),
    (1, f"describe {NAME} --html notes.txt", "notes.txt already exists, with other content. Replace it: --overwrite"),
    (1, "configs validate broken.yaml", "broken.yaml, line 3: the YAML is broken"),
    (1, "run-edit nofile.yaml", "there is no file nofile.yaml"),
    (1, "sweep nofile.yaml", "nor a sweep of that name. Known: "),
    # Timesteps.
    (1, "describe nosuch", f"There is no timestep nosuch. {TIMESTEPS} Give a folder, a name or two dates"),
    (1, "describe 20210104_2023022", f"Did you mean '{NAME}'?"),
    (1, "describe empty", f"The folder empty is not a finished timestep: it has no timestep.json. {TIMESTEPS}"),
    (1, "describe kgedit-data/timesteps", f"These in it are: {NAME}. Give kgedit-data/timesteps/{NAME}"),
    (1, "describe 2021-01-04..2023-02-30", "February 2023 has 28 days."),
    (1, "describe 2021-01-04..2024-06-03", "There is no timestep 2021-01-04..2024-06-03."),
    (1, "audit nosuch --from 2021-01-04 --to 2023-02-27", f"There is no timestep nosuch. {TIMESTEPS}"),
    (1, "publish out --timestep nosuch", TIMESTEPS),
    (1, "memory build --timestep nosuch --out x", TIMESTEPS),
    (1, "stats --model tiny --layers 1 --timestep nosuch", TIMESTEPS),
    (1, "verbalize nosuch --local tiny --out w", TIMESTEPS),
    (1, "compare-verbalizers nosuch --by templates", TIMESTEPS),
    (
        1,
        "run-edit --timestep nosuch --model tiny --method none",
        f"timesteps: There is no timestep nosuch. {TIMESTEPS}",
    ),
    (1, "run-edit --edits no.json --model tiny --method none", "timesteps: There is no file no.json."),
    # Names.
    (1, f"run-edit --timestep {NAME} --model tiny --method MEMIT", "Did you mean 'memit'?"),
    (1, f"run-edit --timestep {NAME} --model tiny --method none --preset wld", "did you mean 'wild'?"),
    (1, f"run-edit --timestep {NAME} --model tiny --method ft_m --set stps=3", "did you mean 'steps'?"),
    (1, f"run-edit --timestep {NAME} --model tiny --method ft_m --set lr=1e-4", "did you mean 'learning_rate'?"),
    (1, f"run-edit --timestep {NAME} --model tiny --method none --protocol seq", "did you mean 'sequential'?"),
    (1, f"run-edit --timestep {NAME} --model tiny --method none --device gpu", "There is no device 'gpu'. Use auto"),
    (1, f"run-edit --timestep {NAME} --model tiny --method none --out empty/../kgedit-data", "contains no run"),
    (1, "score x --metric meteor", "There is no metric 'meteor'. Known: archive_drop, archived, bertscore,"),
    (1, "score x --metric f1", "There is no metric 'f1'. Did you mean 'token_f1'?"),
    (1, "export-timestep --from 2021-01-04 --to 2023-02-27 --kinds updates --out x", "Did you mean 'update'?"),
    (1, "query changed_edge", "There is no query 'changed_edge'. Did you mean 'changed_edges'?"),
    (1, "configs cp memit/gpt2xl -", "Did you mean 'memit/gpt2-xl'?"),
    (1, "browse --item Germany --print", "'Germany' is not the id of an item: give an id such as Q30"),
    # Runs.
    (1, "submit norun --to board", "There is no run norun. Name the folder that kgedit run-edit wrote."),
    (1, "score norun --metric fluency", "There is no run norun."),
    (1, "report empty", "The folder empty is not a run: it has no spec.yaml."),
    (1, "leaderboard empty", "empty contains neither entries of a board nor runs."),
]


@pytest.mark.parametrize(("code", "line", "answer"), MISTAKES, ids=[line for _, line, _ in MISTAKES])
def test_a_mistake_is_answered_with_what_to_do(
    code: int, line: str, answer: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = _run(folder, line, monkeypatch)
    assert answer in result.stderr
    assert (result.exit_code, "Traceback" in result.output, "Errno" in result.output) == (code, False, False)


@pytest.mark.parametrize(
    "given", [NAME, "2021-01-04..2023-02-27", "20210104..20230227", f"kgedit-data/timesteps/{NAME}"]
)
def test_a_timestep_is_given_by_name_by_two_dates_or_as_a_folder(
    given: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = _run(folder, f"describe {given}", monkeypatch)
    assert (described.exit_code, described.stdout.startswith("part")) == (0, True)


def test_a_missing_run_is_answered_with_the_runs_of_the_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("memit-tiny-1", "rome-tiny-2"):
        (folder / "kgedit-data" / "runs" / name).mkdir(parents=True)
        (folder / "kgedit-data" / "runs" / name / "spec.yaml").touch()
    try:
        near, other = (_run(folder, f"submit {name} --to board", monkeypatch).stderr for name in ("memit-tiny", "x"))
    finally:
        shutil.rmtree(folder / "kgedit-data" / "runs")
    assert near.endswith("Runs there are: kgedit-data/runs/memit-tiny-1.\n")
    assert other.endswith("Runs there are: kgedit-data/runs/memit-tiny-1, kgedit-data/runs/rome-tiny-2.\n")


def test_cypher_is_recognised_and_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from kgedit.verbs.query import RunQuery

    given: list[tuple[str | None, str | None]] = []

    def run(self: RunQuery, _home: Path) -> list[object]:
        given.append((self.name, self.cypher))
        return []

    monkeypatch.setattr(RunQuery, "run", run)
    for text in ("MATCH (n) RETURN n", "  call db.labels()", "// all\nMATCH (n) RETURN n", "match_all", "find_terms"):
        assert CliRunner().invoke(main, ["query", text]).exit_code == 0
    assert [cypher for _, cypher in given] == ["MATCH (n) RETURN n", "  call db.labels()", given[2][1], None, None]
    assert [name for name, _ in given] == [None, None, None, "match_all", "find_terms"]
