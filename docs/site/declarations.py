#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: docs/site/declarations.py FILE >PAGE

Print the public API of a C++ header or a Java class, as reStructuredText: the comment at its top,
and each public class and function with the comment above it.
"""

import re
import sys
import textwrap

COMMENT = re.compile(r"\s*/\*\*?(?!/)")


def text_of(comment):
    """The lines of a comment, without its marks."""
    comment = re.sub(r"^\s*/\*\*? ?|\s*\*/$", "", comment)
    return [re.sub(r"^\s*\* ?", "", line).rstrip() for line in comment.split("\n")]


def marked(text):
    """The marks of Javadoc, and names of parameters and functions, as code."""
    text = re.sub(r"\{@(?:link|code) (.*?)\}", lambda m: f"``{m[1].lstrip('#').replace('#', '.')}``",
                  text)
    text = re.sub(r"(?<![\w`])@(\w+)", r"``\1``", text)
    return re.sub(r"(?<![\w`.:])([\w.:]+\(\))(?!`)", r"``\1``", text)


def rst_of(lines):
    """A comment: paragraphs, code indented by a tab, and what Javadoc says of parameters."""
    out, fields = [], []
    for line in lines:
        if match := re.match(r"@(param|return|throws) (.*)", line):
            said = match[2].split(" ", 1) if match[1] != "return" else ["", match[2]]
            kind = {"throws": "raises", "return": "returns"}.get(match[1], match[1])
            fields.append(f":{kind}{' ' * bool(said[0])}{said[0]}: {marked(' '.join(said[1:]))}")
        elif fields and line.strip():
            fields.append("   " + marked(line.strip()))
        elif line.startswith("\t"):
            if not out or not out[-1].startswith("   ") and out[-2:] != ["", "CODE"]:
                in_code = any(text.startswith("   ") for text in out[-2:])
                out += [] if in_code else ["::", ""]
            out.append("   " + line[1:].expandtabs(8))
        else:
            out.append(marked(re.sub(r"^<p>", "", line)))
    return "\n".join(out).strip("\n") + "\n\n" + "\n".join([*fields, ""])


def signature(text):
    """A declaration in one line, without its body and initialisers."""
    text = re.sub(r"^\s*(@\w+|private:|public:)\s*", "", text)
    text = re.split(r"\s*(?:\{|;|\)\s*:(?!:))", text + ";")[0]
    text = re.sub(r"\s+", " ", text).strip()
    return text + ")" * (text.count("(") - text.count(")"))


def declarations(source):
    """Yield (comment, declaration) of what is public."""
    public, comment, template = JAVA, "", ""
    lines = iter(source.split("\n"))
    for line in lines:
        if COMMENT.match(line):
            comment = line
            while "*/" not in comment:
                comment += "\n" + next(lines)
        elif re.match(r"\s*(public|private):$", line):
            public, comment = "public" in line, ""
        elif line.startswith("};"):
            public, comment = False, ""
        elif re.match(r"\s*template ", line):
            template = line.strip() + " "
        elif re.match(r"\s*@Override$", line):
            continue
        elif JAVA and line.strip().startswith("public ") or not JAVA and (
                public and re.match(r"\t[\w~]", line) and "operator" not in line or
                re.match(r"class \w+ \{", line)):
            text = line
            while not re.search(r"[{;]|\)$", text):
                text += next(lines)
            if "= delete" not in text:
                yield comment, template + signature(text)
            comment = template = ""
        elif line.strip() and not line.startswith(("#", "import", "package", "//")):
            comment = ""


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        source = file.read()
    found = list(declarations(source))
    first = next(re.finditer(r"^/\*\*?\n.*?\*/", source, re.M | re.S))
    print(rst_of(text_of(first[0])))
    for comment, text in found:
        said = rst_of(text_of(comment)) if comment and comment != first[0] else ""
        if match := re.match(r"(?:public |static |final )*class (\w+)", text):
            title = f"class {'' if JAVA else 'hwt::'}{match[1]}"
            print(f"{title}\n{'-' * len(title)}\n\n{said}")
            if not JAVA:
                print(f".. cpp:namespace:: hwt::{match[1]}\n")
        elif JAVA:
            print(f".. describe:: {text}\n\n{textwrap.indent(said, '   ')}")
        else:
            print(f".. cpp:function:: {text}\n\n{textwrap.indent(said, '   ')}")


if len(sys.argv) != 2 or sys.argv[1] == "-h":
    sys.exit(__doc__)
JAVA = sys.argv[1].endswith(".java")
main()
