"""The official Stripe client against ``stripe-stateful-mock`` behind the fault proxy: each run ends with one charge.

The mock is a program of somebody else (npm, MIT) that keeps charges in memory, replays a key's first answer
and refuses other parameters under it. It knows no PaymentIntents and no search, and its keys never expire.
Charges are counted by asking it directly, past the proxy; the effect and its lookup go through the proxy.
"""

import asyncio
import fcntl
import http.client
import json
import os
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amends.bootstrap import Amends
from amends.core.contract import Contract
from amends.core.evidence import Absent, Found, Observation, Receipt
from amends.core.identity import REGISTRATIONS
from amends.core.money import Money
from amends.core.terms import Retry
from amends.destinations import stripe
from amends.destinations.contracts.stripe import CREATE_CHARGE
from amends.errors import NotCommitted, OutcomeUnknown
from amends.service.call import Call
from amends.service.registry import Effect
from amends.testing.rehearsal._handle import Addresses, RehearsalDestination
from amends.testing.rehearsal._process import Process

pytestmark = [
    pytest.mark.node,
    pytest.mark.slow,
    pytest.mark.requirement("R11", "R21", "R23", "G3"),
    pytest.mark.filterwarnings("ignore:Use 'content=<...>':DeprecationWarning"),  # the vendor's, about its own httpx
]

PACKAGE, VERSION = "stripe-stateful-mock", "0.0.16"
API_KEY = "sk_test_amends"
PAGES_MAX = 20
PASSES_MAX = 2_000
INSTALL_WITHIN_S, READY_WITHIN_S = 110, 30
SERVE = f"""
const app = require({json.dumps(PACKAGE)}).createExpressApp();
const server = app.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit(0)).resume();
"""


@pytest.fixture(scope="session")
def package() -> Path:
    """The directory with the installed package; installed once, whoever of several test processes comes first."""
    node, npm = shutil.which("node"), shutil.which("npm")
    assert node, "node is missing: apt-get install nodejs npm"
    assert npm, "npm is missing: apt-get install npm"
    home = Path(__file__).parents[2] / ".node"
    home.mkdir(exist_ok=True)
    directory = home / f"{PACKAGE}-{VERSION}"
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "complete").exists():
            directory.mkdir(exist_ok=True)
            command = [
                npm,
                "install",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
                "--save-exact",
                "--no-package-lock",
            ]
            subprocess.run(
                [*command, "--prefix", str(directory), f"{PACKAGE}@{VERSION}"],
                check=True,
                capture_output=True,
                timeout=INSTALL_WITHIN_S,
            )
            (directory / "complete").touch()
    return directory


@pytest.fixture(scope="module")
def mock_port(package: Path) -> Iterator[int]:
    process = subprocess.Popen(
        ["node", "-e", SERVE],
        cwd=package,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "LOG_LEVEL": "silent"},
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    yield int(process.stdout.readline())
    process.stdin.close()
    process.wait(READY_WITHIN_S)
    process.stdout.close()


@pytest.fixture
def provider(mock_port: int, tmp_path: Path) -> Iterator[RehearsalDestination]:
    """The mock behind a fault proxy of its own."""
    arguments = ["--upstream", f"127.0.0.1:{mock_port}"]
    proxy = Process.start("amends.testing.rehearsal.proxy", arguments, stderr_path=tmp_path / "proxy.stderr.txt")
    ready = proxy.wait_ready()
    yield RehearsalDestination(
        Addresses(
            name="stripe", http_port=mock_port, proxy_port=ready["port"], proxy_control_port=ready["control_port"]
        )
    )
    proxy.stop()


def charged(provider: RehearsalDestination, order: str) -> list[dict[str, Any]]:
    """The charges of ``order``, asked of the mock directly."""
    connection = http.client.HTTPConnection("127.0.0.1", provider.addresses.http_port, timeout=10)
    connection.request(
        "GET", "/v1/charges", headers={"Authorization": f"Basic {b64encode(f'{API_KEY}:'.encode()).decode()}"}
    )
    made = json.loads(connection.getresponse().read())
    connection.close()
    assert made["has_more"] is False
    return [charge for charge in made["data"] if charge["metadata"].get("order") == order]


def wired(
    ledger: Path,
    provider: RehearsalDestination,
    *,
    client: str = "async",
    source: str = "tok_visa",
    contract: Contract = CREATE_CHARGE,
    attempts: int = 4,
) -> tuple[Amends, Effect]:
    app, made_by = Amends(ledger), stripe.client(API_KEY, base_url=provider.url)

    @app.effect(
        "charge",
        recovery="compensatable",
        target="order:{order}",
        owner="finance",
        destination=contract,
        execution_timeout_s=1.0,
        amount="amount",
        accepts=("succeeded",),
        retry=Retry(attempts=attempts, first_delay_s=0.01, delay_s_max=0.1),
    )
    async def charge(call: Call, *, order: str, amount: Money) -> Receipt:
        params: Any = {
            "amount": amount.minor,
            "currency": amount.currency.lower(),
            "source": source,
            "metadata": {"key": call.key, "order": order},
        }
        with stripe.sending(call, "POST /v1/charges") as options:
            if client == "async":
                return receipt(await made_by.v1.charges.create_async(params, options))
            return receipt(await asyncio.to_thread(made_by.v1.charges.create, params, options))

    @charge.lookup
    async def find(call: Call) -> Observation:
        ours, after = [], None
        for _ in range(PAGES_MAX):
            params: Any = {"limit": 100} | ({"starting_after": after} if after else {})
            with stripe.reading(call) as options:
                page = await made_by.v1.charges.list_async(params, options)
            ours += [one for one in page.data if one.to_dict()["metadata"].get("key") == call.key]
            if not page.has_more:
                return Found(*map(receipt, ours)) if ours else Absent(complete=True)
            after = page.data[-1].id
        return Absent(complete=False)

    return app, charge


def receipt(charge: Any) -> Receipt:
    said = charge.to_dict()
    return Receipt(
        resource=said["id"],
        state=said["status"],
        amount=Money(said["amount"], said["currency"].upper()),
        correlation=said["metadata"].get("key"),
    )


async def pay(app: Amends, charge: Effect, order: str, minor: int = 8500) -> Receipt:
    async with app.run("payment", event=f"order:{order}") as run:
        return await run.do(charge, order=order, amount=Money(minor, "USD"))


FAULTS: dict[str, dict[str, Any]] = {
    "none": {},
    "drop_response": {},
    "refuse": {},
    "late": {"hold": True},
    "drop_request": {},
    "cut": {},
    "duplicate": {"answer": "last"},
}


@pytest.mark.parametrize("client", ["async", "sync"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_each_fault_ends_with_exactly_one_charge_and_no_person(
    tmp_path: Path, provider: RehearsalDestination, fault: str, client: str
) -> None:
    order = f"{fault}-{client}"
    app, charge = wired(tmp_path / "ledger.db", provider, client=client)
    if fault != "none":
        provider.fault(fault, **FAULTS[fault])
    async with app:
        made = await pay(app, charge, order)
        assert app.ledger.unresolved() == []
        assert next(row for row in app.ledger.runs() if row.type != REGISTRATIONS).ending == "completed"
    await asyncio.to_thread(provider.release)
    [only] = charged(provider, order)
    assert (only["id"], only["amount"], only["metadata"]["key"]) == (made.resource, 8500, made.correlation)
    sent = {entry["key"] for entry in provider.proxy_log() if entry["method"] == "POST"}
    assert sent == {made.correlation}, "one key, and ours"


@pytest.mark.parametrize("when", ["before the look", "after the end"])
async def test_a_late_charge_and_its_repeat_are_one_whenever_the_late_one_comes(
    tmp_path: Path, provider: RehearsalDestination, when: str
) -> None:
    order = f"late {when}"
    app, charge = wired(tmp_path / "ledger.db", provider)
    provider.fault("late", hold=True)
    async with app:
        paying = asyncio.ensure_future(pay(app, charge, order))
        assert await asyncio.to_thread(provider.wait_held) == 1
        if when == "before the look":
            await asyncio.to_thread(provider.release)
        made = await paying
        await asyncio.to_thread(provider.release)
    assert [one["id"] for one in charged(provider, order)] == [made.resource]


@pytest.mark.requirement("B20", "E15")
@pytest.mark.parametrize("fault", [{"mode": "hang"}, {"mode": "late", "hold": True, "client": "hang"}], ids=str)
async def test_after_the_program_is_gone_recovery_finds_the_one_charge(
    tmp_path: Path, provider: RehearsalDestination, fault: dict[str, Any]
) -> None:
    """The program goes while the request is on its way; another application on the same ledger finishes."""
    order = f"recovered-{fault['mode']}"
    app, charge = wired(tmp_path / "ledger.db", provider)
    provider.fault(**fault)
    async with app:
        paying = asyncio.ensure_future(pay(app, charge, order))
        assert await asyncio.to_thread(provider.wait_held) == 1
        paying.cancel()
        await asyncio.gather(paying, return_exceptions=True)
    after, _ = wired(tmp_path / "ledger.db", provider)
    async with after:
        for _ in range(PASSES_MAX):
            await after.recover()
            if after.ledger.unresolved() == []:
                break
            await asyncio.sleep(0.01)
        assert after.ledger.unresolved() == []
    await asyncio.to_thread(provider.release)
    assert len(charged(provider, order)) == 1


@pytest.mark.requirement("C04")
async def test_the_mock_refuses_one_key_with_other_parameters_and_that_is_told_apart(
    provider: RehearsalDestination,
) -> None:
    from scripted import ScriptedCall

    from amends.core.failures import Rejected

    client = stripe.client(API_KEY, base_url=provider.url)
    for amount in (100, 200):
        params: Any = {"amount": amount, "currency": "usd", "source": "tok_visa", "metadata": {"order": "other"}}
        if amount == 100:
            with stripe.sending(ScriptedCall(), "POST /v1/charges") as options:
                await client.v1.charges.create_async(params, options)
            continue
        with pytest.raises(Rejected) as caught, stripe.sending(ScriptedCall(), "POST /v1/charges") as options:
            await client.v1.charges.create_async(params, options)
        assert caught.value.code == "key_conflict"
    assert len(charged(provider, "other")) == 1


@pytest.mark.requirement("F14")
async def test_a_refused_request_is_final(tmp_path: Path, provider: RehearsalDestination) -> None:
    app, charge = wired(tmp_path / "ledger.db", provider)
    async with app:
        with pytest.raises(NotCommitted):
            await pay(app, charge, "refused", minor=1)  # less than Stripe takes
        assert next(row for row in app.ledger.runs() if row.type != REGISTRATIONS).ending == "failed_clean"
    assert charged(provider, "refused") == []
    assert len([entry for entry in provider.proxy_log() if entry["method"] == "POST"]) == 1


async def test_a_stored_500_is_given_again_under_its_key_and_ends_at_a_person(
    tmp_path: Path, provider: RehearsalDestination
) -> None:
    app, charge = wired(tmp_path / "ledger.db", provider, source="tok_500", attempts=2)
    async with app:
        with pytest.raises(OutcomeUnknown):
            await pay(app, charge, "stored")
        assert [row.attempts for row in app.ledger.unresolved()] == [2]
    assert charged(provider, "stored") == []
    posts = [entry for entry in provider.proxy_log() if entry["method"] == "POST"]
    assert [entry["upstream_status"] for entry in posts] == [500, 500]
    assert len({entry["key"] for entry in posts}) == 1
