#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: scripts/edits.py [NAME]...
       scripts/edits.py -o OUT [NAME]...

Make the edits of the mutant or the broken litmus test NAME in this tree ("git checkout" undoes
them). Without a NAME, only check this reader, and that all edits can be made; print those that
cannot.

The tables tests/mutants/* have the mutants, tests/litmus/broken has the broken variants of litmus
tests. A line of a table that begins with "#" is a comment. An entry is

  = NAME
  What it breaks, in a sentence; more about it may follow.
  Test: the test that must fail (scripts/mutants -h has the forms)
  @ FILE FUNCTION
   a line that stays
  -a line that goes
  +a line that comes

with one or more edits, from "@" on. They are made one after the other. The lines that stay or go
have to follow each other in exactly one place in the FUNCTION (all functions of that name if there
are several), or in the FILE if no FUNCTION is given. Neither line numbers nor their indentation
matters; new lines are indented by as much more as the first of these lines is. An empty line of a
table means nothing; one that goes or comes is "-" or "+" alone.

Broken variants have no "Test:", and "Result:" only if the verdict of herd7 is not "Sometimes".
"Expect:" is the verdict of scripts/mutants that is right, if it is not "caught".

  -o OUT  write broken variants, all by default, to OUT/NAME.litmus, and print of each NAME
          "NAME result RESULT", and "NAME FUNCTION -LINE" and "+LINE", or "NAME error TEXT"
"""
import collections
import getopt
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BROKEN = "tests/litmus/broken"
Edit = collections.namedtuple("Edit", "file function lines")     # lines as (mark, text)
Entry = collections.namedtuple("Entry", "name table what fields edits")


class Mistake(Exception):
    """An error in a table, or an edit that cannot be made."""


def load(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def save(top, texts):
    for path, text in texts.items():
        with open(f"{top}/{path}", "w", encoding="utf-8") as f:
            f.write(text)


def tables():
    """The mutants' tables"""
    return sorted("tests/mutants/" + name for name in os.listdir(f"{TOP}/tests/mutants"))


def parse(text, table, entries):
    """Add the entries of this table to the dictionary."""
    entry = None

    def finish():
        if not entry:
            return
        if not entry.what:
            raise Mistake(f"{table}: {entry.name} has no description")
        if table != BROKEN and "Test" not in entry.fields:
            raise Mistake(f"{table}: {entry.name} has no line 'Test: '")
        if not entry.edits:
            raise Mistake(f"{table}: {entry.name} has no edits")
        for edit in entry.edits:
            marks = {mark for mark, _ in edit.lines}
            if not marks & {"-", "+"} or not marks & {"-", " "}:
                raise Mistake(f"{table}: {entry.name}: an edit needs a line that goes or comes, "
                              "and one that shows where")

    for number, line in enumerate(text.splitlines(), 1):
        mark, rest = line[:1], line[1:]
        if mark in ("", "#"):
            continue
        if mark == "=":
            finish()
            entry = Entry(rest.strip(), table, [], {}, [])
            if entry.name in entries:
                raise Mistake(f"{table}:{number}: {entry.name} is named twice")
            entries[entry.name] = entry
        elif entry and mark == "@" and len(rest.split()) in (1, 2):
            entry.edits.append(Edit(*(rest.split() + [None])[:2], []))
        elif entry and entry.edits and mark in " -+":
            entry.edits[-1].lines.append((mark, rest))
        elif entry and not entry.edits and (m := re.match(r"(Test|Expect|Result): (.*)", line)):
            entry.fields[m[1]] = m[2]
        elif entry and not entry.edits and mark not in "-+@ ":
            entry.what.append(line)
        else:
            raise Mistake(f"{table}:{number}: cannot parse '{line}'")
    finish()


def read(*names):
    """Return the entries of these tables by their names."""
    entries = {}
    for name in names:
        parse(load(f"{TOP}/{name}"), name, entries)
    return entries


def functions(lines, name):
    """Return where the functions of this name begin and end. Relies on the kernel's style."""
    found, end = [], 0
    for brace in (i for i, line in enumerate(lines) if line.rstrip() == "{"):
        begin = brace
        while begin > end and re.match(r"[^\s#/*{}][^;]*$|\s+[^\s*][^;]*$", lines[begin - 1]):
            begin -= 1
        end = next((i for i in range(brace, len(lines)) if lines[i][:1] == "}"), brace) + 1
        if re.search(rf"\b{name}\(", "\n".join(lines[begin:brace])):
            found.append((begin, end))
    return found


def indent(line):
    return line[:len(line) - len(line.lstrip())]


def change(text, edit):
    """Return the text of edit.file after the edit."""
    lines = text.split("\n")
    where = f"{edit.function}() of {edit.file}" if edit.function else edit.file
    spans = functions(lines, edit.function) if edit.function else [(0, len(lines))]
    if not spans:
        raise Mistake(f"there is no {where}")
    old = [line.strip() for mark, line in edit.lines if mark != "+"]
    places = [i for begin, end in spans for i in range(begin, end - len(old) + 1)
              if old == [line.strip() for line in lines[i:i + len(old)]]]
    if len(places) != 1:
        raise Mistake(f"'{old[0]}'{' and what follows' if old[1:] else ''} is "
                      f"{f'{len(places)} times' if places else 'not'} in {where}")
    at, new = places[0], []
    first = next(line for mark, line in edit.lines if mark != "+")
    base = indent(lines[at]).removesuffix(indent(first))
    for mark, line in edit.lines:
        if mark == "+":
            new.append(base + line if line else line)
        else:
            new += [lines[at]] if mark == " " else []
            at += 1
    return "\n".join(lines[:at - len(old)] + new + lines[at:])


def changed(entry, top):
    """Return the texts that the entry's files have after its edits, by their names."""
    texts = {}
    for edit in entry.edits:
        try:
            before = texts[edit.file] if edit.file in texts else load(f"{top}/{edit.file}")
        except FileNotFoundError:
            raise Mistake(f"there is no {edit.file}") from None
        texts[edit.file] = change(before, edit)
    return texts


def variants(out, entries):
    """Write broken litmus tests to the directory OUT, and print what they change."""
    for name, entry in entries.items():
        try:
            test = f"tests/litmus/{name.partition('-broken-')[0]}.litmus"
            if {edit.file for edit in entry.edits} != {test}:
                raise Mistake(f"it does not change {test}")
            [text] = changed(entry, TOP).values()
            save(out, {f"{name}.litmus": text})
        except Mistake as e:
            print(name, "error", e)
        print(name, "result", entry.fields.get("Result", "Sometimes"))
        for edit in entry.edits:
            for mark, line in edit.lines:
                if mark != " ":
                    print(name, edit.function, mark + line.strip())


CODE = "static int one(int a)\n{\n\tif (a)\n\t\treturn 1;\n\treturn 2;\n}\n\n" \
       "int two(int a,\n\tint b)\n{\n\tone(2);\n\tone(2);\n\tfor (;;) {\n\t\treturn 2;\n\t}\n}\n"
HEAD = "= m\nBreaks it.\nTest: kunit s.c\n"
TESTS = [    # a table, and what is wrong with it
    (HEAD + "@ f two\n-int two(int a,\n+int two(long a,\n@ f one\n if (a)\n-return 1;\n"
     "+\treturn 3;", None),
    (HEAD + "@ f one\n-return 4;", "'return 4;' is not in one() of f"),
    (HEAD + "@ f two\n-return 1;", "'return 1;' is not in two() of f"),
    (HEAD + "@ f two\n-one(2);", "'one(2);' is 2 times in two() of f"),
    (HEAD + "@ f\n-return 2;", "'return 2;' is 2 times in f"),
    (HEAD + "@ f three\n-return 1;", "there is no three() of f"),
    ("= m\nBreaks it.\n@ f one\n-return 1;", "t: m has no line 'Test: '"),
    ("= m\nTest: kunit s.c\n@ f one\n-return 1;", "t: m has no description"),
    (HEAD, "t: m has no edits"),
    (HEAD + "@ f one\n+return 1;", "t: m: an edit needs a line that goes or comes, and one that "
     "shows where"),
    (2 * (HEAD + "@ f one\n-return 1;\n"), "t:6: m is named twice"),
    (HEAD + "-return 1;", "t:4: cannot parse '-return 1;'"),
]


def self_check():
    """Print what is not found in the TESTS, or not made of the first; return whether there is any."""
    failed = False
    for table, expected in TESTS:
        entries, got = {}, None
        try:
            parse(table, "t", entries)
            for edit in entries["m"].edits:
                change(CODE, edit)
        except Mistake as e:
            got = str(e)
        if got != expected:
            failed = True
            print(f"scripts/edits.py says '{got}' and not '{expected}' of:\n{table}")
    entries, text = {}, CODE
    parse(TESTS[0][0], "t", entries)
    for edit in entries["m"].edits:
        text = change(text, edit)
    if text != CODE.replace("two(int", "two(long").replace("return 1", "return 3"):
        failed = True
        print(f"scripts/edits.py makes this of the first test's code:\n{text}")
    return failed


def check(entries):
    """Print the entries whose edits cannot be made, and return whether there are any."""
    failed = False
    for name, entry in entries.items():
        try:
            changed(entry, TOP)
        except Mistake as e:
            if not entry.fields.get("Expect", "").startswith(f"ERROR {e}"):
                print(f"{entry.table}: {name}: {e}")
                failed = True
    return failed


def main(argv):
    try:
        options, names = getopt.getopt(argv, "o:h")
    except getopt.GetoptError as e:
        print(f"edits.py: {e}\n{__doc__}", end="", file=sys.stderr)
        return 2
    options = dict(options)
    if "-h" in options:
        print(__doc__, end="")
        return 0
    try:
        entries = read(BROKEN) if "-o" in options else read(*tables(), BROKEN)
        chosen = {name: entries[name] for name in names or entries}
        if "-o" in options:
            variants(options["-o"], chosen)
        elif not names:
            return self_check() or check(entries)
        else:
            for entry in chosen.values():
                save(TOP, changed(entry, TOP))
    except KeyError as e:
        print(f"edits.py: no such mutant or broken variant: {e}", file=sys.stderr)
        return 2
    except (Mistake, OSError) as e:
        print(f"edits.py: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
