"""Redirections of tree-sitter-bash, put where bash puts them. Most of what that grammar gets wrong is around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from webhook.shell.tree import AndOr, Declare, Node, Not, Pipe, Redirect, Redirected, Sequence, Simple, Word

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tree_sitter import Node as Syntax

    from webhook.shell.words import Words

REDIRECTS = ("file_redirect", "heredoc_redirect", "herestring_redirect")


class Reader(Protocol):
    """What reads the statements around a redirection."""

    words: Words

    def sequence(self, nodes: Iterable[Syntax]) -> Sequence:
        """Statements one after the other."""

    def statement(self, node: Syntax) -> list[Node]:
        """What one syntax node runs."""


def redirect(read: Reader, node: Syntax) -> tuple[list[Word], Redirect]:
    """A redirection, and the words of the command that the grammar took for further targets of it."""
    if node.type == "herestring_redirect":
        named = node.named_children
        return [], Redirect("<<<", body=read.words.word(named[-1]) if named else None)
    if node.type == "heredoc_redirect":
        return [], _heredoc(read, node)
    op = next((c.type for c in node.children if not c.is_named), ">")
    descriptor = "".join(read.words.raw(c) for c in node.children if c.type == "file_descriptor")
    targets = [
        read.words.word(c) for c in node.children if c.is_named and c.type != "file_descriptor" and not c.is_error
    ]
    return targets[1:], Redirect(op, targets[0] if targets else None, descriptor=descriptor)


def _heredoc(read: Reader, node: Syntax) -> Redirect:
    mark = next((read.words.raw(c) for c in node.children if c.type == "heredoc_start"), "")
    body = next((c for c in node.children if c.type == "heredoc_body"), None)
    text = read.words.verbatim if any(c in mark for c in "'\"\\") else read.words.heredoc
    return Redirect("<<", body=text(body) if body is not None else None)


def redirected(read: Reader, node: Syntax) -> Node:
    redirects: list[Redirect] = []
    extra: list[Word] = []
    follow: list[Syntax] = []
    body: Node | None = None
    for child in node.named_children:
        if child.type in REDIRECTS:
            words, found = redirect(read, child)
            redirects.append(found)
            extra += words
            if child.type == "heredoc_redirect":
                inner, further, on_line = _on_heredoc_line(read, child)
                redirects += further
                extra += inner
                follow += on_line
        else:
            body = read.sequence([child]) if body is not None else next(iter(read.statement(child)), None)
    whole = _pushed(body or Simple(), tuple(redirects), tuple(extra))
    return _followed(read, whole, follow)


def _on_heredoc_line(read: Reader, node: Syntax) -> tuple[list[Word], list[Redirect], list[Syntax]]:
    """What else stands on the line of a here-document's mark: words, redirections, `&& command`, `| command`."""
    words: list[Word] = []
    redirects: list[Redirect] = []
    follow: list[Syntax] = []
    for i, child in enumerate(node.children):
        field = node.field_name_for_child(i)
        if field == "argument" and not child.is_error:
            words.append(read.words.word(child))
        elif child.type in ("file_redirect", "herestring_redirect"):
            more, found = redirect(read, child)
            redirects.append(found)
            words += more
        elif field in ("operator", "right") or child.type == "pipeline":
            follow.append(child)
    return words, redirects, follow


def _followed(read: Reader, first: Node, follow: list[Syntax]) -> Node:
    op = "&&"
    for node in follow:
        if not node.is_named:
            op = node.type
        elif node.type == "pipeline" and node.children and node.children[0].type in ("|", "|&"):
            first = _piped(first, tuple(read.sequence([c]) for c in node.named_children))
        else:
            first = AndOr(first, op, read.sequence([node]))
    return first


def _pushed(body: Node, redirects: tuple[Redirect, ...], words: tuple[Word, ...]) -> Node:
    """A redirection where bash puts it: on the last command of a list or pipeline, with the words that follow it."""
    if isinstance(body, Simple):
        return Simple(body.assigns, body.words + words, body.redirects + redirects)
    if isinstance(body, Declare):
        return Declare(body.keyword, body.flags, body.items + words, body.redirects + redirects)
    if isinstance(body, AndOr):
        return AndOr(body.left, body.op, _pushed(body.right, redirects, words))
    if isinstance(body, Not):
        return Not(_pushed(body.item, redirects, words))
    if isinstance(body, Pipe) and body.items:
        return Pipe((*body.items[:-1], _pushed(body.items[-1], redirects, words)))
    if isinstance(body, Sequence) and len(body.items) == 1:
        return _pushed(body.items[0], redirects, words)
    return Redirected(body, redirects)


def _piped(first: Node, rest: tuple[Node, ...]) -> Node:
    return Pipe((first, *rest))
