"""Programs that start another program given in their own arguments, and how to look through each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from webhook.shell.values import NOTHING, Literal, Text, drop, fields, head, known

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Wrapper:
    """Options that take the next word as value; how many words stand before the program; sub-commands that lead to
    it.
    """

    valued: frozenset[str] = NOTHING
    words: int = 0
    commands: tuple[str, ...] = ()
    assigns: bool = False  # NAME=value words before the program, as env takes them


def _options(text: str = "") -> frozenset[str]:
    return frozenset(text.split())


WRAPPERS: Mapping[str, Wrapper] = {
    "exec": Wrapper(_options("-a")),
    "command": Wrapper(),
    "builtin": Wrapper(),
    "time": Wrapper(_options("-f -o --format --output")),
    "coproc": Wrapper(),
    "env": Wrapper(_options("-u --unset -C --chdir -S --split-string"), assigns=True),
    "nohup": Wrapper(),
    "setsid": Wrapper(),
    "tini": Wrapper(_options("-p -e")),
    "tini-static": Wrapper(_options("-p -e")),
    "dumb-init": Wrapper(_options("-r --rewrite")),
    "catatonit": Wrapper(),
    "numactl": Wrapper(
        _options("-N -m -C -i -p -P --cpunodebind --membind --physcpubind --interleave --preferred --localalloc-node")
    ),
    "taskset": Wrapper(words=1),
    "nice": Wrapper(_options("-n --adjustment")),
    "ionice": Wrapper(_options("-c -n --class --classdata")),
    "chrt": Wrapper(words=1),
    "stdbuf": Wrapper(_options("-i -o -e --input --output --error")),
    "unbuffer": Wrapper(),
    "timeout": Wrapper(_options("-s -k --signal --kill-after"), words=1),
    "sudo": Wrapper(_options("-u -g -h -p -C -U -D -R -T --user --group --host --prompt --chdir"), assigns=True),
    "gosu": Wrapper(words=1),
    "su-exec": Wrapper(words=1),
    "chroot": Wrapper(_options("--userspec --groups"), words=1),
    "unshare": Wrapper(),
    "prlimit": Wrapper(),
    "strace": Wrapper(_options("-e -o -p -s -u -E -P")),
    "catchsegv": Wrapper(),
    "xvfb-run": Wrapper(
        _options("-n -e -f -p -s -w --server-num --error-file --auth-file --xauth-protocol --server-args --wait")
    ),
    "nsys": Wrapper(
        _options(
            "-t -o -s -b -c -d -e -f -w -x -y -p -g -n --trace --output --sample --backtrace --capture-range "
            "--capture-range-end --delay --duration --env-var --force-overwrite --show-output --stop-on-exit --kill "
            "--gpu-metrics-device --gpu-metrics-devices --gpu-metrics-frequency --cudabacktrace --cuda-memory-usage "
            "--cuda-graph-trace --export --stats --sampling-period --samples-per-backtrace --cpuctxsw "
            "--nvtx-capture --python-sampling --python-sampling-frequency --python-backtrace --pytorch "
            "--session-new --session --wait --nic-metrics --osrt-threshold --run-as --command-file"
        ),
        commands=("profile", "launch", "start"),
    ),
    "ncu": Wrapper(
        _options(
            "-o -k -c -s -f --export --kernel-name --launch-count --launch-skip --set --section --metrics "
            "--target-processes --mode"
        )
    ),
    "rocprof": Wrapper(_options("-i -o -d --input --output")),
    "perf": Wrapper(_options("-e -o -F -g -p"), commands=("record", "stat")),
    "py-spy": Wrapper(_options("-o -d -r -f --output --duration --rate --format"), commands=("record", "top")),
    "conda": Wrapper(_options("-n -p --name --prefix --cwd"), commands=("run",)),
    "mamba": Wrapper(_options("-n -p --name --prefix --cwd"), commands=("run",)),
    "micromamba": Wrapper(
        _options("-n -p -r -a -e --name --prefix --root-prefix --attach --cwd --env --label"), commands=("run",)
    ),
    "uv": Wrapper(
        _options(
            "-p -C -f -i --python --with --with-editable --with-requirements --extra --no-extra --group --no-group "
            "--only-group --env-file --directory --project --index --index-url --extra-index-url --default-index "
            "--find-links --package --refresh-package --cache-dir --config-file --link-mode --resolution "
            "--prerelease --reinstall-package --upgrade-package --no-binary-package"
        ),
        commands=("run",),
    ),
    "poetry": Wrapper(_options("-C -P --directory --project"), commands=("run",)),
    "pipenv": Wrapper(commands=("run",)),
    "pixi": Wrapper(_options("-e --environment --manifest-path"), commands=("run",)),
    "hatch": Wrapper(_options("-e --env"), commands=("run",)),
    "pdm": Wrapper(_options("-p --project"), commands=("run",)),
    "rye": Wrapper(commands=("run",)),
    "xargs": Wrapper(_options("-n -P -I -L -d -a -s -E --max-args --max-procs --replace --delimiter --arg-file")),
    "busybox": Wrapper(),
    "flock": Wrapper(_options("-w -E -c --timeout --conflict-exit-code --command"), words=1),
}


@dataclass(slots=True)
class Peeled:
    """What is left of a command once its wrappers are taken off."""

    argv: list[Text]
    assigns: list[tuple[str, Text]] = field(default_factory=list)
    unset: set[str] = field(default_factory=set)
    cleared: bool = False  # env -i
    exec_: bool = False
    fed: bool = False  # xargs: further words come from its input
    plain: bool = True  # nothing was taken off: functions and built-ins of the shell can be meant
    direct: bool = False  # command, builtin: functions are passed over
    deps: frozenset[str] = NOTHING  # the entries of the pair that the wrappers' own words depend on
    background: bool = False


def program(text: Text) -> str:
    """A program's name without its folder; empty where it isn't known."""
    name = text.literal
    if name is None and isinstance(last := text.parts[-1], Literal) and "/" in last.text:
        name = last.text  # only the folder isn't known
    return name.rstrip("/").rpartition("/")[2] if name else ""


def peel(argv: Sequence[Text], passed_over: Iterable[str] = ()) -> Peeled:
    """Take off wrappers, one after the other. Names in `passed_over` (functions of the shell) aren't wrappers."""
    out = Peeled(list(argv))
    functions = frozenset(passed_over)
    while len(out.argv) > 1:
        name = program(out.argv[0])
        wrapper = WRAPPERS.get(name)
        if wrapper is None or (out.plain and name in functions):
            break
        rest = _inside(wrapper, name, out)
        if not rest:
            break
        out.exec_ |= name == "exec"
        out.fed |= name == "xargs"
        out.background |= name == "coproc"
        out.direct |= name in ("command", "builtin")
        out.plain &= name in ("time", "command", "builtin", "coproc")
        if not out.assigns:
            out.deps |= NOTHING.union(*(text.deps for text in out.argv[: len(out.argv) - len(rest)]))
        out.argv = rest
    return out


def _inside(wrapper: Wrapper, name: str, out: Peeled) -> list[Text]:
    """The words from the wrapped program on; none if this isn't a call that runs one."""
    words = out.argv[1:]
    if wrapper.commands:
        words = _after_command(wrapper, words)
    words, options = _after_options(wrapper, words)
    if name == "command" and any(o.startswith(("-v", "-V")) for o in options):
        return []
    if name == "env":
        _env_options(options, out)
        words = [*_split_string(out.argv[1:]), *words]
    if name == "uv" and words and (words[0].literal or "").endswith(".py"):
        words = [known("python"), *words]  # uv runs a script by its own interpreter
    skip = wrapper.words
    if name == "taskset" and any(o.startswith(("-p", "--pid")) for o in options):
        return []
    words = words[skip:]
    while wrapper.assigns and words and (pair := assignment(words[0])) is not None:
        out.assigns.append(pair)
        words = words[1:]
    return words


def _after_command(wrapper: Wrapper, words: list[Text]) -> list[Text]:
    """The words after the sub-command that runs a program (`conda run`), options before it passed over."""
    words, _ = _after_options(wrapper, words)
    return words[1:] if words and words[0].literal in wrapper.commands else []


def _after_options(wrapper: Wrapper, words: list[Text]) -> tuple[list[Text], list[str]]:
    """The words after a wrapper's options, and the options (`-u NAME` as `-uNAME`)."""
    options: list[str] = []
    at = 0
    while at < len(words):
        start = head(words[at]) or words[at].literal or ""
        if not start.startswith("-") or start == "-":
            break
        at += 1
        if start == "--":
            break
        if start in wrapper.valued and at < len(words):
            start += words[at].literal or ""
            at += 1
        options.append(start)
    return words[at:], options


def _env_options(options: list[str], out: Peeled) -> None:
    for option in options:
        if option in ("-i", "-", "--ignore-environment"):
            out.cleared = True
        for flag in ("--unset=", "--unset", "-u"):
            if option.startswith(flag) and len(option) > len(flag):
                out.unset.add(option[len(flag) :])
                break


def _split_string(words: Sequence[Text]) -> list[Text]:
    """The words that `env -S "..."` splits its argument into."""
    for at, word in enumerate(words):
        for flag in ("--split-string=", "-S"):
            if head(word) == flag and at + 1 < len(words):
                return fields(words[at + 1])
            if head(word).startswith(flag) and len(head(word)) > len(flag):
                return fields(drop(word, len(flag)))
        if not head(word).startswith("-"):
            break
    return []


def assignment(word: Text) -> tuple[str, Text] | None:
    """`NAME=value` as name and value, where a word is one."""
    start = head(word)
    name, sign, _ = start.partition("=")
    if not sign or not name.isidentifier():
        return None
    return name, drop(word, len(name) + 1)
