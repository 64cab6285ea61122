"""Whether a command that a page shows is one that there is, with these options; nothing of it is run.

Rules
- In a block of a shell every ``runnerq ...`` is whole: what it needs must be there. In a sentence it may be a name.
- Words in upper case stand for something (``ID``); ``[...]`` may be left out, ``a|b`` is either, ``...`` more of it.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from runnerq.cli import main
from tests.architecture.source import ROOT
from tests.docs.pages import all_pages, blocks_of, name_of, sentences_of

SHELLS = {"", "sh", "bash", "console", "shell"}
ENDS_A_COMMAND = {"|", "||", "&&", "&", ";", ">", ">>", "<", "2>", "2>&1", "(", ")"}

_INLINE = re.compile(r"(?<!`)`((?:\$ )?(?:[A-Z_]+=\S+ )*(?:runnerq|litestar) [^`]+|make [a-z]+[^`]*)`(?!`)")
_ASSIGNED = re.compile(r"[A-Z_][A-Z0-9_]*=")


def commands_shown() -> Iterator[tuple[str, str, bool]]:
    """Where each stands, the line, and whether it stands whole."""
    for page in all_pages():
        for block in blocks_of(page):
            if block.language in SHELLS:
                yield from ((block.where, line, True) for line in _lines_of_a_shell(block.text))
        for line in _INLINE.findall(sentences_of(page)):
            yield name_of(page), " ".join(line.split()), False


def _lines_of_a_shell(text: str) -> Iterator[str]:
    lines = text.replace("\\\n", " ").splitlines()
    prompted = any(line.startswith("$ ") for line in lines)
    for line in lines:
        if line.startswith("$ ") or not prompted:
            yield line.removeprefix("$ ").strip()


def faults_of(line: str, *, whole: bool) -> list[str]:
    """What is wrong with the commands of this line that are runnerq's or make's."""
    return [fault for words in _commands(line) for fault in _faults(words, whole=whole)]


def _commands(line: str) -> Iterator[list[str]]:
    try:
        reader = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
        reader.whitespace_split = True
        words = list(reader)
    except ValueError:
        return  # a sentence, or another language: no command of ours has half a quote
    for ends, part in itertools.groupby(words, key=ENDS_A_COMMAND.__contains__):
        if not ends:
            command = list(part)
            yield command[_begins(command) :]


def _begins(words: list[str]) -> int:
    at = 0
    while at < len(words) and (_ASSIGNED.match(words[at]) or words[at] in {"time", "watch", "exec", "nohup"}):
        at += 1
    return at


def _faults(words: list[str], *, whole: bool) -> Iterator[str]:
    match words:
        case [first, *arguments] if first == "runnerq" or first.endswith("/runnerq"):
            yield from _of_ours(arguments, whole=whole)
        case [python, "-m", "runnerq", *arguments] if "python" in python:
            yield from _of_ours(arguments, whole=whole)
        case ["litestar", *arguments] if "runnerq" in arguments:
            yield from _of_ours(arguments[arguments.index("runnerq") + 1 :], whole=whole)
        case ["make", target, *_] if not _ASSIGNED.match(target) and target not in _targets():
            yield f"make {target}: there is no such target"
        case [*_, "install", package] if "[" in package and package.partition("[")[0] in {"runnerq", "."}:
            named = package.partition("[")[2].partition("]")[0]
            yield from (f"there is no extra {extra!r}" for extra in named.split(",") if extra not in _extras())
        case _:
            pass


def _of_ours(arguments: list[str], *, whole: bool) -> Iterator[str]:
    if not whole:
        arguments = [word for word in (word.strip("[]") for word in arguments) if word not in {"", "..."}]
    either = [word.split("|") if not whole else [word] for word in arguments]
    for one in itertools.product(*either):
        fault = _fault(main, list(one), whole=whole)
        if fault is not None:
            yield f"runnerq {' '.join(one)}: {fault}"


def _fault(command: click.Command, arguments: list[str], *, whole: bool) -> str | None:
    context = click.Context(command, info_name=command.name, **command.context_settings)
    try:
        while isinstance(command, click.Group):
            _, left, _ = command.make_parser(context).parse_args(arguments)
            if not left:
                return None
            below = command.get_command(context, left[0])
            if below is None:
                return f"there is no command {left[0]!r}"
            context = click.Context(below, info_name=left[0], parent=context, **below.context_settings)
            command, arguments = below, left[1:]
        given, left, _ = command.make_parser(context).parse_args(arguments)
    except click.BadOptionUsage as error:
        return error.format_message() if whole else None  # in a sentence, an option's name alone
    except click.UsageError as error:
        return error.format_message()
    if left and not context.allow_extra_args:
        return f"it takes no {left[0]!r}"
    return next((fault for option in command.get_params(context) for fault in _of(option, context, given, whole)), None)


def _of(option: click.Parameter, context: click.Context, given: dict[str, object], whole: bool) -> Iterator[str]:
    value = given.get(option.name or "")
    missing = value is None or value == () or not isinstance(value, str | tuple | list | bool | int)
    if missing:
        if whole and option.required and not {"--help", "-h"} & set(given) and not given.get("help"):
            yield f"{option.human_readable_name} is missing"
    elif isinstance(option.type, click.Choice) and not _stands_for_something(value):
        try:
            option.type_cast_value(context, value)
        except click.BadParameter as error:
            yield error.format_message()


def _stands_for_something(value: object) -> bool:
    values = value if isinstance(value, tuple | list) else (value,)
    return all(isinstance(one, str) and one.isupper() for one in values)


def _targets() -> list[str]:
    return re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def _extras() -> set[str]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = text.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    return set(re.findall(r"^([a-z-]+) = \[", table, re.MULTILINE))


def variables_of_options() -> Iterator[str]:
    """The variables of the environment that options are read from, as click makes them of their names."""
    yield from _variables(main, click.Context(main, info_name="runnerq", **main.context_settings))


def _variables(command: click.Command, context: click.Context) -> Iterator[str]:
    for option in command.get_params(context):
        yield from (option.envvar,) if isinstance(option.envvar, str) else option.envvar or ()
        if context.auto_envvar_prefix and isinstance(option, click.Option):
            yield f"{context.auto_envvar_prefix}_{option.name}".upper()
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                settings = below.context_settings
                yield from _variables(below, click.Context(below, info_name=name, parent=context, **settings))


def files_run(line: str) -> list[Path]:
    """The programs of the repository that this line runs with Python, by their paths from its folder."""
    return [
        ROOT / word
        for words in _commands(line)
        for word in words
        if re.fullmatch(r"(examples|tools|benchmarks)/[\w/]+\.py", word)
    ]
