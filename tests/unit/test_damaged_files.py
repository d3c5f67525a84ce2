"""A damaged file of any kind ends a command with a sentence that names the file and what to do, never a traceback.

The home has no checksums, as one of an earlier version; with checksums no damage gets as far as a decoder.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from world.small_timestep import write_timestep
from world.submitted_runs import add_hashes, write_submittable

from kgedit.checksums import SUMS
from kgedit.cli import main
from kgedit.editing.editor import EditorState
from kgedit.editing.row_tables import TableRows
from kgedit.errors import KgeditError
from kgedit.llm.generation import AnswerCache
from kgedit.pages.explorer.indexes import Index
from kgedit.runs.checkpoints import Checkpoint, Checkpoints
from kgedit.runs.run_folder import RunFolder
from kgedit.sample.generate import write_world
from kgedit.store.scope import Scope, keep_scope, kept_scope
from kgedit.timesteps.stream import Stream

DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda content: content[: len(content) // 2],
    "noise": lambda content: bytes((7 * place * place + 131 * place + 217) % 251 for place in range(len(content))),
    "other JSON": lambda _: b"[1]\n",
}

pytestmark = pytest.mark.slow
STEP, RUN = "timesteps/step", "runs/ft"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a bit of everything."""
    home = tmp_path_factory.mktemp("home")
    for path in write_world(tmp_path_factory.mktemp("dumps")):
        if path.name[:8] in ("20210104", "20230227"):
            date = f"{path.name[:4]}-{path.name[4:6]}-{path.name[6:8]}"
            assert run(home, "load-dump", path, "--date", date, "--no-graph").exit_code == 0
    step = write_timestep(home / STEP, towns=range(10))
    write_submittable(home / RUN, add_hashes(step))
    write_timestep(home / STEP, towns=range(10))  # an earlier version wrote no hashes
    assert run(home, "memory", "build", "--timestep", home / STEP, "--out", home / "facts.kgmemory").exit_code == 0
    assert run(home, "export-timestep", "--all", "--profile", "wikifactdiff").exit_code == 0
    for sums in home.rglob(SUMS):
        sums.unlink()
    tables = {"codebook": TableRows(1, None, {"keys": torch.zeros(1, 2)}, ("Q1",))}
    Checkpoints(home / "checkpoints").save(Checkpoint("step", 1, 1, EditorState({"a": torch.zeros(1)}, {}, tables)))
    keep_scope(home, Scope(items_only=True))
    (home / "cache.jsonl").write_text('{"key": "k", "reply": {}}\n')
    return home


@pytest.fixture
def home(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "home"))


def run(home: Path, *arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)), env={"KGEDIT_HOME": str(home)})


@dataclass(frozen=True)
class Reader:
    """What reads a file: a command, or a call where the command would need a model or a server."""

    command: tuple[str, ...] = ()
    call: Callable[[Path], object] | None = None

    def read(self, home: Path) -> str:
        """What was said; empty if it went well."""
        if self.call is None:
            result = run(home, *(part.replace("HOME", str(home)) for part in self.command))
            assert isinstance(result.exception, SystemExit | None), repr(result.exception)
            return result.stderr if result.exit_code else ""
        try:
            self.call(home)
        except KgeditError as error:
            return str(error)
        return ""


def command(*arguments: str) -> Reader:
    return Reader(command=arguments)


READERS = {
    "snapshots/20210104/manifest.json": command("snapshots"),
    "snapshots/20210104/claims.parquet": command("relations", "--date", "2021-01-04"),
    "snapshots/20210104/facts.parquet": command("relations", "--date", "2021-01-04"),
    "snapshots/20210104/entities.parquet": command("relations", "--date", "2021-01-04"),
    f"{STEP}/timestep.json": command("describe", f"HOME/{STEP}"),
    f"{STEP}/cases.parquet": command("describe", f"HOME/{STEP}"),
    f"{STEP}/locality.parquet": command("describe", f"HOME/{STEP}"),
    f"{RUN}/spec.yaml": command("report", f"HOME/{RUN}", "--out", "HOME/report"),
    f"{RUN}/scores.json": command("report", f"HOME/{RUN}", "--out", "HOME/report"),
    f"{RUN}/answers.jsonl": command("report", f"HOME/{RUN}", "--out", "HOME/report"),
    f"{RUN}/answers.parquet": command("report", f"HOME/{RUN}", "--out", "HOME/report"),
    f"{RUN}/cases.parquet": command("report", f"HOME/{RUN}", "--out", "HOME/report"),
    f"{RUN}/environment.json": command("submit", f"HOME/{RUN}", "--to", "HOME/board"),
    f"{RUN}/prepared.json": command("submit", f"HOME/{RUN}", "--to", "HOME/board"),
    f"{RUN}/selection.json": command("submit", f"HOME/{RUN}", "--to", "HOME/board"),
    f"{RUN}/edits.jsonl": command("report", "--rescore", f"HOME/{RUN}", "--out", "HOME/report"),
    "facts.kgmemory": command("memory", "ask", "HOME/facts.kgmemory", "Who is the mayor?"),
    "timesteps/stream_wikifactdiff/stream.json": Reader(
        call=lambda home: Stream.open(home / "timesteps" / "stream_wikifactdiff")
    ),
    "timesteps/stream_wikifactdiff/edited_again.parquet": Reader(
        call=lambda home: Stream.open(home / "timesteps" / "stream_wikifactdiff").table("edited_again")
    ),
    "checkpoints/000001/state.json": Reader(call=lambda home: Checkpoints(home / "checkpoints").newest()),
    "checkpoints/000001/state.safetensors": Reader(call=lambda home: Checkpoints(home / "checkpoints").newest()),
    "checkpoints/rows.log": Reader(call=lambda home: Checkpoints(home / "checkpoints").newest()),
    "graph.json": Reader(call=kept_scope),
    "cache.jsonl": Reader(call=lambda home: AnswerCache(home / "cache.jsonl")),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_named_with_what_to_do(name: str, damage: str, home: Path) -> None:
    path = home / name
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    said = READERS[name].read(home)
    if not said:  # half a last line is what a kill leaves; it is cut off
        assert path.name == "cache.jsonl"
        return
    assert Path(name).name in said or str(path.parent) in said, said
    assert any(word in said for word in ("again", "kgedit ", "Remove", "restore")), said
    assert "Traceback" not in said


def test_answers_of_a_run_that_is_resumed_are_named_when_they_are_damaged(home: Path) -> None:
    path = home / RUN / "answers.jsonl"
    path.write_bytes(b"{\n" + path.read_bytes())
    with pytest.raises(KgeditError, match=r"answers.jsonl is damaged.*--overwrite"):
        list(RunFolder(home / RUN).answer_keys())


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_index_of_explore_is_made_again(damage: str, home: Path) -> None:
    about = home / "index" / "index.json"
    about.parent.mkdir()
    about.write_bytes(DAMAGE[damage](json.dumps({"version": 1}).encode()))
    assert not Index(folder=about.parent, of=(), files=(), statements=()).is_fresh
