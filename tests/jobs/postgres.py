# SPDX-License-Identifier: GPL-2.0-only
"""What tests of processes that share PostgreSQL have: the server, networks, schedulers, executors."""
import contextlib
import os
import signal
import socket
import subprocess
import sys

import psycopg2
import psycopg2.extras

import common
from common import END, JOBS, LOG, check, check_books, here, jobs, one, read, sql, wait

LONG = "60s"        # no process loses its lease by being slow
MEDIUM = "10s"      # the lease is 6 s, which a busy machine does not exceed
networks = {}       # number: a process in it


class Database:
    """One that another program has started. Even one that is read-only can be written here."""

    def __init__(self, name):
        self.path = name

    def name(self):
        return self.path

    def connect(self):
        return contextlib.closing(psycopg2.connect(
            self.path, options="-c default_transaction_read_only=off"))

    def query(self, text, values=()):
        with self.connect() as db:
            db.autocommit = True
            cursor = db.cursor(cursor_factory=psycopg2.extras.DictCursor)
            cursor.execute(text, values or None)
            return cursor.fetchall() if cursor.description else []

    def now(self):
        return one("SELECT now_ns()")


class Server(Database):
    """Its defaults let it forget its last transactions when it is killed."""
    process = binaries = cluster = None

    def name(self, number=None):
        """Its address, for who is in that network."""
        host = "127.0.0.1" if number is None else f"10.9.{number}.1"
        return f"host={host} user=nobody dbname=postgres"

    def start(self, setting="port=5432"):
        settings = ("listen_addresses=*", "synchronous_commit=off", "wal_writer_delay=10s", "jit=off", setting)
        self.process = subprocess.Popen(
            [f"{self.binaries}/postgres", "-D", self.cluster, "-k", self.cluster,
             *(word for each in settings for word in ("-c", each))],
            user="nobody", extra_groups=[], stderr=open("/proc/self/fd/2", "wb"))

        def answers():
            with contextlib.suppress(psycopg2.OperationalError):
                return self.query("SELECT TRUE")
        wait(answers)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()

    def children(self):
        return map(int, read(f"/proc/{self.process.pid}/task/{self.process.pid}/children").split())

    def signal(self, number):
        """To all of its processes; while the first is stopped, it starts no further ones."""
        self.process.send_signal(signal.SIGSTOP if number == signal.SIGKILL else number)
        for child in self.children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)
        self.process.send_signal(number)

    def kill(self):
        """Without warning."""
        children = list(self.children())
        self.signal(signal.SIGKILL)
        self.process.wait()
        wait(lambda: not any(os.path.exists(f"/proc/{child}") for child in children))
        os.remove(f"{self.cluster}/postmaster.pid")


SERVER = Server("")


def inside(number):
    """What begins a command that is to run in that network."""
    return ["nsenter", f"--net=/proc/{networks[number].pid}/ns/net"]


def make_network(number):
    networks[number] = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)
    pid = str(networks[number].pid)
    wait(lambda: os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net"))
    for words in (f"ip link add to-{number} type veth peer name eth0 netns {pid}",
                  f"ip address add 10.9.{number}.1/29 dev to-{number}",
                  f"ip link set dev to-{number} up",
                  *(" ".join(inside(number)) + " ip " + rest for rest in (
                      f"address add 10.9.{number}.2/29 dev eth0", "link set dev eth0 up",
                      "link set dev lo up"))):
        subprocess.run(words.split(), check=True)


def cut(number, heal=False, silent=False):
    """Cut a network off, or heal it. If it is silent, nobody notices: packets just vanish."""
    words = f"ip route {'del' if heal else 'add'} blackhole 10.9.{number}.2" if silent else \
        f"ip link set dev to-{number} {'up' if heal else 'down'}"
    subprocess.run(words.split(), check=True)


class Node(common.Scheduler):
    """The executor e1 or the scheduler r1 are in network 1, and so on; s1 is a scheduler that is in
    no network, and cannot be cut off."""

    def __init__(self, name, options="", window=LONG, database=None, **more):
        self.name = name
        number = int(name[1:]) if name[0] != "s" else None
        environment = {key: more.pop(key) for key in list(more) if key.isupper()}
        if name[0] == "e":
            environment["NODE"] = name
        super().__init__(
            f"--window {window} {options}", name, database or SERVER.name(number),
            inside(number) if number else (),
            ("executor", "--name", name) if name[0] == "e" else ("run",), env=os.environ | environment, **more)

    def named(self):
        """Its name in the database."""
        return self.name if self.name[0] == "e" else f"{socket.gethostname()}:{self.process.pid}"

    def die(self):
        """And its lease ends."""
        self.kill()
        sql("UPDATE executor SET lease = now_ns() WHERE name = %s", self.named())


def add(name, options="", command="true", every="1d --first 0s"):
    when = f"--every {every}" if every else ""
    common.add(name, f"{when} {options}", command=f"{LOG}; {command}; {END}")
    here["first"][name] = one(f"SELECT next FROM job WHERE name = '{name}'")


def begun(name):
    """Who ran a job."""
    return [line.who for line in common.logged() if line.name == name]


def finish(*processes):
    """They end, one after the other, and the books balance."""
    for process in processes:
        process.send(signal.SIGCONT)
        assert process.end() == 0, read(process.output)
    check_books()
    check("= 0: state = 'started'", "= 0: owner IS NOT NULL", "= 0: state = 'done' AND status > 1")
    first = dict(sql("SELECT name, min(due) FROM run JOIN job ON job.id = job WHERE until IS NULL "
                     "OR until <> due GROUP BY name"))
    for name, due in here["first"].items():
        assert due is None or due > SERVER.now() or due == first.get(name), (name, due, first)


def begin():
    """With nothing."""
    sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    jobs("db", "add", "first", "--every", "1d", "--", "true")
    jobs("db", "remove", "first")
    here["first"] = {}


def main(tests, before=begin):
    def case(test):
        return test.__name__, lambda: (before(), test())
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    common.use_control_groups()
    for number in 1, 2, 3:
        make_network(number)
    here["db"] = SERVER
    SERVER.binaries, SERVER.cluster = map(os.path.abspath, sys.argv[2:4])
    SERVER.path = f"host={SERVER.cluster} user=nobody dbname=postgres"
    SERVER.start()
    try:
        common.main([case(test) for test in tests], sys.argv[4:])
    finally:
        SERVER.end()
        for space in networks.values():
            space.kill()
