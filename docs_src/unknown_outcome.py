"""An outcome that nobody can find out by machine, and the person who ends it with evidence."""

import asyncio

from amends import Amends, Call, OutcomeUnknown, Receipt

app = Amends("amends.db")


@app.effect("call_customer", recovery="irreversible", target="order:{order}", owner="support", lookup="escalate")
async def call_customer(call: Call, *, order: str) -> Receipt:
    raise ConnectionResetError  # the line broke: was the call placed?


async def main() -> None:
    async with app:
        try:
            async with app.run("follow-up", event="order:18431:late") as run:
                await run.do(call_customer, order="18431")
        except OutcomeUnknown as unknown:
            print(unknown.code, unknown.facts["state"])
            # A person looks into the telephone system and finds the call, with our reference on it.
            found = Receipt(resource="call-77", correlation=str(unknown.key))
            await app.evidence(str(unknown.operation), found)
        async with app.run("follow-up", event="order:18431:late") as run:
            made = await run.do(call_customer, order="18431")
        print(made.resource, run.outcome())


asyncio.run(main())
