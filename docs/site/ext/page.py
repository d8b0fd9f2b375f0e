# SPDX-License-Identifier: GPL-2.0-only
"""An extension of Sphinx, for pages that can be read on narrow screens and in dark mode.

Names of other pages, such as docs/NAME.rst, README or hwtimer(4), become links. In tables, columns
of figures are aligned to the right. ".. picture:: FILE" includes an SVG picture in the page, so that
the style sheet colours it. It is as wide as the page, or scrolls where its text would be smaller
than 10 pixels. A browser may break long words at the places that this adds. In docstrings, indented
lines are code.
"""

import re
from html import escape
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from sphinx import addnodes

# After an underscore, a slash or a bracket, and before a capital letter within a word.
BREAKS = re.compile(r"(?<=[A-Za-z0-9][_/])(?=\w)|(?<=[a-z]{3})(?=[A-Z][a-z])|(?<=\w\()(?=\w)")
TAG = re.compile(r"(<[^>]*>)")
PAGE = re.compile(r"\bdocs/([a-z-]+)\.rst\b|\b(?:README|CONTRIBUTING)\b|"
                  r"\b(?:lib)?hwtimer(?:ctl|-jobs)?\([134]\)")
MANUALS = {"hwtimer(4)": "device", "libhwtimer(3)": "libhwtimer", "hwtimerctl(1)": "hwtimerctl",
           "hwtimer-jobs(1)": "hwtimer-jobs"}
FIGURE = re.compile(r"[-+~<]?\.?\d|-?$")


def with_breaks(html):
    """Insert <wbr>, but not into code blocks, scripts and pictures."""
    out, inside = [], 0
    for part in TAG.split(html):
        if match := re.match(r"<(/?)(pre|script|style|svg)\b", part):
            inside += -1 if match[1] else 1
        out.append(part if inside or part.startswith("<") else BREAKS.sub("<wbr>", part))
    return "".join(out)


def add_breaks(_app, _page, _template, context, _doctree):
    for key in "body", "toc":
        if key in context:
            context[key] = with_breaks(context[key])


class Picture(Directive):
    required_arguments = 1
    option_spec = {"alt": directives.unchanged_required}

    def run(self):
        env = self.state.document.settings.env
        svg = (Path(env.srcdir) / self.arguments[0]).read_text(encoding="utf-8")
        svg = svg[svg.index("<svg"):]
        # Of Graphviz; the titles of nodes are their names in the source.
        svg = re.sub(r"<!--.*?-->|<title>.*?</title>", "", svg, flags=re.S)
        label = escape(self.options["alt"].replace("\n", " "))
        # The style sheet has at least 14 pixels for text that names no size.
        text = min(map(float, re.findall(r'font-size="([\d.]+)"', svg)), default=14)
        width = float(re.search(r'viewBox="\S+ \S+ (\S+)', svg)[1]) * 10.1 / text
        svg = svg.replace("<svg", f'<svg role="img" aria-label="{label}" '
                          f'style="min-width: {width:.0f}px"', 1)
        return [nodes.raw("", f'<div class="picture">{svg}</div>', format="html")]


def mark_code(_app, _what, _name, _object, _options, lines):
    for i in range(len(lines) - 1, 1, -1):
        if lines[i].startswith("    ") and not lines[i - 1] and lines[i - 2] and \
                not lines[i - 2].startswith("    "):
            lines[i - 1:i] = ["", "::", ""]


def link_pages(app, doctree):
    """Names of pages in running text become links; of pages that do not exist, an error."""
    for text in list(doctree.findall(nodes.Text)):
        if not isinstance(text.parent, (nodes.paragraph, nodes.term, nodes.strong)):
            continue
        found, at = [], 0
        for match in PAGE.finditer(text):
            to = match[1] or MANUALS.get(match[0]) or match[0].lower()
            if to == app.env.docname:
                continue
            found += [nodes.Text(text[at:match.start()]), addnodes.pending_xref(
                "", nodes.inline(match[0], match[0]), refdomain="std", reftype="doc",
                refexplicit=True, reftarget="/" + to, refdoc=app.env.docname, refwarn=True)]
            at = match.end()
        if found:
            text.parent.replace(text, [*found, nodes.Text(text[at:])])


def arrange_tables(_app, doctree):
    """Mark the columns that have figures. In tables of the class "compare", whose rows a narrow
    screen shows as lists, name the column in each cell; the style sheet hides that on wide ones."""
    for table in doctree.findall(nodes.table):
        if "compare" not in table["classes"]:
            table["classes"].append("figures")
            rows = [list(row.findall(nodes.entry)) for row in table.findall(nodes.row)]
            rows = [row for row in rows if len(row) == len(rows[-1])]
            for column in [*zip(*rows)][1:]:
                # Without a word but in headings.
                if sum(not FIGURE.match(cell.astext()) for cell in column) <= len(rows) // 3:
                    for cell in column:
                        cell["classes"].append("figure-cell")
            continue
        heads, *rows = table.findall(nodes.row)
        for row in rows:
            for head, cell in [*zip(heads, row)][1:-1]:
                cell[0].insert(0, nodes.inline("", head.astext() + ": ", classes=["label"]))


def setup(app):
    app.connect("doctree-read", link_pages)
    app.connect("doctree-read", arrange_tables)
    app.add_directive("picture", Picture)
    app.connect("html-page-context", add_breaks)
    app.connect("autodoc-process-docstring", mark_code)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
