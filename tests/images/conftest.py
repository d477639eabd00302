"""The images that the tests run, built side by side as `make image` builds them; and the figures of a run."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.images import engine
from tests.images.webhook_container import Webhook, started
from tools import image

if TYPE_CHECKING:
    from collections.abc import Iterator

Figures = dict[str, str]
FIGURES = pytest.StashKey[Figures]()
REQUIRED = "IMAGE_TESTS"  # "required": an engine that doesn't come up is a failure, not a skip
Builds = dict[str, Future[image.Built]]


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FIGURES] = {}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if figures := config.stash[FIGURES]:
        terminalreporter.section("measured on the images")
        for name, value in figures.items():
            terminalreporter.write_line(f"{name}: {value}")


@pytest.fixture(scope="session", name="figures")
def _figures(request: pytest.FixtureRequest) -> Figures:
    """What is measured on the way, for the end of the run. No test judges it."""
    return request.config.stash[FIGURES]


@pytest.fixture(scope="session", name="builds")
def _builds(request: pytest.FixtureRequest) -> Iterator[Builds]:
    """The builds of the images that the chosen tests want."""
    if not engine.available():
        reason = engine.SKIP
        (pytest.fail if os.environ.get(REQUIRED) == "required" else pytest.skip)(reason)
    wanted = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    given = os.environ.get
    wish = image.Wish(given("BASE"), given("TRAINER_BASE"), given("MNIST_IDX_DIR", "none"), labels=image.labels())
    with ThreadPoolExecutor() as pool:
        yield {name: pool.submit(image.build, name, wish) for name in image.NAMES if f"{name}_image" in wanted}


def _built(builds: Builds, name: str, figures: Figures) -> str:
    made = builds[name].result()
    figures[f"image {name}"] = str(made)
    return made.tag


@pytest.fixture(scope="session", name="webhook_image")
def _webhook_image(builds: Builds, figures: Figures) -> str:
    return _built(builds, "webhook", figures)


@pytest.fixture(scope="session", name="trainer_image")
def _trainer_image(builds: Builds, figures: Figures) -> str:
    return _built(builds, "trainer", figures)


@pytest.fixture(scope="session", name="webhook")
def _webhook(webhook_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    """One webhook container for all tests that leave it running."""
    with started(webhook_image, tmp_path_factory.mktemp("webhook")) as made:
        yield made
