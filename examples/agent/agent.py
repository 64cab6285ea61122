"""An agent that runs for as long as it is asked: a model, tools, consent by a signal, a journal that begins anew."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import runnerq as rq


@dataclass
class Message:
    role: str
    text: str


ASK, CONSENT = rq.Signal("ask", str), rq.Signal("consent", bool)
TOOLS = {"look up": "order 42 is a cup that came broken", "refund": "9.50 EUR went back"}
MOST = 6  # messages of history: beyond them the run begins a new generation, so that its journal stays short


@rq.activity(retry=5, timeout=60)
async def think(history: list[Message]) -> Message:
    """Stands for a call of a model. What it said is on record, and is not paid for again after a crash."""
    if history[-1].role == "tool":
        return Message("agent", f"done, {history[-1].text}")
    tool = next((name for name in TOOLS if name in history[-1].text), None)
    return Message("call", tool) if tool else Message("agent", "I can look up an order or refund it")


@rq.activity
async def call(tool: str) -> str:
    return TOOLS[tool]  # stands for your tools, each a function of its own


def use(ctx: rq.Context, tool: str) -> rq.Flow[Message]:
    if tool == "refund":  # what cannot be taken back is asked for first
        yield from ctx.publish(wants=tool)
        if not (yield from ctx.signal(CONSENT, timeout=24 * 3600, default=False)):
            return Message("tool", f"{tool} was not allowed")
    return Message("tool", (yield from ctx.options(name=tool).step(call, tool)))


@rq.workflow
def agent(ctx: rq.Context, history: list[Message]) -> rq.Flow[str]:
    while len(history) < MOST:
        question = yield from ctx.signal(ASK)  # parked between questions, for weeks if need be
        if question == "bye":
            return "goodbye"
        history.append(Message("user", question))
        while history[-1].role != "agent":
            said = yield from ctx.step(think, history)
            history.append((yield from use(ctx, said.text)) if said.role == "call" else said)
        yield from ctx.publish(question=question, answer=history[-1].text)
    return ctx.continue_as_new(history[-2:])  # the same run and mailbox, an empty journal


async def talk(run: rq.Handle[str], question: str) -> None:
    await run.send(ASK, question)
    if question == "refund it":
        await run.wait(lambda state: "wants" in state, timeout=60)
        print("  it wants to give money back, and may")
        await run.send(CONSENT, True)
    state = await run.wait(lambda state: state.get("question") == question, timeout=60)
    print(f"{question}: {state['answer']}")


async def main() -> None:
    async with rq.connect() as client, rq.Worker(client, workflows=[agent]):
        run = await client.start(agent, [])
        for question in ("hello", "look up order 42", "refund it", "hello again"):
            await talk(run, question)
        await run.send(ASK, "bye")
        print(await run.result(timeout=60))
        print(f"generation {(await run.info()).generation}: its journal has {len(await run.history())} entries")


if __name__ == "__main__":
    asyncio.run(main())
