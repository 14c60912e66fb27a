"""What a program is told when it asks again for something of which nothing came (R5, R18)."""

from pathlib import Path

import pytest
from terms import FENCED, QUICK

from amends import Amends, Call, Found, NotCommitted, NotSent, OutcomeUnknown, Receipt, Rejected, Retry
from amends.core.backoff import backoff_ms
from amends.core.limits import REVISIONS_MAX
from amends.core.narrate import stands
from amends.service.registry import Effect


class Outside:
    """A destination that is away, or refuses, until told otherwise."""

    def __init__(self) -> None:
        self.raises: Exception | None = None
        self.keys: list[str] = []
        self.made = 0


def wired(path: Path, outside: Outside) -> tuple[Amends, Effect]:
    app = Amends(path / "ledger.db")

    @app.effect(
        "charge", recovery="compensatable", target="order:{order}", owner="billing", destination=FENCED, retry=QUICK
    )
    async def charge(call: Call, *, order: str) -> Receipt:
        outside.keys.append(call.key)
        if outside.raises is not None:
            raise outside.raises
        outside.made += 1
        return Receipt(resource=f"ch_{outside.made}", correlation=call.key)

    @charge.lookup
    async def find(call: Call) -> Found:
        raise ConnectionError

    return app, charge


@pytest.mark.requirement("R5", "R18")
async def test_after_an_outage_the_same_wish_is_a_linked_revision_and_not_a_dead_end(tmp_path: Path) -> None:
    outside = Outside()
    app, charge = wired(tmp_path, outside)
    async with app:
        outside.raises = NotSent("could not connect")
        with pytest.raises(
            NotCommitted,
            match=r"attempts_spent: all allowed attempts are spent; the last one ended so: nothing of the request was "
            r'sent \("could not connect"\)\): nothing happened; ask again with the same event and arguments once',
        ):
            async with app.run("sale", event="1") as run:
                await run.do(charge, order="1")
        assert run.outcome() == "failed_clean"
        outside.raises = None
        async with app.run("sale", event="1") as run:
            receipt = await run.do(charge, order="1")
            assert await run.do(charge, order="1") == receipt
        first, second = run.state.operations.values()
    assert (first.reason, second.revision, second.previous) == ("attempts_spent", 1, first.id)
    assert stands(first).endswith(
        "Why: all allowed attempts are spent; the last one ended so: nothing of the request was sent "
        '("could not connect"). Nothing is owed. To have it done after all: ask again with the same event and '
        "arguments once the cause is gone."
    )
    assert outside.made == 1
    assert len(set(outside.keys)) == 2
    assert run.outcome() == "completed"


@pytest.mark.requirement("R5")
async def test_a_refusal_is_answered_to_every_repeat_until_a_program_says_again(tmp_path: Path) -> None:
    outside = Outside()
    outside.raises = Rejected("the card was declined", status=402)
    app, charge = wired(tmp_path, outside)
    async with app, app.run("sale", event="1") as run:
        for _ in range(3):
            with pytest.raises(NotCommitted, match="again="):
                await run.do(charge, order="1")
        assert len(outside.keys) == 1
        outside.raises = None
        await run.do(charge, order="1", again="the customer has another card")
    assert (outside.made, len(outside.keys)) == (1, 2)


@pytest.mark.requirement("R5", "G3")
async def test_a_wish_in_doubt_is_never_asked_anew(tmp_path: Path) -> None:
    outside = Outside()
    outside.raises = ConnectionResetError()
    app, charge = wired(tmp_path, outside)
    async with app:
        for _ in range(2):
            with pytest.raises(OutcomeUnknown):
                async with app.run("sale", event="1", wait_s=0) as run:
                    await run.do(charge, order="1")
        assert [operation.revision for operation in run.state.operations.values()] == [0]
    assert len(outside.keys) == 1


@pytest.mark.requirement("R5")
async def test_asking_again_in_a_loop_comes_to_an_end(tmp_path: Path) -> None:
    outside = Outside()
    outside.raises = NotSent("could not connect")
    app, charge = wired(tmp_path, outside)
    async with app, app.run("sale", event="1") as run:
        for _ in range(REVISIONS_MAX + 1):
            with pytest.raises(NotCommitted):
                await run.do(charge, order="1")
        with pytest.raises(NotCommitted, match="again="):
            await run.do(charge, order="1")
    assert len(outside.keys) == QUICK.attempts * (REVISIONS_MAX + 1)


@pytest.mark.requirement("R18")
def test_the_default_retries_outlast_a_restart_of_the_destination_and_end_within_minutes() -> None:
    retry = Retry()
    pauses_ms = [
        backoff_ms(n, first_ms=int(retry.first_delay_s * 1000), most_ms=int(retry.delay_s_max * 1000), jitter=jitter)
        for jitter in (0.0, 0.999)
        for n in range(1, retry.attempts)
    ]
    half = len(pauses_ms) // 2
    assert sum(pauses_ms[:half]) >= 60_000
    assert sum(pauses_ms[half:]) <= 300_000
