"""What must hold of the source itself, beyond what the linters know."""

from __future__ import annotations

import ast
import re
import tokenize
from pathlib import Path

import pytest

from tools.layers import core_files, core_modules

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("webhook", "certs", "trainer")
SHIPPED = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
ALL = [
    *SHIPPED,
    *(
        path
        for folder in ("bench", "conformance", "demo", "tools", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
    ),
]

LONGEST_MODULE = 300
LONGEST_FUNCTION = 60
# Who may read the environment: the webhook's settings, and what makes processes of the trainer and starts in them.
READS_ENVIRONMENT = {
    "webhook/settings.py",
    "trainer/__main__.py",
    "trainer/dist.py",
    "trainer/process.py",
    "trainer/spawn.py",
}
# The outermost edges: where an unforeseen fault becomes an answer or an exit code instead of a broken call.
CATCHES_ALL = {"webhook/app.py", "webhook/book.py", "webhook/cli.py", "webhook/mutate.py", "trainer/__main__.py"}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def each(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=name)


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@each(SHIPPED)
def test_a_module_fits_in_a_head(path: Path) -> None:
    """No module that is shipped is longer than 300 lines."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_MODULE


@each(SHIPPED)
def test_a_function_fits_on_a_screen(path: Path) -> None:
    """No function that is shipped is longer than 60 lines."""
    functions = [node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    too_long = [f.name for f in functions if (f.end_lineno or f.lineno) - f.lineno >= LONGEST_FUNCTION]
    assert not too_long


@each(SHIPPED)
def test_few_read_the_environment(path: Path) -> None:
    """Only the settings read the environment; whoever else needs a value is handed it."""
    if name(path) in READS_ENVIRONMENT:
        pytest.skip("may read the environment")
    readers = {"environ", "environb", "getenv", "getenvb"}
    attributes = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute) and node.attr in readers]
    found = [node for node in attributes if isinstance(node.value, ast.Name) and node.value.id == "os"]
    imports = [node for node in ast.walk(tree(path)) if isinstance(node, ast.ImportFrom) and node.module == "os"]
    assert not found
    assert not [alias.name for node in imports for alias in node.names if alias.name in readers]


@each(SHIPPED)
def test_only_the_outermost_edges_catch_everything(path: Path) -> None:
    """`except Exception` would hide a fault anywhere else."""
    handlers = [node for node in ast.walk(tree(path)) if isinstance(node, ast.ExceptHandler)]
    broad = [
        node.lineno for node in handlers if node.type is None or _names(node.type) & {"Exception", "BaseException"}
    ]
    assert not broad or name(path) in CATCHES_ALL


def _names(expression: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}


@each(SHIPPED)
def test_nothing_is_global(path: Path) -> None:
    """No function changes a module's names: no test has to reset anything, and two servers fit in one process."""
    assert not [node.lineno for node in ast.walk(tree(path)) if isinstance(node, ast.Global)]


@each(ALL)
def test_an_exception_to_a_rule_says_why(path: Path) -> None:
    """`noqa` and `type: ignore` name their code and carry a reason on the line."""
    with path.open("rb") as source:
        comments = [token.string for token in tokenize.tokenize(source.readline) if token.type == tokenize.COMMENT]
    silencers = [comment for comment in comments if re.search(r"#\s*(noqa|type:\s*ignore|fmt:\s*skip|pragma)", comment)]
    assert not [comment for comment in silencers if not _explained(comment)]


def _explained(comment: str) -> bool:
    if re.search(r"fmt:\s*skip|pragma", comment):
        return True
    reasoned = r"(noqa:\s*[A-Z]+\d+(,\s*[A-Z]+\d+)*|type:\s*ignore\[[a-z, -]+\])\s*(-|#|:)\s*\w.+"
    return re.search(reasoned, comment) is not None


@pytest.mark.parametrize(
    ("comment", "explained"),
    [
        ("# noqa: BLE001 - the outermost edge", True),
        ("# type: ignore[arg-type]  # the point of the test", True),
        ("# noqa", False),
        ("# noqa: BLE001", False),
        ("# type: ignore", False),
        ("# type: ignore[arg-type]", False),
    ],
)
def test_the_check_of_reasons_can_fail(comment: str, *, explained: bool) -> None:
    """A bare silencer isn't taken for an explained one."""
    assert _explained(comment) is explained


@each([ROOT / "pyproject.toml"])
def test_an_ignored_rule_says_why(path: Path) -> None:
    """Each rule that is ignored for good carries its reason on the line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    ignored = [line for line in lines if re.match(r'    "[A-Z]+\d*",', line)]
    assert ignored
    assert not [line for line in ignored if "#" not in line]


def test_the_core_is_what_the_layers_say() -> None:
    """Each module that the contract calls core is there, and its files are found."""
    missing = [module for module in core_modules() if not _exists(module)]
    assert not missing
    assert {ROOT / path for path in core_files()} <= set(SHIPPED)


def test_each_layer_from_mutate_down_is_core() -> None:
    """A new module of the core can't be forgotten in the contract that keeps it pure."""
    lines = (
        (ROOT / ".importlinter").read_text(encoding="utf-8").split("[importlinter:contract:webhook]")[1].splitlines()
    )
    layers = lines[lines.index("layers =") + 1 : lines.index("", 2)]
    below = layers[layers.index("    mutate") :]
    names = {name for line in below for name in re.findall(r"\w+", line)}
    assert {f"webhook.{name}" for name in names} <= set(core_modules())


def _exists(module: str) -> bool:
    path = ROOT.joinpath(*module.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def test_tests_can_not_be_imported_in_place_of_the_packages() -> None:
    """A tests/webhook/__init__.py would make `import webhook` mean the tests."""
    assert not list((ROOT / "tests").rglob("__init__.py"))
