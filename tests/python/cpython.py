#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: cpython.py RESULTS MODULE...   with asyncio's own loop
       cpython.py -w RESULTS MODULE...   with hwtimer.EventLoop in its place
       cpython.py -c RESULTS RESULTS     compare

Run these modules of CPython's test.test_asyncio, and write what became of each test to RESULTS, a
line "STATUS NAME" each. -c prints the totals of stock's and ours, and TAP: no test fails with ours
that passes with stock's, and ours ran as many.
"""
import asyncio
import collections
import sys
import unittest


class Result(unittest.TextTestResult):
    outcomes = None

    def note(self, test, outcome):
        # A failed subtest, or an error after the test, counts as the test's.
        name = getattr(test, "test_case", test).id()
        if self.outcomes.get(name) != "FAILED":
            self.outcomes[name] = outcome

    def startTest(self, test):
        super().startTest(test)
        self.outcomes.setdefault(test.id(), "hung")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "ok")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, "FAILED")

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "FAILED")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.note(test, "FAILED")


def replace():
    """Make hwtimer's loop the one that asyncio has under any name."""
    import hwtimer
    for module in asyncio, asyncio.unix_events:
        module.SelectorEventLoop = hwtimer.EventLoop
    asyncio.unix_events._UnixSelectorEventLoop = hwtimer.EventLoop
    asyncio.DefaultEventLoopPolicy._loop_factory = hwtimer.EventLoop


def run(path, modules):
    Result.outcomes = {}
    suite = unittest.defaultTestLoader.loadTestsFromNames(
        [f"test.test_asyncio.{module}" for module in modules])
    unittest.TextTestRunner(stream=sys.stderr, resultclass=Result, verbosity=2).run(suite)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{status} {name}\n" for name, status in Result.outcomes.items())


def read(path):
    with open(path, encoding="utf-8") as file:
        return {name: status for status, name in (line.rstrip().split(" ", 1) for line in file)}


def compare(stock, ours):
    for name, results in ("stock", stock), ("hwtimer", ours):
        counts = collections.Counter(results.values())
        print(f"# {name}:", ", ".join(f"{counts[key]} {key}" for key in sorted(counts)))
    worse = [name for name, status in stock.items() if status == "ok" and ours.get(name) != "ok"]
    for name in worse:
        print(f"# passes with stock's loop only: {name}")
    print("1..1")
    # If most did not pass, the tests were not found, or this is no ground for them.
    passed = list(stock.values()).count("ok")
    good = not worse and passed > len(stock) * 0.9 and stock.keys() == ours.keys()
    print("ok 1" if good else "not ok 1", "CPython's tests pass as with asyncio's own loop")
    return not good


if __name__ == "__main__":
    if sys.argv[1] == "-c":
        sys.exit(compare(read(sys.argv[2]), read(sys.argv[3])))
    if sys.argv[1] == "-w":
        del sys.argv[1]
        replace()
    run(sys.argv[1], sys.argv[2:])
