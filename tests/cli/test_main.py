"""The command line itself: commands, help, versions, and how errors end."""

import argparse
import json
import re
import shlex
import subprocess
import sys
from itertools import dropwhile, takewhile
from pathlib import Path

import pytest

from cli.command import given_path, module_of, unreadable
from cli.commands import COMMANDS, MORE
from cli.main import parser_of
from cli.placet_configuration import placet_configuration
from tests.cli.conftest import Placet
from tests.support.builders import node, pod

ROOT = Path(__file__).parents[2]


def test_help_names_eight_commands_and_more_the_others(placet: Placet) -> None:
    done, more = placet("--help"), placet("more")
    assert (done.code, more.code) == (0, 0)
    first, others = (
        {line.split()[0] for line in each.out.splitlines() if line.strip()} & {*COMMANDS}
        for each in (done, more)
    )
    assert first == {*"how new check test explain simulate serve doctor more".split()}
    assert others == {name for of in MORE.values() for name in of} == {*COMMANDS} - first
    assert "exit codes: 0" in done.out
    assert len(done.out.splitlines()) <= 24


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(placet: Placet, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    done = placet(name, "--help")
    assert done.code == 0
    assert done.out.startswith(f"usage: placet {name}")
    assert "exit codes: 0" in done.out
    assert max(len(line) for line in done.out.splitlines() if "http://" not in line) <= 100


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_help_can_be_typed_in(placet: Placet, name: str) -> None:
    text = placet(name, "--help").out.partition("\nexamples:\n")[2].partition("\n\n")[0]
    lines = text.replace("\\\n", " ").replace('"$(', "").replace(')"', "").splitlines()
    assert lines
    for line in lines:
        args = parser_of("placet", {name}).parse_args(arguments_of(line))
        assert args.command == name


def arguments_of(line: str) -> list[str]:
    """Those of `placet` in a line for a shell, whatever stands beside it."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    after = takewhile(
        lambda word: word[0] not in "()<>|;&", dropwhile(lambda w: w != "placet", words)
    )
    return [*after][1:]


def test_help_of_the_server_has_what_people_set_and_help_all_the_rest(placet: Placet) -> None:
    short, whole = (
        set(re.findall(r"(?m)^  (?:-\w, )?(--[a-z-]+)", placet("serve", flag).out))
        for flag in ("--help", "--help-all")
    )
    every = {flag.name for flag in module_of("serve").ARGUMENTS}
    assert whole - {"--help", "--help-all"} == every
    assert len(short - {"--help", "--help-all"}) == 12
    assert short < whole
    # It is in the short form of the usage, too.
    assert "--kube-api-qps" not in placet("serve", "--help").out
    assert "there is no flag `--help-all`" in placet("check", ".", "--help-all").err


@pytest.mark.parametrize("name", COMMANDS)
def test_a_part_of_a_flag_is_no_flag(name: str) -> None:
    """A script with one would break when a flag is added."""
    command = module_of(name)
    names = {name for flag in command.ARGUMENTS for name in flag.names} | {"--help", "--help-all"}
    needed = ["1" for flag in command.ARGUMENTS if not flag.is_optional]
    for flag in names:
        for end in range(3, len(flag)):
            if (begun := flag[:end]) not in names:
                _, unknown = parser_of("placet", {name}).parse_known_args([name, *needed, begun])
                assert unknown == [begun]


def test_the_session_and_the_file_of_a_server_take_no_parts_of_flags(placet: Placet) -> None:
    with pytest.raises(SystemExit):
        placet_configuration(["--list", "127.0.0.1:1"], {})
    assert "unrecognized arguments: --portab" in placet("repl", stdin=":check --portab\n").err


@pytest.mark.parametrize("name", COMMANDS)
def test_an_empty_path_is_no_path(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """It would be the current folder, in which something may stand."""
    (commands,) = (a for a in actions(parser_of("placet", {name})) if a.dest == "command")
    assert isinstance(commands.choices, dict)
    parser: argparse.ArgumentParser = commands.choices[name]
    for action in actions(parser):
        assert action.type is not Path, "given_path makes a path of an argument"
        if action.type is given_path:
            given = [""] * (action.nargs if isinstance(action.nargs, int) else 1)
            with pytest.raises(SystemExit, match="2"):
                parser.parse_args([*action.option_strings[-1:], *given])
            assert "the path is empty" in capsys.readouterr().err


def actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    found: list[argparse.Action] = vars(parser)["_actions"]
    return found


@pytest.mark.process
def test_a_user_without_a_home_has_all_commands(folder: Path) -> None:
    """As in a container with any user ID."""
    (folder / "a.policy").write_text("cluster policy a {}", encoding="utf-8")
    nobody = "import pwd\ndef getpwuid(_): raise KeyError\npwd.getpwuid = getpwuid\n"
    program = f"{nobody}from cli.main import main\nraise SystemExit(main())"
    for words, code, said in (
        (["check", "a.policy"], 0, "1 policy in 1 file: no problems found"),
        (["repl"], 0, "2 : int"),
        (["drift"], 2, "there is no kubeconfig `~/.kube/config`"),
        (["drift", "--kubeconfig", "~nobody-here/a"], 2, "there is no kubeconfig `~nobody-here/a`"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program, *words],
            cwd=folder,
            env={"PYTHONPATH": str(ROOT)},
            input="1 + 1\n",
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done.stderr
        assert "Traceback" not in done.stderr


def test_version_is_one_line(placet: Placet) -> None:
    done = placet("--version")
    assert done.code == 0
    assert done.out.startswith("placet ")
    assert done.out.count("\n") == 1


@pytest.mark.parametrize("arguments", [(), ("frobnicate",), ("new",), ("check", "-o", "x")])
def test_wrong_usage_is_an_error(placet: Placet, arguments: tuple[str, ...]) -> None:
    done = placet(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert "usage: placet" in done.err


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("serv",), "there is no command `serv`", "a similar one exists: `serve`"),
        (
            ("frobnicate",),
            "there is no command `frobnicate`",
            "`placet --help` and `placet more` list them",
        ),
        (
            ("serve", "--demo", "--listn", "127.0.0.1:1"),
            "there is no flag `--listn`",
            "a similar one exists: `--listen`",
        ),
        (
            ("check", "a.policy", "--outptu=json"),
            "there is no flag `--outptu`",
            "a similar one exists: `--output`",
        ),
        (("check", "a.policy", "--zzz"), "there is no flag `--zzz`", "see placet check --help"),
        (("crds", "more"), "`more` is one argument too many", "see placet crds --help"),
        (
            ("check", "a.policy", "-o", "json", "-"),
            "`-` is one argument too many",
            "see placet check --help",
        ),
        (("--versoin",), "there is no flag `--versoin`", "a similar one exists: `--version`"),
    ],
    ids=str,
)
def test_a_misspelt_command_or_flag_gets_a_suggestion(
    placet: Placet, arguments: tuple[str, ...], message: str, hint: str
) -> None:
    done = placet(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("usage: placet")
    assert done.err.endswith(f"error: {message}\n  = help: {hint}\n")


@pytest.mark.process
def test_reader_that_has_enough_is_no_error(folder: Path) -> None:
    """As in `placet check … | head -1`: no traceback, whatever is still to be written."""
    (folder / "a.policy").write_text("policy a {\n" * 2000, encoding="utf-8")
    reader, writer = subprocess.PIPE, subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-m", "cli", "check", str(folder)],
        cwd=Path(__file__).parents[2],
        stdout=reader,
        stderr=writer,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (PermissionError(13, "Permission denied"), "check its permissions"),
        (FileNotFoundError(2, "No such file or directory"), "check the path"),
    ],
)
def test_rights_that_lack_are_the_hint_of_a_file(error: OSError, hint: str) -> None:
    assert unreadable("a", error, "check the path").hint == hint


@pytest.mark.process
def test_a_reader_that_has_enough_of_a_table_is_no_error(folder: Path) -> None:
    """As in `placet explain … | head -1`: it ended with 1 in silence, as if there were findings."""
    (folder / "a.policy").write_text("policy a { for pods where true }", encoding="utf-8")
    objects = [node("n1"), pod("web", "shop")]
    snapshot = json.dumps({"kind": "List", "apiVersion": "v1", "items": objects})
    (folder / "c.json").write_text(snapshot, encoding="utf-8")
    world = ["--cluster", str(folder / "c.json"), "--policies", str(folder / "a.policy")]
    with subprocess.Popen(
        [sys.executable, "-m", "cli", "explain", "shop/web", *world],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.process
def test_check_starts_without_the_libraries_of_the_server() -> None:
    """They take longer to import than all of its own work."""
    code = "import sys, cli.commands.check; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    heavy = {"aiohttp", "asyncio", "kubernetes_asyncio", "numpy", "prompt_toolkit", "rich", "yaml"}
    assert heavy & set(done.stdout.split()) == set()


@pytest.mark.process
@pytest.mark.parametrize(
    "work",
    [
        "import cli.commands.serve, server.app, server.runtime.server_runtime",
        "from cli.main import main; main(['check', 'policies/library'])",
    ],
)
def test_who_meets_no_mistake_loads_nothing_about_mistakes(work: str) -> None:
    """Neither a server nor a check of good files."""
    code = f"import sys\n{work}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = done.stdout.split()
    assert "grammar.syntax.parser" in loaded
    assert [m for m in loaded if m.startswith(("grammar.mistakes", "policies.hints"))] == []
