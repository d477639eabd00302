"""`rankfix explain` as a person meets it: forms, exit codes, a line for each thing that's wrong, nothing too wide."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.support_jobs import CANARY, JOBS, NAMES, container, job, recorded_job, replicas
from tests.support_schema import fits
from tools import explain_schema
from webhook import cli, show_job
from webhook.explaining import Form
from webhook.operator_job import GENERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(name="run")
def _run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run `rankfix explain` in this process: exit code, stdout, stderr."""

    def run(*argv: str | Path) -> tuple[int, str, str]:
        code = cli.main(["explain", *(str(word) for word in argv)])
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return run


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Callable[..., Path]:
    """Write a file: text, or objects as YAML documents."""

    def write(*documents: object, name: str = "job.yaml") -> Path:
        path = tmp_path / name
        texts = [doc if isinstance(doc, str) else yaml.safe_dump(doc) for doc in documents]
        path.write_text("---\n".join(texts), encoding="utf-8")
        return path

    return write


def test_the_schema_is_the_documented_one() -> None:
    """docs/explain.schema.json is what `make docs` would write."""
    assert explain_schema.PAGE.read_text(encoding="utf-8") == explain_schema.text()


@pytest.mark.parametrize(
    "version", [*(pytest.param(old, marks=pytest.mark.slow) for old in ("1.3", "1.6", "1.7")), "1.9"]
)
def test_every_job_reads_well(run: Run, version: str) -> None:
    """Table, Markdown and JSON of all recorded jobs: as wide as promised, in the documented form, plain when piped."""
    masterless = [name for name in NAMES if "Master" not in recorded_job(name)["spec"]["pytorchReplicaSpecs"]]
    files = [JOBS / f"{name}.yaml" for name in NAMES if version != "1.3" or name not in masterless]
    code, out, err = run("--operator", version, *files)
    assert (code, err) == (cli.DENIED, "")  # ask-bad-n is among them
    assert max(map(len, out.splitlines())) <= show_job.WIDTH
    assert not [line for line in out.splitlines() if line != line.rstrip()]
    assert "\x1b" not in out
    assert "None" not in out
    _, out, _ = run("--operator", version, "-o", "json", *files)
    report = json.loads(out)
    fits(report, explain_schema.schema())
    assert [found["name"] for found in report["jobs"]] == [path.stem for path in files]
    _, out, _ = run("--operator", version, "-o", "markdown", *files)
    assert [line.partition(":")[0] for line in out.splitlines() if line.startswith("## ")] == [
        f"## {path.stem}" for path in files
    ]


def test_the_table_of_a_job_that_hangs(run: Run) -> None:
    """What a user sees: what becomes of the job with and without, why, and each value before and after."""
    code, out, err = run(JOBS / "bare-n4.yaml")
    assert (code, err) == (cli.DONE, "")
    assert out.splitlines() == [
        "bare-n4: repaired  (training-operator 1.9, 2 pods)",
        "  without  of ranks 0-7, 1-3 come more than once and 5-7 never",
        "  with it  ranks 0-7 of 8, each once",
        "",
        "  starts   python -m trainer --epochs 1",
        "           ~~~~~~",
        "           python: a Python program, which reads a process's RANK and WORLD_SIZE",
        "  known    k by PET_NODE_RANK; P = 2 pods by PET_NNODES; N = 4 processes a pod by nprocPerNode",
        "  rule C1  The container gets the pair, and the local size, that a process group of N processes a",
        "           pod needs.",
        "",
        "  pod       k  RANK   WORLD_SIZE  LOCAL_WORLD_SIZE  NODE_RANK  its processes",
        "  master-0  0  0      8           - → 4             - → 0      ranks 0-3 of 8",
        "  worker-0  1  1 → 4  8           - → 4             - → 1      ranks 4-7 of 8",
        "  also set PYTORCH_DIST_INIT_METHOD=tcp://$(MASTER_ADDR):$(MASTER_PORT)",
        "",
        "  advice   Its program must start its 4 processes itself. If it doesn't, torchrun can do it:",
        '               rankfix/mode: "torchrun"  in its templates\' annotations',
    ]


def test_words_that_change_and_values_that_differ(run: Run, file: Any) -> None:
    """A changed word is told once with its pods; so is a variable with a value for each pod."""
    _, out, _ = run(JOBS / "launch-seed-one-two-nodes.yaml")
    assert "words    args[4]: --node_rank=0 → --node_rank=1 (worker-0)" in out
    assert "words    args[5]: --master_addr=$(KUBERNETES_SERVICE_HOST) → --master_addr=$(MASTER_ADDR)\n" in out
    _, out, _ = run("--operator", "1.5", JOBS / "torchrun-plain.yaml")
    assert "also set PET_NODE_RANK=0 (master-0), 1 (worker-0)" in out
    text = "torchrun --nnodes=2 --node_rank=0 t.py && echo done"
    _, out, _ = run(file(job(["sh", "-c", text])))
    assert "words    command[2]: --node_rank=0 → --node_rank=1 (worker-0)" in out
    _, out, _ = run(file(job(["sh", "-c", "python t.py"], annotations={"rankfix/mode": "torchrun"})))
    assert "words    command[2]: + -m torch.distributed.run --nnodes=2 --node_rank=0" in out


def test_many_pods_make_a_short_table(run: Run, file: Any) -> None:
    """Of a hundred pods the first and the last are shown; JSON has them all."""
    path = file(job(["bash", "r.sh"], workers=99, nprocPerNode="2"))
    _, out, _ = run(path)
    assert "... 91 more" in out
    assert "worker-98" in out
    assert len(out.splitlines()) < 50
    _, out, _ = run("-o", "json", path)
    assert len(json.loads(out)["jobs"][0]["pods"]) == 100


def test_warnings_name_a_few_pods(run: Run, file: Any) -> None:
    """A warning on some of the pods says on which."""
    raw = job(["bash", "r.sh"], workers=5, nprocPerNode="2")
    raw["spec"]["pytorchReplicaSpecs"]["Master"] = replicas(container(command=["python", "t.py"]))
    _, out, _ = run(file(raw))
    assert "(worker-0, worker-1, worker-2, ...)" in " ".join(out.split())
    assert "pytorch of worker-0 to worker-4" in out
    _, out, _ = run("-o", "markdown", file(raw))
    assert "pytorch of worker-0 to worker-4 starts `bash r.sh`" in out


def test_long_commands_are_shortened_around_what_decided(run: Run, file: Any) -> None:
    """Of a script of a hundred lines, the beginning and the lines with a mark."""
    text = "\n".join(
        [*(f"echo line {n}" for n in range(50)), "torchrun --nnodes=$WORLD_SIZE t.py", "", *["echo ok"] * 50]
    )
    code, out, _ = run(file(job(["bash", "-c", text])))
    lines = [line.strip() for line in out.splitlines()]
    assert code == cli.DONE
    assert lines.count("...") == 2
    assert "echo line 0" in out and "echo line 30" not in out  # noqa: PT018 - one thought
    assert lines[lines.index("torchrun --nnodes=$WORLD_SIZE t.py") + 1] == "~~~~~~~~~~~"


def test_words_of_any_kind(run: Run, file: Any) -> None:
    """Empty words, blanks, wide characters and what a terminal would obey: visible, and the marks stand right."""
    word = "日" * 70 + "x" * 100
    code, out, _ = run(file(job(["sh", "-c", "echo 日本 \x07\t; python t.py", "", word])))
    assert code == cli.DONE
    lines = out.splitlines()
    at = next(number for number, line in enumerate(lines) if "python t.py" in line)
    assert "echo 日本 ?" in lines[at]
    assert lines[at + 1].index("~") - lines[at].index("python") == 2  # two characters of double width
    assert max(map(len, lines)) <= show_job.WIDTH
    assert "''" in out


def test_colours_on_a_terminal(file: Any) -> None:
    """On a terminal the words that decided are underlined and nothing is marked below; the text is the same."""
    mine, theirs = pty.openpty()
    environ = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    ran = subprocess.run(
        [sys.executable, "-m", "webhook", "explain", file(recorded_job("bare-n4"))],
        stdout=theirs,
        env={**environ, "TERM": "xterm-256color", "COLUMNS": "100"},
        check=False,
        timeout=60,
    )
    os.close(theirs)
    text = ""
    while "annotations" not in text:
        text += os.read(mine, 65536).decode()
    os.close(mine)
    assert ran.returncode == cli.DONE
    assert re.search(r"\x1b\[1;4mpython\x1b\[0m", text)
    assert "~~~~" not in text
    assert "with it  ranks 0-7 of 8, each once" in ANSI.sub("", text)


@pytest.mark.parametrize("form", list(Form))
def test_jobs_in_other_objects(run: Run, file: Any, form: Form) -> None:
    """A file with a Service, a List and a Katib Experiment: every job is explained, the rest passed over."""
    trial = {key: value for key, value in job(["python", "t.py"]).items() if key != "metadata"}
    experiment = {"kind": "Experiment", "metadata": {"name": "tune"}, "spec": {"trialTemplate": {"trialSpec": trial}}}
    path = file({"kind": "Service"}, {"kind": "List", "items": [job(), {"kind": "Secret"}]}, experiment)
    code, out, err = run("-o", form.value, path)
    assert (code, err) == (cli.DONE, "")
    if form is Form.JSON:
        found = json.loads(out)["jobs"]
        assert [(one["name"], one["where"], one["line"]) for one in found] == [
            ("job", "items[0]", 3),
            ("tune-xxxxx", "spec.trialTemplate.trialSpec", found[1]["line"]),
        ]
    else:
        assert "job: works without rankfix" in out
        assert "tune-xxxxx" in out


BAD: list[tuple[str, str]] = [
    ("", "job.yaml: is empty: expected a PyTorchJob (kubeflow.org/v1)"),
    ("a: [", "job.yaml:2:1: bad YAML: "),
    ("hello", "job.yaml:1: is no Kubernetes object: expected a PyTorchJob (kubeflow.org/v1)"),
    ("kind: MPIJob", "job.yaml:1: kind MPIJob isn't a PyTorchJob: mpirun gives"),
    (
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob",
        "job.yaml:1: kind TrainJob isn't a PyTorchJob: Trainer v2",
    ),
    ("kind: PyTorchJob\napiVersion: kubeflow.org/v1", "job.yaml:1: metadata.name: required"),
    (
        yaml.safe_dump(job(nprocPerNode="four")),
        'job.yaml:1: spec.nprocPerNode: "four"; allowed: "auto", "cpu", "gpu" or a whole number in quotes, such as "4"',
    ),
    (
        yaml.safe_dump({"kind": "List", "items": [job(nprocPerNode=4)]}),
        "job.yaml:1: items[0]: spec.nprocPerNode: the unquoted number 4; allowed:",
    ),
]


@pytest.mark.parametrize(("text", "said"), BAD)
def test_bad_input(run: Run, file: Any, text: str, said: str) -> None:
    """One line says where, and what was expected; exit code 2."""
    path = file(text)
    code, out, err = run(path)
    assert (code, out) == (cli.UNUSABLE, "")
    assert said in err.replace(str(path.parent) + "/", "")
    assert all(line.startswith("rankfix: ") for line in err.splitlines())


def test_unquoted_values_are_told(run: Run, file: Any) -> None:
    """What the API server would refuse is noted with its place; the job is explained all the same."""
    text = yaml.safe_dump(job(["python", "t.py"])).replace("- python", "- 3.10", 1)
    code, out, err = run(file(text))
    assert code == cli.DONE
    assert out.startswith("job: ")
    assert re.search(r"job\.yaml:\d+:\d+: an unquoted value that is no string to Kubernetes: quote it", err)


def test_what_can_be_explained_is(run: Run, file: Any, tmp_path: Path) -> None:
    """A bad document beside a good one: the good one is explained, and the exit code is 2."""
    path = file(job(), job(nprocPerNode="x"))
    code, out, err = run(path, tmp_path / "gone.yaml")
    assert code == cli.UNUSABLE
    assert out.startswith("job: ")
    assert "spec.nprocPerNode" in err
    assert "gone.yaml: no such file or directory" in err
    code, out, _ = run("-o", "json", tmp_path / "gone.yaml")
    assert (code, json.loads(out)["jobs"]) == (cli.UNUSABLE, [])


def test_refused_pods_are_exit_code_1(run: Run) -> None:
    """As `mutate` has it; the message of the Event is shown."""
    code, out, _ = run(JOBS / "ask-bad-n.yaml")
    assert code == cli.DENIED
    assert 'refused  annotation rankfix/nproc-per-node is "many"; allowed: a number' in out


@pytest.mark.parametrize("version", ["2.0", "1.4", "latest", "1.9.x"])
def test_unknown_operators(run: Run, version: str) -> None:
    """The versions that are known are listed."""
    code, _, err = run("--operator", version, JOBS / "bare-n4.yaml")
    assert code == cli.UNUSABLE
    assert ", ".join(GENERATIONS) in err


def test_stdin_and_settings(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`-` reads stdin; the server's settings can be given as for `mutate`."""
    path = tmp_path / "in"
    path.write_bytes((JOBS / "entrypoint-only.yaml").read_bytes())
    with path.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        code, out, err = run("--entrypoint", "leave", "-")
    assert (code, err) == (cli.DONE, "")
    assert out.startswith("entrypoint-only: broken, and rankfix can't repair it by itself")


@pytest.mark.parametrize("form", list(Form))
def test_no_value_of_a_user_s_env(run: Run, file: Any, form: Form) -> None:
    """In no form; whether the job is right or wrong."""
    raw = job(["python", "t.py"])
    env = [{"name": "TOKEN", "value": CANARY}, {"name": "PASSWORD", "value": CANARY}]
    raw["spec"]["pytorchReplicaSpecs"]["Master"] = replicas(container(command=["python", "t.py"], env=env))
    bad = json.loads(json.dumps(raw))
    bad["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["env"][0]["value"] = [CANARY]
    _, out, err = run("-o", form.value, file(raw, bad))
    assert out
    assert err
    assert CANARY not in out + err


def test_markdown_escapes(run: Run, file: Any) -> None:
    """Ticks and bars of a command don't break the page."""
    _, out, _ = run("-o", "markdown", file(job(["sh", "-c", "`python` t.py | tee `x`"], nprocPerNode="2")))
    assert "`` sh -c `python` t.py | tee `x` ``" in out
    table = [line for line in out.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1


def test_a_suspended_job_has_a_note(run: Run, file: Any) -> None:
    """In the table and in Markdown."""
    path = file(job(runPolicy={"suspend": True}))
    assert "note     spec.runPolicy.suspend is true" in run(path)[1]
    assert "- note: spec.runPolicy.suspend is true" in run("-o", "markdown", path)[1]
