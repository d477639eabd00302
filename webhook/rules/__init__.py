"""The rules of the rank contract, one function each, and the list of them that `decide`, `explain` and the docs read.

A rule takes a `Case` and answers with edits; with no edits at all where it is in force already; with None where it
doesn't apply. Its docstring is its page in the docs: when, what, and from which source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook.policy import Mode, Reason
from webhook.rules import arguments, env, pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from webhook.case import Case
    from webhook.edits import Edits


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as data.

    `modes` apply it; of the rules of one `group` a container gets the first that applies; `despite` lists the troubles
    that don't keep it from being applied; `unparsed` lets it look at a shell text with a parse error.
    """

    id: str
    title: str
    apply: Callable[[Case], Edits | None]
    modes: frozenset[Mode]
    group: str = ""
    despite: frozenset[Reason] = frozenset()
    unparsed: bool = False


_AUTO = frozenset({Mode.AUTO})
_PROCESS = frozenset({Mode.AUTO, Mode.PROCESS, Mode.TORCHRUN})
_NODE = frozenset({Mode.AUTO, Mode.NODE})
_TORCHRUN = frozenset({Mode.TORCHRUN})
_EVERY = frozenset({Mode.AUTO, Mode.PROCESS, Mode.NODE, Mode.TORCHRUN})
_NO_PAIR = frozenset({Reason.ELASTIC, Reason.NO_RANK_ENV})

RULES: tuple[Rule, ...] = (
    Rule("C2", "node pair for a command that counts nodes", pair.node_contract, _NODE, "pair", unparsed=True),
    Rule("T1", "twin containers share the pod's processes", pair.twins, _PROCESS, "pair"),
    Rule("C1", "process pair and local size", pair.process_contract, _PROCESS, "pair"),
    Rule("A1", "NODE_RANK for those who spawn processes", env.node_rank, _AUTO, "pair"),
    Rule("A2", "torchrun's env under operators before 1.7", env.old_operator, _AUTO),
    Rule("E1", "PET_STANDALONE that torchrun can read", env.standalone, _EVERY, despite=_NO_PAIR),
    Rule("E2", "elastic node count with the Master", env.elastic_master, _EVERY),
    Rule("F1", "a fixed node rank becomes the pod's own", arguments.fixed_node_rank, _AUTO),
    Rule("F2", "the job's master instead of the API server", arguments.wrong_master, _AUTO),
    Rule("W1", "torchrun in front of a python script", arguments.launcher_wrap, _TORCHRUN),
)

# Looks at the pod by way of its main container, so it runs once a pod and stands beside the others.
INIT_RULE = Rule("I1", "the node pair for init containers", env.init_containers, _EVERY)

ALL_RULES: tuple[Rule, ...] = (*RULES, INIT_RULE)
