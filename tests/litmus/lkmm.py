#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: lkmm.py DIR FILE...

Run litmus tests on the kernel's memory model, for where there is no herd7. DIR is
tools/memory-model of a kernel's source. For each FILE a line says what herd7 would say:
Never, Sometimes or Always, DEADLOCK if no execution is allowed at all, and after that the
flags that were raised, with DATARACE for data-race; or "unsupported", and what.

The memory model is not in here. The primitives are those of linux-kernel.def, and
whether an execution is allowed is what linux-kernel.bell and linux-kernel.cat say of it,
which are read and carried out as they are. Here are: the executions, that is each thread
with each value that its reads could find, each write that they could read from and each
order of writes to one place, with the dependencies in between; and as much of the cat
language as those files are written in. So this is neither weaker nor stronger than the
model, but for one thing: that a cmpxchg writes does not depend on what it compares with,
so that something might be allowed here which herd7 forbids.

Not supported, and said so: locks, SRCU, atomic_add_unless, && and ||, loops. Slow: for
tests of some 20 accesses.
"""
import itertools
import re
import sys


class Unsupported(Exception):
    """The test, or the model, has something that is not known here."""


def without_comments(text):
    """Of OCaml, which nest, and of C."""
    n = 1
    while n:
        text, n = re.subn(r"\(\*(?:(?!\(\*|\*\)).)*\*\)", " ", text, flags=re.S)
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)


def closing(text, start):
    """Where the bracket at start is closed."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] in "({") - (text[i] in ")}")
        if not depth:
            return i
    raise Unsupported("a bracket that is not closed")


# Threads: C, made into statements whose expressions are Python's.

def read_macros(path):
    with open(path, encoding="utf-8") as f:
        found = re.findall(r"^(\w+)\((.*?)\)\s+(.*)$", without_comments(f.read()), re.M)
    return {name: (params.replace(" ", "").split(","), body) for name, params, body in found}


def expand(text, macros):
    """All macros of linux-kernel.def."""
    while True:
        m = next((m for m in re.finditer(r"\b(\w+)\(", text) if m[1] in macros), None)
        if not m:
            return text
        end = closing(text, m.end() - 1)
        params, body = macros[m[1]]
        args, depth = [""], 0
        for c in text[m.end():end]:
            depth += (c == "(") - (c == ")")
            if c == "," and not depth:
                args.append("")
            else:
                args[-1] += c
        if len(args) != len(params):
            raise Unsupported(f"{m[1]} with {len(args)} arguments")
        values = dict(zip(params, map(str.strip, args)))
        body = re.sub(r"\w+", lambda w: values.get(w[0], w[0]), body)
        text = text[:m.start()] + body + text[end + 1:]


def expression(text):
    if re.search(r"&&|\|\||!(?!=)", text):
        raise Unsupported(f"'{text}'")
    text = re.sub(r"__fence\{([\w-]+)\}", r"fence('\1')", text)
    text = re.sub(r"__(load|store)\{([\w-]+)\}\(\s*\*", r"\1('\2', ", text)
    text = re.sub(r"__(\w+)\{([\w-]+)\}\(", r"\1('\2', ", text)
    text = re.sub(r"__(atomic_op)\(", r"\1('noreturn', ", text)
    text = re.sub(r",\s*([-+&|])\s*,", r", '\1',", text)
    text = re.sub(r"\*\s*(\w+)", r"load('plain', \1)", text)
    text = re.sub(r"\(void\)|(?<![\w)] )&(?=\w)", "", text)
    try:
        return compile(text.strip(), text, "eval")
    except SyntaxError as e:
        raise Unsupported(f"'{text}'") from e


TYPE = r"(?:int|long|u64|atomic_t|intptr_t)\b"


def statements(text):
    """A list of (register or None, expression) and (None, condition, then, else)."""
    out = []
    text = text.strip()
    while text:
        one, text = statement(text)
        out += one
    return out


def statement(text):
    """The first one, and the text behind it."""
    if text[0] == "{":
        end = closing(text, 0)
        return statements(text[1:end]), text[end + 1:].lstrip("; \t\n")
    m = re.match(r"if\s*(?=\()", text)
    if m:
        end = closing(text, m.end())
        condition = expression(text[m.end():end + 1])
        then, text = statement(text[end + 1:].lstrip())
        other = []
        if re.match(r"else\b", text):
            other, text = statement(text[4:].lstrip())
        return [(None, condition, then, other)], text
    this, text = text.split(";", 1)
    this = re.sub(rf"^{TYPE}[\s*]*", "", this)
    m = re.match(r"(\*?)\s*(\w+)\s*=(?!=)(.*)", this, re.S)
    if not m:
        declared = re.fullmatch(r"[\w\s,*]+", this)
        return [] if declared else [(None, expression(this))], text.lstrip()
    if m[1]:
        return [(None, expression(f"__store{{plain}}(*{m[2]}, {m[3]})"))], text.lstrip()
    return [(m[2], expression(m[3]))], text.lstrip()


class Value:
    """A number, or the name of a place; and the reads that it comes from."""

    def __init__(self, value, reads=frozenset()):
        self.value, self.reads = value, reads

    def op(self, how, other):
        other = other if isinstance(other, Value) else Value(other)
        return Value(int(how(self.value, other.value)), self.reads | other.reads)

    __add__ = lambda self, other: self.op(lambda a, b: a + b, other)
    __sub__ = lambda self, other: self.op(lambda a, b: a - b, other)
    __and__ = lambda self, other: self.op(lambda a, b: a & b, other)
    __or__ = lambda self, other: self.op(lambda a, b: a | b, other)
    __xor__ = lambda self, other: self.op(lambda a, b: a ^ b, other)
    __eq__ = lambda self, other: self.op(lambda a, b: a == b, other)
    __ne__ = lambda self, other: self.op(lambda a, b: a != b, other)
    __lt__ = lambda self, other: self.op(lambda a, b: a < b, other)
    __gt__ = lambda self, other: self.op(lambda a, b: a > b, other)
    __le__ = lambda self, other: self.op(lambda a, b: a <= b, other)
    __ge__ = lambda self, other: self.op(lambda a, b: a >= b, other)
    __hash__ = None


class Event:
    """What a thread does: a read or write of memory, or a fence."""

    def __init__(self, kind, tag, loc=None, value=None):
        self.kind, self.tag, self.loc, self.value = kind, tag, loc, value
        self.thread, self.rmw, self.partner = None, False, None
        self.deps = {}


class NeedValue(Exception):
    """There is a read, of loc, for which no value was given."""

    def __init__(self, loc):
        super().__init__(loc)
        self.loc = loc


class Run:
    """A thread's execution in which its reads find these values."""

    def __init__(self, params, body, values):
        self.env = {p: Value(p) for p in params}
        self.values = iter(values)
        self.events, self.control = [], frozenset()
        self.names = {n: getattr(self, n) for n in (
            "load", "store", "fence", "xchg", "cmpxchg", "atomic_op", "atomic_op_return",
            "atomic_fetch_op")}
        self.whole, self.needs = True, None
        try:
            self.carry_out(body)
        except NeedValue as need:
            self.whole, self.needs = False, need.loc

    def carry_out(self, body):
        for register, expr, *branches in body:
            try:
                value = eval(expr, {"__builtins__": {}, **self.names, **self.env})
            except NameError as e:
                raise Unsupported(e.name) from e
            value = value if isinstance(value, Value) else Value(value)
            if register:
                self.env[register] = value
            if branches:
                before = self.control
                self.control |= value.reads
                self.carry_out(branches[0] if value.value else branches[1])
                self.control = before

    def add(self, event, addr=frozenset(), data=frozenset()):
        event.deps = {"addr": addr, "data": data, "ctrl": self.control}
        self.events.append(event)
        return len(self.events) - 1

    def fence(self, tag):
        self.add(Event("F", tag))

    def load(self, tag, pointer):
        if not isinstance(pointer.value, str):
            raise NeedValue(None)
        value = next(self.values, None)
        if value is None:
            raise NeedValue(pointer.value)
        read = self.add(Event("R", tag, pointer.value, value), pointer.reads)
        return Value(value, frozenset([read]))

    def store(self, tag, pointer, value):
        value = value if isinstance(value, Value) else Value(value)
        return self.add(Event("W", tag, pointer.value, value.value), pointer.reads,
                        value.reads)

    def change(self, tag, pointer, change):
        """Read, and write what change makes of the value, unless that is None."""
        start = len(self.events)
        if tag == "mb":
            self.fence("mb")
        old = self.load(tag if tag in ("acquire", "noreturn") else "once", pointer)
        read = max(old.reads)
        self.events[read].rmw = True
        new = change(old)
        if new is None:
            # It orders nothing.
            event = self.events[read]
            del self.events[start:]
            event.tag = "once"
            return Value(old.value, frozenset([self.add(event, pointer.reads)])), old
        write = self.store("release" if tag == "release" else "once", pointer, new)
        self.events[write].rmw, self.events[write].partner = True, read
        if tag == "mb":
            self.fence("mb")
        return old, new

    def xchg(self, tag, pointer, value):
        return self.change(tag, pointer, lambda old: value)[0]

    def cmpxchg(self, tag, pointer, expected, value):
        return self.change(tag, pointer,
                           lambda old: value if (old == expected).value else None)[0]

    def atomic_op_return(self, tag, pointer, op, value):
        return self.change(tag, pointer,
                           lambda old: {"+": old + value, "-": old - value, "&": old & value,
                                        "|": old | value}[op])[1]

    def atomic_fetch_op(self, tag, pointer, op, value):
        new = self.atomic_op_return(tag, pointer, op, value)
        return new - value if op == "+" else new + value

    atomic_op = atomic_op_return


class Litmus:
    """A test, from its file."""

    def __init__(self, path, macros):
        with open(path, encoding="utf-8") as f:
            text = without_comments(f.read())
        m = re.fullmatch(r"\s*C\s+\S+\s*\{(.*?)\}(.*?)(?:locations\s*\[.*?\]\s*)?"
                         r"(?:filter\s*(\(.*?\))\s*)?exists\s*(\(.*\))\s*", text, re.S)
        if not m:
            raise Unsupported("a test of this form, or without exists")
        self.init = {}
        for item in filter(None, map(str.strip, m[1].split(";"))):
            i = re.fullmatch(r"(?:\w+[ *]+)?(\w+)(?:\s*=\s*(?:ATOMIC_INIT\()?&?(-?\w+)\)?)?",
                             item)
            if not i:
                raise Unsupported(f"the initial '{item}'")
            self.init[i[1]] = self.number(i[2] or "0")
        self.threads = []
        for p in re.finditer(r"\bP\d+\s*\((.*?)\)\s*(?=\{)", m[2]):
            body = m[2][p.end() + 1:closing(m[2], p.end())]
            params = re.findall(r"(\w+)\s*(?:,|$)", p[1])
            self.threads.append((params, statements(expand(body, macros))))
        for name in (n for params, _ in self.threads for n in params):
            self.init.setdefault(name, 0)
        for value in list(self.init.values()):
            if isinstance(value, str):
                self.init.setdefault(value, 0)
        self.filter, self.exists = self.condition(m[3] or "(true)"), self.condition(m[4])

    @staticmethod
    def number(text):
        return int(text) if re.fullmatch(r"-?\d+", text) else text

    def condition(self, text):
        """1:r0=1 /\\ x=2, as Python."""
        text = text.replace("/\\", " and ").replace("\\/", " or ").replace("~", " not ")
        text = re.sub(r"([\w:]+)\s*(!?)=+\s*(-?\w+)", lambda m: "(get(%r) %s= %r)" % (
            m[1], m[2] or "=", self.number(m[3])), text)
        return compile(" ".join(text.split()).replace("true", "True"), text, "eval")

    def holds(self, condition, runs, memory):
        def get(name):
            thread, colon, register = name.partition(":")
            env = runs[int(thread)].env if colon else {}
            return env.get(register, Value(0)).value if colon else memory[name]
        return eval(condition, {"get": get})

    def runs(self):
        """For each thread, what it might do."""
        domain = {loc: {value} for loc, value in self.init.items()}
        while True:
            found = [list(self.runs_of(*t, domain)) for t in self.threads]
            writes = [[[e for e in run.events if e.kind == "W"] for run in f] for f in found]
            wider = {loc: set(values) for loc, values in domain.items()}
            for e in (e for f in writes for run in f for e in run):
                wider.setdefault(e.loc, set()).add(e.value)
            # A counter could count for ever, but its value went through each write once.
            most = 1 + sum(max(map(len, f)) for f in writes)
            if wider == domain or max(map(len, wider.values())) > most:
                return [[run for run in f if run.whole] for f in found]
            domain = wider

    @staticmethod
    def runs_of(params, body, domain):
        """Those that end early as well."""
        todo = [()]
        while todo:
            values = todo.pop()
            run = Run(params, body, values)
            # Nothing is read through what is no pointer.
            todo += [values + (v,) for v in domain.get(run.needs, ())]
            yield run


# Sets of events are bits of an int, relations are lists of those: what follows each.

def bits(mask):
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def sequence(a, b):
    out = [0] * len(a)
    for i, row in enumerate(a):
        for j in bits(row):
            out[i] |= b[j]
    return out


def inverse(a):
    out = [0] * len(a)
    for i, row in enumerate(a):
        for j in bits(row):
            out[j] |= 1 << i
    return out


def closure(a):
    out = list(a)
    for k in range(len(out)):
        for i, row in enumerate(out):
            if row >> k & 1:
                out[i] |= out[k]
    return out


class Candidate:
    """One run of each thread: its events, and what is the same whoever reads from whom."""

    def __init__(self, litmus, runs):
        self.events = [Event("W", "init", loc, value) for loc, value in litmus.init.items()]
        self.env = {"IW": (1 << len(self.events)) - 1}
        offset = []
        for i, run in enumerate(runs):
            offset.append(len(self.events))
            for e in run.events:
                e.thread = i
            self.events += run.events
        events, env = self.events, self.env
        for kind in "RWF":
            env[kind] = self.those(lambda e, kind=kind: e.kind == kind)
        env["M"] = env["R"] | env["W"]
        env["RMW"] = self.those(lambda e: e.rmw)
        env["id"] = [1 << i for i in range(len(events))]
        env["loc"] = [self.those(lambda e, a=a: a.loc and e.loc == a.loc) for a in events]
        env["int"] = [self.those(lambda e, a=a: e.thread == a.thread) for a in events]
        env["ext"] = [self.those(lambda e, a=a: e.thread != a.thread) for a in events]
        env["po"] = [row >> i + 1 << i + 1 if events[i].thread is not None else 0
                     for i, row in enumerate(env["int"])]
        for name in ("addr", "data", "ctrl", "rmw"):
            env[name] = [0] * len(events)
        for i, e in enumerate(events):
            deps = {**e.deps, "rmw": [] if e.partner is None else [e.partner]}
            for name, reads in deps.items():
                for r in reads if e.deps else ():
                    env[name][offset[e.thread] + r] |= 1 << i
        env["po-loc"] = [a & b for a, b in zip(env["po"], env["loc"])]

    def those(self, which):
        return sum(1 << i for i, e in enumerate(self.events) if which(e))

    def orders(self, loc):
        """For one place: who reads from whom, and the order of writes; if coherent."""
        here = [(i, e) for i, e in enumerate(self.events) if e.loc == loc]
        writes = [i for i, e in here if e.kind == "W"]
        reads = {i: [w for w in writes if self.events[w].value == e.value]
                 for i, e in here if e.kind == "R"}
        po_loc, rmw = self.env["po-loc"], self.env["rmw"]
        for order in itertools.permutations(writes[1:]):
            at = {w: n for n, w in enumerate(writes[:1] + list(order))}
            for sources in itertools.product(*reads.values()):
                rf = dict(zip(reads, sources))
                at.update((r, at[w]) for r, w in rf.items())
                # A later access does not go back; a later write goes on.
                if all(at[i] < at[j] + (j in rf) for i in at for j in bits(po_loc[i])) and \
                   all(at[i] + 1 == at[j] for i in rf for j in bits(rmw[i])):
                    yield rf, {w: at[w] for w in writes}

    def executions(self):
        """Each with all that differs, and what memory has in the end."""
        locs = sorted({e.loc for e in self.events if e.loc})
        for choice in itertools.product(*[list(self.orders(loc)) for loc in locs]):
            rf, co = [0] * len(self.events), [0] * len(self.events)
            memory = {}
            for loc, (sources, at) in zip(locs, choice):
                for r, w in sources.items():
                    rf[w] |= 1 << r
                for w in at:
                    co[w] = sum(1 << v for v in at if at[w] < at[v])
                memory[loc] = self.events[max(at, key=at.get)].value
            env = {**self.env, "rf": rf, "co": co, "fr": sequence(inverse(rf), co)}
            for name in ("rf", "co", "fr"):
                for where in ("ext", "int"):
                    env[name + where[0]] = [a & b for a, b in zip(env[name], env[where])]
            yield env, memory


CAT_TOKEN = r'"[^"]*"|\^-1|\|\||[A-Za-z_][\w.-]*|' r"'[\w-]+|[|&;\\*+?~\[\](){}=,]"
LOCKS = ("LKR", "LKW", "UL", "LF", "RL", "RU")
# Infix operators, those that bind least first.
INFIX = ["|", ";", "\\", "&", "*"]


class Model:
    """linux-kernel.bell and linux-kernel.cat."""

    def __init__(self, directory):
        self.tags, self.program, self.functions = [], [], {}
        for name in ("bell", "cat"):
            with open(f"{directory}/linux-kernel.{name}", encoding="utf-8") as f:
                self.tokens = re.findall(CAT_TOKEN, without_comments(f.read())) + [""]
            while self.tokens[0]:
                self.statement(self.take())

    def take(self, *expected):
        if expected and self.tokens[0] not in expected:
            raise Unsupported(f"'{self.tokens[0]}' in the model")
        return self.tokens.pop(0)

    def statement(self, word):
        if word == "let":
            self.program.append(self.let())
        elif word == "include":
            self.take('"lock.cat"')	# there are no locks, and co comes with the execution
        elif word in ("enum", "instructions"):
            while self.tokens[0] not in ("let", "flag", "enum", "instructions"):
                tag = self.take()
                if word == "enum" and tag[0] == "'":
                    self.tags.append(tag[1:])
        elif word[0] != '"':
            flag = word == "flag"
            word = self.take() if flag else word
            negated = word == "~"
            word = self.take() if negated else word
            e = self.expr()
            self.take("as")
            name = self.take()
            self.program.append((word, negated, e, name if flag else ""))

    def let(self):
        """("let", bindings) or, if they are recursive, ("rec", bindings)."""
        how = "rec" if self.tokens[0] == "rec" and self.take() else "let"
        bindings = []
        while True:
            name = self.take()
            param = None
            if self.take("=", "(") == "(":
                param = self.take()
                self.take(")")
                self.take("=")
            bindings.append((name, param, self.expr()))
            if self.tokens[0] != "and":
                return how, bindings
            self.take()

    def expr(self, level=0):
        if self.tokens[0] == "let":
            self.take()
            let = self.let()
            self.take("in")
            return "in", let, self.expr()
        if level == len(INFIX):
            return self.unary()
        e = self.expr(level + 1)
        while self.tokens[0] == INFIX[level]:
            e = self.take(), e, self.expr(level + 1)
        return e

    def unary(self):
        if self.tokens[0] == "~":
            return self.take(), self.unary()
        word = self.take()
        if word in "([":
            e = self.expr()
            self.take(")" if word == "(" else "]")
            e = e if word == "(" else ("[]", e)
        elif self.tokens[0] == "(":
            self.take()
            e = "call", word, self.expr()
            self.take(")")
        else:
            e = "name", word
        while self.tokens[0] in ("*", "+", "?", "^-1"):
            # A star with an operand behind it is a product.
            if self.tokens[0] == "*" and re.match(r"[A-Z(\[~]", self.tokens[1]):
                break
            e = "post" + self.take(), e
        return e

    def bind(self, how, bindings, env):
        names = [name for name, _, _ in bindings]
        if how == "rec":
            env.update((name, 0) for name in names)
        while True:
            before = [env.get(name) for name in names]
            for name, param, e in bindings:
                env[name] = (param, e) if param else self.value(e, env)
            if how == "let" or before == [env[name] for name in names]:
                return

    def value(self, e, env):
        n = len(env["id"])
        relation = lambda x: x if isinstance(x, list) else [0] * n if x == 0 else 1 / 0
        what = e[0]
        if what == "name":
            if e[1] not in env:
                raise Unsupported(f"'{e[1]}' in the model")
            return env[e[1]]
        if what == "in":
            inner = dict(env)
            self.bind(*e[1], inner)
            return self.value(e[2], inner)
        if what == "call":
            return self.call(e[1], self.value(e[2], env), env)
        a = self.value(e[1], env)
        if what in ("|", "&", "\\"):
            b = self.value(e[2], env)
            f = {"|": int.__or__, "&": int.__and__, "\\": lambda x, y: x & ~y}[what]
            if isinstance(a, int) and isinstance(b, int):
                return f(a, b)
            return list(map(f, relation(a), relation(b)))
        if what == "*":
            b = self.value(e[2], env)
            return [b if a >> i & 1 else 0 for i in range(n)]
        if what == "~":
            return (1 << n) - 1 & ~a
        if what == "[]":
            return [a & 1 << i for i in range(n)]
        a = relation(a)
        if what == ";":
            return sequence(a, relation(self.value(e[2], env)))
        if what == "post^-1":
            return inverse(a)
        a = closure(a) if what in ("post*", "post+") else a
        return a if what == "post+" else [row | 1 << i for i, row in enumerate(a)]

    def call(self, name, a, env):
        if name == "domain":
            return sum(1 << i for i, row in enumerate(a or ()) if row)
        if name == "range":
            return sum(1 << i for i, row in enumerate(inverse(a or ())) if row)
        if name == "fencerel":
            return sequence([row & a for row in env["po"]], env["po"])
        if name == "different-values":	# only asked of SRCU
            return 0
        param, e = env[name]
        return self.value(e, {**env, param: a})

    def judge(self, candidate, env):
        """Whether it allows an execution; and the flags that it raises."""
        env.update((name, 0) for name in LOCKS)
        for tag in self.tags:
            env[tag.capitalize()] = candidate.those(lambda e, tag=tag: e.tag == tag)
        flags = set()
        for what, *rest in self.program:
            if what in ("let", "rec"):
                self.bind(what, *rest, env)
                continue
            negated, e, flag = rest
            value = self.value(e, env)
            if what == "empty":
                true = not (any(value) if isinstance(value, list) else value)
            else:
                value = closure(value) if what == "acyclic" else value
                true = not any(row >> i & 1 for i, row in enumerate(value))
            if flag and true != negated:
                flags.add(flag)
            elif not flag and true == negated:
                return False, set()
        return True, flags


def verdict(litmus, model):
    seen, flags = set(), set()
    for runs in itertools.product(*litmus.runs()):
        candidate = Candidate(litmus, runs)
        plain = any(e.tag == "plain" for e in candidate.events)
        for env, memory in candidate.executions():
            if not litmus.holds(litmus.filter, runs, memory):
                continue
            positive = bool(litmus.holds(litmus.exists, runs, memory))
            # One of a kind is enough, where there is nothing that could race.
            if positive in seen and not plain:
                continue
            allowed, raised = model.judge(candidate, env)
            if allowed:
                seen.add(positive)
                flags |= raised
    out = {(): "DEADLOCK", (False,): "Never", (True,): "Always"}.get(tuple(seen), "Sometimes")
    return " ".join([out] + sorted("DATARACE" if f == "data-race" else f for f in flags))


def main():
    if len(sys.argv) < 3 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    macros = read_macros(sys.argv[1] + "/linux-kernel.def")
    model = Model(sys.argv[1])
    for path in sys.argv[2:]:
        try:
            print(f"{path}: {verdict(Litmus(path, macros), model)}", flush=True)
        except Unsupported as e:
            print(f"{path}: unsupported: {e}", flush=True)


if __name__ == "__main__":
    main()
