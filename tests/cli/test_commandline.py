"""The command line as a program: options, pipes, signals, and mistakes of its own."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from leasehold.cli import app
from leasehold.cli.failures import Exit
from tests.cli.conftest import Run
from tests.cli.shapes import RUNNING, workload, workload_id, workloads
from tests.cli.standin import StandIn

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


@pytest.mark.parametrize("path", list(commands(app)), ids=" ".join)
def test_every_command_explains_itself_and_takes_the_common_options(
    leasehold: Run, path: tuple[str, ...]
) -> None:
    code, out, _ = leasehold(*path, "--help")
    assert code == 0
    assert all(option in out for option in ("-o, --output", "--profile", "--gateway"))
    assert "..." not in leasehold(*path[:-1], "--help")[1].split("Options:")[1], "a help was cut"


def test_nothing_typed_is_answered_with_help(leasehold: Run) -> None:
    code, out, _ = leasehold()
    assert (code, "Exit codes:" in out) == (Exit.USAGE, True)


@pytest.mark.parametrize("arguments", [["nonsense"], ["ps", "--nonsense"], ["apply"], ["logs"]])
def test_a_wrong_command_line_is_one_sentence(leasehold: Run, arguments: list[str]) -> None:
    code, out, err = leasehold(*arguments)
    assert (code, out) == (Exit.USAGE, "")
    assert "(USAGE)" in err
    assert "--help" in err


@pytest.mark.usefixtures("logged_in")
def test_an_option_may_stand_anywhere_and_the_later_counts(
    gateway: StandIn, leasehold: Run
) -> None:
    gateway.on("GET", "/v1/invoices", {"invoices": []})
    for arguments in (
        ["-o", "json", "invoice", "list"],
        ["invoice", "-o", "json", "list"],
        ["invoice", "list", "-o", "json"],
        ["-o", "table", "invoice", "list", "-o", "json"],
    ):
        assert json.loads(leasehold(*arguments)[1]) == {"invoices": []}
    assert leasehold("--profile", "nobody", "invoice", "list")[0] == Exit.UNAUTHENTICATED


@pytest.mark.usefixtures("logged_in")
def test_a_mistake_of_the_program_is_owned_up_to_without_a_stack(
    gateway: StandIn, leasehold: Run
) -> None:
    gateway.on("GET", "/v1/prices", {"unexpected": True})
    code, _, err = leasehold("prices")
    assert (code, "(BUG)" in err) == (Exit.BUG, True)
    assert "Traceback" not in err


@pytest.mark.usefixtures("logged_in")
def test_a_reader_that_goes_away_is_no_error(gateway: StandIn) -> None:
    many = [workload(n, "n" * 60, state=RUNNING) for n in range(500)]
    gateway.on("GET", "/v1/workloads", workloads(*many))
    with program("ps", "-o", "json") as running:
        assert running.stdout is not None
        assert running.stdout.read(1) == b"{"
        running.stdout.close()
        assert running.wait(20) == 0
        assert error_of(running) == ""


@pytest.mark.usefixtures("logged_in")
def test_interrupting_the_waiting_leaves_the_work_alone(gateway: StandIn) -> None:
    gateway.on("POST", "/v1/workloads", workload(1, state=RUNNING))
    gateway.on("GET", f"/v1/workloads/{workload_id(1)}", workload(1, state=RUNNING))
    with program("apply", "-f", str(EXAMPLES / "train.yaml"), "--wait") as running:
        assert running.stderr is not None
        assert b"RUNNING" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == Exit.INTERRUPTED
        assert "The workload goes on" in error_of(running)
    assert not [one for one in gateway.asked if one.path.endswith("/stop")]


@pytest.mark.usefixtures("logged_in")
def test_a_terminal_without_unicode_is_served_too(gateway: StandIn) -> None:
    gateway.on("GET", "/v1/workloads", workloads(workload(1, state=RUNNING)))
    with program("ps", PYTHONIOENCODING="ascii") as running:
        out, _ = running.communicate(timeout=20)
        assert (running.returncode, b"2 ? H100" in out) == (0, True)


def test_what_to_type_next_can_be_typed(home: Path, tmp_path: Path) -> None:
    """The program is named as it was called, unless the shell finds it by its name."""
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "leasehold"
    script.write_text(f"#!{sys.executable}\nfrom leasehold.cli import main\nmain()\n")
    script.chmod(0o700)
    path = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    for typed, folder, expected in (
        ("bin/leasehold", path["PATH"], "bin/leasehold"),
        (str(script), path["PATH"], "bin/leasehold"),
        ("leasehold", f"{script.parent}{os.pathsep}{path['PATH']}", "leasehold"),
    ):
        environment = {**path, "PATH": folder}
        done = subprocess.run(
            ["/bin/sh", "-c", f"{typed} ps; {typed} nonsense"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert f"next: {expected} signup NAME makes a tenant; {expected} login" in done.stderr
        assert f"next: {expected} --help" in done.stderr


def test_no_hint_takes_the_name_of_the_program_for_granted() -> None:
    names = "|".join({path[0] for path in commands(app)})
    written = re.compile(rf"\bleasehold ({names})\b")
    for path in sorted((EXAMPLES.parent / "leasehold" / "cli").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                said = node.value if "\n    " not in node.value else ""  # what is no docstring
                assert not written.search(said), f"{path.name}:{node.lineno}: use PROGRAM"


def program(*arguments: str, **environment: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "leasehold.cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
    )


def error_of(running: "subprocess.Popen[bytes]") -> str:
    assert running.stderr is not None
    return running.stderr.read().decode()
