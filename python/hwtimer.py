# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""hwtimer for Python's asyncio: an event loop.

    hwtimer.run(main())                   # like asyncio.run()
    asyncio.Runner(loop_factory=hwtimer.EventLoop)
    asyncio.set_event_loop_policy(hwtimer.EventLoopPolicy())    # before Python 3.14

With this loop the timeouts of asyncio and of all that uses it, such as sleep(), timeout(),
wait_for() and aiohttp, are on a timing wheel: that of /dev/hwtimer or, where that cannot be
opened, one in the process. It is otherwise asyncio.SelectorEventLoop.

    handle = loop.call_later(30, print, "idle")
    handle.touch(30)                      # on every message

All timeouts of a loop are on one descriptor, which the loop watches. No callback is early: when it
is called, loop.time() is at least what was asked for.
"""
import asyncio
import heapq
import operator
import sys

import _hwtimer


class TimerHandle(asyncio.TimerHandle):
    """Returned by EventLoop.call_later() and call_at()."""

    # _scheduled is the timer on the wheel, which stays there when it has expired, or an _Entry, or
    # False.
    __slots__ = ()

    def touch(self, delay):
        """Call after delay from now instead. False if it is too late for that: the timer has
        expired, though the callback may not have been called, or was cancelled."""
        when = self._loop.time() + delay
        if not self._scheduled or not self._scheduled.touch(when):
            return False
        self._when = when
        return True


class _Entry(asyncio.TimerHandle):
    """What the base class's heap has of a timeout that the wheel refused, for its deadline or
    before. So a later deadline moves nothing in the heap, as it moves nothing on a wheel."""

    __slots__ = ()

    def touch(self, when):
        if self._cancelled:     # by close()
            return False
        if when != when:
            raise ValueError("the time is not a number")
        if when < self._when:
            self._loop._push(self._args[0], when)
            self.cancel()
        return True


class EventLoop(asyncio.SelectorEventLoop):
    """asyncio.SelectorEventLoop with its timeouts on a wheel: at most so many; 0: 2**20. Others are
    kept in the loop's heap, as are those for which there is no memory. With in_process=False the
    wheel has to be that of the device (otherwise: OSError), with True it is in the process."""

    _timers = _expiry = None

    def __init__(self, selector=None, *, timeouts=0, in_process=None):
        super().__init__(selector)
        try:
            self._timers = _hwtimer.Timers(timeouts, in_process)
            self._expiry = self._add_reader(self._timers.fileno(), self._expire)
        except BaseException:
            self.close()
            raise

    @property
    def in_process(self):
        """Is the wheel in the process, not that of the device?"""
        return self._timers.in_process

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
        for entry in self._scheduled:
            entry.cancel()      # refers to its handle, which refers to it
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
            self._push(handle, when)
        return handle

    def _push(self, handle, when):
        entry = handle._scheduled = _Entry(when, self._due, (handle,), self)
        entry._scheduled = True
        heapq.heappush(self._scheduled, entry)

    def _due(self, handle):
        if handle._when > self.time():
            self._push(handle, handle._when)
        else:
            handle._scheduled = False
            self._ready.append(handle)

    def _timer_handle_cancelled(self, handle):
        timer = handle._scheduled
        if timer is True:       # the handle is an _Entry
            super()._timer_handle_cancelled(handle)
        elif timer:
            timer.cancel()
            handle._scheduled = False

    def _add_callback(self, handle):
        # So that timers are called in the turn that finds them expired, as in the base class.
        if handle is self._expiry:
            self._expire()
        elif not handle._cancelled:
            self._ready.append(handle)

    def _expire(self):
        # Within a tick they come in any order.
        self._ready.extend(sorted(self._timers, key=operator.attrgetter("_when")))


# Python 3.16 will have no policies, and 3.14 warns of them.
if sys.version_info < (3, 14):
    class EventLoopPolicy(asyncio.DefaultEventLoopPolicy):
        """Makes EventLoop the loop of asyncio.run() and asyncio.new_event_loop()."""

        _loop_factory = EventLoop


def run(main, *, debug=None):
    """asyncio.run() with an EventLoop."""
    with asyncio.Runner(debug=debug, loop_factory=EventLoop) as runner:
        return runner.run(main)
