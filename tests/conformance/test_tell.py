"""The line of a log that a person would quote."""

from __future__ import annotations

import pytest

from conformance import tell
from demo.pods import Ended

LAUNCHER = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
ValueError: Error initializing torch.distributed
E0101 failed (exitcode: 1)
Traceback (most recent call last):
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
  error_file: <N/A>
"""


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (LAUNCHER, "ValueError: Error initializing torch.distributed"),
        ("[rank0]: torch.distributed.DistBackendError: no", "torch.distributed.DistBackendError: no"),
        ("bash: line 1: uv: command not found\n", "bash: line 1: uv: command not found"),
        ("usage: x\nx: error: unrecognized arguments: --y\nbye\n", "x: error: unrecognized arguments: --y"),
        ("first\nlast\n\n", "last"),
        ("", ""),
    ],
)
def test_the_error_and_not_its_summary(log: str, line: str) -> None:
    """A launcher's report of its children's errors comes after them."""
    assert tell.error(log) == line


def test_whose_line_it_is() -> None:
    """The first pod that says something; if none does, how it ended."""
    silent, loud = Ended("a", "c", 9, 1.0, ""), Ended("b", "c", 1, 1.0, "KeyError: 'RANK'")
    assert tell.telling([silent, loud]) == "b: KeyError: 'RANK'"
    assert tell.telling([silent]) == "a: ended with code 9, and said nothing"
    assert tell.telling([]) == ""


def test_a_line_is_short() -> None:
    """It fits in a report."""
    assert len(tell.error("OSError: " + "x" * 500)) == tell.LONGEST
    assert tell.tail("a\nb\nc\n", 2) == "b\nc"
