"""What the group writer does with a lone task, and what it must not do to the others."""

import asyncio
import itertools
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from building import Run

from amends.errors import LedgerUnavailable
from amends.ledger.writer import AT_ONCE_MAX, GroupWriter
from amends.ports.ledger import Append, Applied

APPEND = Run("run_1").opened()


def test_a_lone_task_writes_at_once_and_still_gives_way_to_others() -> None:
    seen: list[str] = []

    def write(batch: Sequence[Append], wait: bool) -> list[Any]:
        seen.append("write")
        return [Applied() for _ in batch]

    async def main() -> None:
        writer = GroupWriter(write)
        done = False

        async def bystander() -> None:
            while not done:
                seen.append("turn")
                await asyncio.sleep(0)

        other = asyncio.ensure_future(bystander())
        for _ in range(40):
            await writer.submit(APPEND)
        done = True
        await other
        await writer.drain()

    asyncio.run(main())
    rows = [len(list(group)) for what, group in itertools.groupby(seen) if what == "write"]
    assert sum(rows) == 40
    assert 1 < max(rows) <= AT_ONCE_MAX + 1


def test_tasks_that_append_at_the_same_time_share_their_batches() -> None:
    sizes: list[int] = []

    def write(batch: Sequence[Append], wait: bool) -> list[Any]:
        sizes.append(len(batch))
        return [Applied() for _ in batch]

    async def main() -> None:
        writer = GroupWriter(write)

        async def work() -> None:
            for _ in range(5):
                await writer.submit(APPEND)

        await asyncio.gather(*(work() for _ in range(20)))
        await writer.drain()

    asyncio.run(main())
    assert sizes == [20] * 5


def test_an_append_of_another_loop_that_comes_while_one_is_written_at_once_is_written_after_it() -> None:
    other = asyncio.new_event_loop()
    thread = threading.Thread(target=other.run_forever)
    thread.start()
    flushed, coming = threading.Event(), []
    calls = itertools.count(1)

    def write(batch: Sequence[Append], wait: bool) -> list[Any]:
        if next(calls) == 2:  # the lone task's second append, written in its own loop
            coming.append(asyncio.run_coroutine_threadsafe(put(), other))
            assert flushed.wait(30)
        return [Applied() for _ in batch]

    writer = GroupWriter(write)

    async def put() -> Any:
        future = writer.submit(APPEND)
        other.call_soon(flushed.set)  # after the flush that submit planned
        return await future

    async def main() -> None:
        await writer.submit(APPEND)
        await writer.submit(APPEND)
        assert await asyncio.wrap_future(coming[0]) == Applied()
        await writer.drain()

    try:
        asyncio.run(asyncio.wait_for(main(), 60))
    finally:
        other.call_soon_threadsafe(other.stop)
        thread.join()
        other.close()


@pytest.mark.parametrize("first", [1, 2])
def test_an_error_met_at_once_is_told_to_the_task_and_stops_nothing(first: int) -> None:
    calls = itertools.count(1)

    def write(batch: Sequence[Append], wait: bool) -> list[Any]:
        if next(calls) == first:
            raise OSError("the disk is gone")
        return [Applied() for _ in batch]

    async def main() -> None:
        writer = GroupWriter(write)
        said = []
        for _ in range(4):
            try:
                said.append(str(await writer.submit(APPEND)))
            except OSError as error:
                said.append(str(error))
        assert [text == "the disk is gone" for text in said] == [n == first for n in range(1, 5)]
        await writer.drain()

    asyncio.run(main())


class Exit(SystemExit):
    """As a signal's handler raises it."""


@pytest.mark.requirement("R11", "R14")
@pytest.mark.parametrize("lone", [False, True], ids=["first append of a turn", "append written at once"])
def test_an_interrupted_inline_write_lets_the_next_one_through_and_tells_its_waiter(lone: bool) -> None:
    interrupted = [False, True] if lone else [True]

    def write(batch: Sequence[Append], wait: bool) -> list[Any]:
        if interrupted and interrupted.pop(0):
            raise Exit
        return [Applied() for _ in batch]

    loop = asyncio.new_event_loop()
    writer = GroupWriter(write)

    async def put() -> Any:
        return await writer.submit(APPEND)

    async def put_twice() -> Any:
        await put()
        return await put()

    task = loop.create_task(put_twice() if lone else put())
    with pytest.raises(Exit):
        loop.run_until_complete(task)
    if not lone:
        with pytest.raises(LedgerUnavailable, match="append the same entry again"):
            loop.run_until_complete(task)
    assert loop.run_until_complete(asyncio.wait_for(put(), 30)) == Applied()
    loop.run_until_complete(writer.drain())
    loop.close()
