"""`rankfix` as a person meets it: outputs, exit codes, and one line for each thing that's wrong."""

from __future__ import annotations

import importlib.metadata
import io
import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import jsonpatch
import pytest
import yaml

from tests.support_edges import CANARY, RECORDED, body, patch_of, pod, typo
from webhook import cli, mutate, show
from webhook.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]


def test_review_is_the_server_s_answer(run: Run, file: Any) -> None:
    """One answer a line in the order of the files, by the server's own code path."""
    one, two = file(body(uid="1"), "1.json"), file(body(typo(), uid="2", version="v1beta1"), "2.json")
    code, out, err = run("mutate", "-o", "review", one, two, one)
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["response"]["uid"] for answer in answers] == ["1", "2", "1"]
    assert answers[1]["apiVersion"] == "admission.k8s.io/v1beta1"
    assert out.splitlines()[0].encode() == mutate.respond(one.read_bytes(), Policy()).body.strip()
    assert code == cli.DENIED
    assert err.startswith(f"rankfix: {two}: denied: ")
    assert "proces" in err


@pytest.mark.skipif(not RECORDED, reason="the recorded reviews aren't in this checkout")
def test_all_recorded_reviews_in_one_process(run: Run) -> None:
    """Hundreds of files at once; the answers are the core's."""
    _, out, _ = run("mutate", "-o", "review", *RECORDED)
    expected = [mutate.respond(path.read_bytes(), Policy()).body.decode().strip() for path in RECORDED]
    assert out.splitlines() == expected


def test_patch_prints_json_patch(run: Run, file: Any) -> None:
    """A line a pod that any RFC 6902 library takes; [] where nothing changes."""
    path = file(pod())
    code, out, err = run("mutate", "-o", "patch", path, file(pod(annotations={"rankfix/mode": "off"}), "off.json"))
    first, second = (json.loads(line) for line in out.splitlines())
    after = jsonpatch.apply_patch(pod(), first)
    assert after["metadata"]["annotations"]["rankfix/status"] == "process"
    assert (code, second, err) == (0, [], "")


def test_pod_prints_the_patched_pod(run: Run, file: Any) -> None:
    """YAML, a document a pod, and nothing in it differs but what the patch changes."""
    wanted = jsonpatch.apply_patch(pod(), list(mutate.respond(body(), Policy()).patch))
    code, out, _ = run("mutate", "-o", "pod", file(pod()), file(pod(), "2.json"))
    assert list(yaml.safe_load_all(out)) == [wanted, wanted]
    assert code == 0


def test_printed_pods_can_be_read_again(run: Run, file: Any) -> None:
    """The second run changes nothing."""
    _, out, _ = run("mutate", "-o", "pod", file(pod(("ODD", "1e3"), ("DAY", "2026-01-01"), ("FACE", "\U0001f600"))))
    again = file(out, "again.yaml")
    code, out, _ = run("mutate", "-o", "patch", again)
    assert (code, json.loads(out)) == (0, [])


def test_diff_is_unified_and_plain_when_piped(run: Run, file: Any) -> None:
    """A heading, then what changes; no colours."""
    path = file(pod())
    _, out, _ = run("mutate", "-o", "diff", path)
    lines = out.splitlines()
    assert lines[0] == f"# {path} job-worker-0: process, rules C1"
    assert lines[1] == f"--- {path} job-worker-0"
    assert any(line.startswith("-") and "'1'" in line for line in lines)
    assert any(line.startswith("+") and "'4'" in line for line in lines)
    assert "\x1b" not in out


def test_diff_of_nothing_is_a_heading(run: Run, file: Any) -> None:
    """An unchanged pod says why."""
    _, out, _ = run("mutate", "-o", "diff", file(pod(annotations={"rankfix/mode": "off"})))
    assert out.count("\n") == 1
    assert "reason off" in out


def test_a_denied_pod(run: Run, file: Any) -> None:
    """Exit code 1; no patch, no pod, and the reason on stderr in each form."""
    path = file(typo())
    outputs = {form: run("mutate", "-o", form, path) for form in show.Output}
    assert {code for code, _, _ in outputs.values()} == {1}
    assert all("denied" in err and "rankfix/mode" in err for _, _, err in outputs.values())
    assert outputs[show.Output.PATCH][1] == "null\n"
    assert outputs[show.Output.POD][1] == ""
    assert outputs[show.Output.DIFF][1] == f"# {path} job-worker-0: denied\n"


def test_warnings_go_to_stderr(run: Run, file: Any) -> None:
    """In the forms that don't carry them."""
    obj = pod()
    obj["spec"]["containers"][0]["command"] = ["bash", "/workspace/run.sh"]
    path = file(obj)
    for form in ("patch", "pod", "diff"):
        assert f"rankfix: {path}: warning: " in run("mutate", "-o", form, path)[2]
    code, out, err = run("mutate", "-o", "review", path)
    assert (code, err) == (0, "")
    assert json.loads(out)["response"]["warnings"]


@pytest.mark.parametrize(
    ("flags", "rules"),
    [
        ([], []),
        (["--hidden", "process"], ["C1"]),
        (["--default-mode", "process"], ["C1"]),
        (["--default-mode", "off"], []),
    ],
)
def test_server_settings_on_the_command_line(run: Run, file: Any, flags: list[str], rules: list[str]) -> None:
    """The same settings as the server's, by the same names."""
    obj = pod()
    obj["spec"]["containers"][0]["command"] = ["bash", "/workspace/run.sh"]
    _, out, _ = run("mutate", *flags, "-o", "patch", file(obj))
    assert ('"name":"RANK"' in out) == bool(rules)


@pytest.mark.parametrize("depth", [100, 200, 400, 700, 980])
def test_deep_nesting(run: Run, file: Any, depth: int) -> None:
    """Each form says that it's too deep, or shows it; none breaks."""
    path = file(json.dumps(pod(annotations={"a": "@"})).replace('"@"', "[" * depth + "]" * depth))
    for form in show.Output:
        code, _, err = run("mutate", "-o", form, path)
        assert code == 0 or (code == 2 and "nested too deeply" in err)


def test_stdin(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` is what's piped in, and errors call it stdin."""
    for data, code in ((body(), 0), (b"{", 2)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        got, out, err = run("mutate", "-")
        assert got == code
        assert ("AdmissionReview" in out) == (code == 0)
        assert ("rankfix: stdin:1:2: bad JSON" in err) == (code == 2)


def test_the_others_go_on(run: Run, file: Any, tmp_path: Path) -> None:
    """Missing, binary, broken and wrong files are named one a line; the good ones are answered; 2 wins over 1."""
    good, denied = file(body(), "good.json"), file(body(typo()), "denied.json")
    bad = [
        (tmp_path / "missing", ": no such file or directory"),
        (tmp_path, ": is a directory"),
        (file(b"\x00\xff", "bin"), ":1:2: is binary"),
        (file('{"a": }', "a.json"), ":1:7: bad JSON"),
        (file("a: b: c", "a.yaml"), ":1:5: bad YAML"),
        (file("kind: Secret", "s.yaml"), ":1: kind Secret isn't a Pod"),
        (file("", "empty"), ": is empty"),
        (file('{"kind": "AdmissionReview"}', "r.json"), ":1: "),
    ]
    code, out, err = run("mutate", "-o", "review", good, *(path for path, _ in bad), denied, good)
    assert code == 2
    assert len(out.splitlines()) == 3
    assert [line for line in err.splitlines() if "denied" not in line] == [
        line for line in err.splitlines() if any(line.startswith(f"rankfix: {path}{said}") for path, said in bad)
    ]
    assert len(err.splitlines()) == len(bad) + 1


def test_notes_on_unquoted_values(run: Run, file: Any) -> None:
    """The place is told, the value isn't, and the pod is answered."""
    path = file("kind: Pod\nspec: {containers: [{name: a, env: [{name: X, value: 1_2}]}]}\n", "p.yaml")
    code, out, err = run("mutate", "-o", "pod", path)
    assert code == 0
    assert "value: '1_2'" in out
    assert err.startswith(f"rankfix: {path}:2:")
    assert "1_2" not in err


def test_a_fault_of_ours(run: Run, file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 70, the type and the frames, and no word of the exception (bug 47)."""

    def broken(*_: object, **__: object) -> Any:
        raise ValueError(CANARY)

    monkeypatch.setattr(show, "render", broken)
    code, _, err = run("mutate", file(body()))
    assert code == cli.FAULT
    assert "ValueError" in err
    assert "broken" in err
    assert CANARY not in err


def test_a_fault_in_a_decision(run: Run, file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is printed as the server would give it, the fault is told, the code is 70."""
    real = mutate.respond

    def broken(*_: object) -> Any:
        raise ValueError(CANARY)

    monkeypatch.setattr(mutate, "remembering", lambda: partial(real, decide=broken))
    code, out, err = run("mutate", "-o", "review", file(body()))
    assert code == cli.FAULT
    assert json.loads(out)["response"]["allowed"] is True
    assert patch_of(json.loads(out)) == []
    assert "ValueError" in err
    assert CANARY not in out + err


def test_no_secret_in_errors(run: Run, file: Any) -> None:
    """Bug 47: whatever is wrong with a file, its values stay in it."""
    whole = pod(("KEY", CANARY))
    denied = {**whole, "metadata": {**whole["metadata"], "annotations": {"rankfix/mode": "x"}}}
    text = json.dumps(whole)
    broken = [
        text[:-1],
        text.replace(CANARY, CANARY + "\n"),
        f"a: {CANARY}: {CANARY}",
        f"a: [{CANARY}",
        f"a: *{CANARY}",
    ]
    files = [file(content, f"{n}.yaml") for n, content in enumerate([*broken, text[:-9] + "\x01", json.dumps(denied)])]
    for form in ("review", "patch"):
        _, out, err = run("mutate", "-o", form, *files, file(body(whole), "ok.json"))
        assert CANARY not in err
        assert CANARY not in out


def test_an_unknown_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout that was never installed still runs."""

    def absent(_: str) -> str:
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "version", absent)
    assert cli.version() == "0+unknown"


def test_interrupted(run: Run, monkeypatch: pytest.MonkeyPatch, file: Any) -> None:
    """Ctrl-C is no fault."""

    def interrupted(*_: object, **__: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(mutate, "remembering", lambda: interrupted)
    assert run("mutate", file(body()))[0] == 130
