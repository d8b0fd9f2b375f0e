#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Test hwtimer.EventLoop in a guest with the module loaded. Prints TAP. No test depends on how long
anything takes."""
import asyncio
import contextvars
import ctypes
import fcntl
import gc
import math
import os
import random
import struct
import subprocess
import sys
import threading
import time
import traceback
import warnings
import weakref

import _hwtimer
import hwtimer


def pending(loop):
    return loop._timers.pending


def run(function):
    """Run a coroutine function in a new loop, which is closed."""
    with asyncio.Runner(loop_factory=hwtimer.EventLoop) as runner:
        return runner.run(function())


def raises(kind, function, *args):
    try:
        function(*args)
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


async def on_the_wheel():
    """Timeouts of asyncio are on the wheel, not in the heap; a cancelled one is on neither."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, hwtimer.EventLoop)
    tasks = [asyncio.create_task(asyncio.sleep(1000)),
             asyncio.create_task(asyncio.wait_for(loop.create_future(), 1000))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert pending(loop) == 2, pending(loop)
    async with asyncio.timeout(1000) as timeout:
        assert pending(loop) == 3
        timeout.reschedule(loop.time() + 2000)
        assert pending(loop) == 3
    assert pending(loop) == 2 and not loop._scheduled
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert pending(loop) == 0 and not loop._scheduled
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(1000)
    except TimeoutError:
        assert pending(loop) == 0
        return
    raise AssertionError("no TimeoutError")


async def never_early():
    """No function that takes a time calls anything before that time."""
    loop, timers = asyncio.get_running_loop(), hwtimer.Timers()
    seed = int(os.environ.get("SEED", time.time_ns()))
    print(f"# seed {seed}")
    draw, early, waited = random.Random(seed), [], []

    def check(kind, when, future=None):
        if loop.time() < when:
            early.append((kind, when - loop.time()))
        if future:
            future.set_result(None)

    async def sleeps(kind, sleep, delay):
        when = loop.time() + delay
        await sleep(delay)
        check(kind, when)

    async def times_out(kind, timeout, delay):
        when = loop.time() + delay
        try:
            async with timeout(delay):
                await loop.create_future()
        except TimeoutError:
            check(kind, when)

    for _ in range(400):
        delay = draw.random() * 2
        when = loop.time() + delay
        futures = [loop.create_future() for _ in range(4)]
        loop.call_later(delay, check, "call_later", when, futures[0])
        loop.call_at(when, check, "call_at", when, futures[1])
        loop.call_later(draw.random() * 2, check, "touch", when, futures[2]).touch(delay)
        timers.call_later(delay, check, "Timers.call_later", when, futures[3])
        waited += futures
        waited += [sleeps("sleep", asyncio.sleep, delay),
                   sleeps("Timers.sleep", timers.sleep, delay),
                   times_out("timeout", asyncio.timeout, delay),
                   times_out("Timers.timeout", timers.timeout, delay)]
    await asyncio.gather(*waited)
    timers.close()
    assert not early, f"{len(early)} of {len(waited)}, such as {early[:5]}"
    assert pending(loop) == 0


def deadlines(timers):
    """The deadlines of pending timers, in ns, as the kernel has them (HWTIMER_IOC_LIST)."""
    command, size, number = 0xc020be0a, 64, 1000
    timers.shrink()     # makes the kernel take all submissions
    queries = ctypes.create_string_buffer(size * number)
    arg = struct.pack("=IIQIIQ", 0, size, ctypes.addressof(queries), number, 0, 0)
    found = fcntl.ioctl(timers.fileno(), command, bytearray(arg))
    return sorted(struct.unpack_from("=Q", queries, size * i + 24)[0] for i in range(found))


async def exact():
    """The kernel gets the first deadline that is not before the time that was asked for. This test
    waits for nothing, so it finds errors that delays of the machine hide from never_early()."""
    loop, timers = asyncio.get_running_loop(), hwtimer.Timers()
    draw, before = random.Random(1), time.monotonic()

    def check(kind, have, times):
        for ns, when in zip(have, sorted(times), strict=True):
            assert ns / 1e9 >= when, f"{kind} is {when - ns / 1e9} s early"
            assert (ns - 1) / 1e9 < when, f"{kind} is {ns / 1e9 - when} s late"

    handles = [loop.call_at(before + draw.uniform(1000, 2000), print) for _ in range(300)]
    handles += [loop.call_later(draw.uniform(1000, 2000), print) for _ in range(300)]
    handles += [loop.call_later(3000, print) for _ in range(300)]
    for handle in handles[600:]:
        assert handle.touch(draw.uniform(1000, 2000))
    check("loop", deadlines(loop._timers), [handle.when() for handle in handles])
    for handle in handles:
        handle.cancel()
    # A float has no room for the ns of so many years: some deadlines are not exact, but none is early.
    handles = [loop.call_at(before + draw.uniform(1e8, 1e9), print) for _ in range(300)]
    for ns, when in zip(deadlines(loop._timers), sorted(handle.when() for handle in handles)):
        assert ns / 1e9 >= when, f"{when} s: {when - ns / 1e9} s early"
    for handle in handles:
        handle.cancel()
    delays = [draw.uniform(1000, 2000) for _ in range(300)]
    for delay in delays:
        timers.call_later(delay, print)
    for have, delay in zip(deadlines(timers._timers), sorted(delays), strict=True):
        assert before + delay <= have / 1e9 <= time.monotonic() + delay
    timers.close()


def order():
    """What is found expired at one look is called in the order of when(), over several batches."""
    class Expired:
        usable, pending = False, 0

        def expired(self):
            batch, found[:64] = found[:64], []
            return batch

        def close(self):
            pass

    for number in 0, 1, 63, 64, 65, 128, 200:
        loop = hwtimer.EventLoop()
        found = [hwtimer.TimerHandle(i % 7, print, (i,), loop) for i in range(number)]
        wanted = sorted(range(number), key=lambda i: i % 7)
        loop._timers.close()
        loop._timers = Expired()
        loop._expire()
        assert [handle._args[0] for handle in loop._ready] == wanted, number
        loop.close()


async def at_once():
    """Deadlines of now and before need no wheel."""
    loop, called = asyncio.get_running_loop(), []
    loop.call_later(0, called.append, 1)
    loop.call_later(-5, called.append, 2)
    loop.call_at(0, called.append, 3)
    loop.call_later(-math.inf, called.append, 4)
    loop.call_later(0, called.append, 5).cancel()
    assert pending(loop) == 0
    await asyncio.sleep(0)
    assert called == [1, 2, 3, 4], called


async def never():
    """Infinity and huge times are never; what is no time is an error."""
    loop = asyncio.get_running_loop()
    handles = [loop.call_later(delay, sys.exit) for delay in (math.inf, 1e9, 1e10, 1e300)]
    assert pending(loop) == 4
    await asyncio.sleep(0.02)
    assert pending(loop) == 4
    for handle in handles:
        handle.cancel()
    raises(ValueError, loop._timers.schedule, math.nan, None)
    raises(ValueError, loop.call_later, math.nan, print)
    raises(ValueError, loop.call_at, math.nan, print)
    await asyncio.sleep(0)
    raises(TypeError, loop.call_later, None, print)
    raises(TypeError, loop.call_at, None, print)
    raises(TypeError, loop.call_later, "1", print)


async def touch():
    """touch() moves a timeout to later and to earlier, and says when it is too late."""
    loop, called = asyncio.get_running_loop(), []
    handle = loop.call_later(0.02, called.append, 1)
    while not handle.touch(1000):
        # This machine is busy: it was due before that.
        assert loop.time() >= handle.when()
        handle.cancel()
        handle = loop.call_later(0.02, called.append, 1)
    assert handle.when() > loop.time() + 900
    await asyncio.sleep(0.05)
    assert not called and handle.touch(0.01)
    while not called:
        await asyncio.sleep(0.01)
        assert loop.time() >= handle.when() or not called
    assert not handle.touch(1)
    handle = loop.call_later(1000, called.append, 2)
    handle.cancel()
    assert handle.cancelled() and not handle.touch(1)
    assert not loop.call_later(0, int).touch(1)
    assert pending(loop) == 0


def limit():
    """Timeouts beyond the limit are kept in the heap, and work there; at n-1, n and n+1."""
    loop, called = hwtimer.EventLoop(timeouts=3), []
    handles = []
    for n, heap in (1, 0), (2, 0), (3, 0), (4, 1), (5, 2):
        handles.append(loop.call_later(1000, called.append, n))
        assert len(loop._scheduled) == heap and pending(loop) == n - heap
    raises(ValueError, handles[4].touch, math.nan)
    assert handles[4].touch(0.01) and handles[3].touch(0.02)
    handles[0].cancel()
    assert pending(loop) == 2
    loop.call_later(0.03, loop.stop)    # on the wheel again
    assert pending(loop) == 3
    loop.run_forever()
    while len(called) < 2:
        loop.run_until_complete(asyncio.sleep(0))
    assert called == [5, 4], called
    handles[4].cancel()
    assert not handles[4].touch(1)
    loop.close()


async def threads():
    """call_soon_threadsafe() wakes a loop that waits for the wheel."""
    loop, future = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
    handle = loop.call_later(1000, sys.exit)
    thread = threading.Thread(target=loop.call_soon_threadsafe, args=(future.set_result, 7))
    thread.start()
    assert await future == 7
    thread.join()
    assert await asyncio.to_thread(lambda: 8) == 8
    handle.cancel()


def closes():
    """close() gives the descriptor back and drops what is pending; a second one does nothing."""
    before = os.listdir("/proc/self/fd")
    loop = hwtimer.EventLoop()
    handle = loop.call_later(1000, print)
    asyncio_task = loop.create_task(asyncio.sleep(0.01))
    loop.run_until_complete(asyncio_task)
    loop.close()
    loop.close()
    assert os.listdir("/proc/self/fd") == before
    handle.cancel()
    assert not handle.touch(1)
    raises(RuntimeError, loop.call_later, 1, print)
    timers = _hwtimer.Timers()
    timer = timers.schedule(1e9, None)
    timers.close()
    assert not timer.cancel() and not timers.usable
    for name in "expired", "fileno", "shrink":
        raises(RuntimeError, getattr(timers, name))
    raises(RuntimeError, timers.schedule, 1, None)


def cancels_while_closing():
    """An object that is freed by close() may cancel other timers."""
    class Last:
        def __del__(self):
            results.append(self.other.cancel())

    results, timers = [], _hwtimer.Timers()
    for _ in range(2):
        last = Last()
        last.other = timers.schedule(1e9, None)
        timers.schedule(1e9, last)
        del last
    timers.close()
    assert results == [True, True] and timers.pending == 0, results


def number():
    """Not more timeouts than an unsigned int can be wanted, nor fewer than 0."""
    for timeouts in -1, 2 ** 32, 2 ** 32 + 1, 2 ** 64:
        raises(OverflowError, _hwtimer.Timers, timeouts)
    for timeouts in 2 ** 24 + 1, 2 ** 32 - 1:
        raises(OSError, _hwtimer.Timers, timeouts)
    for timeouts in 0, 2 ** 24:
        _hwtimer.Timers(timeouts).close()


async def contexts():
    """A callback of Timers has the context of call_later(), as one of the loop, and changes no
    other's."""
    timers, variable, seen = hwtimer.Timers(), contextvars.ContextVar("variable", default=0), []

    def callback():
        seen.append(variable.get())
        variable.set(9)

    for value in 1, 2:
        variable.set(value)
        timers.call_later(0, callback)
    variable.set(3)
    while len(seen) < 2:
        await asyncio.sleep(0.001)
    assert sorted(seen) == [1, 2] and variable.get() == 3, seen
    timers.close()


async def turns():
    """Callbacks of Timers that schedule others, and take longer than a tick, leave the loop its
    turns."""
    timers, called = hwtimer.Timers(), 0

    def again():
        nonlocal called
        called += 1
        if called < 1000:
            timers.call_later(0, again)
        time.sleep(0.005)

    timers.call_later(0, again)
    await asyncio.sleep(0.02)
    timers.close()
    assert called < 1000


def most():
    """expired(most) returns no more than that, and the others later."""
    timers, found = _hwtimer.Timers(), []
    for i in range(70):
        timers.schedule(0, i)
    time.sleep(0.1)
    while len(found) < 70:
        number = 1 + len(found) % 3
        batch = timers.expired(number)
        assert len(batch) <= number, batch
        found += batch
    assert sorted(found) == list(range(70)) and timers.pending == 0
    timers.close()


def garbage():
    """The collector finds a loop in a cycle with its timers; nothing is counted wrongly."""
    class Thing:
        pass

    thing = Thing()
    timers = _hwtimer.Timers()
    thing.timers = timers
    thing.timer = timers.schedule(1e9, thing)
    reference = weakref.ref(thing)
    del thing, timers
    gc.collect()
    assert reference() is None
    timers, obj = _hwtimer.Timers(), Thing()
    count = sys.getrefcount(obj)
    kept = [timers.schedule(1e9, obj) for _ in range(10)]
    assert sys.getrefcount(obj) == count + 10
    assert kept[3].cancel() and not kept[3].cancel() and kept[9].cancel() and kept[0].cancel()
    assert sys.getrefcount(obj) == count + 7 and timers.pending == 7
    del kept
    assert timers.pending == 7
    del timers
    assert sys.getrefcount(obj) == count
    class Closer:
        def __del__(self):
            self.timers.close()

    # The collector may run in any function that makes an object.
    timers, kept, threshold = _hwtimer.Timers(), [], gc.get_threshold()
    cycle = Closer()
    cycle.timers, cycle.cycle = timers, cycle
    del cycle
    gc.set_threshold(1)
    try:
        while timers.usable:
            kept.append(timers.expired())
    except RuntimeError:
        pass
    finally:
        gc.set_threshold(*threshold)
    assert not timers.usable
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loop = hwtimer.EventLoop()
        loop.call_later(1000, loop.stop)
        del loop
        gc.collect()
    assert [w.category for w in caught].count(ResourceWarning) >= 1


def no_garbage():
    """What has ended is in no cycle, which only the collector would find, as with asyncio's own."""
    async def times_out(timeout, delay):
        async with timeout(delay) as t:
            references.append(weakref.ref(t))
            await asyncio.sleep(0.01)

    async def all_of_them():
        timers = hwtimer.Timers()
        await times_out(asyncio.timeout, 1000)
        await times_out(timers.timeout, 1000)
        for timeout in asyncio.timeout, timers.timeout:
            try:
                await times_out(timeout, 0)
            except TimeoutError:
                pass
        timers.close()

    references, loop = [], hwtimer.EventLoop()
    references.append(weakref.ref(loop))
    gc.disable()
    try:
        loop.run_until_complete(all_of_them())
        loop.close()
        del loop
        assert not any(reference() for reference in references), references
    finally:
        gc.enable()


def missing():
    """Without the device the error says so; new_event_loop() warns and goes on without."""
    before = os.listdir("/proc/self/fd")
    error = raises(FileNotFoundError, lambda: hwtimer.EventLoop(device="/dev/none"))
    assert "kernel module" in str(error) and "/dev/none" in str(error), error
    gc.collect()
    assert os.listdir("/proc/self/fd") == before
    original = hwtimer._open
    hwtimer._open = lambda timeouts, device: original(timeouts, "/dev/none")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loop = hwtimer.new_event_loop()
    finally:
        hwtimer._open = original
    assert not isinstance(loop, hwtimer.EventLoop)
    assert [w.category for w in caught] == [RuntimeWarning] and "/dev/none" in str(caught[0])
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    loop = hwtimer.new_event_loop()
    assert isinstance(loop, hwtimer.EventLoop)
    loop.close()


async def forks():
    """A child cannot use the parent's loop, but have its own; the parent's goes on."""
    loop = asyncio.get_running_loop()
    handle = loop.call_later(1000, sys.exit)
    child = os.fork()
    if not child:
        status = 1
        try:
            raises(RuntimeError, loop.call_later, 1, print)
            raises(RuntimeError, handle.touch, 1)
            handle.cancel()
            loop._timers.close()
            hwtimer.run(asyncio.sleep(0.01))
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert pending(loop) == 1
    await asyncio.sleep(0.01)
    handle.cancel()


def child_closes():
    """A child that closes the parent's loop does not take the wheel's descriptor out of it."""
    loop = hwtimer.EventLoop()
    child = os.fork()
    if not child:
        status = 1
        try:
            loop.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()


async def handles():
    """Handles are asyncio's."""
    loop, called = asyncio.get_running_loop(), []
    handle = loop.call_later(0.01, called.append, 1)
    assert isinstance(handle, asyncio.TimerHandle)
    assert repr(handle).startswith("<TimerHandle when=")
    while not called:
        await asyncio.sleep(0.001)


def policy():
    """asyncio.run() by EventLoopPolicy; debug mode has its checks and tracebacks."""
    asyncio.set_event_loop_policy(hwtimer.EventLoopPolicy())

    async def debug():
        loop = asyncio.get_running_loop()
        assert type(loop) is hwtimer.EventLoop
        raises(TypeError, loop.call_later, 1, asyncio.sleep)
        for handle in loop.call_later(1, print), loop.call_at(loop.time() + 1, print):
            assert handle._source_traceback[-1].name == "debug", handle
            handle.cancel()

    asyncio.run(debug(), debug=True)
    asyncio.set_event_loop_policy(None)


def newer():
    """It can be imported where asyncio has no policies, as in Python 3.16."""
    subprocess.run([sys.executable, "-c",
                    "import asyncio, sys; del asyncio.DefaultEventLoopPolicy;"
                    "sys.version_info = (3, 16);"
                    "import hwtimer; assert not hasattr(hwtimer, 'EventLoopPolicy')"], check=True)


TESTS = [on_the_wheel, never_early, exact, order, at_once, never, touch, limit, threads, closes,
         cancels_while_closing, number, contexts, turns, most, garbage, no_garbage,
         missing, forks, child_closes, handles, policy, newer]


def main():
    print(f"1..{len(TESTS)}", flush=True)
    for number, test in enumerate(TESTS, 1):
        try:
            run(test) if asyncio.iscoroutinefunction(test) else test()
            print(f"ok {number} {test.__name__}", flush=True)
        except Exception:
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), end="")
            print(f"not ok {number} {test.__name__}", flush=True)


main()
