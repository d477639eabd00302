"""`rankfix-certs` against a cluster (in memory, behind a socket): what it does, says, and ends with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from certs import __main__ as command
from certs import inspect, options
from certs.issue import CertsError
from certs.options import Options, address
from tests.support_certs import CONFIGURATION, NAMES, SECRET, Kubelet, MemoryApi, World, configuration, over_http
from tests.support_edges import REPO, body, threaded
from tests.support_tls import Volume

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLACES = ["--namespace=ml", "--service=rankfix", "--webhook-config=rankfix.example.org"]


class Seat:
    """A world behind a socket, and the command that is run on it."""

    def __init__(self, kubeconfig: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kubeconfig, self.world, self.monkeypatch = kubeconfig, world, monkeypatch

    def words(self, *argv: str) -> list[str]:
        return [*argv, *PLACES, f"--kubeconfig={self.kubeconfig}"]

    def __call__(self, *argv: str) -> int:
        self.monkeypatch.setattr(sys, "argv", ["rankfix-certs", *self.words(*argv)])
        with pytest.raises(SystemExit) as ended:
            command.main()
        return int(ended.value.code or 0)


@pytest.fixture(name="seat")
def _seat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Seat]:
    world = World()
    world.api.put(CONFIGURATION, configuration())
    with over_http(world.api, tmp_path) as kubeconfig:
        yield Seat(kubeconfig, world, monkeypatch)


def test_issue_show_and_check(seat: Seat, capfd: pytest.CaptureFixture[str]) -> None:
    """A first install from the command line, seen by the two commands that look at it."""
    assert seat("check") == 1
    assert "FAIL  the Secret isn't there: run rankfix-certs issue" in capfd.readouterr().out
    assert seat("issue") == 0
    said = capfd.readouterr().err
    assert [line.split(": ")[1] for line in said.splitlines()] == ["NewAuthority", "Publish", "NewLeaf", "Done"]
    assert seat.world.bundle() == seat.world.data("ca.crt")
    assert seat("issue", "--leaf-days=30") == 0
    capfd.readouterr()
    assert seat("show") == 0
    shown = json.loads(capfd.readouterr().out)
    assert shown["certificate"]["names"] == sorted(NAMES)
    assert list(shown["published"]) == ["pods.rankfix"]
    assert seat("check") == 0
    out = capfd.readouterr().out
    assert "FAIL" not in out
    assert "ok    caBundle of pods.rankfix: verifies the certificate" in out


def test_show_without_anything(tmp_path: Path, capfd: pytest.CaptureFixture[str], seat: Seat) -> None:
    """An empty cluster and an empty folder are facts, too."""
    for more in ([], [f"--dir={tmp_path}"]):
        assert seat("show", *more) == 0
        assert json.loads(capfd.readouterr().out)["certificate"] is None


def test_check_of_a_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str], seat: Seat) -> None:
    """Files in a folder, without a cluster; keys aren't printed."""
    assert seat("issue", f"--out={tmp_path}") == 0
    assert seat.world.api.calls == []
    assert seat("check", f"--dir={tmp_path}") == 0
    out = capfd.readouterr().out
    assert "ok    ca.crt: verifies the certificate" in out
    assert "PRIVATE" not in out


def test_a_rotation_that_cannot_end_yet(seat: Seat, capfd: pytest.CaptureFixture[str]) -> None:
    """A replica that doesn't answer is waited for until the time is up: code 1, and the next run goes on."""
    assert seat("issue") == 0
    named = ["--replica=127.0.0.1:1", "--settle=0"]
    assert seat("rotate", "--force", "--timeout=0", *named) == 1
    said = capfd.readouterr().err
    assert "not yet served by 127.0.0.1:1 (Connection refused)" in said
    assert len(inspect.certificates(seat.world.bundle())) == 2
    assert seat("rotate", "--timeout=5") == 0
    assert len(inspect.certificates(seat.world.bundle())) == 1


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["rotate"], "Give --service"),
        (["rotate", "--service=rankfix"], "give --namespace"),
        (["rotate", "--namespace=ml", "--replica=x"], "write HOST:PORT"),
        (["rotate", "--namespace=ml", "--service=x", "--kubeconfig=/nowhere"], "no cluster to talk to"),
        (["issue", "--out=x", "--name=a", "--trust=/nowhere"], None),
    ],
)
def test_what_cannot_be_obeyed(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    seat: Seat,
    tmp_path: Path,
    *,
    argv: list[str],
    said: str | None,
) -> None:
    """One line that says what to give."""
    monkeypatch.chdir(tmp_path)
    kubeconfig = [] if any("--kubeconfig" in word for word in argv) else [f"--kubeconfig={seat.kubeconfig}"]
    monkeypatch.setattr(sys, "argv", ["rankfix-certs", *argv, *kubeconfig])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert (ended.value.code or 0) == (2 if said else 0)
    assert said is None or said in capfd.readouterr().err


def test_trust(seat: Seat, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """--trust names a file of authorities; one without any is a mistake, and so is one that isn't there."""
    assert seat("issue", f"--out={tmp_path / 'other'}") == 0
    assert seat("issue", f"--trust={tmp_path / 'other' / 'ca.crt'}") == 0
    assert len(inspect.certificates(seat.world.bundle())) == 2
    assert seat("issue", f"--trust={tmp_path / 'other' / 'tls.key'}") == 2
    assert "no certificate in PEM" in capfd.readouterr().err
    assert seat("issue", f"--trust={tmp_path / 'none'}") == 2
    assert "No such file" in capfd.readouterr().err


def test_options_without_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod's own namespace; names of the Service before further ones; addresses in either form."""
    monkeypatch.setattr(options, "IN_POD", tmp_path / "namespace")
    with pytest.raises(CertsError, match="which namespace"):
        Options().space  # noqa: B018 - asking is what raises
    (tmp_path / "namespace").write_text("prod\n")
    assert Options().space == "prod"
    found = Options(service="r", dns_name=["more", "r"], cluster_domain="corp")
    assert found.names == ("r", "r.prod", "r.prod.svc", "r.prod.svc.corp", "more")
    assert str(address("[fd00::7]:8443")) == "[fd00::7]:8443"
    assert str(address("10.0.0.7:8443")) == "10.0.0.7:8443"


def test_a_watch_as_a_process(seat: Seat) -> None:
    """It mends while it runs, holds the Lease, ends at SIGTERM with code 0, and gives the Lease back."""
    words = seat.words("rotate", "--watch", "--interval=0.2", "--lease=rankfix-certs")
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    with subprocess.Popen(
        [sys.executable, "-m", "certs", *words], stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            until(seat.world, lambda: bool(seat.world.data("tls.crt")))
            seat.world.api.put(CONFIGURATION, configuration())
            until(seat.world, lambda: bool(seat.world.bundle()))
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
    lease = seat.world.api.objects["/apis/coordination.k8s.io/v1/namespaces/ml/leases/rankfix-certs"]
    assert lease["spec"]["holderIdentity"] == ""


def until(_world: World, good: object) -> None:
    assert callable(good)
    deadline = time.monotonic() + 60
    while not good():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_orphan_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """With --stop-when-orphaned: a server that was killed leaves nobody behind."""
    parents = iter([10, 10, 1])
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        pause = command._pause(0.01, orphan=True)
        assert [pause(), pause()] == [False, True]
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def test_bug_3_a_real_server_through_a_rotation(seat: Seat, tmp_path: Path) -> None:
    """Bug 3: CA and key are replaced while clients connect anew all the time, each with the caBundle of that moment
    (and with the one before it): no handshake fails, no call is lost.
    """
    assert seat("issue", "--ip=127.0.0.1") == 0
    folder = Volume(tmp_path / "tls")
    folder.bring_files(seat.world.data("tls.crt"), seat.world.data("tls.key"))
    kubelet, failures, calls, over = Kubelet(seat.world, folder), list[BaseException](), [0], threading.Event()
    before = seat.world.signer()
    with threaded(folder.path) as (running, _):

        def call() -> None:
            while not over.is_set():
                (folder.path / "ca.crt").write_bytes(seat.world.bundle())
                try:
                    assert running.ask("POST", "/mutate", body()).status == 200
                    calls[0] += 1
                except (OSError, AssertionError) as exc:
                    failures.append(exc)

        kubelet.start()
        caller = threading.Thread(target=call)
        caller.start()
        try:
            replica = f"--replica=127.0.0.1:{running.port}"
            assert seat("rotate", "--force", "--ip=127.0.0.1", replica, "--settle=1", "--timeout=60") == 0
        finally:
            over.set()
            caller.join()
            kubelet.over.set()
    assert failures == []
    assert calls[0] > 10
    assert inspect.certificates(seat.world.bundle()) == (seat.world.signer(),)
    assert seat.world.signer() != before


def test_bug_4_five_installs_at_once(seat: Seat) -> None:
    """Bug 4: five processes, one authority, one leaf."""
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    command_ = [sys.executable, "-m", "certs", *seat.words("issue")]
    running = [subprocess.Popen(command_, stderr=subprocess.DEVNULL, env=environment) for _ in range(5)]
    assert [process.wait(60) for process in running] == [0] * 5
    api: MemoryApi = seat.world.api
    assert len(inspect.certificates(seat.world.bundle())) == 1
    assert inspect.issued(seat.world.leaf(), by=seat.world.signer())
    assert [call for call in api.writes() if call[0] == "PUT"].count(("PUT", SECRET)) <= 5
