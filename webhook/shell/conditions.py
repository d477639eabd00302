"""What a test of the shell says, where that is known whatever RANK and WORLD_SIZE are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from webhook.shell.command import Status
from webhook.shell.tree import Word
from webhook.shell.values import NOTHING, Text

Texts = Callable[[Word], tuple[Text, ...]]
Token = str | tuple[Text, ...]  # an operator, or what a word may be
_EQUAL, _UNEQUAL = ("=", "=="), ("!=",)


def judge(tokens: Sequence[Word | str], texts: Texts, is_set: Callable[[str], bool | None]) -> Status:
    """The status of `[ tokens ]`. `is_set` tells of a variable's name whether it is set."""
    read = [t if isinstance(t, str) else texts(t) for t in tokens]
    return judge_words(read, is_set)


def judge_words(tokens: Sequence[Token], is_set: Callable[[str], bool | None]) -> Status:
    """The same of operators and texts; operators may also come as literal texts (`test`'s own arguments)."""
    return _Parser(list(tokens), is_set).any_of()._replace(likely=False)


class _Parser:
    """test's grammar: `-o` and `||` bind least, then `-a` and `&&`, then `!`."""

    def __init__(self, tokens: list[Token], is_set: Callable[[str], bool | None]) -> None:
        self._tokens = tokens
        self._is_set = is_set
        self._at = 0

    def _op(self, ahead: int = 0) -> str:
        at = self._at + ahead
        if at >= len(self._tokens):
            return ""
        token = self._tokens[at]
        if isinstance(token, str):
            return token
        return (token[0].literal or "") if len(token) == 1 else ""

    def any_of(self) -> Status:
        left = self._all_of()
        while self._op() in ("-o", "||"):
            self._at += 1
            left = _either(left, self._all_of(), truth=True)
        return left

    def _all_of(self) -> Status:
        left = self._not()
        while self._op() in ("-a", "&&"):
            self._at += 1
            left = _either(left, self._not(), truth=False)
        return left

    def _not(self) -> Status:
        if self._op() == "!" and self._at + 1 < len(self._tokens):
            self._at += 1
            inner = self._not()
            return inner._replace(truth=None if inner.truth is None else not inner.truth)
        if self._op() == "(":
            self._at += 1
            inner = self.any_of()
            self._at += self._op() == ")"
            return inner
        return self._primary()

    def _take(self) -> tuple[Text, ...]:
        if self._at >= len(self._tokens):
            return ()
        token = self._tokens[self._at]
        self._at += 1
        return () if isinstance(token, str) else token

    def _primary(self) -> Status:
        op, following = self._op(), self._op(1)
        is_last = self._at + 1 >= len(self._tokens)
        if len(op) == len("-z") and op[0] == "-" and not is_last and following not in ("=", "==", "!=", "-eq", "-ne"):
            self._at += 1
            return self._unary(op[1], self._take())
        left = self._take()
        if self._at < len(self._tokens) and self._op() not in ("-o", "||", "-a", "&&", ")"):
            operator = self._op()
            self._at += 1
            return _compared(left, operator, self._take())
        return _length(left, empty=False)

    def _unary(self, flag: str, operand: tuple[Text, ...]) -> Status:
        if flag in "zn":
            return _length(operand, empty=flag == "z")
        if flag == "v" and len(operand) == 1 and (name := operand[0].literal):
            return Status(self._is_set(name))
        return Status(None, _deps(operand))


def _deps(texts: Sequence[Text]) -> frozenset[str]:
    return NOTHING.union(*(text.deps for text in texts))


def _either(left: Status, right: Status, *, truth: bool) -> Status:
    """`||` (truth) or `&&` (not truth) of two statuses."""
    if left.truth is truth or right.truth is truth:
        return Status(truth)
    if left.truth is None or right.truth is None:
        return Status(
            None, (left.deps if left.truth is None else NOTHING) | (right.deps if right.truth is None else NOTHING)
        )
    return Status(not truth)


def _same(truths: set[bool | None], deps: frozenset[str]) -> Status:
    truth = truths.pop() if len(truths) == 1 else None
    return Status(truth, deps if truth is None else NOTHING)


def _length(texts: Sequence[Text], *, empty: bool) -> Status:
    """Whether a string is empty: values of the pair never are."""
    because = NOTHING.union(*(text.because for text in texts))
    truths = {not empty if t.shortest else empty if t.literal == "" else None for t in texts}
    return _same(truths or {None}, _deps(texts) | because)


_DIGITS = 9
_NUMERIC = {
    "-eq": int.__eq__,
    "-ne": int.__ne__,
    "-lt": int.__lt__,
    "-le": int.__le__,
    "-gt": int.__gt__,
    "-ge": int.__ge__,
}


def _numbers(left: Sequence[Text], operator: str, right: Sequence[Text]) -> bool | None:
    """A comparison of two numbers that are known."""
    compare = _NUMERIC.get(operator)
    one, other = (t[0].literal or "" if len(t) == 1 else "" for t in (left, right))
    if compare is None or not all(n.isascii() and n.isdigit() and len(n) <= _DIGITS for n in (one, other)):
        return None
    return bool(compare(int(one), int(other)))


def _compared(left: Sequence[Text], operator: str, right: Sequence[Text]) -> Status:
    deps = _deps(left) | _deps(right)
    numbers = _numbers(left, operator, right)
    if numbers is not None:
        return Status(numbers)
    if operator not in _EQUAL + _UNEQUAL or not left or not right:
        return Status(None, deps)
    truths = {_equal(a, b) for a in left for b in right}
    status = _same(truths, deps)
    if operator in _UNEQUAL and status.truth is not None:
        return Status(not status.truth)
    return status


def _equal(left: Text, right: Text) -> bool | None:
    one, other = left.literal, right.literal
    if other is not None and any(c in other for c in "*?["):
        return None  # a pattern
    if one is not None and other is not None:
        return one == other
    known, unknown = (one, right) if one is not None else (other, left)
    if known is not None and unknown.shortest > len(known):
        return False
    return None
