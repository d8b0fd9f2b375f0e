#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: loop.py device|process

Test hwtimer.EventLoop on the device or in the process. Prints TAP. No test depends on how long
anything takes."""
import asyncio
import contextvars
import ctypes
import fcntl
import gc
import math
import mmap
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

IN_PROCESS = {"device": False, "process": True}[sys.argv[1]]
DEVICE = "/dev/hwtimer"


def new_loop(timeouts=0):
    return hwtimer.EventLoop(timeouts=timeouts, in_process=IN_PROCESS)


def new_timers(timeouts=0):
    return _hwtimer.Timers(timeouts, in_process=IN_PROCESS)


def pending(loop):
    return loop._timers.pending


def run(function, timeouts=0):
    """Run a coroutine function in a new loop, which is closed."""
    with asyncio.Runner(loop_factory=lambda: new_loop(timeouts)) as runner:
        return runner.run(function())


def raises(kind, function, *args):
    try:
        function(*args)
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def where():
    """The wheel is on the device if there is one, or where it was asked for."""
    before = os.listdir("/proc/self/fd")
    for in_process in {None, False, IN_PROCESS}:
        try:
            loop = hwtimer.EventLoop(in_process=in_process)
        except FileNotFoundError as error:
            assert in_process is False and not os.path.exists(DEVICE)
            assert error.filename == DEVICE, error
            continue
        assert loop.in_process == (in_process or not os.path.exists(DEVICE))
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()
    gc.collect()
    assert os.listdir("/proc/self/fd") == before


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


def never_early():
    """No function that takes a time calls anything before that time, on the wheel and in the heap."""
    run(deadlines_pass, 1000)


async def deadlines_pass():
    loop = asyncio.get_running_loop()
    seed = int(os.environ.get("SEED", time.time_ns()))
    print(f"# seed {seed}")
    draw, early, waited = random.Random(seed), [], []

    def check(kind, when, future=None):
        if loop.time() < when:
            early.append((kind, when - loop.time()))
        if future:
            future.set_result(None)

    async def sleeps(delay):
        when = loop.time() + delay
        await asyncio.sleep(delay)
        check("sleep", when)

    async def times_out(delay):
        when = loop.time() + delay
        try:
            async with asyncio.timeout(delay):
                await loop.create_future()
        except TimeoutError:
            check("timeout", when)

    for _ in range(400):
        delay = draw.random() * 2
        when = loop.time() + delay
        futures = [loop.create_future() for _ in range(3)]
        loop.call_later(delay, check, "call_later", when, futures[0])
        loop.call_at(when, check, "call_at", when, futures[1])
        loop.call_later(draw.random() * 2, check, "touch", when, futures[2]).touch(delay)
        waited += [*futures, sleeps(delay), times_out(delay)]
    assert pending(loop) == 1000 and loop._scheduled
    await asyncio.gather(*waited)
    assert not early, f"{len(early)} of {len(waited)}, such as {early[:5]}"
    assert pending(loop) == 0


def deadlines(loop):
    """The deadlines of pending timeouts, in ns, as the kernel has them (HWTIMER_IOC_LIST)."""
    command, size, number = 0xc018be1a, 32, 1000
    queries = ctypes.create_string_buffer(size * number)
    arg = bytearray(struct.pack("=QQII", 0, ctypes.addressof(queries), size, number))
    fcntl.ioctl(loop._timers.fileno(), command, arg)
    found = struct.unpack_from("=I", arg, 20)[0]
    return sorted(struct.unpack_from("=Q", queries, size * i + 8)[0] for i in range(found))


async def exact():
    """The kernel gets the first deadline that is not before the time that was asked for, in units
    of 2^16 ns. This test waits for nothing, so it finds errors that delays of the machine hide from
    never_early()."""
    loop, draw, unit = asyncio.get_running_loop(), random.Random(1), 1 << 16
    before = time.monotonic()

    def check(handles):
        for ns, handle in zip(deadlines(loop), sorted(handles), strict=True):
            assert ns / 1e9 >= handle.when(), f"{handle.when() - ns / 1e9} s early"
            assert (ns - unit) / 1e9 < handle.when(), f"{ns / 1e9 - handle.when()} s late"
        for handle in handles:
            handle.cancel()

    # Times that are a unit, as far as a float can tell, and just after.
    units = [before * 1e9 // unit + draw.randrange(1 << 24, 1 << 32) for _ in range(300)]
    check([loop.call_at(n * unit / 1e9, print) for n in units])
    check([loop.call_at(math.nextafter(n * unit / 1e9, math.inf), print) for n in units])
    handles = [loop.call_later(3000, print) for _ in range(300)]
    for handle in handles:
        assert handle.touch(draw.uniform(1000, 2000))
    check(handles)
    # A float has no room for the ns of so many years.
    check([loop.call_at(before + draw.uniform(1e8, 1e9), print) for _ in range(300)])


def order():
    """What is found expired at one look is called in the order of when()."""
    class Expired(list):
        usable, pending, close = False, 0, lambda self: None

    loop = new_loop()
    loop._timers.close()
    loop._timers = Expired(hwtimer.TimerHandle(i % 7, print, (i,), loop) for i in range(200))
    loop._expire()
    assert [handle._args[0] for handle in loop._ready] == sorted(range(200), key=lambda i: i % 7)
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


async def none():
    """No timeout is none, and can become one, and none again."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as timeout:
        assert pending(loop) == 0 and timeout.when() is None
        timeout.reschedule(loop.time() + 1000)
        assert pending(loop) == 1
        timeout.reschedule(None)
        assert pending(loop) == 0
    task = asyncio.create_task(asyncio.wait_for(loop.create_future(), None))
    await asyncio.sleep(0)
    assert pending(loop) == 0
    task.cancel()
    handle = loop.call_later(1000, print)
    raises(TypeError, handle.touch, None)
    handle.cancel()


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
    loop, called = new_loop(3), []
    handles = []
    for n, heap in (1, 0), (2, 0), (3, 0), (4, 1), (5, 2), (6, 3), (7, 4):
        handles.append(loop.call_later(1000 if n < 7 else 0.01, called.append, n))
        assert len(loop._scheduled) == heap and pending(loop) == n - heap
    raises(ValueError, loop.call_later, math.nan, print)
    raises(ValueError, handles[4].touch, math.nan)
    assert handles[4].touch(0.01) and handles[3].touch(0.02)
    if handles[6].touch(0.5):       # it is not too late
        assert handles[6].when() > loop.time()
    handles[5].cancel()
    assert handles[5].cancelled() and not handles[5].touch(1)
    handles[0].cancel()
    assert pending(loop) == 2
    loop.call_later(0.03, loop.stop)    # on the wheel again
    assert pending(loop) == 3
    loop.run_forever()
    while len(called) < 3:
        loop.run_until_complete(asyncio.sleep(0))
    assert called in ([5, 4, 7], [7, 5, 4], [5, 7, 4]), called
    handles[4].cancel()
    assert not handles[4].touch(1)
    handles = [loop.call_later(1000, print) for _ in range(4)]
    assert pending(loop) == 3
    loop.close()
    assert not handles[3].touch(1) and not handles[3].touch(2000)


def touch_in_heap():
    """Among 100,000 timeouts beyond the limit, a touch to later compares nothing, and one to
    earlier as many as one that is new, not all."""
    loop, draw, compared = new_loop(1), random.Random(1), 0
    handles = [loop.call_later(1000 + draw.random() * 1000, print) for _ in range(100001)]
    assert len(loop._scheduled) == 100000
    less = asyncio.TimerHandle.__lt__

    def counted(self, other):
        nonlocal compared
        compared += 1
        return less(self, other)

    asyncio.TimerHandle.__lt__ = counted
    try:
        for handle in draw.sample(handles, 1000):
            assert handle.touch(3000)
        assert compared == 0, compared
        for handle in draw.sample(handles, 1000):
            assert handle.touch(draw.random() * 900 + 1)
        assert 0 < compared <= 1000 * 17, compared
        loop.run_until_complete(asyncio.sleep(0))
        assert compared <= 1000 * 17, compared
    finally:
        asyncio.TimerHandle.__lt__ = less
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
    loop = new_loop()
    handle = loop.call_later(1000, print)
    asyncio_task = loop.create_task(asyncio.sleep(0.01))
    loop.run_until_complete(asyncio_task)
    loop.close()
    loop.close()
    assert os.listdir("/proc/self/fd") == before
    handle.cancel()
    assert not handle.touch(1)
    raises(RuntimeError, loop.call_later, 1, print)
    timers = new_timers()
    timer = timers.schedule(1e9, None)
    timers.close()
    assert not timer.cancel() and not timers.usable
    for function in timers.fileno, timers.__next__, lambda: timers.in_process:
        raises(RuntimeError, function)
    raises(RuntimeError, timers.schedule, 1, None)

    class Closer:
        def __float__(self):
            timers.close()
            return 1.0

    timers = new_timers()
    raises(RuntimeError, timers.schedule, Closer(), None)
    timers = new_timers()
    timer = timers.schedule(1e9, None)
    assert not timer.touch(Closer())


def cancels_while_closing():
    """An object that is freed by close() may cancel other timers."""
    class Last:
        def __del__(self):
            results.append(self.other.cancel())
            timers.close()

    results, timers = [], new_timers()
    for _ in range(2):
        last = Last()
        timers.schedule(1e9, last)
        last.other = timers.schedule(1e9, None)
        del last
    timers.close()
    assert results == [True, True] and timers.pending == 0, results


def number():
    """Not more timeouts than there are ids can be wanted, nor fewer than 0."""
    for timeouts in -1, 2 ** 32, 2 ** 32 + 1, 2 ** 64:
        raises(OverflowError, new_timers, timeouts)
    for timeouts in 2 ** 24, 2 ** 32 - 1:
        raises(OSError, new_timers, timeouts)
    for timeouts in 0, 2 ** 24 - 1:
        new_timers(timeouts).close()


async def promises():
    """What asyncio promises of call_later(), call_at() and TimerHandle.cancel()."""
    loop, variable, seen = asyncio.get_running_loop(), contextvars.ContextVar("variable"), []
    own, failed = contextvars.copy_context(), []

    def callback(*args):
        seen.append((variable.get(), *args))
        variable.set(9)

    own.run(variable.set, 1)
    variable.set(2)
    loop.call_later(0.01, callback, "own", context=own)
    loop.call_at(loop.time() + 0.01, callback, "copied")
    variable.set(3)
    loop.set_exception_handler(lambda loop, context: failed.append(context["exception"]))
    loop.call_later(0.01, divmod, 1, 0)
    # Of two that have expired, the first cancels the second.
    when = loop.time() + 0.01
    second = loop.call_at(when + 1e-6, seen.append, "second")
    first = loop.call_at(when, second.cancel)
    assert isinstance(first, asyncio.TimerHandle) and first.when() == when
    assert repr(first).startswith("<TimerHandle when=")
    time.sleep(0.05)
    while len(seen) < 2 or not failed or not second.cancelled():
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    assert sorted(seen) == [(1, "own"), (2, "copied")] and variable.get() == 3, seen
    assert own.run(variable.get) == 9 and type(failed[0]) is ZeroDivisionError
    second.cancel()
    first.cancel()
    assert first.cancelled() and second.cancelled() and pending(loop) == 0


def expires():
    """Each timer that has expired is returned once."""
    timers, found = new_timers(), []
    for i in range(70):
        timers.schedule(0, i)
    while len(found) < 70:
        found += timers
    assert sorted(found) == list(range(70)) and timers.pending == 0
    assert not list(timers)
    timers.close()


def forged():
    """What others write to the table ends timers, or keeps them from expiring, and that is all."""
    timers, when = new_timers(), time.monotonic() + 0.3
    kept = [timers.schedule(when, i) for i in range(4)]
    table = mmap.mmap(timers.fileno(), mmap.PAGESIZE, offset=0x40000000)
    slots = sorted(range(0, mmap.PAGESIZE, 32), key=lambda at: table[at:at + 8] == bytes(8))[:4]
    assert len(slots) == 4 and all(any(table[at:at + 8]) for at in slots)
    words = [table[at:at + 8] for at in slots]
    for at in slots:
        table[at + 16:at + 24] = b"\x41" * 8    # user_data
    table[slots[1] + 24:slots[1] + 28] = b"\x41" * 4    # tag, the upper part of the id
    for at in slots[2:]:
        table[at:at + 8] = bytes(8)
    # The timeout has ended, but not for the library. It comes back after the cancel.
    assert kept[2].cancel() and not kept[2].cancel()
    table[slots[2]:slots[2] + 8] = words[2]
    raises(OSError, kept[3].touch, when)
    found = []
    while time.monotonic() < when + 0.1:
        found += timers
        time.sleep(0.01)
    assert sorted(found) == [0, 1] and timers.pending == 1, found
    assert all(isinstance(timers.schedule(1e9, i), _hwtimer.Timer) for i in range(300))
    # No timer has the id 0, and nothing is done to a timeout that has it.
    invented = bytes(7) + b"\x41"
    table[0:8], table[24:28] = invented, bytes(4)
    assert timers.usable and table[0:8] == invented
    timers.close()


def garbage():
    """The collector finds a loop in a cycle with its timers; nothing is counted wrongly."""
    class Thing:
        pass

    thing = Thing()
    timers = new_timers()
    thing.timers = timers
    thing.timer = timers.schedule(1e9, thing)
    reference = weakref.ref(thing)
    del thing, timers
    gc.collect()
    assert reference() is None
    timers, obj = new_timers(), Thing()
    count = sys.getrefcount(obj)
    kept = [timers.schedule(1e9, obj) for _ in range(10)]
    assert sys.getrefcount(obj) == count + 10
    assert kept[3].cancel() and not kept[3].cancel() and kept[9].cancel() and kept[0].cancel()
    assert sys.getrefcount(obj) == count + 7 and timers.pending == 7
    del kept
    assert timers.pending == 7
    del timers
    assert sys.getrefcount(obj) == count
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loop = new_loop()
        loop.call_later(1000, loop.stop)
        del loop
        gc.collect()
    assert [w.category for w in caught].count(ResourceWarning) >= 1


def no_garbage():
    """What has ended is in no cycle, which only the collector would find, as with asyncio's own."""
    async def times_out(delay):
        async with asyncio.timeout(delay) as t:
            references.append(weakref.ref(t))
            await asyncio.sleep(0.01)

    async def all_of_them():
        await times_out(1000)
        try:
            await times_out(0)
        except TimeoutError:
            pass
        # On the wheel, in the heap; expires, was touched, is cancelled
        for _ in range(2):
            handles = [loop.call_later(0.01, int) for _ in range(3)]
            handles[1].touch(0.02)
            handles[2].touch(0.001)
            handles += [loop.call_later(1000, int) for _ in range(3)]
            for handle in handles[3:]:
                handle.touch(1)
                handle.cancel()
            references.extend(map(weakref.ref, handles))
            del handle, handles
            wheel = [loop.call_later(1000, int) for _ in range(20)]
        for handle in wheel:
            handle.cancel()
        await asyncio.sleep(0.05)

    references, loop = [], new_loop(20)
    references.append(weakref.ref(loop))
    gc.disable()
    try:
        loop.run_until_complete(all_of_them())
        loop.close()
        del loop
        assert not any(reference() for reference in references), references
    finally:
        gc.enable()


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
            raises(RuntimeError, next, loop._timers)
            handle.cancel()
            loop._timers.close()
            run(lambda: asyncio.sleep(0.01))
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert pending(loop) == 1
    await asyncio.sleep(0.01)
    handle.cancel()


def child_closes():
    """A child that closes the parent's loop does not take the wheel's descriptor out of it."""
    loop = new_loop()
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
    for delay in 0, 1:
        raises(RuntimeError, loop.call_later, delay, print)


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
        # Another thread has to use call_soon_threadsafe().
        for delay in 0, 1:
            await asyncio.to_thread(raises, RuntimeError, loop.call_later, delay, print)

    asyncio.run(debug(), debug=True)
    asyncio.set_event_loop_policy(None)


def newer():
    """It can be imported where asyncio has no policies, as in Python 3.16."""
    subprocess.run([sys.executable, "-c",
                    "import asyncio, sys; del asyncio.DefaultEventLoopPolicy;"
                    "sys.version_info = (3, 16);"
                    "import hwtimer; assert not hasattr(hwtimer, 'EventLoopPolicy')"], check=True)


TESTS = [where, on_the_wheel, never_early, order, at_once, never, none, touch, limit, touch_in_heap,
         threads, closes, cancels_while_closing, number, promises, expires, garbage, no_garbage,
         forks, child_closes, policy, newer]
if not IN_PROCESS:
    TESTS += [exact, forged]


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
