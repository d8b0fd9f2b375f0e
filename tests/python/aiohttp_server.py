#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""A server and clients of aiohttp that know nothing of hwtimer, with their timeouts on the wheel:
the client's for slow answers, the server's for idle connections. Prints TAP."""
import asyncio

import aiohttp
from aiohttp import web

import hwtimer

CLIENTS = 40


async def answer(request):
    delay = float(request.query["delay"])
    await asyncio.sleep(delay)
    return web.Response(text=request.query["delay"])


async def main():
    loop = asyncio.get_running_loop()
    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, keepalive_timeout=0.5)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/"
    async def client(session, number):
        """Every other one gives up."""
        slow = number % 2
        timeout = aiohttp.ClientTimeout(total=2 if slow else 600)
        began = loop.time()
        try:
            async with session.get(url, params={"delay": 500 if slow else 0.1},
                                   timeout=timeout) as response:
                assert await response.text() == "0.1"
                return "answered"
        except asyncio.TimeoutError:
            assert loop.time() - began >= 2
            return "timed out"

    async with aiohttp.ClientSession() as session:
        clients = asyncio.gather(*(client(session, n) for n in range(CLIENTS)))
        await asyncio.sleep(0)
        # All have begun, each with a timeout.
        most = loop._timers.pending
        assert most >= CLIENTS and not loop._scheduled, most
        results = await clients
        assert results == ["answered", "timed out"] * (CLIENTS // 2), results
        # The server closes what is idle.
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.split(":")[2][:-1]))
        writer.write(b"GET /?delay=0 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.read()).endswith(b"\r\n\r\n0")
        writer.close()
    await runner.cleanup()
    print(f"# {CLIENTS} requests, half of them timed out; {most} timeouts on the wheel")


print("1..1")
hwtimer.run(main())
print("ok 1 aiohttp")
