"""Shell text -> `tree.Script`, by tree-sitter-bash. What that grammar gets wrong is put right here and nowhere else.

Seen in tree-sitter-bash 0.25: words after a redirection become its targets; what follows a here-document's mark on its
line hangs under the redirection; a redirection after `a && b` or `a | b` holds the whole list; `--flag=$X` at the start
of a line is an assignment; `$"..."` is a dollar and a string; `$((...))` in a here-document is a command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from webhook.shell.grammar import syntax
from webhook.shell.redirections import REDIRECTS, redirect, redirected
from webhook.shell.tree import (
    AndOr,
    Arithmetic,
    Assign,
    Background,
    Case,
    Compute,
    Declare,
    For,
    Function,
    If,
    Loop,
    Node,
    Not,
    Piece,
    Pipe,
    Redirect,
    Redirected,
    Script,
    Sequence,
    Simple,
    Subshell,
    Test,
    Word,
)
from webhook.shell.words import Words

if TYPE_CHECKING:
    from tree_sitter import Node as Syntax
    from tree_sitter import Parser

_ASSIGNING = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^="})


Parse = Callable[[str], Script]


def parse(text: str, parser: Parser) -> Script:
    """The tree of a shell text; never raises on any text."""
    return _Reader(text, parser).script()


class _Reader:
    def __init__(self, text: str, parser: Parser) -> None:
        self._parser = parser
        self._root = self._syntax(text)
        self.words = Words(text, self.sequence, self._syntax)
        self._readers: dict[str, Callable[[Syntax], Node]] = {
            "command": self._command,
            "variable_assignment": self._assignments,
            "variable_assignments": self._assignments,
            "redirected_statement": partial(redirected, self),
            "declaration_command": self._declaration,
            "unset_command": self._unset,
            "test_command": self._test,
            "pipeline": self._pipeline,
            "list": self._list,
            "negated_command": lambda n: Not(self.sequence(n.named_children)),
            "subshell": lambda n: Subshell(self.sequence(n.children)),
            "compound_statement": self._compound,
            "do_group": lambda n: self.sequence(n.children),
            "if_statement": self._if,
            "while_statement": self._loop,
            "for_statement": self._for,
            "c_style_for_statement": self._count,
            "case_statement": self._case,
            "function_definition": self._function,
        }

    def _syntax(self, text: str) -> Syntax:
        return syntax(text, self._parser)

    def script(self) -> Script:
        return Script(self.sequence(self._root.children), broken=self._root.has_error)

    def sequence(self, nodes: Iterable[Syntax]) -> Sequence:
        """Statements one after the other; `&` sends the one before it to the background."""
        items: list[Node] = []
        for node in nodes:
            if node.type == "&" and items:
                items[-1] = Background(items[-1])
            elif node.is_named:
                items += self.statement(node)
        return Sequence(tuple(items))

    def statement(self, node: Syntax) -> list[Node]:
        """What one syntax node runs: nothing for comments and for what the parser didn't understand."""
        read = self._readers.get(node.type)
        return [read(node)] if read is not None else []

    # -- simple commands

    def _command(self, node: Syntax) -> Simple:
        assigns: list[Assign] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        children = [c for c in node.children if c.type == "$" or _counts(c)]
        for i, child in enumerate(children):
            if child.type == "variable_assignment" and not self._is_word(child):
                assigns.append(self._assign(child))
            elif child.type in REDIRECTS:
                extra, found = redirect(self, child)
                redirects.append(found)
                words += extra
            elif child.type == "$" and i + 1 < len(children) and children[i + 1].start_byte == child.end_byte:
                continue  # of `$"..."`, or of a parameter that `Words.word` reads
            else:
                parts = child.children if child.type == "command_name" and child.children else [child]
                self._add(assigns, words, self.words.word(*parts))
        return Simple(tuple(assigns), tuple(words), tuple(redirects))

    def _is_word(self, node: Syntax) -> bool:
        """Whether an assignment is none: `--flag=$X` at the start of a line."""
        name = node.child_by_field_name("name")
        return name is not None and name.type == "variable_name" and not self.words.raw(name).isidentifier()

    def _add(self, assigns: list[Assign], words: list[Word], found: Word) -> None:
        """Add a word to a command, or to the value of the assignment that it really belongs to."""
        value = assigns[-1].value if assigns and not words else None
        if isinstance(value, Word) and value.end >= found.start:
            whole = Word((*value.pieces, *found.pieces), value.start, found.end)
            assigns[-1] = replace(assigns[-1], value=whole)
        else:
            self.words.add(words, found)

    def _assignments(self, node: Syntax) -> Simple:
        nodes = node.children if node.type == "variable_assignments" else [node]
        found = [n for n in nodes if n.type == "variable_assignment"]
        if len(found) == 1 and self._is_word(found[0]):
            return Simple(words=(self.words.word(node),))
        return Simple(assigns=tuple(self._assign(n) for n in found))

    def _assign(self, node: Syntax) -> Assign:
        target = cast("Syntax", node.child_by_field_name("name"))
        indexed = target.type == "subscript"
        name = self.words.subscript(target)[0] if indexed else self.words.raw(target)
        append = any(child.type == "+=" for child in node.children)
        value = node.child_by_field_name("value")
        if value is None or value.is_missing:
            return Assign(name, None, append, indexed)
        if value.type == "array":
            items = [c for c in value.named_children if c.type != "comment" and not c.is_error]
            return Assign(name, tuple(self.words.several(items)), append, indexed)
        return Assign(name, self.words.word(value), append, indexed)

    def _declaration(self, node: Syntax) -> Declare:
        flags, items = "", cast("list[Assign | Word]", [])
        for child in filter(_counts, node.named_children):
            if child.type == "variable_assignment":
                items.append(self._assign(child))
            elif (text := self.words.raw(child)).startswith("-"):
                flags += text[1:]
            else:
                items.append(self.words.word(child))
        return Declare(self.words.raw(node.children[0]), flags, tuple(items))

    def _unset(self, node: Syntax) -> Simple:
        return Simple(words=tuple(self.words.word(c) for c in node.children if not c.is_error))

    # -- tests and arithmetic

    def _test(self, node: Syntax) -> Node:
        return Test(tuple(self._tokens(node.children[1:-1])))

    def _tokens(self, nodes: Iterable[Syntax]) -> Iterator[Word | str]:
        for node in (n for n in nodes if not n.is_error):
            if node.type in ("binary_expression", "unary_expression", "parenthesized_expression", "ternary_expression"):
                yield from self._tokens(node.children)
            elif node.type == "test_operator" or not node.is_named:
                yield self.words.raw(node)
            else:
                yield self.words.word(node)

    def _compound(self, node: Syntax) -> Node:
        if node.children and node.children[0].type == "((":
            return self._compute(node)
        return self.sequence(node.children)

    def _compute(self, node: Syntax) -> Compute:
        assigned: list[str] = []
        queue = list(node.children)
        while queue:
            child = queue.pop()
            queue.extend(child.children)
            if child.type == "variable_assignment" or (
                child.type == "binary_expression" and any(c.type in _ASSIGNING for c in child.children)
            ):
                target = child.children[0]
                assigned.append(self.words.raw(target))
            elif child.type in ("postfix_expression", "unary_expression") and any(
                c.type in ("++", "--") for c in child.children
            ):
                assigned += [self.words.raw(c) for c in child.named_children]
        return Compute(self.words.arithmetic(node, quoted=True), tuple(assigned))

    # -- control flow

    def _pipeline(self, node: Syntax) -> Node:
        return Pipe(tuple(self.sequence([c]) for c in node.named_children if not c.is_error))

    def _list(self, node: Syntax) -> Node:
        parts = [c for c in node.children if c.type != "comment" and not c.is_error]
        left: Node = self.sequence(parts[:1])
        for op, right in zip(parts[1::2], parts[2::2], strict=False):
            left = AndOr(left, op.type, self.sequence([right]))
        return left

    def _if(self, node: Syntax) -> If:
        arms: list[tuple[Node, Node]] = []
        otherwise: Node | None = None
        own: list[Syntax] = []
        for child in node.children:
            if child.type == "elif_clause":
                arms.append(self._arm(child.children))
            elif child.type == "else_clause":
                otherwise = self.sequence(child.children)
            else:
                own.append(child)
        return If((self._arm(own), *arms), otherwise)

    def _arm(self, nodes: list[Syntax]) -> tuple[Node, Node]:
        then = next((i for i, n in enumerate(nodes) if n.type == "then"), len(nodes))
        return self.sequence(nodes[:then]), self.sequence(nodes[then:])

    def _loop(self, node: Syntax) -> Loop:
        body = node.child_by_field_name("body")
        condition = [c for i, c in enumerate(node.children) if node.field_name_for_child(i) == "condition"]
        return Loop(self.sequence(condition), self._body(body), until=node.children[0].type == "until")

    def _body(self, node: Syntax | None) -> Node:
        return self.sequence(node.children) if node is not None else Sequence()

    def _for(self, node: Syntax) -> For:
        variable = node.child_by_field_name("variable")
        values = [c for i, c in enumerate(node.children) if node.field_name_for_child(i) == "value" and not c.is_error]
        listed = any(c.type == "in" for c in node.children)
        words = tuple(self.words.several(values)) if listed else None
        return For(self.words.raw(variable) if variable else "", words, self._body(node.child_by_field_name("body")))

    def _count(self, node: Syntax) -> For:
        close = next((i for i, c in enumerate(node.children) if c.type == "))"), 0)
        names: list[str] = []
        inside: list[Piece] = []
        for child in node.children[:close]:
            if child.is_named:
                found = self.words.arithmetic(child, quoted=True)
                own = self.words.raw(child)
                names += [*found.names, *([own] if own.isidentifier() else [])]
                inside += found.inside
        counts = Arithmetic(tuple(names), tuple(inside), quoted=True)
        return For("", (), self._body(node.child_by_field_name("body")), counts)

    def _case(self, node: Syntax) -> Case:
        value = node.child_by_field_name("value")
        arms: list[tuple[tuple[Word, ...], Node]] = []
        for item in node.named_children:
            if item.type != "case_item":
                continue
            marks = [c for i, c in enumerate(item.children) if item.field_name_for_child(i) == "value"]
            close = next((i for i, c in enumerate(item.children) if c.type == ")"), 0)
            arms.append((tuple(self.words.word(c) for c in marks), self.sequence(item.children[close + 1 :])))
        return Case(self.words.word(value) if value else Word((), 0, 0), tuple(arms))

    def _function(self, node: Syntax) -> Function:
        name = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        found = self.sequence([body]) if body is not None else Sequence()
        redirects = [redirect(self, c)[1] for c in node.children if c.type in REDIRECTS]
        body_and_output = Redirected(found, tuple(redirects)) if redirects else found
        return Function(self.words.raw(name) if name else "", body_and_output)


def _counts(node: Syntax) -> bool:
    """Whether a node is part of what runs: no comment, and understood."""
    return node.is_named and not node.is_error and node.type != "comment"
