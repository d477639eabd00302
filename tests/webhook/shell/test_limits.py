"""Texts that are too much: given up in bounded time, and judged as a text nobody can read."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhook.launch import Classifier, Launch, LaunchClass, classify

TOO_MUCH = {
    "deep substitutions": "echo " + "$(echo " * 3000 + ")" * 3000,
    "deep groups": "{ " * 5000 + "python t.py" + "; }" * 5000,
    "a function that calls itself": "f() { f; f; }; f",
    "nested loops": "for a in 1 2 3 4 5 6 7 8 9; do " * 6 + "python t.py" + "; done" * 6,
    "shells in shells": 'X=\'eval "$X"\'; eval "$X"',
}


@pytest.mark.parametrize("text", TOO_MUCH.values(), ids=TOO_MUCH.keys())
def test_a_text_that_is_too_much_is_given_up(text: str) -> None:
    """No rule but what outlives a parse error is applied to a text that isn't followed to its end."""
    launch = classify({"command": ["bash", "-c", text]})
    assert launch == Launch(LaunchClass.HIDDEN, parse_error=True)


@pytest.mark.parametrize(
    "container",
    [
        {},
        {"command": None, "args": None, "env": None},
        {"command": "python", "args": {"a": 1}, "env": {"name": "RANK"}},
        {
            "command": [None, 3, ["x"]],
            "args": [{}],
            "env": [None, 3, {"name": 3}, {"value": "x"}, {"name": "A", "value": 3}],
        },
        {"command": [""], "args": ["", ""]},
        {"command": ["bash", "-c", "\ud800 $RANK \x00"], "env": [{"name": "\udfff", "value": "\ud800"}]},
        {"command": ["bash", "-c"]},
        {"command": ["env"]},
        {"command": ["$(RANK)"], "env": [{"name": "RANK", "value": "1"}]},
    ],
)
def test_any_json_is_judged(container: dict[str, object]) -> None:
    """Whatever stands in a container, there is a judgement, and the remembering judge agrees."""
    assert Classifier()(container) == classify(container)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.text(alphabet=st.sampled_from(list("ab$(){}[]'\"`\\ \n;&|<>#!=-RANKWORLD_SIZE:+*?0\u00e9\U000f0000"))),
        max_size=4,
    )
)
def test_any_text_is_judged(words: list[str]) -> None:
    """No text makes the evaluator fail."""
    env = [{"name": "RANK", "value": "1"}, {"name": "WORLD_SIZE", "value": "8"}]
    for command in (words, ["bash", "-c", *words], ["sh", "-ec", " ".join(words)]):
        assert isinstance(classify({"command": command, "env": env}).cls, LaunchClass)


def test_the_remembering_judge_forgets_the_longest_unused() -> None:
    """At most so many texts are kept, and a very long one isn't kept at all."""
    judge = Classifier(most=2)
    for name in ("a", "b", "a", "c", "a", "b"):
        judge({"command": ["python", name]})
    assert (judge.hits, judge.misses) == (2, 4)
    long = {"command": ["python", "x" * 100_000]}
    assert judge(long) == judge(long) == classify(long)
    assert (judge.hits, judge.misses) == (2, 4)


def test_the_remembering_judge_looks_at_the_env_that_matters() -> None:
    """A text is judged anew where a name that it asks for has another value, and only there."""
    judge = Classifier()
    command = ["bash", "-c", "if [ $MODE = many ]; then torchrun t.py; else python t.py; fi"]
    for mode, other, rank in (("many", "1", "0"), ("many", "2", "1"), ("one", "3", "2"), ("one", "4", "3")):
        env = [{"name": "MODE", "value": mode}, {"name": "OTHER", "value": other}, {"name": "RANK", "value": rank}]
        wanted = LaunchClass.LAUNCHER if mode == "many" else LaunchClass.PYTHON
        assert judge({"command": command, "env": env}).cls is wanted
    assert (judge.hits, judge.misses) == (2, 2)


def test_what_differs_between_the_pods_of_a_job_is_never_relied_on() -> None:
    """Master and workers of a job are judged alike, whatever their node rank and their master's address look like."""
    command = [
        "bash",
        "-c",
        'if [ "$PET_NODE_RANK" = 0 ] || [ $MASTER_ADDR = localhost ]; then python t.py; else ./x.sh; fi',
    ]
    found = []
    for rank, address in (("0", "localhost"), ("1", "job-master-0")):
        env = [{"name": "PET_NODE_RANK", "value": rank}, {"name": "MASTER_ADDR", "value": address}]
        found.append(classify({"command": command, "env": env}))
    assert found[0] == found[1]


def test_what_rankfix_adds_is_as_if_it_were_not_there() -> None:
    """A pod that comes back with our entries is judged as it was before."""
    command = ["bash", "-c", 'if [ -n "$NODE_RANK" ]; then python t.py; else ./x.sh; fi']
    added = [{"name": name, "value": "1"} for name in ("NODE_RANK", "LOCAL_WORLD_SIZE", "PYTORCH_DIST_INIT_METHOD")]
    assert classify({"command": command}) == classify({"command": command, "env": added})
