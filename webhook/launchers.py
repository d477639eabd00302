"""What a start of a launcher says of its topology: the flags that rules A2, F1 and F2 look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook import programs
from webhook.flags import Flag, LauncherFlags, normal, written
from webhook.launched import FlagValue, LauncherStart
from webhook.shell.values import NOTHING, Opaque, Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webhook.starts import Start

_DYNAMIC = ("c10d", "etcd", "etcd-v2")
# Without a shell nobody expands these; what their authors mean is plain.
_UNEXPANDED = ("$KUBERNETES_SERVICE_HOST", "${KUBERNETES_SERVICE_HOST}")


def launcher_start(program: str, flags: LauncherFlags, backend: Text | None) -> LauncherStart:
    """A launcher's topology. `backend` is what PET_RDZV_BACKEND holds, where the pod sets it."""
    return LauncherStart(
        program,
        _flag(flags, programs.NODE_COUNT),
        _flag(flags, programs.NODE_RANK),
        _flag(flags, ("nproc_per_node", "nproc_per_machine")),
        _flag(flags, ("master_addr", "main_process_ip")),
        _is_dynamic(flags, backend),
        any(name.startswith("rdzv") for name in flags.flags),
        "standalone" in flags.flags,
    )


def _is_dynamic(flags: LauncherFlags, backend: Text | None) -> bool:
    """Whether ranks are given out at run time: a range of nodes, or a rendezvous backend that does so."""
    flag = flags.flags.get("rdzv_backend")
    name = flag.value if flag is not None else backend
    if name is not None and name.literal in _DYNAMIC:
        return True
    count = next((flags.flags[k].value for k in sorted(programs.NODE_COUNT) if k in flags.flags), None)
    return count is not None and any(":" in (part.text or "") for part in count.parts if not isinstance(part, Opaque))


def _flag(flags: LauncherFlags, names: Iterable[str]) -> FlagValue | None:
    """The value of the last of these flags."""
    found: list[Flag] = sorted(
        (flags.flags[name] for name in names if name in flags.flags), key=lambda flag: flag.first
    )
    if not found:
        return None
    value = found[-1].value
    if value is None:
        return FlagValue(None, NOTHING, None)
    literal = written(value)
    ref = value.ref
    if literal is not None and literal[0] in _UNEXPANDED:
        return FlagValue(None, frozenset({"KUBERNETES_SERVICE_HOST"}), literal[1])
    if literal is not None:
        return FlagValue(literal[0], NOTHING, literal[1])
    return FlagValue(None, NOTHING if ref is None else frozenset({ref.name}), None if ref is None else ref.span)


def is_number(flag: FlagValue | None) -> bool:
    """Whether a flag's value is a plain number that is written out."""
    text = flag.literal if flag is not None else None
    return text is not None and text.isascii() and text.isdigit()


def merged(one: LauncherStart, other: LauncherStart) -> LauncherStart:
    """Two forms of the same start: a flag is known only where both agree."""
    return LauncherStart(
        one.program,
        _agreed(one.node_count, other.node_count),
        _agreed(one.node_rank, other.node_rank),
        _agreed(one.nproc, other.nproc),
        _agreed(one.master_addr, other.master_addr),
        one.dynamic or other.dynamic,
        one.rdzv or other.rdzv,
        one.standalone or other.standalone,
    )


def _agreed(one: FlagValue | None, other: FlagValue | None) -> FlagValue | None:
    if one == other:
        return one
    feeds = (one.feeds if one else NOTHING) | (other.feeds if other else NOTHING)
    return FlagValue(None, feeds, None)


def has_hostfile(start: Start) -> bool:
    """Whether a deepspeed launcher is told its nodes."""
    return any((text.literal or "").startswith(("--hostfile", "-H")) for text in start.words)


def literal_rank(start: Start) -> bool:
    """Whether a literal `--rank R` stands among the words of a launcher's script."""
    if start.flags is None:
        return False
    words = start.words[start.flags.script :]
    for at, word in enumerate(words):
        name, sign, value = (word.literal or "").partition("=")
        if name.startswith("-") and normal(name) == "rank":
            text = value if sign else (words[at + 1].literal or "" if at + 1 < len(words) else "")
            if text.isascii() and text.isdigit():
                return True
    return False
