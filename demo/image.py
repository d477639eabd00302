"""What an image holds beside its programs: files, laid out in a folder of each container, and where they are then."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo import kubelet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_COMMANDS = ("/usr/local/bin", "/usr/bin", "/opt/conda/bin")
_EXECUTABLE = 0o755


def unpack(
    files: Mapping[str, str], home: Path, mounts: Mapping[str, str], translate: Callable[[str], str]
) -> dict[str, str]:
    """Write files (path -> text) below a container's folder; a relative path lies in its working folder.

    The paths in the container, and where they are on this machine: its mounts, and of each file the top folder, or the
    file itself where this machine has a folder of that name. The texts are translated, so that a script finds other
    files, volumes, and pods.
    """
    root = home / ".image"
    moved = deepest_first({**{path: str(root / path.lstrip("/")) for path in map(_moved, files) if path}, **mounts})
    for path, text in files.items():
        there = root / path.lstrip("/") if path.startswith("/") else home / path
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(kubelet.moved(translate(text), moved), encoding="utf-8")
        there.chmod(_EXECUTABLE)
    return moved


def _moved(path: str) -> str:
    """The part of a path that is replaced; nothing of a relative one."""
    if not path.startswith("/"):
        return ""
    top = "/" + path.split("/")[1]
    return path if top == path or Path(top).exists() else top


def deepest_first(paths: Mapping[str, str]) -> dict[str, str]:
    """A volume may be mounted below a folder of the image."""
    return dict(sorted(paths.items(), key=lambda pair: -len(pair[0])))


def commands(paths: Mapping[str, str]) -> Iterator[str]:
    """The folders of `paths` that a PATH would name."""
    yield from {str(Path(here).parent): None for path, here in paths.items() if path.startswith(_COMMANDS)}


def working_folder(container: Mapping[str, Any], paths: Mapping[str, str], home: Path) -> Path:
    """A container's workingDir where that is; one that isn't there becomes a folder of the container's own."""
    wanted = container.get("workingDir")
    if not wanted:
        return home
    here = Path(kubelet.moved(wanted, paths))
    there = here if here.is_dir() or here.is_relative_to(home) else home / ".image" / wanted.lstrip("/")
    there.mkdir(parents=True, exist_ok=True)
    return there
