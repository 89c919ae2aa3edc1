"""What the documents say is true: commands, links, files, tests, metrics, settings, events.

A document is wrong as soon as something it names is renamed, so every name in it that can be
looked up is looked up.
"""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from docs import generate_asyncapi
from docs.generate_events import PAGE, render
from gateway.http.problems import STATUSES
from leasehold.cli import app
from leasehold.launcher.ports import SERVICES, Ports
from leasehold.launcher.up import NEXT

ROOT = Path(__file__).parent.parent
README, ARCHITECTURE = ROOT / "README.md", ROOT / "ARCHITECTURE.md"
OPERATIONS, REST = ROOT / "docs" / "operations.md", ROOT / "docs" / "rest.md"
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
PAGES = [README, ARCHITECTURE, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINES_MAX = {README: 120, ARCHITECTURE: 250, PAGE: 3_000} | dict.fromkeys(DECISIONS, 60)

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(r"([\w.-]+/[\w./-]*\.(?:py|md|proto|yaml|json))(?:::(\w+))?")
SETTING = re.compile(r"\bLEASEHOLD_[A-Z][A-Z0-9_]*[A-Z0-9]\b")
METRIC = re.compile(rf"((?:leasehold|node_agent|process|{'|'.join(SERVICES)})_[a-z_]+)(?:\{{.*)?")
METRIC_MADE = re.compile(r"(Counter|Gauge|Histogram)\w*\(\s*\"([a-z_]+)\"")
OPERATION = re.compile(r"(?:GET|POST|PUT|DELETE) (/[^?]*).*")
MACHINE_PATH = re.compile(r"(?:^|[\s\"'(`=])/(?:tmp|var|usr|opt|etc|Users|mnt)/\w", re.MULTILINE)


def test_events_md_is_what_its_generator_writes() -> None:
    assert PAGE.read_text() == render(), "run: python -m docs.generate_events"


def test_asyncapi_json_is_what_its_generator_writes() -> None:
    text = generate_asyncapi.PAGE.read_text()
    assert text == generate_asyncapi.render(), "run: python -m docs.generate_asyncapi"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text()), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_and_every_test_that_is_named_exists(page: Path) -> None:
    for span in spans(page):
        match = FILE.fullmatch(span)
        if match is None or not (ROOT / match[1].partition("/")[0]).is_dir() or runtime(match[1]):
            continue
        assert (ROOT / match[1]).is_file(), span
        if match[2]:
            assert f"def {match[2]}(" in (ROOT / match[1]).read_text(), span


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_is_named_exists(page: Path) -> None:
    for span in spans(page):
        if span.startswith("leasehold "):
            command, words = found(shlex.split(span)[1:])
            known = {name for option in command.params for name in option.opts}
            assert {word for word in words if word.startswith("-")} <= known, span


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_an_example_can_be_typed(page: Path) -> None:
    for line in typed(page):
        if line.startswith("leasehold "):
            command, words = found(shlex.split(line, comments=True)[1:])
            command.make_context(command.name, words).close()
    if page == README:
        assert len([line for line in typed(page) if line.startswith("leasehold ")]) > 10


def test_every_command_is_documented() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    missing = [path for path in leaves() if not re.search(rf"leasehold {path}\b", text)]
    assert missing == []


def test_the_readme_tells_what_up_prints() -> None:
    for line in NEXT:
        assert f"leasehold {line.removesuffix(' --wait')}" in README.read_text()


def test_every_target_of_make_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for text in (*spans(page), *typed(page)):
            if match := re.match(r"make ([a-z]+)\b", text):
                assert match[1] in targets, f"{page.name}: {text}"


def test_every_metric_is_documented_and_no_other() -> None:
    made = set()
    for kind, name in METRIC_MADE.findall(sources()):
        made.add(f"{name.removesuffix('_total')}_total" if kind == "Counter" else name)
    named = {match[1] for span in spans(OPERATIONS) if (match := METRIC.fullmatch(span))}
    assert named == made


def test_every_setting_that_is_named_exists() -> None:
    code = sources()
    for page in PAGES:
        for name in SETTING.findall(page.read_text()):
            field = name.removeprefix("LEASEHOLD_").lower()
            literal = re.search(rf"\b{name}\b", code)
            assert literal or re.search(rf"^    {field}: ", code, re.MULTILINE), (page.name, name)


def test_every_operation_that_is_named_exists() -> None:
    code = "".join(path.read_text() for path in (ROOT / "gateway" / "http").glob("*.py"))
    named = [match[1] for page in PAGES for s in spans(page) if (match := OPERATION.fullmatch(s))]
    assert len(named) > 8
    assert [path for path in named if f'"{path}"' not in code] == []


def test_every_status_of_the_api_is_explained() -> None:
    rows = "\n".join(line for line in REST.read_text().splitlines() if line.startswith("|"))
    assert [status for status in STATUSES if str(status) not in rows] == []


def test_the_table_of_ports_is_the_launchers() -> None:
    listed: set[int] = set()
    for first in re.findall(r"^\| (7[\d, to]+) \|", OPERATIONS.read_text(), re.MULTILINE):
        numbers = [int(number) for number in re.findall(r"\d+", first)]
        listed |= set(range(numbers[0], numbers[1] + 1)) if "to" in first else set(numbers)
    assert listed == set(Ports(7400).wanted(nodes=2))


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_says_why_and_what_would_change_it(page: Path) -> None:
    text = page.read_text()
    assert text.startswith(f"# {page.name[:4]} · ")
    assert "**Status**: " in text
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings == ["Context", "Decision", "Consequences", "What would change our mind"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_short_and_of_no_particular_machine(page: Path) -> None:
    text = page.read_text()
    assert text.count("\n") <= LINES_MAX.get(page, 600)
    assert MACHINE_PATH.search(text) is None


def spans(page: Path) -> list[str]:
    """Inline code, also where it goes on in the next line."""
    text = FENCE.sub("", page.read_text())
    return [" ".join(span.split()) for span in SPAN.findall(text)]


def typed(page: Path) -> list[str]:
    """What an example says to type, line by line."""
    blocks = [text for kind, text in FENCE.findall(page.read_text()) if kind == "sh"]
    return [line.strip() for block in blocks for line in block.splitlines()]


def found(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that words begin with, and the rest of the words."""
    command: click.Command = app
    while words and isinstance(command, click.Group) and not words[0].startswith("-"):
        assert words[0] in command.commands, f"there is no command {words[0]!r}"
        command, words = command.commands[words[0]], words[1:]
    return command, words


def leaves(group: click.Group = app, path: str = "") -> Iterator[str]:
    """Everything that does something when it is typed."""
    for name, command in group.commands.items():
        here = f"{path} {name}".strip()
        if isinstance(command, click.Group):
            yield from leaves(command, here)
            if not command.invoke_without_command:
                continue
        yield here


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def runtime(path: str) -> bool:
    """Files that a running platform writes."""
    return path.startswith("state/")


@cache
def sources() -> str:
    folders = (*SERVICES, "chassis", "leasehold", "node_agent", "tests")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return "\n".join(path.read_text() for path in files if "_pb2" not in path.name)
