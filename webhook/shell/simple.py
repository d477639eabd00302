"""Simple commands: assignments, words, declarations, and where their input comes from and their output goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook.shell.call import Call
from webhook.shell.command import Status, Where
from webhook.shell.expansion import zipped
from webhook.shell.state import State, Variable
from webhook.shell.tree import Assign, Declare, Parameter, Redirect, Redirected, Simple, Word
from webhook.shell.values import NOTHING, PAIR, Text, names_in, opaque

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webhook.shell.evaluate import Walk
    from webhook.shell.expansion import Expander

# What is written here is in no file.
_NOWHERE = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/proc/1/fd/1", "/proc/1/fd/2", "/proc/self/fd/1")


def simple(walk: Walk, node: Simple, state: State) -> Status:
    expander = walk.expander(state)
    if not node.words:
        for item in node.assigns:
            assign(walk, item, state)
        _redirects(walk, node.redirects, expander, NOTHING)
        return Status(True)
    assigns = tuple((a.name, _assigned_texts(a, expander)) for a in node.assigns)
    choices = [expander.fields(word) for word in node.words]
    stdin = _stdin(walk, node.redirects, expander)
    count = max(len(c) for c in choices)
    forms = [[f for c in choices for f in c[min(i, len(c) - 1)]] for i in range(count)]
    before = walk.runner.printed
    walk.runner.printed = NOTHING
    status = walk.runner.forms(walk, [Call(argv, assigns, stdin, count) for argv in forms], state)
    _redirects(walk, node.redirects, expander, walk.runner.printed)
    walk.runner.printed |= before
    return status


def assign(walk: Walk, node: Assign, state: State, *, exported: bool = False) -> None:
    """An assignment of the shell itself."""
    expander = walk.expander(state)
    old = state.variable(node.name)
    if isinstance(node.value, tuple):
        choices = [expander.fields(word) for word in node.value]
        count = max((len(c) for c in choices), default=1)
        arrays = [tuple(f for c in choices for f in c[min(i, len(c) - 1)]) for i in range(count)]
        if node.append and old is not None:
            held = old.arrays or tuple((text,) for text in old.values) or ((),)
            arrays = [
                held[min(i, len(held) - 1)] + arrays[min(i, len(arrays) - 1)]
                for i in range(max(len(held), len(arrays)))
            ]
        state.assign(node.name, Variable(arrays=tuple(arrays), exported=exported))
        return
    values = _assigned_texts(node, expander)
    if node.indexed:
        held = old.arrays if old is not None and old.arrays else ((),)
        state.assign(node.name, Variable(arrays=tuple((*h, values[0]) for h in held), exported=exported))
        return
    walk.assigned(node.name, values)
    state.assign(node.name, Variable(values, exported=exported))


def _assigned_texts(node: Assign, expander: Expander) -> tuple[Text, ...]:
    if isinstance(node.value, tuple):
        return (opaque(expander.deps(node.value)),)
    values = expander.texts(node.value)
    old = expander.texts(_whole(node.name)) if node.append else ()
    if not old:
        return values
    return zipped(old, values)


def declare(walk: Walk, node: Declare, state: State) -> Status:
    exported = node.keyword == "export" or "x" in node.flags
    expander = walk.expander(state)
    if "n" in node.flags and node.keyword == "export":
        for name in _names(node.items, expander):
            walk.runner.unset(name, state, walk.where)
        return Status(True)
    for item in node.items:
        if isinstance(item, Assign):
            if node.keyword == "local":
                walk.runner.make_local(item.name, state)
            assign(walk, item, state, exported=exported)
            if "i" in node.flags and (item.append or not _is_number(walk, item, state)):
                state.assign(item.name, Variable((opaque(_numeric(walk, item, state)),), exported=exported))
        else:
            for words in expander.fields(item):
                walk.runner.declare(walk, words, state, exported=exported, local=node.keyword == "local")
    printed = PAIR if "p" in node.flags or not node.items else NOTHING
    _redirects(walk, node.redirects, expander, printed)
    return Status(None)


def _is_number(walk: Walk, node: Assign, state: State) -> bool:
    """Whether an integer's value is a number as it is, so that there is nothing to reckon."""
    texts = _assigned_texts(node, walk.expander(state))
    return all(text.ref is not None or (text.literal or "").isdigit() for text in texts)


def _numeric(walk: Walk, node: Assign, state: State) -> frozenset[str]:
    """What an arithmetic value (`declare -i NAME=RANK*2`) depends on."""
    texts = _assigned_texts(node, walk.expander(state))
    names = (n for t in texts for n in names_in(t.literal or ""))
    found = (state.variable(name) for name in names)
    return NOTHING.union(*(t.deps for t in texts), *(v.deps for v in found if v is not None))


def _names(items: Sequence[Assign | Word], expander: Expander) -> list[str]:
    words = [item.name if isinstance(item, Assign) else expander.texts(item)[0].literal for item in items]
    return [word for word in words if word]


def _stdin(walk: Walk, redirects: Sequence[Redirect], expander: Expander) -> tuple[Text | None, frozenset[str] | None]:
    """The text and the dependencies of what a command reads."""
    for redirect in reversed(redirects):
        if redirect.op in ("<<", "<<<") and redirect.body is not None:
            texts = expander.texts(redirect.body)
            return texts[0], NOTHING.union(*(text.deps for text in texts))
        if redirect.op == "<" and redirect.target is not None:
            return None, NOTHING
    return None, walk.stdin


def _redirects(walk: Walk, redirects: Sequence[Redirect], expander: Expander, printed: frozenset[str]) -> None:
    """Tell the observer where what was printed goes into a file."""
    if not printed or walk.where is Where.SUBSTITUTION:
        return
    for redirect in redirects:
        if ">" not in redirect.op or redirect.target is None or redirect.descriptor not in ("", "1"):
            continue
        target = expander.texts(redirect.target)[0].literal or ""
        if target not in _NOWHERE and not (redirect.op in (">&", "<&") and (target.isdigit() or target == "-")):
            walk.runner.observer.wrote()


def redirected(walk: Walk, node: Redirected, state: State) -> Status:
    expander = walk.expander(state)
    before, walk.runner.printed = walk.runner.printed, NOTHING
    _, deps = _stdin(walk, node.redirects, expander)
    inner = walk.inside(stdin=deps)
    status = inner.node(node.body, state)
    _redirects(walk, node.redirects, expander, walk.runner.printed)
    walk.runner.printed |= before
    return status


def _whole(name: str) -> Word:
    return Word((Parameter(name, 0, 0, quoted=True),), 0, 0)
