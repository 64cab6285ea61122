"""The JSON of every command has the shape that is stored for it in ``shapes/``: names and types, no values.

``RUNNERQ_WRITE_SHAPES=1 pytest tests/cli/test_shapes.py`` writes what is there now: look at the difference before it is
committed, since programs read this.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from runnerq.cli import main
from tests.cli.counter import Counter
from tests.cli.shape_calls import CALLS, NO_ANSWER, Call, seeded

SHAPES = Path(__file__).parent / "shapes"
WRITES = "RUNNERQ_WRITE_SHAPES" in os.environ

Shape = Any


def shape_of(value: Any) -> Shape:
    """What a value is made of: the items of a list are taken together."""
    match value:
        case dict():
            return {name: shape_of(value[name]) for name in sorted(value)}
        case list():
            whole: Shape = None
            for item in value:
                whole = shape_of(item) if whole is None else merged(whole, shape_of(item))
            return [] if whole is None else [whole]
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case None:
            return "null"
        case _:
            raise TypeError(f"{value!r} is no JSON")


def merged(one: Shape, other: Shape) -> Shape:
    """Both."""
    if one == other:
        return one
    if isinstance(one, dict) and isinstance(other, dict):
        return {name: merged(one.get(name, "missing"), other.get(name, "missing")) for name in sorted({*one, *other})}
    if isinstance(one, list) and isinstance(other, list):
        return one + other if not one or not other else [merged(one[0], other[0])]
    either = [*(one["either"] if isinstance(one, dict) and "either" in one else [one]), other]
    return {"either": sorted({json.dumps(each, sort_keys=True): each for each in either}.values(), key=json.dumps)}


def leaves(command: click.Command, path: str = "") -> Iterator[str]:
    """The names of all commands that do something."""
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from leaves(below, f"{path} {name}".strip())
    else:
        yield path


World = tuple[Counter, dict[str, str]]


@pytest.fixture(scope="module")
def kept() -> World:
    """What no call of a command changes."""
    return seeded()


@pytest.fixture(scope="module")
def changing() -> World:
    """The same for those that do."""
    return seeded()


def called(call: Call, request: pytest.FixtureRequest, folder: Path) -> Result:
    if call.on == "postgres":
        environment = {"RUNNERQ_DSN": request.getfixturevalue("dsn")}
        return CliRunner().invoke(main, [*call.words, "-o", "json"], env=environment, catch_exceptions=False)
    world: World = request.getfixturevalue(call.on)
    counter, ids = world
    new: dict[str, Callable[[], str]] = {"fresh": counter.start, "delayed": lambda: counter.start("--delay", "1h")}
    known = {**ids, **{name: make() for name, make in new.items() if any(f"{{{name}}}" in each for each in call.words)}}
    if "{file}" in call.words:
        known["file"] = str(folder / "run.json")
        Path(known["file"]).write_text(counter.call("export", ids["done"]).stdout)
    words = [word.format(**known) if "{" in word else word for word in call.words]
    return counter.call(*words, "-o", "json")


def test_every_command_has_a_shape_or_a_reason_to_have_none() -> None:
    commands, named = set(leaves(main)), {name.partition(",")[0] for name in CALLS}
    assert commands == named | set(NO_ANSWER)
    assert not named & set(NO_ANSWER)
    if not WRITES:
        assert {path.stem for path in SHAPES.glob("*.json")} == {file_name(name) for name in CALLS}


def file_name(name: str) -> str:
    return name.replace(", ", ".").replace(" ", "_")


@pytest.mark.parametrize("name", CALLS)
def test_its_json_has_the_shape_that_is_stored(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    done = called(CALLS[name], request, tmp_path)
    assert done.exit_code == CALLS[name].code, done.output
    # What is followed is a JSON value a line; all else is one value.
    lines = done.stdout.splitlines() if done.stdout.startswith('{"') else [done.stdout]
    shape = shape_of([json.loads(line) for line in lines]) if len(lines) > 1 else shape_of(json.loads(lines[0]))
    stored = SHAPES / f"{file_name(name)}.json"
    if WRITES:
        stored.parent.mkdir(exist_ok=True)
        stored.write_text(json.dumps(shape, indent=2) + "\n")
    assert shape == json.loads(stored.read_text()), (
        f"the JSON of `runnerq {name}` has another shape than {stored.name}: programs read it. If it is meant, "
        "write it with RUNNERQ_WRITE_SHAPES=1, and say so in changes/"
    )
