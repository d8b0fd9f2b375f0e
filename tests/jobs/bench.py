#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: bench.py JOBS CONNINFO ROUNDS

How late the commands are of 1,000 jobs, of 10,000, that are due at the same time, and how many are
started per second, with two schedulers, by themselves or at two executors. "lock": the same, but each
transaction of a scheduler begins with a lock on one row, the same for all, as in XXL-JOB 2
(schedule_lock). Prints medians of ROUNDS: starts per second, and lateness in ms, median and 99th
percentile. A round takes three minutes.
"""
import contextlib
import statistics
import subprocess
import sys
import time

import psycopg2

WINDOW_S = 20       # no lease ends
LOCK = """CREATE TABLE schedule_lock AS SELECT 1 AS n;
    CREATE FUNCTION lock() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.schedules THEN PERFORM n FROM schedule_lock FOR UPDATE; END IF; RETURN NEW; END $$;
    CREATE TRIGGER lock BEFORE UPDATE OF lease ON executor FOR EACH ROW EXECUTE FUNCTION lock()"""
JOBS_10000 = """
    INSERT INTO job (name, every, misfire, block, next, dst, first, steps, grace, route)
        SELECT 'job' || n, 86400000000000, 'once', 'serial',
            now_ns() + CASE WHEN n % 10 = 0 THEN {0} ELSE 3600 END * CAST(1000000000 AS bigint),
            'once', 0, 0, 0, {1}
        FROM generate_series(1, 10000) AS n;
    INSERT INTO argument SELECT id, 0, 'true' FROM job; ANALYZE"""


def sql(text):
    with contextlib.closing(psycopg2.connect(sys.argv[2])) as db, db, db.cursor() as cursor:
        cursor.execute(text)
        return cursor.fetchone() if cursor.description else None


def measure(executors, lock):
    sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    for words in ["add", "first", "--every", "1d", "--", "true"], ["remove", "first"]:
        subprocess.run([sys.argv[1], sys.argv[2], *words], check=True)
    if lock:
        sql(LOCK)
    processes = [subprocess.Popen([sys.argv[1], sys.argv[2], word, "--window", f"{WINDOW_S}s", "--fast",
                                   "100"], stdout=subprocess.DEVNULL)
                 for word in ["run", "run", *(["executor"] * 2 if executors else [])]]
    while sql("SELECT count(*) FROM executor")[0] < len(processes):
        time.sleep(0.1)
    sql(JOBS_10000.format(WINDOW_S + 2, "'round-robin'" if executors else "NULL"))
    while sql("SELECT count(*) FROM run WHERE state = 'done'")[0] < 1000:
        time.sleep(0.5)
    per_s, *late = sql("SELECT 1e9 * count(*) / (max(started) - min(due)), "
                       "percentile_cont(0.5) WITHIN GROUP (ORDER BY started - due) / 1e6, "
                       "percentile_cont(0.99) WITHIN GROUP (ORDER BY started - due) / 1e6 FROM run "
                       "WHERE started IS NOT NULL")
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait()
    return [per_s, *late]


ways = [(at, lock) for at in (False, True) for lock in (False, True)]
results = {way: [] for way in ways}
for number in range(int(sys.argv[3])):
    for way in ways if number % 2 else reversed(ways):      # each is the first in turn
        results[way].append(measure(*way))
        print(*way, *(f"{value:.0f}" for value in results[way][-1]), file=sys.stderr, flush=True)
print(f"{'commands at':<16}{'':8}{'starts/s':>9}{'p50/ms':>8}{'p99/ms':>8}")
for (at, lock), values in results.items():
    print(f"{'two executors' if at else 'the schedulers':<16}{'one lock' if lock else 'claims':8}",
          *(f"{statistics.median(column):8.0f}" for column in zip(*values)), sep="")
