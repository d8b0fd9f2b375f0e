#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""hwtimer for Python's asyncio: an event loop, or timers beside any loop.

    hwtimer.run(main())                   # like asyncio.run()
    asyncio.Runner(loop_factory=hwtimer.EventLoop)
    asyncio.set_event_loop_policy(hwtimer.EventLoopPolicy())    # before Python 3.14

With this loop the timeouts of asyncio and of all that uses it, such as sleep(), timeout(),
wait_for() and aiohttp, are on the wheel of /dev/hwtimer. It is otherwise asyncio.SelectorEventLoop.

    handle = loop.call_later(30, print, "idle")
    handle.touch(30)                      # on every message

Where another loop is wanted, Timers has its own sleep() and so on:

    timers = hwtimer.Timers()             # in a coroutine
    await timers.sleep(0.5)
    timer = timers.call_later(30, print, "idle")
    timer.touch(30)
    timer.cancel()
    async with timers.timeout(30) as t:   # TimeoutError if it takes longer
        t.touch(30)                       # pushes the timeout back
    timers.close()

All timers of a loop are on one descriptor, which the loop watches. No callback is early: when it is
called, loop.time() is at least what was asked for. As a program, this file is a demonstration; see
--help.
"""
import argparse
import asyncio
import contextlib
import contextvars
import errno
import heapq
import operator
import sys
import time
import warnings

import _hwtimer

_HINTS = {errno.ENOENT: "is the kernel module hwtimer loaded?",
          errno.EACCES: "is the user in the group hwtimer?"}


def _open(timeouts, device):
    try:
        return _hwtimer.Timers(timeouts, device)
    except OSError as error:
        if error.errno in _HINTS:
            error.strerror += "; " + _HINTS[error.errno]
        raise


class TimerHandle(asyncio.TimerHandle):
    """Returned by EventLoop.call_later() and call_at()."""

    # _scheduled is the timer on the wheel, True in the heap, False in neither. A timer that has
    # expired stays there.
    __slots__ = ()

    def touch(self, delay):
        """Call after delay from now instead. False if it is too late for that: the timer has
        expired, though the callback may not have been called, or was cancelled."""
        loop, when = self._loop, self._loop.time() + delay
        if self._scheduled is True:
            if self._cancelled:
                return False
            if when != when:
                raise ValueError("the time is not a number")
            self._when = when
            heapq.heapify(loop._scheduled)
            return True
        if not self._scheduled or not self._scheduled.touch(when):
            return False
        self._when = when
        return True


class EventLoop(asyncio.SelectorEventLoop):
    """asyncio.SelectorEventLoop with its timeouts on the wheel: at most so many; 0: as many as the
    system allows. Others are kept in the loop's heap, as are those that the system refuses."""

    _timers = _expiry = None

    def __init__(self, selector=None, *, timeouts=0, device=None):
        super().__init__(selector)
        try:
            self._timers = _open(timeouts, device)
            self._expiry = self._add_reader(self._timers.fileno(), self._expire)
        except BaseException:
            self.close()
            raise

    def close(self):
        if self.is_running() or self.is_closed():
            super().close()     # which raises, or does nothing
            return
        # A child shares the selector with its parent, which still needs the descriptor.
        if self._expiry and self._timers.usable:
            self._remove_reader(self._timers.fileno())
        if self._timers:
            self._timers.close()
        self._expiry = None     # refers to this loop
        super().close()

    def call_later(self, delay, callback, *args, context=None):
        if delay is None:
            raise TypeError("delay must not be None")
        return self._call_at(self.time() + delay, not delay <= 0, callback, args, context)

    def call_at(self, when, callback, *args, context=None):
        if when is None:
            raise TypeError("when cannot be None")
        return self._call_at(when, not when <= self.time(), callback, args, context)

    def _call_at(self, when, future, callback, args, context):
        # NaN counts as future: the extension refuses it.
        if self._closed:
            self._check_closed()
        if self._debug:
            self._check_thread()
            self._check_callback(callback, "call_at")
        handle = TimerHandle(when, callback, args, self, context)
        if handle._source_traceback:
            del handle._source_traceback[-2:]
        if not future:
            self._ready.append(handle)
            return handle
        try:
            handle._scheduled = self._timers.schedule(when, handle)
        except OSError:
            heapq.heappush(self._scheduled, handle)
            handle._scheduled = True
        return handle

    def _timer_handle_cancelled(self, handle):
        timer = handle._scheduled
        if timer is True:
            super()._timer_handle_cancelled(handle)
        elif timer:
            timer.cancel()

    def _add_callback(self, handle):
        # So that timers are called in the turn that finds them expired, as in the base class.
        if handle is self._expiry:
            self._expire()
        elif not handle._cancelled:
            self._ready.append(handle)

    def _expire(self):
        handles = more = self._timers.expired()
        while len(more) == 64:
            more = self._timers.expired()
            handles += more
        # Within a tick they come in the order in which they were scheduled.
        handles.sort(key=operator.attrgetter("_when"))
        self._ready.extend(handles)


# Python 3.16 will have no policies, and 3.14 warns of them.
if sys.version_info < (3, 14):
    class EventLoopPolicy(asyncio.DefaultEventLoopPolicy):
        """Makes EventLoop the loop of asyncio.run() and asyncio.new_event_loop()."""

        _loop_factory = EventLoop


def new_event_loop():
    """An EventLoop or, where the device cannot be opened, asyncio's own, with a RuntimeWarning."""
    try:
        return EventLoop()
    except OSError as error:
        warnings.warn(f"timeouts are not on the wheel: {error}", RuntimeWarning, stacklevel=2)
        return asyncio.SelectorEventLoop()


def run(main, *, debug=None):
    """asyncio.run() with an EventLoop. OSError if the device cannot be opened."""
    with asyncio.Runner(debug=debug, loop_factory=EventLoop) as runner:
        return runner.run(main)


class Timer:
    """A pending callback; created by Timers.call_later()."""

    def __init__(self, callback, args):
        self._callback, self._args = callback, args
        self._context = contextvars.copy_context()

    def touch(self, delay):
        """Call after delay from now instead. False if the timer is not pending."""
        return self._timer.touch(time.monotonic() + delay)

    def cancel(self):
        """Do not call. False if the timer is not pending."""
        cancelled = self._timer.cancel()
        self._callback = self._args = self._context = None     # may refer to this timer
        return cancelled


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
        self._timers = _open(timeouts, None)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._timers.fileno(), self._readable)

    def close(self):
        """Cancel all timers."""
        if self._timers.usable:
            self._loop.remove_reader(self._timers.fileno())
        self._timers.close()

    def shrink(self):
        """Give back memory that is not in use."""
        self._timers.shrink()

    def call_later(self, delay, callback, *args):
        timer = Timer(callback, args)
        timer._timer = self._timers.schedule(time.monotonic() + delay, timer)
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
        # One at a time, so that we hold no timer that a callback cancels. Not call_soon(): until
        # then the timer could not be cancelled. Not all: callbacks may schedule others for ever.
        for _ in range(64):
            if not (self._timers.usable and (timers := self._timers.expired(1))):
                break
            timers[0]._context.run(timers[0]._callback, *timers[0]._args)


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
        left = timers._timers.pending

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
