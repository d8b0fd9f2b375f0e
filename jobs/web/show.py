# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""How times, durations and names look: filters of the templates."""
import datetime
import time
import urllib.parse

from markupsafe import Markup

SECOND = 10 ** 9    # times are in ns
UNITS = (("d", 86400 * SECOND), ("h", 3600 * SECOND), ("min", 60 * SECOND), ("s", SECOND))


def link(path, **parameters):
    """An address. Names in it may have any bytes."""
    query = urllib.parse.urlencode({k: v for k, v in parameters.items() if v},
                                   errors="surrogateescape")
    return path + ("?" + query if query else "")


def name(text):
    """A name, in a direction of its own. It may be broken after an underscore."""
    return Markup("<bdi>{}</bdi>").format(Markup("_<wbr>").join(text.split("_")))


def local(ns):
    return datetime.datetime.fromtimestamp(ns // SECOND).astimezone()


def offset(when):
    return "UTC" + (when.isoformat()[19:] if when.utcoffset() else "")


def zone():
    """The server's time zone."""
    now = local(time.time_ns())
    return offset(now) + ("" if f"{now:%Z}" == offset(now) else f" ({now:%Z})")


def moment(ns, absent="never"):
    """A time, in the server's zone. If its offset from UTC is not the present one, it says so."""
    if ns is None:
        return absent
    when = local(ns)
    text = f"{when:%Y-%m-%d %H:%M:%S}.{ns // 10 ** 6 % 1000:03}"
    same = when.utcoffset() == local(time.time_ns()).utcoffset()
    return Markup('<time datetime="{}">{}</time>').format(
        f"{text}{when:%z}", text if same else f"{text} {offset(when)}")


def duration(ns):
    if ns is None:
        return "–"
    if abs(ns) < SECOND:
        return f"{ns / 10 ** 6:.1f} ms"
    if abs(ns) < 60 * SECOND:
        return f"{ns / SECOND:.3f} s"
    parts = []
    for unit, size in UNITS:
        if ns >= size:
            parts.append(f"{ns // size} {unit}")
        ns %= size
    return " ".join(parts[:2])


def every(ns):
    """The shortest exact text, as of "list"."""
    for unit, size in UNITS:
        if ns % size == 0:
            return f"{ns // size} {unit}"
    return f"{ns / 10 ** 6:.15g} ms"


def schedule(job):
    text = job["cron"] or (f"every {every(job['every'])}" if job["every"] else
                           f"after {job['after_job']}: {job['after_state']}" if job["after_job"] else
                           "once" if job["next"] else "when asked for")
    text += " from its end" if job["from_end"] else ""
    return f"{text}, {job['zone']}" if job["zone"] else text


def state(run):
    failed = run["state"] == "done" and run["status"] != 0
    return "failed" if failed else run["state"]


FILTERS = [name, moment, duration, every, schedule, state]
