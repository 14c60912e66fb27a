"""A run, for a program that does not await."""

from typing import Any

from amends.core.evidence import Receipt
from amends.core.model import RunState
from amends.service import run as service
from amends.service.registry import Effect, Read
from amends.sync.loop import LoopThread


class Run:
    """One business operation, while a program is inside it: ``amends.Run`` with verbs that block.

    Safe for concurrent threads.
    """

    def __init__(self, run: service.Run, loop: LoopThread) -> None:
        self._run, self._loop = run, loop

    @property
    def id(self) -> str:
        """The run's id, made from tenant and event."""
        return self._run.id

    @property
    def intent(self) -> str:
        """The intent's id; pass it as ``intent=`` to let another run meet the operations of this one."""
        return self._run.intent

    @property
    def state(self) -> RunState:
        """The run as it stands."""
        return self._run.state

    def do(self, effect: Effect, *, again: str = "", if_version: str | None = None, **arguments: Any) -> Receipt:
        """Make the effect happen once, verify it, and return its receipt: ``amends.Run.do``, which blocks.

        The same call again, in any thread and any process, gets the same answer. Interrupted (Ctrl-C) while it
        waits, a plain function goes on in its thread and what it brings is recorded; a coroutine that left is
        *unknown*. Either is looked up before anything is sent again.
        """
        return self._loop.wait(lambda: self._run.do(effect, again=again, if_version=if_version, **arguments))

    def propose(self, effect: Effect, *, again: str = "", **arguments: Any) -> str:
        """Record the wish only, and return the operation's id; nothing is sent. Idempotent."""
        return self._loop.wait(lambda: self._run.propose(effect, again=again, **arguments))

    def read(self, read: Read, **arguments: Any) -> Any:
        """Call a registered read. It is recorded with the next operation."""
        return self._loop.wait(lambda: self._run.read(read, **arguments))

    def close(self, how: str) -> None:
        """Record how the program left the run; idempotent. Leaving the block does it."""
        self._loop.wait(lambda: self._run.close(how))

    def outcome(self) -> str | None:
        """The run's ending, or ``None`` while it waits; also after the block and the application were left."""
        return self._run.outcome()
