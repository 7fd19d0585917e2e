"""The REPL in a real pseudo-terminal: typing, Tab, several lines, history, Ctrl-C and Ctrl-D."""

import stat
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.cli import shop
from tests.support.pseudo_terminal import (
    CTRL_C,
    CTRL_D,
    ENTER,
    TAB,
    UP,
    PseudoTerminal,
    terminal,
)

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]


def started(folder: Path, *arguments: str, **more: str) -> AbstractContextManager[PseudoTerminal]:
    """The REPL, which must not ask this terminal for the position of its cursor."""
    shop.write(folder)
    environment = {
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "TERM": "xterm-256color",
        "PROMPT_TOOLKIT_NO_CPR": "1",
        **more,
    }
    return terminal([sys.executable, "-m", "cli", "repl", *arguments], folder, environment)


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[PseudoTerminal]:
    with started(tmp_path, "--cluster", "cluster.json", "--policies", "shop.policy") as opened:
        opened.expect(r"placet \S+: `:help` lists the commands, Ctrl-D leaves")
        opened.expect("4 nodes and 4 pods at 2026-11-21T10:00:00Z")
        opened.expect("placet>")
        yield opened


def test_what_is_typed_is_answered_and_ctrl_d_leaves(screen: PseudoTerminal) -> None:
    screen.type(f"1 + 2{ENTER}")
    screen.expect("3 : int")
    screen.expect("placet>")
    screen.type(f":pod shop/web-1{ENTER}")
    screen.expect("shop/web-1>")
    screen.type(f":node n-1{ENTER}")
    screen.expect("shop/web-1 @ n-1>")
    screen.type(CTRL_D)
    assert screen.ends() == 0


def test_tab_completes_a_field_and_a_key_of_the_cluster(screen: PseudoTerminal) -> None:
    screen.type(f":node n-1{ENTER}")
    screen.expect("n-1>")
    screen.type(f"node.lab{TAB}")
    screen.expect("els")
    screen.type(f'["cap{TAB}')
    screen.expect('acity"')
    screen.type(f"]{ENTER}")
    screen.expect('"spot" : string')


def test_tab_lists_the_candidates_and_enter_accepts_the_chosen_one(
    screen: PseudoTerminal,
) -> None:
    screen.type(f":no{TAB}")
    screen.expect("de")
    screen.type(f" n-{TAB}")
    screen.expect("(?s)n-1.*n-2.*n-3.*n-4")
    screen.type(TAB)
    screen.type(f"{TAB}{ENTER}{ENTER}")
    screen.expect("node n-2")


def test_a_clause_can_span_several_lines(screen: PseudoTerminal) -> None:
    screen.type(f'filter "mine" {{{ENTER}')
    screen.expect(r"\.\.\.")
    screen.type(f"require node.ready{ENTER}}}{ENTER}")
    screen.expect('added filter "mine"')
    screen.expect("placet>")


def test_an_empty_line_ends_an_unfinished_text(screen: PseudoTerminal) -> None:
    screen.type(f"(1 +{ENTER}")
    screen.expect(r"\.\.\.")
    screen.type(ENTER)
    screen.expect(r"error\[P0001\]: the text ends too early")
    screen.expect("placet>")


def test_ctrl_c_drops_a_line(screen: PseudoTerminal) -> None:
    screen.type(f'filter "never" {{{ENTER}require')
    screen.expect("require")
    screen.type(CTRL_C)
    screen.expect("placet>")
    screen.type(f"2 + 2{ENTER}")
    screen.expect("4 : int")
    screen.type(f":policy{ENTER}")
    screen.expect("nothing has been typed")


def test_mistakes_have_carets_and_colour(screen: PseudoTerminal) -> None:
    screen.type(f"1 + node.nme{ENTER}")
    screen.expect(r"error\[P0102\]: Node has no field `nme`")
    screen.expect(r"\n  \|          \^\^\^ unknown field")
    assert b"\x1b[31m" in screen.raw


def test_lines_are_remembered_across_sessions(tmp_path: Path) -> None:
    with started(tmp_path) as first:
        first.expect("placet>")
        first.type(f"40 + 2{ENTER}")
        first.expect("42 : int")
        first.type(f":quit{ENTER}")
        assert first.ends() == 0
    history = tmp_path / "state" / "placet" / "repl_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    with started(tmp_path) as second:
        second.expect("placet>")
        second.type(f"{UP}{UP}{ENTER}")
        second.expect("42 : int")


def test_a_dumb_terminal_is_enough(tmp_path: Path) -> None:
    with started(tmp_path, "--cluster", "cluster.json", TERM="dumb") as screen:
        screen.expect("placet>")
        screen.type(f"(1 +{ENTER}2){ENTER}")
        screen.expect("3 : int")
        screen.expect("placet>")
        assert screen.ends(CTRL_D) == 0
        assert b"\x1b[3" not in screen.raw


def test_no_color_turns_colours_off(tmp_path: Path) -> None:
    with started(tmp_path, NO_COLOR="1") as screen:
        screen.expect("placet>")
        screen.type(f"1 + nowhere{ENTER}")
        screen.expect("unknown name `nowhere`")
        screen.expect("placet>")
        assert b"\x1b[31m" not in screen.raw
        assert b"\x1b[0;3" not in screen.raw
