"""One look serves many, and nobody gets an answer from before they asked."""

import asyncio

import pytest

from unstale.mirror.sources.sql.batched_probe import BatchedProbe


class World:
    """Something that changes, and that takes a moment to look at."""

    def __init__(self):
        self.now, self.looks, self.asked = 0, 0, []

    async def look(self, names):
        self.looks += 1
        self.asked.append(names)
        seen = self.now
        await asyncio.sleep(0.01)
        return seen


def test_many_share_a_look_that_begins_after_they_asked():
    async def play():
        world = World()
        shared = BatchedProbe(world.look)
        first = [asyncio.create_task(shared.ask([i])) for i in range(50)]
        await asyncio.sleep(0.005)
        world.now = 1  # while the first are being answered
        second = [asyncio.create_task(shared.ask([i])) for i in range(50)]
        answers = await asyncio.gather(*first, *second)
        assert answers == [0] * 50 + [1] * 50
        assert world.looks == 2
        assert len(world.asked[0]) == 50
        assert await shared.ask() == 1
        assert world.looks == 3

    asyncio.run(play())


def test_an_answer_serves_for_a_while():
    async def play():
        world, now = World(), [0.0]
        shared = BatchedProbe(world.look, interval=10.0, clock=lambda: now[0])
        await shared.ask(["a"])
        await shared.ask(["b"])
        assert world.asked == [{"a"}, {"a", "b"}]
        now[0], world.now = 9.0, 5
        assert await shared.ask(["a", "b"]) == 0
        now[0] = 10.5
        assert await shared.ask(["a"]) == 5
        assert world.asked[-1] == {"a", "b"}

    asyncio.run(play())


def test_those_who_leave_take_nothing_with_them():
    async def play():
        world = World()
        shared = BatchedProbe(world.look)
        one, two = asyncio.create_task(shared.ask()), asyncio.create_task(shared.ask())
        await asyncio.sleep(0.005)
        one.cancel()
        assert await two == 0
        assert world.looks == 1

    asyncio.run(play())


def test_trouble_is_everybodys_and_passes():
    async def play():
        troubled = True

        async def look(_):
            await asyncio.sleep(0)
            if troubled:
                raise OSError("no")
            return 1

        shared = BatchedProbe(look)
        answers = await asyncio.gather(*(shared.ask() for _ in range(3)), return_exceptions=True)
        assert [type(one) for one in answers] == [OSError] * 3
        troubled = False
        assert await shared.ask() == 1
        await shared.close()

    asyncio.run(play())


def test_closing_ends_it():
    async def play():
        shared = BatchedProbe(lambda _: asyncio.sleep(60))
        waiting = asyncio.create_task(shared.ask())
        await asyncio.sleep(0.01)
        later = asyncio.create_task(shared.ask())
        await asyncio.sleep(0)
        await shared.close()
        for one in (waiting, later):
            with pytest.raises(asyncio.CancelledError):
                await one

    asyncio.run(play())
