#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: docs/site/pictures.py DIR

Draw in DIR, as SVG, the wheel at rest and turning (wheel-*.svg), and the order of stores and
loads in the protocols between CPUs (order-*.svg). The places of timeouts are computed by the rule
at the top of hwtimer_wheel.c, with the numbers of the example there.
"""

import math
import sys
from html import escape

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}">\n'

SLOTS, LEVELS = 8, 3
INNER, BAND = 50, 60


def slot_of(tick, level):
    """The slot of a tick, counted from tick 0: it is half as wide as the level below reaches."""
    return tick // (SLOTS // 2) ** level


def place(cur, tick):
    """The lowest level that reaches a tick, and its slot there. The present slot has begun."""
    reach = [SLOTS] + [(SLOTS - 1) * (SLOTS // 2) ** n for n in range(1, LEVELS)]
    level = min(n for n in range(LEVELS) if tick - cur < reach[n])
    return level, slot_of(tick, level) % SLOTS


def polar(radius, slot):
    """The coordinates of a slot; slot 0 is at the top."""
    angle = 2 * math.pi * slot / SLOTS - math.pi / 2
    return radius * math.cos(angle), radius * math.sin(angle)


def sector(level, slot, kind):
    inner, outer = INNER + level * BAND, INNER + (level + 1) * BAND - 4
    (ax, ay), (bx, by) = polar(outer, slot - 0.5), polar(outer, slot + 0.5)
    (cx, cy), (dx, dy) = polar(inner, slot + 0.5), polar(inner, slot - 0.5)
    lx, ly = polar(inner + 10, slot)
    return (f'<path class="{kind}" d="M{ax:.1f} {ay:.1f} '
            f'A{outer} {outer} 0 0 1 {bx:.1f} {by:.1f} '
            f'L{cx:.1f} {cy:.1f} A{inner} {inner} 0 0 0 {dx:.1f} {dy:.1f} Z"/>\n'
            f'<text class="m small" x="{lx:.1f}" y="{ly + 4:.1f}">{slot}</text>\n')


def wheel(cur, pending, fired):
    """The wheel when the first tick that has not begun is cur."""
    size = 2 * (INNER + LEVELS * BAND) + 4
    out = HEAD.format(w=size, h=size)
    out += f'<g transform="translate({size / 2} {size / 2})">\n'
    for level in range(LEVELS):
        for slot in range(SLOTS):
            out += sector(level, slot, "now" if slot == slot_of(cur, level) % SLOTS else "slot")
    for tick in pending + fired:
        level, slot = place(cur, tick) if tick in pending else (0, tick % SLOTS)
        x, y = polar(INNER + level * BAND + 37, slot)
        kind = "t" if tick in pending else "fired"
        out += (f'<rect class="{kind}" x="{x - 18:.1f}" y="{y - 11:.1f}" width="36" height="22" '
                'rx="4"/>'
                f'<text class="m white" x="{x:.1f}" y="{y + 5:.1f}">{tick}</text>\n')
    out += f'<text class="m b" y="-4">now</text><text class="m b" y="17">{cur}</text>\n</g>\n'
    return out + "</svg>\n"


WHEELS = {"rest": (41, [43, 46, 57, 101], []), "turns": (47, [57, 101], [43, 46]),
          "cascades": (57, [57, 101], [])}

ROW, LANE = 34, 300


def order(lanes, steps, sees):
    """Lanes beside each other; time goes down. A step: lane, row, text, whether a barrier."""
    rows = max(step[1] for step in steps) + 1
    out = HEAD.format(w=LANE * len(lanes) + 20, h=ROW * rows + 60)
    out += ('<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" /></marker>'
            '</defs>\n')
    for i, lane in enumerate(lanes):
        x = LANE * i + LANE / 2 + 10
        out += (f'<text class="m b" x="{x}" y="22">{escape(lane)}</text>'
                f'<path class="line" d="M{x} 34 V{ROW * rows + 50}"/>\n')
    for lane, row, text, barrier in steps:
        x, y = LANE * lane + 25, ROW * row + 42
        out += (f'<rect class="{"barrier" if barrier else "box"}" x="{x}" y="{y}" '
                f'width="{LANE - 30}" height="{ROW - 10}" rx="4"/>'
                f'<text class="m" x="{x + (LANE - 30) / 2}" y="{y + 16}">{escape(text)}</text>\n')
    for (a, from_row), (b, to_row) in sees:
        right = b > a
        x1 = LANE * a + (LANE - 5 if right else 25)
        x2 = LANE * b + (25 if right else LANE - 5)
        out += (f'<path class="sees" marker-end="url(#a)" d="M{x1} {ROW * from_row + 54} '
                f'L{x2} {ROW * to_row + 54}"/>\n')
    return out + "</svg>\n"


# An arrow: if the load at its end comes later, it sees the store at its beginning.
ORDERS = {
    "sleep": (["producer", "worker"], [
        (0, 0, "word: ARMED, QUEUED", False), (0, 1, "push (llist_add)", False),
        (0, 2, "full barrier: its cmpxchg", True), (0, 3, "deadline < kick_below? kick", False),
        (1, 0, "the pass is over", False), (1, 1, "kick_below = until when", False),
        (1, 2, "smp_mb()", True), (1, 3, "take the queues, then sleep", False)],
        [((0, 1), (1, 3)), ((1, 1), (0, 3))]),
    "in-flight": (["A, held up", "B", "worker"], [
        (0, 0, "in_flight = 1", False), (0, 1, "word: QUEUED, tick 7", True),
        (0, 7, "push", False), (0, 8, "in_flight = 0", False),
        (1, 2, "word: tick 3 (cmpxchg)", True), (1, 3, "QUEUED is on: nothing to push", False),
        (1, 4, "3 < kick_below? kick", False), (2, 3, "kick_below = tick 5", False),
        (2, 4, "smp_mb()", True), (2, 5, "in_flight? wait", False),
        (2, 6, "smp_rmb(), then the queues", True)],
        [((0, 0), (2, 5)), ((2, 3), (1, 4))]),
    "cancel-sync": (["worker", "hwtimer_cancel_sync()"], [
        (0, 0, "running = t", False), (0, 1, "word: no flags (cmpxchg)", True),
        (0, 2, "callback(t)", False), (0, 3, "running = NULL (release)", True),
        (0, 4, "full barrier; sleepers? wake", True),
        (1, 1, "word: held? (acquire)", True), (1, 3, "running == t? (acquire)", True),
        (1, 5, "neither: free(t)", False)],
        [((0, 1), (1, 1)), ((0, 3), (1, 3))]),
    "stop": (["arm()", "hwtimer_wheel_stop()"], [
        (0, 0, "preempt_disable()", True), (0, 1, "state below SHUTDOWN?", False),
        (0, 2, "word, push", False), (0, 3, "preempt_enable()", True),
        (1, 0, "state = SHUTDOWN", False), (1, 4, "synchronize_rcu() returns", True),
        (1, 5, "the last drain, the sweep", False)],
        [((1, 0), (0, 1)), ((0, 3), (1, 4))]),
    "table": (["program", "kernel"], [
        (0, 0, "word = w", False), (0, 1, "full barrier", True),
        (0, 2, "w < visit? push the slot", False),
        (1, 0, "visit = until when it looks", False), (1, 1, "smp_mb()", True),
        (1, 2, "word before visit? look again", False)],
        [((0, 0), (1, 2)), ((1, 0), (0, 2))]),
}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    pictures = {f"wheel-{name}": wheel(*what) for name, what in WHEELS.items()}
    pictures.update((f"order-{name}", order(*what)) for name, what in ORDERS.items())
    for name, text in pictures.items():
        with open(f"{sys.argv[1]}/{name}.svg", "w", encoding="utf-8") as file:
            file.write(text)


main()
