"""The command line: `rankfix mutate` repairs files, `rankfix explain` tells of jobs, `rankfix serve` is the webhook.

Exit codes: 0 done, 1 a pod was denied, 2 something can't be read or obeyed (one line on stderr says what), 70 a fault
of rankfix itself.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from webhook import documents, explaining, logs, mutate, operator_job, serving, settings, show, show_job
from webhook.errors import BadReview, RankfixError
from webhook.options import flag, with_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from webhook.mutate import Answer
    from webhook.policy import Policy

    Respond = Callable[[bytes], Answer]

DONE, DENIED, UNUSABLE, FAULT, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 70, 130, 141

app = typer.Typer(
    name="rankfix", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


Flag = str | None  # words as typed: the settings check them, and say the same of variables and files


def version() -> str:
    """The installed version."""
    try:
        return importlib.metadata.version("rankfix")
    except importlib.metadata.PackageNotFoundError:
        return "0+unknown"


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    *,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version, and end.")] = False,
) -> None:
    """Repair RANK and WORLD_SIZE of Kubeflow PyTorchJob pods."""
    if show_version:
        _out(f"rankfix {version()}\n")
    elif context.invoked_subcommand is None:
        _out(context.get_help() + "\n")


@app.command(name="mutate")
def mutate_(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="AdmissionReviews or Pods, JSON or YAML; - is stdin.")
    ],
    output: Annotated[
        show.Output | None, typer.Option("-o", "--output", help="Default: diff on a terminal, else review.")
    ] = None,
    default_mode: Annotated[Flag, flag("default_mode")] = None,
    hidden: Annotated[Flag, flag("hidden")] = None,
    entrypoint: Annotated[Flag, flag("entrypoint")] = None,
) -> None:
    """Repair the pods in FILEs, exactly as the server would."""
    flags = {"default_mode": default_mode, "hidden": hidden, "entrypoint": entrypoint}
    policy = settings.load(flags, environ={}).settings.policy
    form = output or (show.Output.DIFF if sys.stdout.isatty() else show.Output.REVIEW)
    remembering = mutate.remembering()

    def respond(body: bytes) -> Answer:
        return remembering(body, policy)

    raise typer.Exit(max([DONE, *(code for name in files for code in _file(name, respond, form))]))


@app.command(name="serve")
@with_settings
def serve_(
    flags: dict[str, object],
    *,
    config: Annotated[Path | None, typer.Option(help="YAML file of settings; weaker than flags and RANKFIX_*.")] = None,
    print_settings: Annotated[
        bool, typer.Option("--print-settings", help="Print the settings with their sources, and end.")
    ] = False,
) -> None:
    """Serve the webhook. A setting comes from its flag, else RANKFIX_<NAME>, else the --config file."""
    loaded = settings.load(flags, config=config)
    if print_settings:
        _out(loaded.as_yaml())
        return
    serving.run(loaded.settings, version=version(), stream=sys.stderr)


@app.command(name="worker", hidden=True)
def worker_(
    *,
    slot: Annotated[int, typer.Option()],
    pulse: Annotated[int, typer.Option()],
    shared: Annotated[Path, typer.Option()],
    socket: Annotated[list[int], typer.Option()],
    again: Annotated[bool, typer.Option("--again")] = False,
) -> None:
    """One of the processes of `serve --workers`, which starts it and gives its settings by stdin."""
    loaded = settings.load({}, config=Path("/dev/stdin"), environ={})
    serving.work(
        loaded.settings,
        slot=slot,
        sockets=socket,
        pulse=pulse,
        shared=shared,
        again=again,
        version=version(),
        stream=sys.stderr,
    )


@app.command(name="explain")
def explain_(  # noqa: PLR0913 - one parameter a setting
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="PyTorchJobs in YAML or JSON, also in a List, an AppWrapper or a Katib Experiment; - is stdin.",
        ),
    ],
    operator: Annotated[
        str, typer.Option(metavar="VERSION", help="The training-operator that makes the pods.")
    ] = operator_job.NEWEST,
    output: Annotated[explaining.Form, typer.Option("-o", "--output")] = explaining.Form.TABLE,
    *,
    default_mode: Annotated[Flag, flag("default_mode")] = None,
    hidden: Annotated[Flag, flag("hidden")] = None,
    entrypoint: Annotated[Flag, flag("entrypoint")] = None,
) -> None:
    """Say what becomes of the pods of a PyTorchJob, before there are any."""
    flags = {"default_mode": default_mode, "hidden": hidden, "entrypoint": entrypoint}
    policy = settings.load(flags, environ={}).settings.policy
    made_by = explaining.operator(operator)
    told = [_explained(name, made_by, policy) for name in files]
    found = [job for one in told for job in one.jobs]
    if output is explaining.Form.TABLE and sys.stdout.isatty():
        console = Console(file=sys.stdout)
        console.width = min(console.width, show_job.WIDTH)
        show_job.show({"version": "", "jobs": found}, console)
    elif found or output is explaining.Form.JSON:
        _out(explaining.render(found, output))
    for line in (line for one in told for line in (*one.notes, *one.problems)):
        _complain(line)
    unusable = any(one.problems for one in told)
    raise typer.Exit(UNUSABLE if unusable else DENIED if any(one.refused for one in told) else DONE)


def _explained(name: str, made_by: operator_job.Generation, policy: Policy) -> explaining.Told:
    label = "stdin" if name == "-" else name
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as exc:
        return explaining.Told(problems=[f"{name}: {(exc.strerror or 'unreadable').lower()}"])
    return explaining.explain_file(data, explaining.Source(label, made_by, policy))


@app.command(name="render")
def render_(
    profile: Annotated[
        str, typer.Option(help="self-signed, cert-manager, serve, files, fail-open or policy.", metavar="PROFILE")
    ] = "self-signed",
    values: Annotated[
        list[Path] | None, typer.Option("-f", "--values", help="YAML file of the chart's values; may be repeated.")
    ] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One value, over those; may be repeated.")
    ] = None,
    name: Annotated[str, typer.Option(help="What the installation is called.")] = "rankfix",
    namespace: Annotated[str, typer.Option(help="Where it stands.")] = "rankfix-system",
) -> None:
    """Print what a cluster is given to run rankfix, for kubectl apply -f -; the same as kustomize's and Helm's."""
    from webhook.manifests import offline, render  # noqa: PLC0415 - nobody else waits for their import

    made = offline.objects(
        profile=profile, files=values or [], sets=sets or [], name=name, namespace=namespace, version=version()
    )
    _out(render.as_yaml(made))


def _file(name: str, respond: Respond, form: show.Output) -> Iterator[int]:
    """Answer everything in one file, and yield an exit code for each thing in it."""
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as exc:
        _complain(f"{name}: {(exc.strerror or 'unreadable').lower()}")
        yield UNUSABLE
        return
    label = "stdin" if name == "-" else name
    for item in documents.read(data, wrap=mutate.review_of, prefer_yaml=name.endswith((".yaml", ".yml"))):
        if isinstance(item, documents.Unreadable):
            _complain(item.at(label))
            yield UNUSABLE
        else:
            yield _review(item, label, respond, form)


def _review(review: documents.Review, name: str, respond: Respond, form: show.Output) -> int:
    for note in review.notes:
        _complain(f"{name}:{note}")
    try:
        answer = respond(review.body)
        text = show.render(answer, review.pod, form, name=name)
    except (BadReview, RecursionError) as exc:
        problem = str(exc) if isinstance(exc, BadReview) else "is nested too deeply to be shown: try -o review"
        _complain(documents.Unreadable(problem, review.line).at(name))
        return UNUSABLE
    _print(text, form)
    return _verdict(answer, name, form)


def _verdict(answer: Answer, name: str, form: show.Output) -> int:
    if form is not show.Output.REVIEW:  # which carries them itself
        for warning in answer.warnings:
            _complain(f"{name}: warning: {warning}")
    if answer.bug is not None:
        _complain(f"{name}: fault of rankfix: {_trace(answer.bug)}")
        return FAULT
    if not answer.allowed:
        _complain(f"{name}: denied: {answer.message}")
        return DENIED
    return DONE


def _print(text: str, form: show.Output) -> None:
    if form is show.Output.DIFF and sys.stdout.isatty():
        Console(file=sys.stdout, highlight=False).print(show.coloured(text), soft_wrap=True, end="")
    else:
        _out(text)


def _out(text: str) -> None:
    # Past the text layer: what a pod says is UTF-8, whatever this terminal's locale
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()


def _complain(message: str) -> None:
    for line in message.splitlines() or [""]:
        sys.stderr.write(f"rankfix: {line}\n")


def _trace(exc: BaseException) -> str:
    # Never the exception's message, which may quote an env value
    seen = logs.describe(exc)
    return " < ".join([str(seen["exception"]), *reversed(logs.frames(exc))])


def _open_streams() -> None:
    for name in ("stdout", "stderr"):  # None if the caller closed them, and a socket might get their number
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - as long as the process


def _drop_output() -> None:
    # Whoever read it is gone, or the disk is full: the interpreter mustn't try once more at its end
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; nothing but a code gets out of here."""
    _open_streams()
    try:
        code = app(args=None if argv is None else list(argv), prog_name="rankfix", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except OSError as exc:
        _drop_output()
        _complain(f"{exc.filename or 'output'}: {(exc.strerror or 'failed').lower()}")
        return UNUSABLE
    except RankfixError as exc:
        _complain(str(exc))
        return UNUSABLE
    except Exception as exc:  # noqa: BLE001 - the outermost edge: a traceback would show values of pods
        usage = getattr(exc, "format_message", None)  # typer's own errors, whose class moved between its versions
        _complain(f"{usage()} (see --help)" if usage else f"fault of rankfix: {_trace(exc)}")
        return UNUSABLE if usage else FAULT
    return code if isinstance(code, int) else DONE
