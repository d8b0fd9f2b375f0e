#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""libhwtimer for Python's asyncio, by ctypes (Python 3.11).

    timers = hwtimer.Timers()             # in a coroutine
    await timers.sleep(0.5)
    timer = timers.call_later(30, print, "idle")
    timer.touch(30)                       # on every message
    timer.cancel()
    async with timers.timeout(30) as t:   # TimeoutError if it takes longer
        t.touch(30)                       # pushes the timeout back
    timers.close()

All timers of a loop are on one descriptor, which the loop watches. No callback is early. As a
program, this file is a demonstration; see --help.
"""
import argparse
import asyncio
import contextlib
import ctypes
import math
import os
import sys
import time


class _Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("flags", ctypes.c_uint),
                ("timeouts", ctypes.c_uint32), ("sq_entries", ctypes.c_uint32),
                ("cq_entries", ctypes.c_uint32), ("tick_ns", ctypes.c_uint64),
                ("slots", ctypes.c_uint32), ("levels", ctypes.c_uint32),
                ("device", ctypes.c_char_p)]


class _Event(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("user_data", ctypes.c_uint64),
                ("deadline_ns", ctypes.c_uint64), ("fired_ns", ctypes.c_uint64),
                ("overruns", ctypes.c_uint64), ("kind", ctypes.c_uint)]


def _load():
    library = ctypes.CDLL("libhwtimer.so.0")
    handle, u64 = ctypes.c_void_p, ctypes.c_uint64
    for name, result, arguments in (
            ("open", ctypes.c_int, [ctypes.POINTER(handle), ctypes.POINTER(_Options)]),
            ("close", None, [handle]),
            ("fd", ctypes.c_int, [handle]),
            ("schedule", ctypes.c_int, [handle, u64, u64, ctypes.POINTER(u64)]),
            ("touch", ctypes.c_int, [handle, u64, u64]),
            ("cancel", ctypes.c_int, [handle, u64]),
            ("shrink", ctypes.c_int, [handle]),
            ("wait", ctypes.c_int, [handle, ctypes.POINTER(_Event), ctypes.c_int,
                                    ctypes.c_int64])):
        function = getattr(library, "hwtimer_" + name)
        function.restype, function.argtypes = result, arguments
    return library


def _check(ret, what):
    if ret < 0:
        raise OSError(-ret, os.strerror(-ret), what)
    return ret


def _ns(seconds):
    # ctypes would truncate larger numbers. 2^63 ns and infinity mean never.
    return math.ceil(min(max(0, seconds * 1e9), 2.0 ** 63))


class Timer:
    """A pending callback; created by Timers.call_later()."""

    def __init__(self, timers, identifier, callback, args):
        self._timers, self._id = timers, identifier
        self._callback, self._args = callback, args

    def pending(self):
        return self._id in self._timers._pending

    def touch(self, delay):
        """Call after delay from now instead. False if the timer is not pending."""
        if not self.pending():
            return False
        _check(self._timers._lib.hwtimer_touch(self._timers._handle, self._id, _ns(delay)),
               "hwtimer_touch")
        return True

    def cancel(self):
        """Do not call. False if the timer is not pending."""
        if self._timers._pending.pop(self._id, None) is None:
            return False
        _check(self._timers._lib.hwtimer_cancel(self._timers._handle, self._id),
               "hwtimer_cancel")
        return True


class Timeout:
    """Returned by Timers.timeout(); works like asyncio.timeout()."""

    def __init__(self, timers, delay):
        self._timers, self._delay = timers, delay
        self._expired = False

    async def __aenter__(self):
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling()
        self._timer = self._timers.call_later(self._delay, self._expire)
        return self

    async def __aexit__(self, kind, value, traceback):
        self._timer.cancel()
        # Only if the task was cancelled by this timeout alone.
        if (self._expired and self._task.uncancel() <= self._cancelling
                and kind is asyncio.CancelledError):
            raise TimeoutError from value

    def touch(self, delay):
        return self._timer.touch(delay)

    def _expire(self):
        self._expired = True
        self._task.cancel()


class Timers:
    """Timers of the running event loop, at most so many; 0: as many as the system allows."""

    def __init__(self, timeouts=0):
        self._lib = _load()
        self._handle = ctypes.c_void_p()
        self._event = _Event()
        self._pending = {}          # by id
        options = _Options(size=ctypes.sizeof(_Options), timeouts=timeouts)
        _check(self._lib.hwtimer_open(ctypes.byref(self._handle), ctypes.byref(options)),
               "/dev/hwtimer")
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._lib.hwtimer_fd(self._handle), self._readable)

    def close(self):
        """Cancel all timers."""
        if self._handle:
            self._loop.remove_reader(self._lib.hwtimer_fd(self._handle))
            self._lib.hwtimer_close(self._handle)
            self._handle = ctypes.c_void_p()
            self._pending.clear()

    def shrink(self):
        """Give back memory that is not in use."""
        _check(self._lib.hwtimer_shrink(self._handle), "hwtimer_shrink")

    def call_later(self, delay, callback, *args):
        if not self._handle:
            raise RuntimeError("the timers are closed")
        identifier = ctypes.c_uint64()
        _check(self._lib.hwtimer_schedule(self._handle, _ns(delay), 0,
                                          ctypes.byref(identifier)), "hwtimer_schedule")
        timer = Timer(self, identifier.value, callback, args)
        self._pending[identifier.value] = timer
        return timer

    async def sleep(self, delay, result=None):
        future = self._loop.create_future()
        # If the task was cancelled, the timer may expire before "finally" is reached.
        timer = self.call_later(delay, lambda: future.done() or future.set_result(result))
        try:
            return await future
        finally:
            timer.cancel()

    def timeout(self, delay):
        return Timeout(self, delay)

    def _readable(self):
        # One event at a time, so that we hold no event of a timer that a callback cancels.
        while self._handle and _check(
                self._lib.hwtimer_wait(self._handle, ctypes.byref(self._event), 1, 0),
                "hwtimer_wait"):
            timer = self._pending.pop(self._event.id)
            # Not call_soon(): until then the timer could not be cancelled.
            timer._callback(*timer._args)


# The demonstration: each message to a session pushes the session's timeout back. A session ends
# when no message came for a while.

async def _session(timers, queue, idle):
    """Returns the number of messages, and how long before the end the last one came, in ns."""
    messages, last = 0, time.monotonic_ns()
    try:
        async with timers.timeout(idle) as timeout:
            while True:
                await queue.get()
                messages, last = messages + 1, time.monotonic_ns()
                timeout.touch(idle)
    except TimeoutError:
        return messages, time.monotonic_ns() - last


async def _client(timers, queue, messages, pause):
    for _ in range(messages):
        await timers.sleep(pause)
        queue.put_nowait(None)


async def _demo(sessions, idle):
    tasks, called = [], []
    with contextlib.closing(Timers()) as timers:
        # Only the callback of the timer that is not cancelled must be called.
        timers.call_later(idle / 2, called.append, "kept")
        timers.call_later(idle / 2, called.append, "cancelled").cancel()
        async with asyncio.TaskGroup() as group:
            for number in range(sessions):
                queue = asyncio.Queue()
                tasks.append(group.create_task(_session(timers, queue, idle)))
                group.create_task(_client(timers, queue, number % 10, idle / 5))
        left = len(timers._pending)

    results = [task.result() for task in tasks]
    silences = [silence for _, silence in results]
    early = sum(silence < idle * 1e9 for silence in silences)
    # A busy machine may end a session before its messages have come.
    messages = sum(messages for messages, _ in results)
    sent = sum(number % 10 for number in range(sessions))
    print(f"{sessions} sessions, idle for {idle * 1000:.0f} ms, {messages} of {sent} messages")
    print(f"ended early: {early}, the latest {max(silences) / 1e6 - idle * 1000:.3f} ms late")
    print(f"timers left: {left}, called: {' '.join(called)}")
    return bool(early or left or called != ["kept"] or not messages)


def main():
    parser = argparse.ArgumentParser(
        description="Sessions of asyncio that end when no message came for a while. "
                    "Fails if one ended early.")
    parser.add_argument("--sessions", type=int, default=100, help="so many [100]")
    parser.add_argument("--idle-ms", type=int, default=500, help="for so long [500]")
    arguments = parser.parse_args()
    if not 1 <= arguments.sessions <= 10000 or not 1 <= arguments.idle_ms <= 1000000:
        parser.error("--sessions takes 1 to 10000, --idle-ms 1 to 1000000")
    try:
        return asyncio.run(_demo(arguments.sessions, arguments.idle_ms / 1000))
    except OSError as error:
        sys.exit(f"hwtimer.py: {error}")


if __name__ == "__main__":
    sys.exit(main())
