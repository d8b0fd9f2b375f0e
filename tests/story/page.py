#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: tests/story/page.py DIR

Make a table, DIR/index.html and DIR/picture.svg of DIR/figures, the output of tests/story/story.c,
and check that each way closed what it had to, nothing else, and in time.
"""

import sys
from html import escape
from math import inf

# Each way: what it is, how early and how late it may be in ms. libevent's clock is that of the last
# timer interrupt, up to 4 ms ago, and ss's times are rounded as much. hwtimer_idle's wheel has ticks
# of 4 ms; the loop of the other wheel turns each 10 ms. How late a scan is depends on how long it
# takes.
WAYS = {"none": ("no timeouts", 0, 0), "hwtimer_idle": ("hwtimer_idle", 0, 6),
        "ss": ("ss -K, 10 s", 4, inf), "bpf_10s": ("BPF, 10 s", 0, inf),
        "bpf_1s": ("BPF, 1 s", 0, inf), "libhwtimer": ("libhwtimer", 0, 3),
        "heap": ("libevent's heap", 4, 9), "wheel": ("wheel of its own", 0, 12)}
COLUMNS = ["all", "server", "clients", "rest", "switches", "waits", "looks", "bytes", "earliest",
           "median", "99 %", "latest"]
PANELS = {"all": "million instructions a second more, while nothing is closed",
          "99 %": "late at the 99th percentile, ms", "bytes": "bytes a connection"}


def figures_of(lines):
    """The figures of a way: its costs in a second, by the differences of what was used."""
    of = {line[0]: float(line[2]) for line in lines}
    used = [[int(word) for word in line[2:]] for line in lines if line[0] == "used"]
    time, idle, server, clients, switches, waits, looks = (
        after - before for before, after in zip(*used[-2:]))
    of |= {"all": (time - idle) / time * 1000,
           "server": server / time * 1000, "clients": clients / time * 1000,
           "rest": (time - idle - server - clients) / time * 1000,
           "switches": switches / time * 1e9, "waits": waits / time * 1e9,
           "looks": looks / time * 1e9}
    lates = sorted(int(line[2]) / 1e6 for line in lines if line[0] == "late")
    of["closed"] = len(lates)
    for name, part in ("earliest", 0), ("median", 0.5), ("99 %", 0.99), ("latest", 1):
        of[name] = lates[int((len(lates) - 1) * part)] if lates else 0
    return of


def table(figures):
    """Rows of words: of "none" the figures, of the others what they have more."""
    yield ["", *COLUMNS]
    for way, mine in figures.items():
        yield [WAYS[way][0], *(f"{mine[what] - (way != 'none') * figures['none'][what]:.2f}"
                               for what in COLUMNS)]


def watches(lines):
    """What a look costs without sockets: that of many watches, less that of none."""
    none, many = ([int(word) for word in line[1:]] for line in lines if line[0] == "watches")
    count, size, longer, idle, switches, looks = (b - a for a, b in zip(none, many))
    time, busy = many[2], longer - idle
    return (f"{count} watches without sockets: {size / count:.1f} bytes each, "
            f"{looks / time * 1e9:.0f} looks a second of {busy / looks:.0f} instructions, "
            f"{switches / time * 1e9:.0f} switches a second")


def picture(figures):
    """Bars for what each way has more than no timeouts."""
    ways = [way for way in figures if way != "none"]
    out, top = "", 0
    for what, title in PANELS.items():
        top += 24
        out += f'<text x="10" y="{top}" font-weight="bold">{title}</text>\n'
        values = [figures[way][what] - figures["none"][what] for way in ways]
        for way, value in zip(ways, values):
            top += 24
            width = max(value, 0) / max(*values, 1e-9) * 360
            fill = "#1f5fa8" if "hwtimer" in way else "#b0b4ba"
            out += (f'<text x="140" y="{top}" text-anchor="end">{escape(WAYS[way][0])}</text>'
                    f'<rect x="150" y="{top - 14}" width="{width:.1f}" height="18" fill="{fill}"/>'
                    f'<text x="{156 + width:.1f}" y="{top}">{value:.2f}</text>\n')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="600" height="{top + 20}" '
            'font-family="sans-serif" font-size="13">\n'
            f'<rect width="100%" height="100%" fill="white"/>\n{out}</svg>\n')


def page(about, rows, svg, upper):
    cells = "\n".join(f"<tr><td>{'<td>'.join(escape(word) for word in row)}" for row in rows)
    return ("<!doctype html><html lang=en><meta charset=utf-8><title>Idle connections</title>\n"
            "<style>body { font-family: sans-serif } td { text-align: right; padding: 2px 9px }"
            "</style>\n<h1>What it costs to close idle connections</h1>\n"
            f"<p>{escape(about)}. docs/story.rst explains the columns.\n<table>{cells}</table>\n"
            f"<p>{upper}.\n<p>{svg}")


def judge(figures, silent):
    """What is right or wrong, and whether it is right."""
    for way, mine in figures.items():
        _, early, late = WAYS[way]
        yield f"{way}: closed {mine['closed']} of {silent}", mine["closed"] == (silent if late else 0)
        yield f"{way}: closed {mine['wrong']:.0f} others", not mine["wrong"]
        if late:
            yield f"{way}: {mine['earliest']:.2f} ms late at least", mine["earliest"] >= -early
            yield f"{way}: {mine['99 %']:.2f} ms late in 99 %", mine["99 %"] <= late


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    to = sys.argv[1]
    with open(f"{to}/figures", encoding="utf-8") as file:
        about = file.readline().strip()
        lines = [line.split() for line in file]
    if ["over"] not in lines:
        sys.exit("it did not come to its end")
    about += "".join(f", {line[0].replace('_', ' ')} {line[2]}" for line in lines if "-" in line)
    figures = {way: figures_of([line for line in lines if way in line]) for way in WAYS}
    rows = list(table(figures))
    upper = watches(lines)
    svg = picture(figures)
    for name, text in (("picture.svg", svg), ("index.html", page(about, rows, svg, upper))):
        with open(f"{to}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    print(about)
    for row in rows:
        print(f"{row[0]:16}" + "".join(f"{word:>9}" for word in row[1:]))
    print(upper)
    verdicts = list(judge(figures, next(int(line[2]) for line in lines if line[0] == "silent")))
    for text, right in verdicts:
        print(f"{'ok     ' if right else 'FAILED '} {text}")
    failed = sum(not right for _, right in verdicts)
    print(f"{len(verdicts) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
