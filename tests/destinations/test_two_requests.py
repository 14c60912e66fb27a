"""An attempt of two requests, through the whole of Amends: no end of the second hides that the first was made."""

import socket
from pathlib import Path

import pytest
from scripted import Scripted, answering

from amends.bootstrap import Amends
from amends.core.contract import Contract, Lookup
from amends.core.evidence import Absent, Observation, Receipt
from amends.core.terms import Retry
from amends.destinations.http import HttpDestination
from amends.errors import OutcomeUnknown
from amends.service.call import Call

UNFENCED = Contract(name="unfenced", lookup=Lookup.STRONG)


@pytest.mark.requirement("R17", "R18", "G3")
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("then", ["refused", "no connection", "not to be sent"])
async def test_an_attempt_whose_second_request_failed_is_not_sent_again(tmp_path: Path, method: str, then: str) -> None:
    app = Amends(tmp_path / "ledger.db")
    async with Scripted(answering(200), answering(404)) as server:
        first = server.destination(UNFENCED)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            nowhere = HttpDestination(f"http://127.0.0.1:{taken.getsockname()[1]}", UNFENCED)
            second = nowhere if then == "no connection" else first

            @app.effect(
                "both",
                recovery="compensatable",
                target="thing:{name}",
                owner="us",
                destination=UNFENCED,
                execution_timeout_s=0.5,
                retry=Retry(attempts=3, first_delay_s=0.01, delay_s_max=0.02),
            )
            async def both(call: Call, *, name: str) -> Receipt:
                await first.post(call, "/first", {})
                await second.request(call, method, "/../x" if then == "not to be sent" else "/second")
                return Receipt(resource="r", correlation=call.key)

            @both.lookup
            async def find(call: Call) -> Observation:
                return Absent(complete=True)

            async with app:
                with pytest.raises(OutcomeUnknown):
                    async with app.run("job", event="e") as run:
                        await run.do(both, name="n")
        assert [arrival.target for arrival in server.arrivals].count("/first") == 1
