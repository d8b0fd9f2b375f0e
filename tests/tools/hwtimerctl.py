#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: tests/tools/hwtimerctl.py

Build hwtimerctl, install it below a temporary directory, and check what needs no module: help,
wrong arguments, missing modules, the output for wheels that a replaced ioctl() returns and for rules
of hwtimer_idle that a replaced function of libmnl returns, and HTTP. Prints only errors.
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

# Wheels with a name that JSON has to quote and that is not UTF-8, and one that is a number. Two rules,
# the one with the greater port first.
FAKE = r"""
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <linux/hwtimer.h>
#include <linux/hwtimer_idle.h>
#include <stdarg.h>
#include <string.h>

int open(const char *path, int flags, ...)
{
	return openat(AT_FDCWD, strcmp(path, "/dev/hwtimer") ? path : "/dev/null", flags, 0600);
}

int ioctl(int fd, unsigned long cmd, ...)
{
	static const char *const names[] = { "o\"d\33d\xe4", "7", "some" };
	struct hwtimer_wheel_info *w;
	struct hwtimer_list *list;
	va_list ap;

	va_start(ap, cmd);
	list = va_arg(ap, void *);
	va_end(ap);
	if (cmd != HWTIMER_IOC_WHEELS)
		return -1;
	for (list->count = 0; list->count < 3; list->count++) {
		w = (struct hwtimer_wheel_info *)list->entries + list->count;
		*w = (struct hwtimer_wheel_info){ .tick_ns = 1000000, .pending = 7, .armed = 100,
			.handed_back = ~0ULL, .late = { 3, 0, 90, [24] = 1 }, .module = "m" };
		strcpy(w->name, names[list->count]);
	}
	return 0;
}

static struct { struct nlmsghdr header; struct genlmsghdr genl; } sent;
#define request sent.header

ssize_t mnl_socket_sendto(const struct mnl_socket *nl, const void *message, size_t size)
{
	memcpy(&sent, message, sizeof(sent));
	return size;
}

static struct nlmsghdr *put(struct nlmsghdr **at, const struct mnl_socket *nl, int type)
{
	struct nlmsghdr *header = mnl_nlmsg_put_header(*at);

	header->nlmsg_type = type;
	header->nlmsg_flags = NLM_F_MULTI;
	header->nlmsg_seq = request.nlmsg_seq;
	header->nlmsg_pid = mnl_socket_get_portid(nl);
	mnl_nlmsg_put_extra_header(header, sizeof(struct genlmsghdr));
	return header;
}

static void put_answer(struct nlmsghdr *header, int port)
{
	int i;

	if (header->nlmsg_type == GENL_ID_CTRL) {
		mnl_attr_put_strz(header, CTRL_ATTR_FAMILY_NAME, port == 11211 ? "hwtimer_idle" : "x");
		mnl_attr_put_u16(header, CTRL_ATTR_FAMILY_ID, port);
		return;
	}
	mnl_attr_put_u16(header, HWTIMER_IDLE_ATTR_PORT, port);
	if (port == 80) {
		mnl_attr_put(header, HWTIMER_IDLE_ATTR_ADDRESS, 16, (char[16]){ [15] = 1 });
		mnl_attr_put(header, HWTIMER_IDLE_ATTR_ANY_SILENCE, 0, NULL);
	}
	mnl_attr_put_u32(header, HWTIMER_IDLE_ATTR_SPAN_MS, 2592000000U - port);
	mnl_attr_put_u8(header, HWTIMER_IDLE_ATTR_ACTION, HWTIMER_IDLE_RESET);
	mnl_attr_put_u32(header, HWTIMER_IDLE_ATTR_LIMIT, ~0U);
	for (i = HWTIMER_IDLE_ATTR_WATCHED; i <= HWTIMER_IDLE_ATTR_SPARED; i++)
		mnl_attr_put_u64(header, i, ~0ULL - i);
}

ssize_t mnl_socket_recvfrom(const struct mnl_socket *nl, void *buf, size_t size)
{
	struct nlmsghdr *at = buf;
	static int dumps;
	int i;

	if (request.nlmsg_type != GENL_ID_CTRL && sent.genl.cmd == HWTIMER_IDLE_CMD_DEL) {
		at = put(&at, nl, NLMSG_ERROR);
		at->nlmsg_len = mnl_nlmsg_size(sizeof(struct nlmsgerr));
		*(struct nlmsgerr *)mnl_nlmsg_get_payload(at) = (struct nlmsgerr){ -ENOENT };
		return at->nlmsg_len;
	}
	for (i = 0; i < 2; i++) {
		put_answer(put(&at, nl, request.nlmsg_type), i ? 80 : 11211);
		/* The rules change during the first dump of them, the second after that of families. */
		if (i && ++dumps == 2)
			at->nlmsg_flags |= NLM_F_DUMP_INTR;
		at = (void *)((char *)at + at->nlmsg_len);
	}
	return (char *)at - (char *)buf + put(&at, nl, NLMSG_DONE)->nlmsg_len;
}
"""
COMMANDS = "sleep stat list metrics idle".split()
# Without a device: what is asked for, the status, what is in the output, what is in the error.
PLAIN = [
    ("--version", 0, "hwtimerctl ", ""), ("", 2, "", ""), ("nosuch", 2, "", ""),
    *((words, 0, "usage: hwtimerctl COMMAND", "") for words in ("--help", "-h", "help")),
    *((f"{c} -h", 0, f"usage: hwtimerctl {c} ", "") for c in COMMANDS),
    *((f"{c} --help", 0, f"usage: hwtimerctl {c} ", None) for c in COMMANDS),
    *((f"{c} --nosuch", 2, None, "'--nosuch'") for c in COMMANDS),
    *((words, 3, None, "modprobe hwtimer") for words in ("stat", "metrics")),
    ("nosuch", 2, None, "(there are: sleep, stat, "), ("--no", 2, None, "(there are: --help, --version)"),
    *((f"sleep {words}", 2, None, said) for words, said in (
        ("", "DURATION: missing"), ("''", "DURATION: empty"), ("x", "'x'"), ("1x", "'x' in '1x'"),
        ("1 1S", "'S' in '1S'"), (".", "'.'"), ("1..2s", "'1..2s'"), ("1.2.3", "'1.2.3'"), ("s", "'s'"),
        ("' 1'", "' 1'"), ("'1 s'", "' s'"), ("1h30", "no unit at the end of '1h30'"), ("'30 1h'", "' '"),
        ("-1", "'-1'"), ("1e3", "'e'"), ("1152921505", "36 years: '1152921505'"),
        ("1152921504.606846976", "36 years"), (f"{10 ** 41}d", "36 years"), ("1152921504s 1s", "'1s'"),
        ("--json 1", "'--json'"), ("-x 1", "'-x'"))),
    # Options may be cut short and joined, with values behind them, and end at "--".
    ("stat --pi=0", 2, None, "--pid: must be from 1 to"), ("stat -p", 2, None, "-p: needs a value"),
    ("list --pid", 2, None, "--pid: needs a value"), ("list -x", 2, None, "no such option: '-x'"),
    ("stat --pid=2147483648", 2, None, "2147483648"), ("stat --pid=", 2, None, "''"),
    ("stat -px", 2, None, "--pid: not a number: 'x'"), ("list x", 2, None, "'x'"),
    ("stat --json=1", 2, None, "--json: takes no value"), ("sleep -- -h", 2, None, "not a duration: '-h'"),
    # What is in a message may be anything.
    ("'\033[31m\x7f\u2603\x9b'", 2, None, "'\\x1b[31m\\x7f\u2603\\xc2\\x9b'"),
    ("sleep '1\t\udce4'", 2, None, "'\\x09\\xe4' in"),
    ("stat --pid 2147483647", 1, None, "no process 2147483647 (processes with contexts: none"),
    ("list", 1, None, "no process of yours has a context"),
    ("stat --debugfs .", 2, None, "'--debugfs'"),
    *((f"idle {words}", 2, None, said) for words, said in (
        ("", "add, list, del or events: missing"), ("x", "'x'"), ("add", "PORT: missing"),
        ("add 80", "SPAN: missing"), ("add 0 60", "'0'"), ("add 65536 60", "'65536'"),
        ("add +80 60", "'+80'"), ("add 1.2.3:80 60", "not an IPv4 address: '1.2.3'"),
        ("add ::1:80 60", "'::1' (IPv6: [ADDRESS]:PORT)"), ("add [::x]:80 60", "IPv6 address: '::x'"),
        ("add 80 999ms", "SPAN: less than a second"), ("add 80 2592000001ms", "more than 30 days"),
        ("add 80 60 --reset --notify", "exclude"), ("add 80 60 --limit=0", "--limit: must be from 1"),
        ("add 80 60 x", "'x'"), ("del", "PORT: missing"), ("del 80 60", "'60'"), ("list x", "'x'"))),
    *((f"idle {words}", 3, None, "modprobe hwtimer_idle") for words in (
        "add 65535 1s", "add [::1]:80 30d --shutdown", "add --limit 1 1.2.3.4:1 1s", "del 80", "list",
        "events")),
    ("sleep 1ms", 0, None, None),
]
# What is slept for, and the seconds that it takes at least.
SLEPT = [("0", 0), ("1ns", 1e-9), ("0.0000000001", 1e-9), ("50ms", .05), ("0.05", .05), (".05s", .05),
         ("50000us", .05), ("20ms 30ms 0", .05), ("0h0m0.04s10ms", .05), ("-- 0d0min50ms", .05),
         ("1.2s", 1.2), ("0.0005m", .03), ("0.0000125h", .045)]
# With these wheels.
FAKED = [
    ("stat", 0, 'wheel o"d\\x1bd\\xe4\n', ""), ("stat", 0, "late: 94 expiries", ""),
    *(("stat --json", 0, text, "") for text in (
        '"handed_back": 18446744073709551615', '"name": "o\\"d\\u001bd\\ufffd"', '"name": "7"', '{"below_ns": 4000, "count": 90}',
        '{"below_ns": null, "count": 1}')),
    *(("metrics", 0, f"\nhwtimer_wheel_{text}\n", "") for text in (
        'lateness_seconds_bucket{wheel="some",module="m",le="4e-06"} 93',
        'lateness_seconds_bucket{wheel="some",module="m",le="+Inf"} 94',
        'lateness_seconds_count{wheel="some",module="m"} 94',
        'tick_seconds{wheel="some",module="m"} 0.001000000',
        'armed_total{wheel="o\\"d\\\\x1bd\\\\xe4",module="m"} 100')),
    *(("metrics", 0, f"\nhwtimer_idle_{text}\n", "") for text in (
        'watched{rule="[::1]:80"} 18446744073709551607\nhwtimer_idle_watched{rule="11211"} '
        "18446744073709551607", 'spared_total{rule="11211"} 18446744073709551603')),
    ("idle list", 0, f"\n[::1]:80              2591999.92s  reset     any    {2 ** 32 - 1} ", ""),
    ("idle list", 0, f"\n11211                 2591988.789s  reset     client {2 ** 32 - 1} ", ""),
    ("idle list --json", 0, '{"address": "::1", "port": 80, "span_ms": 2591999920, "action": "reset", '
     '"silence": "any", "limit": 4294967295, "watched": 18446744073709551607, ', ""),
    ("idle list --json", 0, '\n{"address": null, "port": 11211, ', ""),
    ("metrics --http", 0, None, None),
    ("stat some nosuch", 1, None, "no wheel 'nosuch' (there are: 7, o\"d\\x1bd\\xe4, some)"),
    ("idle del 81", 1, None, "81: no such rule (there are: [::1]:80, 11211)"),
]
# The beginning of a request, and the status of the answer.
HTTP = [("GET /metrics HTTP/1.1", 200), ("GET /metrics HTTP/1.0", 200), ("GET / HTTP/1.1", 404),
        ("GET /metricsx HTTP/1.1", 404), ("POST /metrics HTTP/1.1", 405), ("GET /metrics", 400),
        ("GET /metrics HTTP/2", 400), (f"GET /{'x' * 300} HTTP/1.1", 400),
        # 8191 bytes are read at most.
        (f"GET /metrics HTTP/1.1\r\nX: {'x' * 8161}", 200),
        (f"GET /metrics HTTP/1.1\r\nX: {'x' * 8162}", 400)]

root = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
failed = []


def check(right, *what):
    if not right:
        failed.append("hwtimerctl " + " ".join(map(str, what)))


def run(words, stdin=b"", **env):
    done = subprocess.run(["bin/hwtimerctl", *words], input=stdin, env={**os.environ, **env},
                          capture_output=True, check=False)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode()


def table(rows, **env):
    for words, status, said, complaint in rows:
        got, out, err = run(shlex.split(words), **env)
        check(got == status and (said or "") in out and (complaint or "") in err and
              not (said is None and out) and not (complaint is None and err) and
              (status != 2 or err.endswith(" --help'.\n")),
              words, "ends with", got, repr(out[:2000]), repr(err))


def http(env):
    metrics = run(["metrics"], **env)[1]
    for line, status in HTTP:
        _, out, err = run(["metrics", "--http"], f"{line}\r\n\r\n".encode(), **env)
        right = out.startswith(f"HTTP/1.1 {status}") and "\r\n\r\n" in out
        check(right and not err, "metrics --http", line[:40], "not", status, "but", out[:200], err)
        check(status != 200 or out.split("\r\n\r\n", 1)[1] == metrics, "--http: other metrics")
    status, out, err = run(["metrics", "--http"], b"GET /metrics HTTP/1.1\r\n\r\n")
    check(status == 3 and out.startswith("HTTP/1.1 503 ") and "modprobe" in out and not err,
          "metrics --http: no module:", status, out, err)
    with subprocess.Popen(["bin/hwtimerctl", "metrics", "--http"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, env={**os.environ, **env}) as child:
        for piece in b"GET /met", b"rics HTTP/1.1\r", b"\n\r\n":
            child.stdin.write(piece)
            child.stdin.flush()
            time.sleep(0.1)
        check(child.stdout.read().startswith(b"HTTP/1.1 200"), "--http: a request in pieces")
    said = subprocess.run([f"{root}/scripts/checks/prometheus", os.path.abspath("bin")], text=True,
                          input=metrics, capture_output=True, check=False)
    check(not said.returncode, "for Prometheus:", said.stdout, said.stderr)


def main():
    made = subprocess.run(["make", "-s", "-C", f"{root}/tools", f"OUT={os.getcwd()}/out",
                           f"DESTDIR={os.getcwd()}", "PREFIX=", "install"],
                          capture_output=True, text=True, check=False)
    if made.returncode or made.stdout + made.stderr:
        sys.exit(made.stdout + made.stderr)
    subprocess.run(["gcc", "-shared", "-fPIC", f"-I{root}/uapi", "-o", "fake.so", "-x", "c", "-",
                    "-lmnl"],
                   input=FAKE, text=True, check=True)
    faked = {"LD_PRELOAD": f"{os.getcwd()}/fake.so"}
    # A client that sends no request is given up after 10 s, by SIGALRM.
    reader, writer = os.pipe()
    with subprocess.Popen(["bin/hwtimerctl", "metrics", "--http"], stdin=reader,
                          stdout=subprocess.DEVNULL) as patient:
        with open("share/man/man1/hwtimerctl.1", encoding="utf-8") as file:
            page = file.read().replace("\\", "")
        table(PLAIN)
        for words, seconds in SLEPT:
            began = time.monotonic()
            done = run(["sleep", *words.split()])
            check(done == (0, "", "") and time.monotonic() - began >= seconds, "sleep", words, done)
        overview = run(["--help"])[1]
        for command in COMMANDS:
            out = run([command, "--help"])[1]
            for option in [*set(re.findall("--[a-z][a-z-]*", out)), f"  {command} "]:
                check(option in (page if option[0] == "-" else overview), command, "without", option)
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run(["bin/hwtimerctl", command, "--help"], stdout=full,
                                      stderr=subprocess.PIPE, check=False)
            check(done.returncode and b"cannot write to stdout" in done.stderr, command, "full")
        table(FAKED, **faked)
        for words in ("stat", "stat some", "idle list"):
            _, out, err = run([*words.split(), "--json"], **faked)
            try:
                check(out and list(map(json.loads, out.splitlines())), words, err)
            except ValueError as error:
                check(False, words, "--json:", error)
        http(faked)
        check(patient.wait() == -14, "metrics --http: no request: status", patient.returncode)
    os.close(writer)


if sys.argv[1:]:
    sys.exit(__doc__)
with tempfile.TemporaryDirectory() as temp:
    os.chdir(temp)
    main()
    os.chdir("/")
sys.exit("\n".join(failed) or 0)
