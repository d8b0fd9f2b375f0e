#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: tests/tools/hwtimerctl.py

Build hwtimerctl, install it below a temporary directory, and check what needs no module: help,
wrong arguments, missing modules, the output for wheels that a replaced ioctl() returns and for rules
of hwtimer_idle that a replaced function of libmnl returns, pictures of what debugfs shows, HTTP, and
completion in bash. Prints only errors.
"""
import collections
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as tree

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
COMMANDS = "sleep after every stat top draw list metrics idle".split()
# Without a device: what is asked for, the status, what is in the output, what is in the error.
PLAIN = [
    ("--version", 0, "hwtimerctl ", ""), ("", 2, "", ""), ("nosuch", 2, "", ""),
    *((words, 0, "usage: hwtimerctl COMMAND", "") for words in ("--help", "-h", "help")),
    *((f"{c} -h", 0, f"usage: hwtimerctl {c} ", "") for c in COMMANDS),
    *((f"{c} --help", 0, f"usage: hwtimerctl {c} ", None) for c in COMMANDS),
    *((f"{c} --nosuch", 2, None, "'--nosuch'") for c in COMMANDS),
    *((words, 3, None, "modprobe hwtimer") for words in ("stat", "top", "metrics")),
    ("nosuch", 2, None, "(there are: sleep, after, "), ("--no", 2, None, "(there are: --help, --version)"),
    # Options may be cut short and joined, with values behind them, and end at "--".
    ("top --iter=0", 2, None, "--iterations: must be from 1 to"), ("top -n", 2, None, "-n: needs a value"),
    ("top --delay", 2, None, "--delay: needs a value"), ("top -x", 2, None, "no such option: '-x'"),
    ("top -n1d0", 2, None, "--iterations: not a number: '1d0'"), ("stat -px", 2, None, "--pid: not"),
    ("top --json=1", 2, None, "--json: takes no value"), ("sleep -- -h", 2, None, "not a duration: '-h'"),
    ("every --misfire=x 1s", 2, None, "not 'x'"), ("every --mis=x 1s", 2, None, "no such option: '--mis=x'"),
    # What is in a message may be anything.
    ("'\033[31m\x7f\u2603\x9b'", 2, None, "'\\x1b[31m\\x7f\u2603\\xc2\\x9b'"),
    ("sleep '1\t\udce4'", 2, None, "'\\x09\\xe4' in"),
    ("stat --pid 2147483647", 1, None, "no process 2147483647 (processes with contexts: none"),
    ("list", 1, None, "no process of yours has a context"),
    ("stat --debugfs .", 2, None, "'--debugfs'"), ("draw --debugfs /none", 1, None, "/none/hwtimer: "),
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
    *((words, 0, said, None) for words, said in (
        ("sleep 1ms", ""), ("after --json 1ms '\x85\x1b'", '"line": "\\u0085\\u001b"'), ("after 1ms -- echo x", "x"), ("after 1ms -- echo -n", ""),
        ("every 10ms --count=2 echo x", "x\nx"))),
]
# With these wheels.
FAKED = [
    ("stat", 0, 'wheel o"d\\x1bd\\xe4\n', ""), ("stat", 0, "late: 94 expiries", ""),
    *(("stat --json", 0, text, "") for text in (
        '"handed_back": 18446744073709551615', '"name": "7"', '{"below_ns": 4000, "count": 90}',
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
    ("metrics --http --output x", 2, "", ""), ("metrics --http", 0, None, None),
    ("stat some nosuch", 1, None, "no wheel 'nosuch' (there are: 7, o\"d\\x1bd\\xe4, some)"),
    ("draw --debugfs . nosuch", 1, "", "no wheel 'nosuch' (there are: none)"),
    ("draw --debugfs .", 1, "", "there is no wheel"), ("draw --debugfs . some some", 2, "", ""),
    ("idle del 81", 1, None, "81: no such rule (there are: [::1]:80, 11211)"),
]
# The beginning of a request, and the status of the answer.
HTTP = [("GET /metrics HTTP/1.1", 200), ("GET /metrics HTTP/1.0", 200), ("GET / HTTP/1.1", 404),
        ("GET /metricsx HTTP/1.1", 404), ("POST /metrics HTTP/1.1", 405), ("GET /metrics", 400),
        ("GET /metrics HTTP/2", 400), (f"GET /{'x' * 300} HTTP/1.1", 400),
        # 8191 bytes are read at most.
        (f"GET /metrics HTTP/1.1\r\nX: {'x' * 8161}", 200),
        (f"GET /metrics HTTP/1.1\r\nX: {'x' * 8162}", 400)]
STATS = "tick_ns 1000000\nstate STARTED\npending 7\nlate_below_1us 3\nlate_below_4us 90\nlate_above 1\n"
# 3 turns and a quarter after the start.
TURNS = STATS + "bits 10 10\nstart_ns 500000000\nnow_ns 3828000000\n"
NOW = ["level 0: now is slot 256, rotate(90.0000)", "level 1: now is slot 6, rotate(2.2852)"]
NEVER = 18446744073709551615
# Pictures: the files stats, buckets and pending of debugfs, and the picture, or what is wrong.
DUE = [f"timeout 0 300 {3828000000 + (i * 1000000 or -5000000)} f 0\n" for i in range(99, -1, -1)]
DRAWN = [
    (None, None, None, "some/stats: No such file"),
    (STATS, None, None, "impossible: levels 0"),
    (TURNS, None, None, "some/buckets"),
    *((f"{line}\n", None, None, f"'{line}'") for line in ("bits 10 17", "bits 10 -1", "bits 10 10 x")),
    # Levels of their own width; what never expires has no place on a ring.
    (TURNS.replace("10 10", "2 3"), "bucket 0 3 1\nbucket 1 7 1\nbucket never 0 5\n", "",
     ["some|2|3|level 0, slot 3: 1 timeout level 1, slot 7: 1 timeout",
      "level 0: now is slot 0, rotate(0.0000)", "level 1: now is slot 0, rotate(0.0000)"]),
    # Two slots to a mark.
    (TURNS, "bucket 0 1 1\nbucket 0 2 4\nbucket 0 3 5\nbucket 1 1023 1\n"
     "bucket 1 0 4294967295\n", "",
     ["some|2|3|level 0, slots 0 to 1: 1 timeout level 0, slots 2 to 3: 9 timeouts "
      "level 1, slots 0 to 1: 4294967295 timeouts level 1, slots 1022 to 1023: 1 timeout", *NOW]),
    *((TURNS, f"{line}\n", None, f"'{line}'") for line in (
        "bucket 0 1024 1", "bucket 2 0 1", "bucket 0 1", "bucket 0 0 1 1", "bucket never 1 1", "slot")),
    (TURNS, "bucket 0 300 100\n", None, "some/pending"),
    # 100 timeouts, the first one overdue, the others 1 to 99 ms from now; one that was touched to
    # never; and a bucket with more.
    (TURNS, "bucket 0 300 100\n", "".join(DUE) + f"timeout never 0 {NEVER} f 0\nmore 0 256\n",
     ["some|2|3|level 0, slots 300 to 301: 100 timeouts", *NOW,
      "2 timeouts within 1 ms", "1 timeout within 2 ms", "2 timeouts within 4 ms",
      "4 timeouts within 8 ms", "8 timeouts within 16 ms", "16 timeouts within 32 ms",
      "32 timeouts within 64 ms", "35 timeouts within 128 ms", "100 % within 99 ms",
      "99 % within 98 ms", "90 % within 89 ms", "50 % within 49 ms",
      "not counted: the rest of 1 long bucket, 1 that never expire"]),
    (TURNS, "bucket 0 300 100\n", "timeout 0 300\n", "'timeout 0 300'"),
    (STATS + "bits 10 10\nstart_ns 2\nnow_ns 1\n", "", "", "now_ns 1, start_ns 2"),
]
# The words of a command line, and what bash proposes for the last one.
COMPLETED = [("s", "sleep stat"), ("every --misfire = sk", "skip"),
             ("every --mis", "--misfire= --misfire-after="), ("stat s", "some"),
             ("draw --debugfs . s", "some"), ("idle e", "events"), ("idle add 80 --s", "--shutdown"),
             ("idle del 1", "11211"), ("after 1s -- readonl", "readonly"),
             ("every 1s readonl", "readonly")]

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
              not (said is None and out) and not (complaint is None and err),
              words, "ends with", got, repr(out[:2000]), repr(err))


def picture(svg):
    """What an XML parser finds: the title, the number of rings and of late bars, and the titles of
    marks; hands, with their angles; bars on the time axis; percentiles."""
    top, name = tree.fromstring(svg), "{http://www.w3.org/2000/svg}"
    every = list(top.iter())
    seen = collections.Counter(e.get("class") for e in every if e.tag != name + "text")

    def titles(kind):
        return [e.find(name + "title").text + (", " + e.get("transform") if kind == "hand" else "")
                for e in every
                if e.get("class") == kind and (kind != "hand" or e.tag == name + "g")]
    texts = [e.text or "" for e in top.iter(name + "text")]
    first = top.find(name + "title").text.replace("hwtimer: wheel ", "")
    return [f"{first}|{seen['ring']}|{seen['late']}|{' '.join(titles('mark'))}", *titles("hand"),
            *titles("due"), *(t for t in texts if " % within " in t),
            *(t for t in texts if "not counted" in t)]


def draw(stats, buckets, pending, wanted, wheel="some"):
    directory = f"hwtimer/{wheel}"
    os.makedirs(directory, exist_ok=True)
    for name, text in ("stats", stats), ("buckets", buckets), ("pending", pending):
        if os.path.exists(f"{directory}/{name}"):
            os.remove(f"{directory}/{name}")
        if text is not None:
            with open(f"{directory}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
    got, out, err = run(["draw", "--debugfs", ".", wheel])
    if isinstance(wanted, str):
        check(got == 1 and wanted in err and not out, "draw: not", wanted, "but", got, err)
    elif wanted:
        check(got == 0 and picture(out) == wanted, "draw:", err or picture(out), "and not", wanted)
    return out


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
        overview = run(["--help"])[1]
        for command in COMMANDS:
            out = run([command, "--help"])[1]
            for option in [*set(re.findall("--[a-z][a-z-]*", out)), f"  {command} "]:
                check(option in (page if option[0] == "-" else overview), command, "without", option)
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run(["bin/hwtimerctl", command, "--help"], stdout=full,
                                      stderr=subprocess.PIPE, check=False)
            check(done.returncode and b"cannot write to stdout" in done.stderr, command, "full")
        os.mkdir("hwtimer")
        table(FAKED, **faked)
        for words in ("stat", "stat some", "top -d0.01 -n2", "idle list"):
            _, out, err = run([*words.split(), "--json"], **faked)
            try:
                check(out and list(map(json.loads, out.splitlines())), words, err)
            except ValueError as error:
                check(False, words, "--json:", error)
        http(faked)
        for row in DRAWN:
            draw(*row)
        draw(TURNS, "", "", ["w<&>\"|2|3|", *NOW], 'w<&>"')
        # Of three timeouts, the second is the first by which at least 50 % have expired.
        for pending, said in ((DUE[98] + DUE[97] + DUE[96], ">50 % within 2 ms<"),
                              ("", ">Time from now to the deadlines of 0 timeouts<")):
            check(said in draw(TURNS, "", pending, None), "draw: no", said)
        # The wheel in which the most is pending.
        for name, pending in ("a", 5), ("busy", 10), ("c", 9):
            draw(TURNS.replace("pending 7", f"pending {pending}"), "", "", None, name)
        check("wheel busy<" in run(["draw", "--debugfs", "."])[1], "draw: not the busiest wheel")
        for words, wanted in COMPLETED:
            env = {**os.environ, "PATH": "bin:" + os.environ["PATH"]}
            done = subprocess.run(["bash", "-c", """
                COMP_WORDS=(hwtimerctl "$@") COMP_CWORD=$# COMPREPLY=()
                . share/bash-completion/completions/hwtimerctl
                _hwtimerctl 2>/dev/null; echo "${COMPREPLY[*]}" """, "bash", *words.split()],
                                  env={**env, **faked} if words.endswith((" s", " del 1")) else env,
                                  capture_output=True, text=True, check=False)
            check(done.stdout.strip() == wanted, "completion of", words, "is", done.stdout)
        check(patient.wait() == -14, "metrics --http: no request: status", patient.returncode)
    os.close(writer)


if sys.argv[1:]:
    sys.exit(__doc__)
with tempfile.TemporaryDirectory() as temp:
    os.chdir(temp)
    main()
    os.chdir("/")
sys.exit("\n".join(failed) or 0)
