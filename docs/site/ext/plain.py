# SPDX-License-Identifier: GPL-2.0-only
"""A parser for Sphinx, for README and the texts in docs: plain text, parsed by its layout.

 - An underlined line is a heading.
 - Lines indented by a tab are code, a list of terms and what they mean, or a table; so are lines in
   which columns are aligned by spaces. The columns decide: see definitions() and table().
 - " - " and " 1. " begin items.
 - Anything else is a paragraph. In it, names of other pages become links, and commands in quotes,
   file names and identifiers become code.
"""

import re
import textwrap

from docutils import nodes
from docutils.parsers import Parser as Base
from sphinx import addnodes

HEAD = re.compile(r"(=+|-+)$")
ITEM = re.compile(r"( ?- | {0,2}\d+\. )(?=\S)")
GAP = re.compile(r" *\1[ \1]*| {2,}".replace(r"\1", "\x01"))

# The names that the texts use for pages other than docs/NAME.
PAGES = {"README": "readme", "CONTRIBUTING": "contributing", "CHANGELOG": "changelog",
         "SECURITY": "security", "hwtimer(4)": "device", "libhwtimer(3)": "libhwtimer",
         "hwtimerctl(1)": "hwtimerctl", "hwtimer-jobs(1)": "hwtimer-jobs"}
PLACES = ("debian|debug|dev|dist|docs|examples|java|jobs|lib|out|python|scripts|tests|tools|uapi|"
          r"\.ci|/dev|/etc|/proc|/sys|/usr|/var|~/\.cache")
COMMANDS = "make|scripts|sudo|hwtimerctl|modinfo|apt|apt-get|mokutil|git|pydoc3|modprobe|hwtimer-jobs"
INLINE = re.compile(
    r"(?P<page>(?<![\w/.])docs/(?P<name>[a-z-]+)(?![\w/.]*\w)|\b(?:README|CONTRIBUTING|CHANGELOG|"
    r"SECURITY)\b|\b(?:lib)?hwtimer(?:ctl|-jobs)?\([134]\))|"
    r"(?P<url>https?://[^\s,)]+\w)|"
    rf'"(?P<command>(?:{COMMANDS})(?:[ /][^"]*)?)"|'
    rf"(?P<code>(?<![\w/.~])(?:{PLACES})/(?:[\w./*<>-]|\[\w+\])*(?:[\w/*>]|\[\w+\])|"
    r"(?<!\w)-E[A-Z0-9]{3,}\b|"
    r"\b[\w/-]+\.(?:cpp|hpp|py|java|ko|json|yml|conf|pml|map|jar|so(?:\.\d)*|\[?[ch]\]?)(?!\w)|"
    r"(?<![\w-])[\w.]*\w\(\)|"
    r"(?<![\w.-])\w*[A-Za-z0-9]_\w*\w)")


def widen(line):
    """Expand tabs; the first column of each becomes \\1."""
    out = ""
    for part in re.split("(\t)", line):
        out += "\x01".ljust(8 - len(out) % 8) if part == "\t" else part
    return out


def blank(c):
    return c in " \x01"


def segments(line):
    """[(column, text)] of what gaps separate."""
    found, at = [], 0
    for gap in [*GAP.finditer(line), None]:
        end = gap.start() if gap else len(line)
        if line[at:end].strip(" \x01"):
            lead = len(line[at:end]) - len(line[at:end].lstrip(" \x01"))
            found.append((at + lead, line[at + lead:end].rstrip()))
        at = gap.end() if gap else end
    return found


def definitions(lines):
    """[(term, [lines])] if each line has a term and, from the same column on, what it means, or
    only one of both; else None."""
    rows = [segments(line) for line in lines]
    if any(len(row) not in (1, 2) for row in rows):
        return None
    base = min(row[0][0] for row in rows)
    column = {row[-1][0] for row in rows if len(row) == 2 or row[0][0] > base}
    if len(column) != 1 or rows[0][0][0] != base:
        return None
    found = []
    for row in rows:
        if row[0][0] == base:
            if found and (not found[-1][1] or found[-1][0].endswith(",")):
                found[-1] = (found[-1][0] + "\n" + row[0][1], found[-1][1])
                found[-1][1].extend(text for _, text in row[1:])
                continue
            found.append((row[0][1], []))
            row = row[1:]
        found[-1][1].extend(text for _, text in row)
    # What begins like a comment is part of the code.
    wrong = any(not said or re.match(r"#|//|/\*", said[0]) for _, said in found)
    return None if wrong or column.pop() - base < 3 else found


def columns_of(lines):
    """[(begin, end)] of what columns that are blank in all lines separate."""
    width = max(map(len, lines))
    lines = [line.ljust(width) for line in lines]
    columns, begin, gap, tab = [], None, 2, False
    for i in range(width + 1):
        if i < width and not all(blank(line[i]) for line in lines):
            if begin is None or gap >= 2 or tab:
                columns.append([i, i + 1])
                begin = i
            columns[-1][1] = i + 1
            gap, tab = 0, False
        elif i < width:
            gap += 1
            tab = tab or any(line[i] == "\x01" for line in lines)
    return columns


def cells_of(line, columns):
    """The text of a line in each column; None if a text is in several, or one has several."""
    cells = [""] * len(columns)
    for at, text in segments(line):
        inside = [i for i, (begin, end) in enumerate(columns) if at < end and at + len(text) > begin]
        if len(inside) != 1 or cells[inside[0]]:
            return None
        cells[inside[0]] = text
    return cells


def spans_of(line, columns):
    """[(text, columns)] of a heading over several columns."""
    found, used = [], 0
    parts = segments(line)
    for (at, text), after in zip(parts, [*parts[1:], (10 ** 6, "")]):
        first = max(used, min((i for i, column in enumerate(columns) if column[1] > at),
                              default=len(columns) - 1))
        last = max([i for i, column in enumerate(columns) if column[0] < after[0]] + [first])
        if first >= len(columns):
            return None
        if first > used:
            found.append(("", first - used))
        # The last heading ends with the table.
        used = last + 1 if after[1] else len(columns)
        found.append((text, used - first))
    return found


def numeric(text):
    return bool(re.match(r"[-+~<]?\.?\d|-$|no$|yes$", text))


def table(lines):
    """(headings, rows) if the columns are clear and there are at least three; else None. A heading
    may be over several columns: headings is [[(text, columns)]]."""
    if len(lines) < 3 or any(re.search(r"@@|^[ \x01]*\$ |[{};]$", line) for line in lines):
        return None
    for top in range(min(3, len(lines) - 1)):
        columns = columns_of(lines[top:])
        rows = [cells_of(line, columns) for line in lines[top:]]
        spans = [spans_of(line, columns) for line in lines[:top]]
        if len(columns) < 3 or None in rows or None in spans:
            continue
        indents = [re.match(r"[ \x01]*", line).end() - columns[0][0] for line in lines[top:]]
        for cells, indent in zip(rows, indents):
            if cells[0]:
                cells[0] = "\u2003" * (indent // 2) + cells[0]
        heads = [[(text, 1) for text in cells] for cells in rows[:headings(rows)]]
        return spans + heads, joined(rows[len(heads):])
    return None


def headings(rows):
    """How many rows at the top are headings: they have no figures where others have."""
    count = 0
    while count < len(rows) - 1 and not any(map(numeric, rows[count][1:])):
        count += 1
    return count if count < min(3, len(rows) - 1) else 0


def joined(rows):
    """Join rows that only continue the last column of the one before."""
    found = []
    for row in rows:
        if found and not any(row[:-1]) and found[-1][-1] and not numeric(row[-1]):
            found[-1][-1] += " " + row[-1]
        else:
            found.append(row)
    return found


class Parser(Base):
    supported = ("plain",)

    def parse(self, inputstring, document):
        self.document = document
        self.page = document.settings.env.docname
        self.pages = document.settings.env.found_docs
        self.sections = [document]
        lines = [line.rstrip() for line in inputstring.split("\n")]
        i = 0
        while i < len(lines):
            if not lines[i]:
                i += 1
            elif i + 1 < len(lines) and HEAD.match(lines[i + 1]) and len(lines[i + 1]) > 2:
                self.heading(lines[i], 1 if lines[i + 1][0] == "=" else 2)
                i += 2
            else:
                i = self.block(lines, i)

    def heading(self, text, level):
        section = nodes.section(names=[nodes.fully_normalize_name(text)])
        section += nodes.title(text, text)
        del self.sections[level:]
        self.sections[-1] += section
        self.sections.append(section)
        self.document.note_implicit_target(section, section)

    def add(self, *what):
        self.sections[-1].extend(what)

    def block(self, lines, begin):
        """Add the block that begins with this line, and return where it ends."""
        end = begin
        if lines[begin].startswith("\t"):
            while end < len(lines) and (not lines[end] or lines[end].startswith("\t")):
                end += 1
            self.display("\n".join(lines[begin:end]).rstrip().split("\n"))
            return end
        while end < len(lines) and lines[end] and not lines[end].startswith("\t"):
            end += 1
        block = lines[begin:end]
        aligned = sum(bool(re.search(r"\S {3,}\S", line)) for line in block)
        if ITEM.match(block[0]):
            self.items(block)
        elif aligned * 2 >= len(block) or block[0].startswith("  "):
            self.display(block)
        else:
            self.add(self.paragraph(block))
        return end

    def paragraph(self, lines):
        return nodes.paragraph("", "", *self.inline(" ".join(line.strip() for line in lines)))

    def items(self, block):
        kind = nodes.bullet_list if block[0].strip()[0] == "-" else nodes.enumerated_list
        last = self.sections[-1].children[-1:]
        if last and isinstance(last[0], kind):
            into = last[0]
        else:
            into = kind()
            if kind is nodes.enumerated_list:
                into["enumtype"], into["suffix"] = "arabic", "."
            self.add(into)
        for line in block:
            match = ITEM.match(line)
            if match:
                item = [line[match.end():]]
                into += nodes.list_item("")
                into[-1]["lines"] = item
            else:
                item.append(line)
        for item in into:
            if "lines" in item:
                item += self.paragraph(item["lines"])
                del item["lines"]

    def display(self, lines):
        if any(re.match(r" +\| ", line) for line in lines):
            return self.add(self.entries(lines))
        wide = [widen(line) for line in lines if line]
        parts = [widen(line) for line in lines]
        if found := definitions(wide):
            return self.add(self.terms(found))
        if "" not in parts and (found := table(wide)):
            return self.add(self.table(*found))
        text = textwrap.dedent("\n".join(lines)).expandtabs(8)
        language = "c" if re.search(r"^#include|\);$", text, re.M) else "none"
        return self.add(nodes.literal_block(text, text, language=language, force=True))

    def entries(self, lines):
        """Terms, what they mean, and in lines that begin with a bar what a program reported."""
        out = nodes.definition_list()
        for line in lines:
            if match := re.match(r" +\| (.*)", line):
                out[-1][-1] += nodes.paragraph("", "", nodes.literal(match[1], match[1]))
                continue
            term, said = line.split(None, 1)
            out += self.terms([(term, [said])])
        return out

    def terms(self, found):
        out = nodes.definition_list()
        names = any("_" in term for term, _ in found)
        for term, said in found:
            item = nodes.definition_list_item("", *[
                nodes.term("", "", *self.inline(part, True, names)) for part in term.split("\n")])
            item += nodes.definition("", self.paragraph(said))
            out += item
        return out

    def table(self, heads, rows):
        count = len(rows[0])
        group = nodes.tgroup("", cols=count)
        group.extend(nodes.colspec(colwidth=1) for _ in range(count))
        figures = [any(numeric(row[i]) for row in rows) for i in range(count)]

        def row_of(cells):
            row, at = nodes.row(), 0
            for text, span in cells:
                entry = nodes.entry("", nodes.paragraph("", "", *self.inline(text)))
                if span > 1:
                    entry["morecols"] = span - 1
                if at and figures[at]:
                    entry["classes"].append("figure-cell")
                row += entry
                at += span
            return row

        if heads:
            group += nodes.thead("", *map(row_of, heads))
        group += nodes.tbody("", *[row_of([(text, 1) for text in row]) for row in rows])
        return nodes.table("", group, classes=["figures"])

    def inline(self, text, term=False, names=False):
        """The nodes of a text. A term that is a command or a path is code; where terms are names,
        so is each of their words."""
        if names and re.match(r"[\w.*-]+(,? [\w.*-]+)*,?$", text):
            parts = re.split(r"(,? |,$)", text)
            return [nodes.Text(part) if i % 2 else nodes.literal(part, part)
                    for i, part in enumerate(parts) if part]
        if term and re.match(rf"[\w*<>@=+-]*[./_][\w./*<>@=+-]*$|({COMMANDS})[ /]", text) and \
                not re.match(r"docs/[a-z-]+$", text):
            return [nodes.literal(text, text)]
        out, at = [], 0
        for match in INLINE.finditer(text):
            node = self.inline_node(match)
            if node:
                out += [nodes.Text(text[at:match.start()]), node]
                at = match.end()
        return out + [nodes.Text(text[at:])]

    def inline_node(self, match):
        text = match[0]
        if match["page"]:
            to = match["name"] or PAGES[text]
            if to in self.pages and to != self.page:
                return addnodes.pending_xref(
                    "", nodes.inline(text, text), refdomain="std", reftype="doc", refexplicit=True,
                    reftarget="/" + to, refdoc=self.page, refwarn=True)
            return nodes.literal(text, text) if match["name"] else None
        if match["url"]:
            return nodes.reference(text, text, refuri=text)
        text = match["command"] or text
        return nodes.literal(text, text)


def setup(app):
    app.add_source_suffix(".plain", "plain")
    app.add_source_parser(Parser)
    return {"parallel_read_safe": True}
