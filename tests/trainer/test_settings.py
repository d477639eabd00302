"""`trainer.settings`: the command line."""

from __future__ import annotations

import pytest

from trainer import settings
from trainer.errors import LaunchError
from trainer.settings import Settings
from trainer.world import Flags

SPELLINGS = [
    (["--local_rank=1"], Flags(local_rank=1)),
    (["--local-rank", "1"], Flags(local_rank=1)),
    (["--world-size", "4", "--rank", "0"], Flags(rank=0, world_size=4)),
    (["--world_size=4", "--rank=0"], Flags(rank=0, world_size=4)),
    (["--dist-url", "env://"], Flags(init_method="env://")),
    (["--init_method=tcp://h:1"], Flags(init_method="tcp://h:1")),
    (["--nproc", "gpu"], Flags(nproc="gpu")),
    (["--nproc_per_node=2"], Flags(nproc="2")),
]


@pytest.mark.parametrize(("words", "flags"), SPELLINGS)
def test_launch_flags_as_people_spell_them(words: list[str], flags: Flags) -> None:
    """Dashes and underscores, as launchers and other scripts have them."""
    assert settings.parse(words).flags == flags


WRONG = [
    (["--rank", "x"], "'x' is not a plain number"),
    (["--rank", "-1"], "--rank"),
    (["--batch", "0"], "must be at least 1"),
    (["--target-accuracy", "99"], "0.99 for 99 %"),
    (["--target-accuracy", "0"], "must be above 0"),
    (["--download"], "--data-dir"),
    (["--model", "resnet"], "resnet"),
    (["--unknown"], "--unknown"),
    (["--local"], "--local"),
]


@pytest.mark.parametrize(("words", "said"), WRONG)
def test_mistakes_are_launch_errors(words: list[str], said: str) -> None:
    """Code 2 and one sentence, rather than argparse's exit in the middle of the program."""
    with pytest.raises(LaunchError) as caught:
        settings.parse(words)
    assert said in str(caught.value)


def test_help_names_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """What each code means is one --help away."""
    with pytest.raises(SystemExit) as caught:
        settings.parse(["--help"])
    assert caught.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    for code in (" 0 finished", " 2 arguments", " 3 data", " 4 below target", "134 peer lost", "143 stopped"):
        assert code in said


DEFAULTS = [
    ([], 60_000, Settings("convnet", 4, 256, 0.01, 1, augment=True)),
    ([], 10_000, Settings("convnet", 15, 256, 0.01, 1, augment=True)),
    ([], 100, Settings("convnet", 20, 100, 0.01, 1, augment=True)),
    (["--model", "linear"], 60_000, Settings("linear", 5, 64, 0.01, 1, augment=False)),
    (["--model", "linear", "--augment"], 60_000, Settings("linear", 5, 64, 0.01, 1, augment=True)),
    (
        ["--epochs", "2", "--batch-size", "32", "--lr", "0.5", "--seed", "9", "--no-augment"],
        60_000,
        Settings("convnet", 2, 32, 0.5, 9, augment=False),
    ),
]


@pytest.mark.parametrize(("words", "images", "expected"), DEFAULTS)
def test_what_is_left_open_depends_on_model_and_data(words: list[str], images: int, expected: Settings) -> None:
    """The linear model is the common tutorial's; a small data set gets more epochs."""
    found = settings.settle(settings.parse(words), images)
    assert found == expected
    assert settings.from_json(found.to_json()) == found
