"""The world owns its processes, survives their deaths, and leaves none behind."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from amends.testing.rehearsal.world import Process, StartFailedError, World

DESTINATIONS = ("payments", "mail")
BODY = {"amount": 8500, "currency": "usd", "order": "18431"}
WAIT_S = 10
pytestmark = pytest.mark.requirement("R56")


def charge(http: httpx.Client, world: World, key: str) -> httpx.Response:
    return http.post(f"{world.payments.url}/v1/charges", json=BODY, headers={"Idempotency-Key": key})


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=WAIT_S, check=False
    )


def test_effects_keys_knobs_and_clock_survive_kill_9(http: httpx.Client, world: World) -> None:
    made = charge(http, world, "k1").json()
    world.payments.control(next_status=500, key_retention_ms=7_200_000)
    world.payments.advance_clock(3_600_000)
    before_ms = world.payments.now_ms()
    world.kill("payments")
    with pytest.raises(httpx.TransportError):
        charge(http, world, "k1")
    assert world.payments.proxy_log()[-1]["upstream_error"] is not None
    world.restart("payments")
    assert world.payments.effects(key="k1") == {"charges": 1, "refunds": 0}
    assert world.payments.now_ms() >= before_ms
    assert charge(http, world, "k1").json() == made
    assert charge(http, world, "k2").status_code == 500
    assert world.payments.control()["key_retention_ms"] == 7_200_000


def test_request_held_inside_a_killed_destination_leaves_an_arrival_and_no_effect(
    http: httpx.Client, world: World
) -> None:
    world.payments.control(hold_times=1)
    with pytest.raises(httpx.TimeoutException):
        http.post(f"{world.payments.url}/v1/charges", json=BODY, headers={"Idempotency-Key": "k1"}, timeout=0.3)
    assert world.payments.wait_held_inside() == 1
    world.kill("payments")
    world.restart("payments")
    assert world.payments.effects()["charges"] == 0
    assert [(row["key"], row["status"]) for row in world.payments.arrivals()] == [("k1", None)]
    assert charge(http, world, "k1").status_code == 200


def test_mail_comes_back_on_its_ports(world: World) -> None:
    world.kill("mail")
    world.restart("mail")
    assert world.mail.effects() == {"messages": 0}
    ready = world.process("mail").ready
    assert (ready["smtp_port"], ready["http_port"]) == (
        world.mail.addresses.smtp_port,
        world.mail.addresses.http_port,
    )
    with pytest.raises(LookupError):
        _ = world.payments.smtp_address


def test_worker_process_attaches_by_the_world_file(http: httpx.Client, world: World) -> None:
    code = """
import sys, urllib.request
from amends.testing.rehearsal.world import World
world = World.attach(sys.argv[1])
world.payments.fault("drop_response")
print(world.payments.effects()["charges"], world.payments.url)
"""
    charge(http, world, "k1")
    worker = run(code, str(world.path))
    assert (worker.stdout.split(), worker.stderr) == (["1", world.payments.url], "")
    with pytest.raises(httpx.RemoteProtocolError):
        charge(http, world, "k2")
    attached = World.attach(world.directory)
    assert attached.payments.effects()["charges"] == 2
    with pytest.raises(LookupError):
        attached.kill("payments")
    attached.stop()
    assert charge(http, world, "k2").headers["idempotent-replayed"] == "true"


def test_servers_end_with_status_0_on_sigterm_and_say_one_line(tmp_path: Path) -> None:
    process = Process.start(
        "amends.testing.rehearsal.carrier",
        ["--store", str(tmp_path / "c.sqlite3")],
        stderr_path=tmp_path / "err",
    )
    ready = process.wait_ready()
    assert (ready["ready"], ready["name"], ready["pid"]) == (True, "carrier", process.pid)
    assert process.stop() == 0
    assert process.stop() == 0
    assert set(ready) == {"ready", "pid", "name", "port"}
    assert (tmp_path / "err").read_text() == ""


def test_no_server_outlives_a_killed_owner(tmp_path: Path) -> None:
    code = """
import json, signal, sys
from pathlib import Path
from amends.testing.rehearsal.world import World
world = World(Path(sys.argv[1]), destinations=["crm"]).start()
print(json.dumps([process.pid for process in (*world._servers.values(), *world._proxies.values())]), flush=True)
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pids = json.loads(owner.stdout.readline())
        descriptors = [os.pidfd_open(pid) for pid in pids]
        owner.send_signal(signal.SIGKILL)
    for descriptor in descriptors:
        assert select.select([descriptor], [], [], WAIT_S)[0], "a server outlived its owner"
        os.close(descriptor)


def test_failed_start_says_why_and_leaves_nothing_running(tmp_path: Path) -> None:
    (tmp_path / "payments.sqlite3").write_text("this is no database, but it is long enough to be read as one" * 20)
    world = World(tmp_path, destinations=("crm", "payments"))
    with pytest.raises(StartFailedError, match="not a database"):
        world.start()
    assert not world.process("crm").alive


def test_start_values_of_knobs_come_back_on_reset(tmp_path: Path) -> None:
    options: dict[str, dict[str, int | bool | str]] = {
        "payments": {"key_retention_ms": 1_000, "lookup_down": True, "key_mismatch": "replay"}
    }
    with World(tmp_path, destinations=("payments",), options=options) as world:
        world.payments.control(key_retention_ms=5, lookup_down=False)
        world.payments.reset()
        knobs = world.payments.control()
    assert (knobs["key_retention_ms"], knobs["lookup_down"], knobs["key_mismatch"]) == (1_000, True, "replay")


def test_stopped_world_opens_again_on_its_records(tmp_path: Path, http: httpx.Client) -> None:
    for expected in (1, 1):
        with World(tmp_path, destinations=("payments",)) as world:
            charge(http, world, "k1")
            assert world.payments.effects()["charges"] == expected


def test_unknown_destination_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown destinations"):
        World(tmp_path, destinations=("bank",))


@pytest.mark.parametrize("module", ["world", "proxy", "payments", "mail"])
def test_missing_extra_is_named(module: str, tmp_path: Path) -> None:
    code = (
        """
import runpy, sys
for name in ("starlette", "uvicorn", "h11", "aiosmtpd"):
    sys.modules[name] = None
sys.argv[:] = ["x", *sys.argv[1:]]
"""
        + f"runpy.run_module('amends.testing.rehearsal.{module}', run_name='__main__')"
    )
    where = ["--upstream", "127.0.0.1:1"] if module == "proxy" else ["--store", str(tmp_path / "store")]
    ended = run(code, *where)
    assert ended.returncode == 1
    assert 'pip install "amends[demo]"' in ended.stderr
