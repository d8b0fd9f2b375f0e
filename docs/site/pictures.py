#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: docs/site/pictures.py DIR

Draw in DIR, as SVG, the wheel at rest and turning (wheel-*.svg). The places of timeouts are computed
by the rule at the top of hwtimer_wheel.c, with the numbers of the example there.
"""

import math
import sys

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


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name, what in WHEELS.items():
        with open(f"{sys.argv[1]}/wheel-{name}.svg", "w", encoding="utf-8") as file:
            file.write(wheel(*what))


main()
