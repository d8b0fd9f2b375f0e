#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: bench.py [ROUNDS]

What timers cost in asyncio's own loop and in hwtimer.EventLoop with its wheel in the process, in
ns for each operation: the median of the ROUNDS (3). All CPU time of the process counts, in the
kernel, too.

  call_later+cancel  at so many other pending timers
  push back          timers in random order: handle.cancel() and call_later(), or handle.touch()
  arm                call_at() for so many
  arm+expire         the same until all are called, in a burst of 50 ms
"""
import asyncio
import random
import statistics
import sys
import time

import hwtimer


def wheel_loop():
    return hwtimer.EventLoop(in_process=True)


def nothing():
    pass


def turns(loop, operations, step, batch=100):
    """Call step(i) so many times, a batch in each turn of the loop. Returns ns of CPU for each."""
    done = 0

    def turn():
        nonlocal done
        for i in range(done, done + batch):
            step(i)
        done += batch
        if done < operations:
            loop.call_soon(turn)
        else:
            loop.stop()

    began = time.process_time_ns()
    loop.call_soon(turn)
    loop.run_forever()
    return (time.process_time_ns() - began) / done


def measure(factory, pending):
    """Yield (name, value)."""
    draw = random.Random(pending)
    delays = [draw.uniform(30, 90) for _ in range(1000)]
    loop = factory()
    handles = [loop.call_later(600 + draw.random() * 600, nothing) for _ in range(pending)]
    operations = max(300000, 2 * pending)
    yield "call_later+cancel", turns(
        loop, operations, lambda i: loop.call_later(delays[i % 1000], nothing).cancel())

    order = list(range(pending))
    draw.shuffle(order)
    if isinstance(handles[0], hwtimer.TimerHandle):
        def push_back(i):
            handles[order[i % pending]].touch(1200)
    else:
        def push_back(i):
            at = order[i % pending]
            handles[at].cancel()
            handles[at] = loop.call_later(1200, nothing)
    yield "push back", turns(loop, operations, push_back)
    loop.close()
    handles.clear()

    loop, left = factory(), pending

    def expire():
        nonlocal left
        left -= 1
        if not left:
            loop.stop()

    # Due within 50 ms, when the loop was held up.
    began = time.process_time_ns()
    start = loop.time() + 3
    for _ in range(pending):
        loop.call_at(start + draw.random() / 20, expire)
    yield "arm", (time.process_time_ns() - began) / pending
    time.sleep(max(0, start + 0.1 - loop.time()))
    loop.call_soon(nothing)
    while left:
        loop.call_soon(loop.stop)
        loop.run_forever()
    yield "arm+expire", (time.process_time_ns() - began) / pending
    loop.close()


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print(f"{'':20}{'pending':>9}{'stock':>9}{'hwtimer':>9}{'ratio':>7}")
    for pending in 1000, 100000, 1000000:
        results = {}
        for _ in range(rounds):
            for factory in asyncio.SelectorEventLoop, wheel_loop:
                for name, value in measure(factory, pending):
                    results.setdefault(name, {}).setdefault(factory, []).append(value)
        for name, values in results.items():
            stock, ours = (statistics.median(values[factory])
                           for factory in (asyncio.SelectorEventLoop, wheel_loop))
            print(f"{name:20}{pending:9}{stock:9.0f}{ours:9.0f}{ours / stock:7.2f}", flush=True)


main()
