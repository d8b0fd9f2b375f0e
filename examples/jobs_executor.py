#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""usage: jobs_executor.py CONNINFO NAME

An executor of hwtimer-jobs inside a program of your own. It claims rows, and calls a function where
"hwtimer-jobs executor" runs a command, whose first word is the function's name:

	hwtimer-jobs CONNINFO add greet --every 10s --tags python -- greet world

It has no limits of time and no "stop", because a thread cannot be ended from outside.
"""
import os
import select
import sys
import threading
import time
import traceback

import psycopg2

LEASE_S = 6
PLACES = 4
FUNCTIONS = {"greet": lambda *words: print("hello,", *words, flush=True)}


class Executor:
    def __init__(self, conninfo, name):
        self.lock, self.running, self.name, self.ident = threading.Lock(), 0, name, None
        self.db = psycopg2.connect(conninfo)
        self.ident = self.sql(
            "INSERT INTO executor (name, lease, period, schedules, places, tags) VALUES "
            "(%s, now_ns(), %s, false, %s, 'python') RETURNING id", name, LEASE_S * 10 ** 9, PLACES)[0][0]
        self.sql("LISTEN jobs")

    def sql(self, text, *values):
        """A transaction. It renews the lease, and is on the disk when this returns."""
        with self.lock, self.db, self.db.cursor() as cursor:
            sent = time.monotonic()
            cursor.execute("SET LOCAL synchronous_commit = on; "
                           "UPDATE executor SET lease = now_ns() + %s WHERE id = %s AND lease > 0 "
                           "RETURNING id", (LEASE_S * 10 ** 9, self.ident))
            if not cursor.fetchall() and self.ident:
                os._exit(1)     # others have its runs now, so none of them may go on here
            cursor.execute(text, values)
            self.ends = sent + LEASE_S
            return cursor.fetchall() if cursor.description else []

    def call(self, ident, job):
        began, status = time.monotonic_ns(), 0
        try:
            command = [row[0] for row in self.sql(
                "SELECT value FROM argument WHERE job = %s ORDER BY position", job)]
            if time.monotonic() > self.ends:
                os._exit(1)
            FUNCTIONS[command[0]](*command[1:])
        except Exception:
            traceback.print_exc()
            status = 1
        self.sql("UPDATE run SET state = 'done', ended = now_ns(), took = %s, status = %s "
                 "WHERE id = %s AND state = 'started'", time.monotonic_ns() - began, status, ident)
        self.count(-1)

    def count(self, change):
        with self.lock:
            self.running += change

    def serve(self):
        while True:
            for run in self.sql(
                    "UPDATE run SET state = 'started', started = now_ns(), lane = 'fast', "
                    "executor = %s WHERE id IN (SELECT id FROM run WHERE holder = %s AND state = 'planned' "
                    "ORDER BY due LIMIT %s) RETURNING id, job", self.name, self.ident,
                    PLACES - self.running):
                self.count(1)
                threading.Thread(target=self.call, args=run).start()
            select.select([self.db], [], [], 1)     # until it is notified
            with self.lock:
                self.db.poll()
                self.db.notifies.clear()


if __name__ == "__main__":
    Executor(*sys.argv[1:]).serve()
