"""Work in the caller's own task: finished whatever comes, or cut off by its budget."""

import asyncio

import pytest

from amends.service.uninterrupted import to_its_end, within


@pytest.mark.requirement("R11")
async def test_work_that_waits_for_nothing_runs_in_the_callers_task_and_makes_none() -> None:
    async def work() -> object:
        return asyncio.current_task()

    assert await to_its_end(work()) == (asyncio.current_task(), None)
    assert await within(60.0, work()) is asyncio.current_task()


@pytest.mark.requirement("R11", "R24")
@pytest.mark.parametrize("times", [1, 3])
async def test_a_cancelled_caller_gets_the_result_and_its_cancellation_after_the_work(times: int) -> None:
    go, steps = asyncio.Event(), list[str]()

    async def work() -> str:
        steps.append("begun")
        await go.wait()
        steps.append("done")
        return "result"

    async def caller() -> tuple[str, bool]:
        result, cancelled = await to_its_end(work())
        return result, cancelled is not None

    calling = asyncio.ensure_future(caller())
    while not steps:
        await asyncio.sleep(0)
    for _ in range(times):
        calling.cancel()
        await asyncio.sleep(0)
    go.set()
    assert await calling == ("result", True)
    assert steps == ["begun", "done"]


@pytest.mark.requirement("R17")
@pytest.mark.parametrize("waits", [True, False])
async def test_the_works_own_error_is_the_callers(waits: bool) -> None:
    async def work() -> None:
        if waits:
            await asyncio.sleep(0)
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await to_its_end(work())
    with pytest.raises(LookupError, match="mine"):
        await within(60.0, work())


@pytest.mark.requirement("R17")
async def test_a_budget_ends_work_that_waits_and_work_may_clean_up() -> None:
    cleaned = []

    async def work() -> None:
        try:
            async with asyncio.timeout(3600):
                await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    with pytest.raises(TimeoutError):
        await within(0.001, work())
    assert cleaned == [True]


@pytest.mark.requirement("R11")
async def test_cancelling_within_a_budget_reaches_the_work() -> None:
    seen, begun = [], asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    calling = asyncio.ensure_future(within(60.0, work()))
    await begun.wait()
    await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert seen == ["cancelled"]
