"""The managed server: one private Neo4j per home, started when needed and left running.

Its settings, data, logs and a generated password that only the user can read are in ``$KGEDIT_HOME/neo4j``. With a file
lock, two kgedit processes that start at the same time share one server. The lock ends with its holder, and the pid file
counts only if the process is ours, so a kill -9 leaves nothing to clean up. Errors of the file system become messages
with instructions.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kgedit.errors import GraphError
from kgedit.files import replace_file, sync
from kgedit.graph.bolt import Address, answers
from kgedit.graph.managed import install
from kgedit.graph.managed.class_path import remove_damaged_copies
from kgedit.graph.managed.java import (
    end_of_output,
    environment_of,
    find_java,
    import_csv,
    server_program,
)
from kgedit.graph.managed.processes import (
    end_process,
    find_process,
    idle_stop_from_environment,
    locked,
    say,
    start_detached,
    start_watcher,
)
from kgedit.graph.managed.settings import Ports, choose_ports, plan_memory, write_settings

DATABASE = "neo4j"
USER = "neo4j"

_SECONDS_TO_START = 300.0  # a recovery after a kill replays the transaction log; without one it takes 10
_SECONDS_TO_STOP = 90.0  # a clean shutdown writes the page cache to disk
_LAUNCHES = 3
_HASHES = 1024  # rounds in which Neo4j 5 hashes a password
_BYTES_TO_RUN = 1024 * 1024  # with less free space, the disk is the most likely cause of a failure


@dataclass(frozen=True, slots=True)
class Status:
    """State of the server, as shown by `kgedit graph status`.

    Attributes:
        running: Whether our server's process is alive.
        pid: Its process id, or None.
        version: Version of Neo4j.
        installed: Whether all jars are installed.
        bolt: Bolt address, or None before the first start.
        browser: Address of Neo4j Browser's page, or None before the first start.
        store_bytes: Size of the graph on disk, including the transaction log.
        password_file: File with the password.
        log_file: File with the server's output.
        import_unfinished: Whether a bulk import was interrupted, so that the graph must be imported again.
    """

    running: bool
    pid: int | None
    version: str
    installed: bool
    bolt: str | None
    browser: str | None
    store_bytes: int
    password_file: Path
    log_file: Path
    import_unfinished: bool


class ManagedServer:
    """The private server of one home."""

    def __init__(self, home: Path) -> None:
        """Create a handle for the server of a home; starts nothing.

        Args:
            home: Home folder; the server's folder is ``neo4j`` in it.
        """
        self.folder = home.resolve() / "neo4j"  # one server, by whatever links its home is reached
        self.password_file = self.folder / "password"
        self.log_file = self.folder / "logs" / "console.log"
        self._pid_file = self.folder / "server.pid"
        self._ports_file = self.folder / "ports.json"
        self._import_marker = self.folder / "import-unfinished"
        # Includes the next option, so that .../neo4j does not match .../neo4j-old.
        self._mark = f"--home-dir={self.folder} --config-dir"

    def start(self, *, idle_stop: float | None = None) -> Address:
        """Start the server unless it is running, and wait until it answers.

        If it already answers, nothing is written or locked, so that a read-only home can be queried.

        Args:
            idle_stop: Seconds without a client after which it stops; 0 means never. None does not change a running
                server, and uses KGEDIT_GRAPH_IDLE_STOP otherwise.

        Raises:
            MissingExtraError: if the extra `neo4j` is not installed.
            GraphError: if it cannot be installed or started, or if its graph is only partly imported.
        """
        with disk_errors(self.folder):
            if idle_stop is None and self.running() and answers(self.address()):
                return self.address()
            try:
                with self._locked():
                    self._start_under_lock(idle_stop)
            except OSError as error:
                if error.errno not in CANNOT_WRITE or not self._answers_in_read_only_home():
                    raise
            return self.address()

    def stop(self) -> bool:
        """Shut the server down, cleanly if possible. Returns whether it was running.

        Raises:
            GraphError: if the home cannot be written.
        """
        with disk_errors(self.folder), self._locked():
            was_running = self.running()
            self._end()
        return was_running

    def stop_if(self, condition: Callable[[], bool]) -> bool:
        """Shut the server down if a condition holds while no other kgedit process starts, stops or imports into it.

        Returns:
            Whether the condition held.
        """
        with disk_errors(self.folder), self._locked():
            held = condition()
            if held:
                self._end()
        return held

    def running(self) -> bool:
        """Whether our server's process is alive (it may still be starting)."""
        return self.pid() is not None

    def pid(self) -> int | None:
        """Process id of our server, or None."""
        return find_process(self._pid_file, self._mark)

    def import_unfinished(self) -> bool:
        """Whether a bulk import failed or was interrupted; the server does not start until one succeeds."""
        return self._import_marker.exists()

    def address(self) -> Address:
        """Address of the server, now or when it last ran.

        Raises:
            GraphError: if it has never been started.
        """
        with disk_errors(self.folder):
            ports = Ports.read(self._ports_file)
            if ports is None or not self.password_file.is_file():
                raise GraphError(f"No Neo4j has been started in {self.folder} yet. Start it: kgedit graph start")
            return Address(
                uri=f"bolt://127.0.0.1:{ports.bolt}",
                user=USER,
                password=self.password_file.read_text(encoding="utf-8"),
                database=DATABASE,
                browser_url=f"http://127.0.0.1:{ports.http}/browser/",
                managed=True,
            )

    def status(self) -> Status:
        """Read the state of the server, without starting or locking anything.

        Raises:
            GraphError: if the home is another user's.
        """
        with disk_errors(self.folder):
            pid, ports = self.pid(), Ports.read(self._ports_file)
            address = self.address() if ports and self.password_file.is_file() else None
            return Status(
                running=pid is not None,
                pid=pid,
                version=install.neo4j_version(),
                installed=install.is_installed(),
                bolt=address.uri if address else None,
                browser=address.browser_page() if address else None,
                store_bytes=sum(
                    _bytes_in(self.folder / "data" / kind / DATABASE) for kind in ("databases", "transactions")
                ),
                password_file=self.password_file,
                log_file=self.log_file,
                import_unfinished=self.import_unfinished(),
            )

    def bulk_import(
        self,
        nodes: Mapping[str, Sequence[Path]],
        relationships: Mapping[str, Sequence[Path]],
    ) -> None:
        """Stop the server and replace the whole graph with the content of CSV files. The server stays stopped.

        After an interruption, call it again; until then the server refuses to start.

        Args:
            nodes: CSV files (plain or .gz) by label; the first file begins with the header line. Ids are strings and
                unique across all labels.
            relationships: CSV files by type, in the same form.

        Raises:
            GraphError: if the tool fails, or finds a single bad row; the message contains the end of its report.
        """
        with disk_errors(self.folder), self._locked() as lock:
            self._end()
            self._prepare()
            write_settings(self.folder)
            self._import_marker.touch()
            sync(self.folder)
            self._with_whole_jars(
                # The tool inherits our lock, so that no server starts while it runs, even if we are killed.
                lambda: import_csv(self.folder, DATABASE, nodes, relationships, lock=lock)
            )
            self._import_marker.unlink()

    def _locked(self) -> AbstractContextManager[int]:
        return locked(
            self.folder / "server.lock",
            waiting=f"Waiting for another kgedit process that starts, stops or fills Neo4j in {self.folder} ...",
        )

    def _start_under_lock(self, idle_stop: float | None) -> None:
        if self.import_unfinished():
            raise GraphError(
                f"The graph in {self.folder} is half imported: its import failed or was interrupted. Import it "
                f"again (kgedit load-dump ...), or remove that folder to begin with an empty graph."
            )
        if not self.running() or not self._wait_until_it_answers():
            if idle_stop is None:
                idle_stop = idle_stop_from_environment()
            say(f"Starting Neo4j in {self.folder} ... (stop it: kgedit graph stop)")
            self._with_whole_jars(self._launch_and_wait)
        pid = self.pid()
        if idle_stop is not None and pid is not None:
            start_watcher(self.folder, pid, idle_stop)

    def _answers_in_read_only_home(self) -> bool:
        """Whether the server of a home that we cannot write to answers; waits for one that is starting.

        Its process may be invisible from here (another container, another machine's mount), so the port is tried too.
        """
        if Ports.read(self._ports_file) is None or not self.password_file.is_file():
            return False
        if self.running():
            return self._wait_until_it_answers()
        try:
            return answers(self.address())
        except GraphError:
            return False  # another server has the port

    def _with_whole_jars(self, action: Callable[[], None]) -> None:
        """Run Neo4j; if that fails and jars are damaged, download those again and run it a second time.

        Raises:
            GraphError: if it fails for another reason; the message names a full disk as the cause.
        """
        try:
            action()
        except GraphError as error:
            if self._disk_is_full() and not self.running():
                raise GraphError(about_full_disk(self.folder)) from error
            wrong = install.wrong_jars() + remove_damaged_copies()
            if not wrong:
                raise
            say(f"Damaged among Neo4j's jars: {', '.join(wrong)}")
            self._end()
            install.install(verify=True)
            action()

    def _launch_and_wait(self) -> None:
        for _ in range(_LAUNCHES):
            self._launch()
            if self._wait_until_it_answers():
                return
            printed = self.log_file.read_text(encoding="utf-8", errors="replace")
            # A port may have been taken since it was chosen; the next launch chooses again.
            if "already in use" not in printed:
                break
        raise GraphError(f"Neo4j did not start. The end of {self.log_file}:\n{end_of_output(printed)}")

    def _launch(self) -> None:
        self._prepare()
        ports = choose_ports(self._ports_file)
        size = _bytes_in(self.folder / "data" / "databases" / DATABASE)
        memory = plan_memory(store_bytes=size)
        write_settings(self.folder, ports, memory)
        self._set_first_password()
        start_detached(
            server_program(self.folder, find_java(), heap=memory.heap, store_bytes=size),
            self._pid_file,
            log=self.log_file,
            folder=self.folder,
            environment=environment_of(self.folder),
        )

    def _prepare(self) -> None:
        if os.name == "nt":
            raise GraphError(
                "kgedit's own Neo4j server runs on Linux and macOS. Here, run one with docker compose up -d and set "
                "KGEDIT_GRAPH_URI, KGEDIT_GRAPH_USER and KGEDIT_GRAPH_PASSWORD."
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        for name in ("conf", "logs", "import"):
            (self.folder / name).mkdir(exist_ok=True)

    def _set_first_password(self) -> None:
        """Set the password of a server that never ran; one that ran before keeps its password."""
        has_run = (self.folder / "data" / "databases" / "system").exists()
        if has_run and not self.password_file.is_file():
            raise GraphError(
                f"The password of the graph, {self.password_file}, is gone. The graph can be rebuilt from the "
                f"snapshots: remove {self.folder}, and load it again."
            )
        if has_run:
            return
        if not self.password_file.is_file():
            replace_file(self.password_file, secrets.token_hex(24), mode=0o600)
        first_login = self.folder / "data" / "dbms" / "auth.ini"
        first_login.parent.mkdir(parents=True, exist_ok=True)
        replace_file(first_login, _login(self.password_file.read_text(encoding="utf-8")), mode=0o600)

    def _wait_until_it_answers(self) -> bool:
        """Wait for the first answered query; returns False if the process ended instead.

        Raises:
            GraphError: if it is alive but does not answer in time.
        """
        address = self.address()
        began = time.monotonic()
        while time.monotonic() < began + _SECONDS_TO_START:
            if answers(address):
                return True
            if not self.running():
                return False
            if time.monotonic() > began + _SECONDS_TO_START / 10 and self._disk_is_full():
                raise GraphError(
                    f"{about_full_disk(self.folder)} Neo4j runs there and does not answer: stop it (kgedit graph "
                    f"stop) and start it again when there is room."
                )
            time.sleep(0.2)
        raise GraphError(
            f"Neo4j runs, but has not answered at {address.uri} for {_SECONDS_TO_START:.0f} s. See {self.log_file}; "
            f"wait and try again, or stop it: kgedit graph stop"
        )

    def _disk_is_full(self) -> bool:
        return shutil.disk_usage(self.folder).free < _BYTES_TO_RUN

    def _end(self) -> None:
        end_process(self._pid_file, self._mark, patience=_SECONDS_TO_STOP)


def _login(password: str) -> str:
    """Content of the file from which a server that never ran reads its user, in Neo4j 5's form.

    `neo4j-admin dbms set-initial-password` writes it too, but starting Java for it takes two processor seconds.
    """
    salt = secrets.token_bytes(32)
    digest = salt + password.encode()
    for _ in range(_HASHES):
        digest = hashlib.sha256(digest).digest()
    return f"{USER}:SHA-256,{digest.hex()},{salt.hex()},{_HASHES}:\n"


def _bytes_in(folder: Path) -> int:
    """Total size of all files under a folder, which a running server may change meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += (Path(parent) / name).stat().st_size
    return total


CANNOT_WRITE = (errno.EROFS, errno.EACCES, errno.EPERM)
"""Error codes for a folder that is read-only or another user's."""

_ANOTHER_SERVER = "or set KGEDIT_GRAPH_URI, KGEDIT_GRAPH_USER and KGEDIT_GRAPH_PASSWORD to a server that runs"


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn file system errors inside the block into GraphErrors.

    Args:
        folder: The server's folder, for the message.

    Raises:
        GraphError: in place of every OSError.
    """
    try:
        yield
    except OSError as error:
        raise GraphError(about_disk(error, folder)) from error


def about_disk(error: OSError, folder: Path) -> str:
    """Message about an error in the server's folder, with an instruction."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return about_full_disk(folder)
    if error.errno == errno.ENOENT and not os.path.lexists(folder):
        return (
            f"The folder {folder} cannot be created: there is no {error.filename}. Set KGEDIT_HOME to another folder."
        )
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        file = next((path for path in (folder, *folder.parents) if path.is_file()), folder)
        return f"{file} is a file where a folder is needed. Set KGEDIT_HOME to a folder."
    if error.errno in CANNOT_WRITE:
        return _about_permission(error, folder)
    return f"The Neo4j in {folder} cannot be used: {error}"


def about_full_disk(folder: Path) -> str:
    """Message for a full disk."""
    return f"The disk of {folder} is full. Make room, or set KGEDIT_HOME to a folder on another disk."


def _about_permission(error: OSError, folder: Path) -> str:
    if error.errno == errno.EROFS:
        return (
            f"The folder {folder} is read-only: its Neo4j can be queried here while it runs, but not started or "
            f"stopped. Start it where the folder can be written, set KGEDIT_HOME to one that you can write to, "
            f"{_ANOTHER_SERVER}."
        )
    if not os.path.lexists(folder):
        return (
            f"The folder {folder} cannot be created or seen: it is in a folder of {_owner(folder)}. Set KGEDIT_HOME "
            f"to a folder of your own, {_ANOTHER_SERVER}."
        )
    return (
        f"You may not use the Neo4j in {folder}: {error.filename or folder} belongs to {_owner(folder)}, and so "
        f"does its password. Set KGEDIT_HOME to a folder of your own, {_ANOTHER_SERVER}."
    )


def _owner(folder: Path) -> str:
    """Owner of the nearest folder that can be inspected."""
    for path in (folder, *folder.parents):
        try:
            return _user_name(path.stat().st_uid)
        except OSError:
            continue
    return "another user"


def _user_name(uid: int) -> str:
    if uid == os.getuid():
        return "you, without the permissions that are needed"
    try:
        import pwd

        return f"user {pwd.getpwuid(uid).pw_name}"
    except (ImportError, KeyError):
        return f"user {uid}"
