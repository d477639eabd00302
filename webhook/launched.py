"""What is known of how a container starts: the values that `launch.classify` gives and the rules read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webhook.shell.values import Span


class LaunchClass(StrEnum):
    """The classes of the contract's section 4, strongest first: with several starts the first one wins."""

    LAUNCHER_ENV = "launcher-env"
    READS_RANK = "reads-rank"
    HIDDEN = "hidden"
    LAUNCHER_FIXED = "launcher-fixed"
    LAUNCHER = "launcher"
    OWN_LAUNCHER = "own-launcher"
    PYTHON = "python"
    ENTRYPOINT = "entrypoint"


@dataclass(frozen=True, slots=True)
class FlagValue:
    """What a launcher's flag may be set to.

    `literal` is its text where it is written out in the pod, else None. `feeds` are the names of env entries whose
    value it may be unchanged (`RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `KUBERNETES_SERVICE_HOST`, any other name).
    `span` is where the value stands, None where no edit of it would be certain.
    """

    literal: str | None
    feeds: frozenset[str]
    span: Span | None


@dataclass(frozen=True, slots=True)
class Fed:
    """A topology flag or name fed by the operator's pair: `what` is `node_rank` or `node_count`, `source` RANK or
    WORLD_SIZE.
    """

    what: str
    name: str
    source: str
    span: Span | None


@dataclass(frozen=True, slots=True)
class LauncherStart:
    """One start of a launcher, as far as rules A2, F1 and F2 look at it (flags of the script are not here)."""

    program: str
    node_count: FlagValue | None
    node_rank: FlagValue | None
    nproc: FlagValue | None
    master_addr: FlagValue | None
    dynamic: bool  # a `:`-range, or an rdzv backend c10d or etcd by flag: ranks are given out at run time
    rdzv: bool  # any --rdzv* flag
    standalone: bool


@dataclass(frozen=True, slots=True)
class Insertion:
    """Where mode `torchrun` puts the launcher: before list item `index`, or at character `offset` of that item's shell
    text.
    """

    field: str
    index: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class Launch:
    """What is known of how one container starts."""

    cls: LaunchClass
    fed: tuple[Fed, ...] = ()
    launchers: tuple[LauncherStart, ...] = ()
    only_launchers: bool = False  # every start is a launcher
    wrap: Insertion | None = None  # the last python start, where `-m torch.distributed.run` can be put before it
    multiprocessing_distributed: bool = False  # the word --multiprocessing-distributed is on a start
    unread_file: bool = False  # a script file or unknown program after what was read
    node_count_in_sight: bool = False  # some start or name gives a node count
    deepspeed: bool = False  # `deepspeed` without a hostfile
    literal_rank: bool = False  # a literal --rank R after a launcher's script
    parse_error: bool = False  # the shell text doesn't parse; `fed` then holds only what lies outside the error
    unsets: bool = False  # RANK or WORLD_SIZE is unset and no start is fed by either: no rule at all
    evidence: tuple[Span, ...] = ()  # the words that decided the class
