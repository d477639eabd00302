"""The pages say what is so: links lead somewhere, generated pages are current, the first screen is true."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import jsonpatch
import pytest

from tools import contract_page
from webhook.mutate import respond
from webhook.policy import Policy

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REVIEWS = ROOT / "tests" / "data" / "reviews" / "v1.9.0"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Each relative link names a file of the repository, and an anchor that is there."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    assert [link for link in links if not _leads(page, link)] == []


def _leads(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    if not target.exists():
        return False
    headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
    return not anchor or anchor in {
        re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


def test_each_page_is_in_the_index() -> None:
    """Nobody has to know a page's name to find it."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert [
        page.name for page in (ROOT / "docs").glob("*.md") if page.name != "index.md" and f"({page.name})" not in index
    ] == []


def test_the_contract_page_is_current() -> None:
    """docs/contract.md is what `make docs` would write."""
    assert contract_page.PAGE.read_text(encoding="utf-8") == contract_page.render()


def test_the_first_screen_is_one_sentence_a_table_and_two_commands() -> None:
    """Who opens the README sees within 25 lines what it does and how to try it."""
    lines = README.splitlines()[:25]
    sentence = next(line for line in lines[1:] if line)
    assert sentence.count(". ") == 0
    assert sentence.endswith(".")
    block = "\n".join(lines).split("```")[1]
    assert [line.split()[0] for line in block.splitlines()[1:]] == ["make", ".venv/bin/rankfix"]


def rows() -> list[tuple[str, str, str]]:
    """Pod, before and after, as the README's table claims."""
    job, found = "", []
    for line in README.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and "RANK=" in cells[2]:
            job = cells[0] or job
            recorded = "torchrun-shell-n8" if "torchrun" in job else "bare-n4"
            pod = "master-0" if cells[1] == "master" else cells[1].replace(" ", "-")
            found.append((f"{recorded}-{pod}", cells[2].strip("`"), cells[3].strip("`")))
    return found


@pytest.mark.parametrize(("name", "before", "after"), rows())
def test_the_first_screens_table_is_true(name: str, before: str, after: str) -> None:
    """What the README says of a pod is what rankfix does to the recorded one."""
    body = (REVIEWS / f"{name}.json").read_bytes()
    pod = json.loads(body)["request"]["object"]
    assert pair(pod) == before
    answer = respond(body, Policy())
    assert pair(repaired(pod, json.loads(answer.body))) == after


def test_the_first_screens_table_is_read() -> None:
    """The test above has the table's four rows to look at."""
    assert len(rows()) == 4


def pair(pod: dict[str, Any]) -> str:
    env = {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0]["env"]}
    return f"RANK={env['RANK']} WORLD_SIZE={env['WORLD_SIZE']}"


def repaired(pod: dict[str, Any], review: dict[str, Any]) -> dict[str, Any]:
    patch = json.loads(base64.b64decode(review["response"]["patch"]))
    result: dict[str, Any] = jsonpatch.apply_patch(pod, patch)
    return result


def test_the_changelog_knows_the_version() -> None:
    """A version that is out has its section; what isn't out yet stands under Unreleased."""
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
