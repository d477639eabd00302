"""Local pods: real processes with an address and a name each, ended for certain."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from demo import kubelet, leftovers, net
from demo.pods import LocalPods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from demo.pods import Ended

    Start = Callable[..., LocalPods]

NAMES = ("job-master-0", "job-worker-0", "job-worker-1")


def pod(name: str, text: str, *more: str, **env: str) -> dict[str, Any]:
    """A pod with a shell for each text."""
    entries = [{"name": "MASTER_ADDR", "value": NAMES[0]}, *({"name": k, "value": v} for k, v in env.items())]
    containers = [
        {"name": f"c{at}", "command": ["sh", "-c", line], "env": entries} for at, line in enumerate((text, *more))
    ]
    return {"metadata": {"name": name}, "spec": {"containers": containers}}


@pytest.fixture(name="network", params=["loopback", "namespaces"])
def _network(request: pytest.FixtureRequest, tmp_path: Path) -> net.Network:
    if request.param == "loopback":
        return net.Loopback()
    if isinstance(net.best(tmp_path), net.Loopback):
        pytest.skip("this machine gives out no network namespaces")
    return net.Namespaces(tmp_path)


@pytest.fixture(name="local")
def _local(network: net.Network, tmp_path: Path) -> Iterator[LocalPods]:
    with LocalPods(tmp_path, network=network) as local:
        yield local


def logs(ended: list[Ended]) -> list[str]:
    return [one.log.strip() for one in ended]


def codes(ended: list[Ended]) -> list[int | None]:
    return [one.code for one in ended]


def test_pods_find_each_other(local: LocalPods) -> None:
    """Each has an address of its own, and reaches the Master by the name that the operator writes."""
    server = (
        "import os, socket; s = socket.create_server((os.environ['MASTER_ADDR'], 23456));"
        "print([s.accept()[1][0] for _ in range(2)] != [], flush=True)"
    )
    client = (
        "import os, socket, time; a = (os.environ['MASTER_ADDR'], 23456)\n"
        "for _ in range(200):\n"
        "  try: socket.create_connection(a); break\n"
        "  except OSError: time.sleep(0.05)\n"
        "print(socket.gethostbyname(a[0]), os.environ['HOSTNAME'])"
    )
    local.start([pod(name, f'exec python -c "{client if at else server}"') for at, name in enumerate(NAMES)])
    ended = local.wait(30)
    assert codes(ended) == [0, 0, 0]
    master, *workers = logs(ended)
    assert master == "True"
    (address,) = {line.split()[0] for line in workers}
    assert address.startswith(("127.0.0.", "10.77.0."))
    assert [line.split()[1] for line in workers] == list(NAMES[1:])


def test_what_kubelet_makes_of_a_container(local: LocalPods) -> None:
    """Env by order, references in words, exit codes and both streams in the log; containers of one pod share a name."""
    made = pod(NAMES[0], "echo out $(B); echo err >&2; exit 3", "echo $HOSTNAME", A="1", B="$(A)2")
    local.start([made])
    ended = local.wait(20)
    assert [(one.name, one.code) for one in ended] == [(f"{NAMES[0]}/c0", 3), (f"{NAMES[0]}/c1", 0)]
    assert logs(ended) == ["out 12\nerr", NAMES[0]]


def test_time_is_up(local: LocalPods) -> None:
    """At the limit everything ends, also what ignores signals or went into a session of its own; code None says so."""
    stubborn = "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 600' & echo up; while :; do sleep 1; done"
    local.start([pod(NAMES[0], stubborn), pod(NAMES[1], "exit 0")])
    began = time.monotonic()
    ended = local.wait(1)
    assert codes(ended) == [None, 0]
    assert logs(ended)[0] == "up"
    assert time.monotonic() - began < 15
    assert local.left == []
    assert leftovers.marked(f"{local._mark}/{NAMES[0]}") == []


def test_lines_are_heard_as_they_come(local: LocalPods) -> None:
    """Whole lines, with the pod's name; and waiting may end before all pods have."""
    heard: list[tuple[str, str]] = []
    local.start([pod(NAMES[0], "echo one; printf tw; sleep 0.3; echo o; sleep 600")])
    ended = local.wait(30, lambda name, line: heard.append((name, line)), until=lambda: len(heard) == 2)
    assert heard == [(NAMES[0], "one"), (NAMES[0], "two")]
    assert codes(ended) == [None]


def test_children_that_outlive_their_container(local: LocalPods) -> None:
    """When a pod's last container has ended, its pod is over: what it left behind ends, too."""
    local.start([pod(NAMES[0], "setsid sleep 600 & echo $!")])
    (ended,) = local.wait(20)
    assert ended.code == 0
    assert leftovers.marked(f"{local._mark}/{NAMES[0]}") == []


def test_a_pod_is_deleted_and_created_again(local: LocalPods) -> None:
    """It comes back under its name and address, while the others go on."""
    show = "echo start; exec sleep 600"
    local.start([pod(NAMES[0], "sleep 600"), pod(NAMES[1], show)])
    time.sleep(0.3)
    address = local._net.add(NAMES[1])
    assert [one.pod for one in local.delete(NAMES[1])] == [NAMES[1]]
    assert len({one.pod for one in local._running}) == 1
    assert local._net.add(NAMES[1]) == address
    local.start([pod(NAMES[1], "echo again")])
    ended = local.wait(2)
    assert [(one.pod, one.code) for one in ended] == [(NAMES[0], None), (NAMES[1], 0)]
    assert ended[1].log == "again\n"


def test_empty_volumes(local: LocalPods) -> None:
    """The containers of a pod share an emptyDir, at the path that its owner wrote; another pod has its own."""
    made = [
        pod(name, "echo $0 > /scratch-of-a-test/x; cat /scratch-of-a-test/x", MINE="/scratch-of-a-test")
        for name in NAMES
    ]
    for one in made:
        one["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {}}]
        mounts = [{"name": "v", "mountPath": "/scratch-of-a-test"}, {"name": "w", "mountPath": "/w-of-a-test"}]
        one["spec"]["containers"][0]["volumeMounts"] = [*mounts, {"name": "v", "mountPath": "/usr"}]
    local.start(made)
    assert codes(local.wait(20)) == [0, 0, 0]
    assert len(list(local.folder.glob("*.volumes/v/x"))) == 3


def test_an_image_s_entrypoint_and_environment(tmp_path: Path) -> None:
    """What images bring is the caller's to say."""
    made: dict[str, Any] = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i", "args": ["$X"]}]},
    }
    entry = {"i": ["sh", "-c", 'eval "echo $0"']}
    with LocalPods(tmp_path, network=net.Loopback(), entrypoints=entry, environment={"X": "7"}) as local:
        local.start([made])
        (ended,) = local.wait(20)
        assert ended.log == "7\n"
        with pytest.raises(kubelet.Unsupported):
            local.start([{**made, "spec": {"containers": [{"name": "c"}]}}])


def test_what_else_an_image_holds(network: net.Network, tmp_path: Path) -> None:
    """Files at their paths, executable and each container's own; a command on PATH; scripts find files and volumes."""
    files = {
        "/work-of-a-test/run.sh": "#!/bin/sh\ncat /work-of-a-test/data/x /volume-of-a-test/y; touch /work-of-a-test/z",
        "/work-of-a-test/data/x": "x\n",
        "/usr/local/bin/greet": "#!/bin/sh\necho hello $1\n",
        "beside.txt": "b\n",
    }
    made = pod(NAMES[0], "cat beside.txt; greet you; echo y > /volume-of-a-test/y; /work-of-a-test/run.sh", "ls")
    made["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    made["spec"]["containers"][0] |= {"volumeMounts": [{"name": "v", "mountPath": "/volume-of-a-test"}]}
    made["spec"]["containers"][1] |= {"workingDir": "/work-of-a-test"}
    with LocalPods(tmp_path, network=network, files=files) as local:
        local.start([made])
        first, second = local.wait(20)
    assert first.log.splitlines()[:4] == ["b", "hello you", "x", "y"]
    assert second.log.split() == ["data", "run.sh"]


def test_a_working_folder_that_no_image_has(local: LocalPods) -> None:
    """The runtime makes it; one that this machine has is a folder of the container's own, too."""
    made = pod(NAMES[0], "pwd; touch mine")
    made["spec"]["containers"][0]["workingDir"] = "/srv/of-a-test"
    local.start([made])
    (ended,) = local.wait(20)
    assert ended.log.strip().endswith("/srv/of-a-test")
    assert ended.log.startswith(str(local.folder))


def test_init_containers_run_first_where_that_is_asked_for(network: net.Network, tmp_path: Path) -> None:
    """But for the operator's own, which waits for a name server."""
    made = pod(NAMES[0], "cat /volume-of-a-test/x")
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/volume-of-a-test"}]}
    made["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    made["spec"]["containers"][0] |= mounts
    made["spec"]["initContainers"] = [
        {"name": "init-pytorch", "command": ["sh", "-c", "sleep 600"]},
        {"name": "fetch", "command": ["sh", "-c", "sleep 0.2; echo x > /volume-of-a-test/x"], **mounts},
    ]
    with LocalPods(tmp_path, network=network, inits=True) as local:
        local.start([made])
        assert local.codes() == {(NAMES[0], "fetch"): 0, (NAMES[0], "c0"): None}
        ended = local.wait(20)
    assert [(one.container, one.code, one.log) for one in ended] == [("fetch", 0, ""), ("c0", 0, "x\n")]


def test_an_error_in_the_block_ends_the_pods(tmp_path: Path) -> None:
    """Whatever happens, nothing goes on."""
    with pytest.raises(RuntimeError, match="mine"), LocalPods(tmp_path, network=net.Loopback()) as local:  # noqa: PT012 - what happens before the error matters
        local.start([pod("p", "sleep 600")])
        assert local.left
        raise RuntimeError("mine")
    assert local.left == []


def test_outside_of_its_block_it_does_nothing(tmp_path: Path) -> None:
    """A mistake in a program is told at once."""
    with pytest.raises(RuntimeError, match="context manager"):
        LocalPods(tmp_path).start([pod("p", "true")])


def test_namespaces_end_with_their_maker(tmp_path: Path) -> None:
    """Also if that is killed: the `cat` in each namespace reads the end of its input."""
    if isinstance(net.best(tmp_path), net.Loopback):
        pytest.skip("this machine gives out no network namespaces")
    program = (
        f"import pathlib, sys, time; from demo.net import Namespaces; n = Namespaces(pathlib.Path({str(tmp_path)!r}));"
        "n.__enter__(); n.add('p'); print(n._keepers['p'].pid, flush=True); time.sleep(600)"
    )
    maker = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert maker.stdout is not None
    keeper = int(maker.stdout.readline())
    maker.send_signal(signal.SIGKILL)
    maker.communicate()
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{keeper}") and time.monotonic() < deadline:  # noqa: PTH110 - a process, not a file
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{keeper}")  # noqa: PTH110 - see above


@pytest.mark.parametrize("fault", ["tool", "command"])
def test_where_there_are_no_namespaces(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback takes over, and what failed is told to whoever insists."""
    tool = tmp_path / "unshare"
    tool.write_text("#!/bin/sh\necho no >&2; exit 1\n")
    tool.chmod(0o755)
    path = str(tmp_path) if fault == "tool" else f"{tmp_path}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    assert isinstance(net.best(tmp_path), net.Loopback)
    with (
        pytest.raises(net.NoNetwork, match="isn't installed" if fault == "tool" else "unshare: "),
        net.Namespaces(tmp_path),
    ):
        pass


@pytest.mark.parametrize(
    ("text", "translated"),
    [
        ("j-master-0", "127.0.0.2"),
        ("tcp://j-master-0:23456", "tcp://127.0.0.2:23456"),
        ("j-worker-1 j-worker-10", "127.0.0.3 127.0.0.4"),
        ("my-j-master-0 j-master-0-x j-master-0x", "my-j-master-0 j-master-0-x j-master-0x"),
    ],
)
def test_names_on_loopback(text: str, translated: str) -> None:
    """Whole names become addresses, and nothing else does."""
    network = net.Loopback()
    for name in ("j-master-0", "j-worker-1", "j-worker-10"):
        network.add(name)
    assert network.translate(text) == translated
