"""The world a rehearsal runs in: real destination processes, each behind a fault proxy, and handles on them.

Effects are counted at the destination, from its own store; nothing here trusts what the tool under test believes.
The process that opens the world owns its processes; any other process attaches by the `world.json` it wrote:

    with World(tmp_path, destinations=("payments",)) as world:
        world.payments.fault("drop_response")
        ...  # run the tool under test against world.payments.url
        assert world.payments.effects(order="18431") == {"charges": 0, "refunds": 1}
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from amends.testing.rehearsal._client import ControlRefusedError
from amends.testing.rehearsal._extra import require_demo_extra
from amends.testing.rehearsal._handle import Addresses, RehearsalDestination
from amends.testing.rehearsal._process import Process, StartFailedError

require_demo_extra()

__all__ = ["ControlRefusedError", "Process", "RehearsalDestination", "StartFailedError", "World"]

DESTINATIONS: Final = ("carrier", "crm", "mail", "payments", "warehouse")
WORLD_FILE: Final = "world.json"
_PACKAGE = "amends.testing.rehearsal"


class World:
    """Rehearsal destinations in one directory.

    Args:
        directory: where stores, standard-error files and `world.json` are kept; made when absent. A directory used
            before keeps its records, so a world can be stopped and opened again.
        destinations: which to start; all by default.
        options: start values of knobs per destination, e.g. `{"payments": {"key_retention_ms": 1000}}`.

    Use it as a context manager. Not safe to share between threads while it starts or stops; the handles are.
    """

    def __init__(
        self,
        directory: Path,
        *,
        destinations: Iterable[str] = DESTINATIONS,
        options: Mapping[str, Mapping[str, int | bool | str]] | None = None,
    ) -> None:
        self.directory: Path = Path(directory)
        self._names = tuple(destinations)
        self._options = dict(options or {})
        if unknown := sorted((set(self._names) | set(self._options)) - set(DESTINATIONS)):
            raise ValueError(f"unknown destinations {unknown!r}; there are {DESTINATIONS!r}")
        self._servers: dict[str, Process] = {}
        self._proxies: dict[str, Process] = {}
        self._handles: dict[str, RehearsalDestination] = {}

    @classmethod
    def attach(cls, path: Path) -> "World":
        """Reach a world another process owns, by its `world.json` or directory; starts and stops nothing."""
        file = Path(path)
        file = file / WORLD_FILE if file.is_dir() else file
        entries: list[dict[str, Any]] = json.loads(file.read_text())["destinations"]
        world = cls(file.parent, destinations=[entry["name"] for entry in entries])
        world._handles = {entry["name"]: RehearsalDestination(Addresses(**entry)) for entry in entries}
        return world

    def start(self) -> "World":
        """Start every destination, then every proxy, each group side by side.

        Raises:
            StartFailedError: one did not become ready; those started have been stopped.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            self._servers = {name: self._start_server(name) for name in self._names}
            for process in self._servers.values():
                process.wait_ready()
            self._proxies = {name: self._start_proxy(name) for name in self._names}
            for process in self._proxies.values():
                process.wait_ready()
        except BaseException:
            self.stop()
            raise
        self._handles = {name: RehearsalDestination(self._addresses(name)) for name in self._names}
        self._write()
        return self

    def stop(self) -> None:
        """Stop every process this world owns; safe to call again."""
        owned = [*self._proxies.values(), *self._servers.values()]
        for process in owned:
            process.request_stop()
        for process in owned:
            process.stop()

    def __enter__(self) -> "World":
        return self if self._handles else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __getitem__(self, name: str) -> RehearsalDestination:
        """The handle on one destination, by name."""
        if name not in self._handles:
            raise LookupError(f"{name!r} is not in this world; it has {sorted(self._handles)!r}")
        return self._handles[name]

    @property
    def carrier(self) -> RehearsalDestination:
        return self["carrier"]

    @property
    def crm(self) -> RehearsalDestination:
        return self["crm"]

    @property
    def mail(self) -> RehearsalDestination:
        return self["mail"]

    @property
    def payments(self) -> RehearsalDestination:
        return self["payments"]

    @property
    def warehouse(self) -> RehearsalDestination:
        return self["warehouse"]

    @property
    def path(self) -> Path:
        """The file another process attaches by."""
        return self.directory / WORLD_FILE

    def reset(self) -> None:
        """Reset every destination and proxy."""
        for handle in self._handles.values():
            handle.reset()

    def kill(self, name: str) -> None:
        """SIGKILL a destination: its store must survive. The proxy stays, and closes connections unanswered."""
        self._owned(name).kill()

    def restart(self, name: str) -> None:
        """Start a killed or running destination again, on its store and its ports; knobs and clock are kept."""
        self._owned(name).stop()
        self._servers[name] = self._start_server(name, self[name].addresses)
        self._servers[name].wait_ready()

    def process(self, name: str) -> Process:
        """The process of a destination this world owns."""
        return self._owned(name)

    def _owned(self, name: str) -> Process:
        if name not in self._servers:
            raise LookupError(f"{name!r} was not started by this world; it owns {sorted(self._servers)!r}")
        return self._servers[name]

    def _start_server(self, name: str, addresses: Addresses | None = None) -> Process:
        arguments = ["--store", str(self.directory / f"{name}.sqlite3")]
        if addresses is not None:
            arguments += ["--port", str(addresses.http_port), "--smtp-port", str(addresses.smtp_port)]
        for knob, value in self._options.get(name, {}).items():
            shown = value if isinstance(value, str) else json.dumps(value)
            arguments.append(f"--{knob.replace('_', '-')}={shown}")
        return Process.start(f"{_PACKAGE}.{name}", arguments, stderr_path=self.directory / f"{name}.stderr.txt")

    def _start_proxy(self, name: str) -> Process:
        ready = self._servers[name].ready
        protocol, port = ("smtp", ready["smtp_port"]) if "smtp_port" in ready else ("http", ready["port"])
        arguments = ["--upstream", f"127.0.0.1:{port}", "--protocol", protocol]
        stderr_path = self.directory / f"{name}.proxy.stderr.txt"
        return Process.start(f"{_PACKAGE}.proxy", arguments, stderr_path=stderr_path)

    def _addresses(self, name: str) -> Addresses:
        server, proxy = self._servers[name].ready, self._proxies[name].ready
        return Addresses(
            name=name,
            http_port=server["port"],
            smtp_port=server.get("smtp_port", 0),
            proxy_port=proxy["port"],
            proxy_control_port=proxy["control_port"],
        )

    def _write(self) -> None:
        """Write `world.json` in one step, so that a reader never sees half of it."""
        draft = self.path.with_suffix(".tmp")
        draft.write_text(json.dumps({"destinations": [handle.describe() for handle in self._handles.values()]}))
        os.replace(draft, self.path)
