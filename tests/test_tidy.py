"""House rules a machine can check. Each failure names the file, the line and the reason.

The rules are functions of a path and its text, so that the last test can plant a fault for each
and see it found: a rule that finds nothing when it should is worse than none.
"""

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SERVICES = {
    "admission", "aggregator", "billing", "enforcement", "gateway", "node_agent", "placement",
}  # fmt: skip
CODE = SERVICES | {"bench", "chassis", "deploy", "leasehold", "tests"}

# What a layer may import from its own service. Files with names of their own are free, except
# that what policy and domain import must be as pure as they are.
LAYERS: dict[str, set[str]] = {
    "policy": set(),
    "domain": {"policy"},
    "projections": {"policy", "domain"},
    "application": {"policy", "domain", "projections"},
    "wire": {"policy", "domain"},
    "reactions": {"policy", "domain", "projections", "application", "wire"},
}
LAYER_NAMES = {*LAYERS, "api", "workflows", "__main__"}
CORE = {"policy", "domain", "application", "projections"}
EDGE_ONLY = {"asyncio", "fastapi", "grpc", "httpx", "kubernetes", "nats", "pynvml", "uvicorn"}

PURE = {"policy", "domain"}
IMPURE = EDGE_ONLY | {
    "concurrent", "http", "io", "logging", "multiprocessing", "os", "pathlib", "prometheus_client",
    "psutil", "psycopg", "random", "secrets", "shutil", "signal", "socket", "subprocess", "sys",
    "tempfile", "threading", "time", "urllib", "uuid",
}  # fmt: skip
PURE_CHASSIS = ("chassis.aggregates", "chassis.canonical", "chassis.errors", "chassis.clock.SECOND")
IMPURE_CALLS = {"eval", "exec", "input", "open", "print"}

WIRE_FILES = {"wire", "api", "reactions", "workflows", "__main__"}
# Whole files that face the outside: the gateway's REST side, and the agent's link to the others.
WIRE_PREFIXES = {"gateway": "http", "node_agent": ""}

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
VAGUE_NAMES = {"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"}
# Written in pieces, so that this file does not break its own rule.
MACHINE_PATH = re.compile(r"(^|[^\w.])/(" + "|".join(["work", "farm", "root", "home"]) + r")/\w")
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3]) + r")\b")

Finding = tuple[int, str]
Rule = Callable[[Path, str], Iterator[Finding]]


def imports_stay_within_the_rules(path: Path, text: str) -> Iterator[Finding]:
    package, layer = path.parts[0], layer_of(path)
    for line, name in imported(text):
        top, module, *_ = [*name.split("."), ""]
        if package in SERVICES and top in SERVICES - {package}:
            yield line, f"services meet in protos and on the bus, never by importing {top}"
        if package == "chassis" and (top in SERVICES or top == "leasehold" and module in SERVICES):
            yield line, f"the chassis knows no service; {name} is one's"
        if package not in SERVICES:
            continue
        allowed = LAYERS.get(layer, LAYER_NAMES)
        if top == package and module in LAYER_NAMES - allowed - {layer}:
            yield line, f"{layer}.py stands below {module}.py and may not import it"
        if layer in CORE and top in EDGE_ONLY:
            yield line, f"{layer}.py is the synchronous core; {top} belongs at the edge"
        if "_pb2" in name and not faces_the_wire(path):
            yield line, f"protobuf is for wire, api, reactions and workflows; {layer}.py maps to it"


def rules_are_pure(path: Path, text: str) -> Iterator[Finding]:
    if path.parts[0] not in SERVICES or layer_of(path) not in pure_layers(path.parts[0]):
        return
    for line, name in imported(text):
        if name.split(".")[0] in IMPURE:
            yield line, f"{path.name} is pure: {name} is not; time and ids come in as parameters"
        if name.startswith("chassis.") and not name.startswith(PURE_CHASSIS):
            yield line, f"{path.name} is pure: of the chassis it may use {', '.join(PURE_CHASSIS)}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and (name := ast.unparse(node.func)) in IMPURE_CALLS:
            yield node.lineno, f"{path.name} is pure: it may not call {name}()"


def the_core_is_synchronous(path: Path, text: str) -> Iterator[Finding]:
    if path.parts[0] in SERVICES and layer_of(path) in CORE:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.AsyncFunctionDef):
                yield node.lineno, f"{path.name} is synchronous; async belongs at the edge"


def files_and_functions_are_short(path: Path, text: str) -> Iterator[Finding]:
    lines = text.count("\n")
    if lines > FILE_LINES_MAX:
        yield lines, f"{lines} lines; split the file at {FILE_LINES_MAX}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield (
                    node.lineno,
                    f"{node.name} has {length} lines; {FUNCTION_LINES_MAX} is a screen",
                )


def modules_say_what_they_are_for(path: Path, text: str) -> Iterator[Finding]:
    if text.strip() and ast.get_docstring(ast.parse(text)) is None:
        yield 1, "say in a docstring what the file is for and what a reader could break"
    if path.stem in VAGUE_NAMES:
        yield 1, f"{path.stem} names nothing; name the file after what is in it"


def waiting_is_for_conditions(path: Path, text: str) -> Iterator[Finding]:
    if path.parts[0] != "tests" or path.name == "waiting.py":
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "asyncio.sleep"):
            yield node.lineno, "a sleep hopes; wait for the condition with tests.waiting"
    for line, name in imported(text):
        if name.startswith("unittest.mock"):
            yield line, "a mock agrees with anything; use the real thing or a fake that is one"


def nothing_is_left_unfinished(path: Path, text: str) -> Iterator[Finding]:
    for number, line in enumerate(text.splitlines(), 1):
        if UNFINISHED.search(line):
            yield number, "finish it, or write an issue"


def no_path_of_one_machine(path: Path, text: str) -> Iterator[Finding]:
    for number, line in enumerate(text.splitlines(), 1):
        if MACHINE_PATH.search(line):
            yield number, "a path that exists on one machine only"


PYTHON_RULES: list[Rule] = [
    imports_stay_within_the_rules,
    rules_are_pure,
    the_core_is_synchronous,
    files_and_functions_are_short,
    modules_say_what_they_are_for,
    waiting_is_for_conditions,
]
TEXT_RULES: list[Rule] = [nothing_is_left_unfinished, no_path_of_one_machine]


@pytest.mark.parametrize("rule", PYTHON_RULES + TEXT_RULES, ids=lambda rule: rule.__name__)
def test_house_rule(rule: Rule) -> None:
    broken = [
        f"{path}:{line}: {reason}"
        for path in house_files()
        if rule in TEXT_RULES or path.suffix == ".py" and path.parts[0] in CODE
        for line, reason in rule(path, (ROOT / path).read_text(errors="replace"))
    ]
    assert not broken, "\n" + "\n".join(broken)


def test_generated_stubs_are_not_tracked() -> None:
    stubs = [str(path) for path in house_files() if "_pb2" in path.name]
    assert not stubs, f"built by `make env`, never committed: {stubs}"


# One fault per rule; the last column is part of the reason that must be given.
@pytest.mark.parametrize(
    ("rule", "path", "text", "reason"),
    [
        (imports_stay_within_the_rules, "billing/api.py", "import placement", "never by importing"),
        (imports_stay_within_the_rules, "chassis/rpc.py", "import billing.wire", "no service"),
        (
            imports_stay_within_the_rules,
            "chassis/rpc.py",
            "from leasehold.billing.v1 import ledger_pb2",
            "no service",
        ),
        (
            imports_stay_within_the_rules,
            "billing/domain.py",
            "from billing import application",
            "stands below",
        ),
        (imports_stay_within_the_rules, "billing/application.py", "import grpc", "at the edge"),
        (
            imports_stay_within_the_rules,
            "billing/application.py",
            "from leasehold.billing.v1 import ledger_pb2",
            "protobuf is for",
        ),
        (rules_are_pure, "billing/policy.py", "import time", "time is not"),
        (rules_are_pure, "billing/domain.py", "from chassis.clock import now", "of the chassis"),
        (rules_are_pure, "billing/domain/meter.py", "import random", "random is not"),
        (rules_are_pure, "billing/policy.py", "open('prices')", "may not call open()"),
        (the_core_is_synchronous, "billing/domain.py", "async def f(): ...", "is synchronous"),
        (files_and_functions_are_short, "billing/api.py", "#\n" * 401, "split the file"),
        (files_and_functions_are_short, "chassis/x.py", "def f():\n" + " 1\n" * 70, "71 lines"),
        (modules_say_what_they_are_for, "chassis/x.py", "import ast", "docstring"),
        (modules_say_what_they_are_for, "chassis/utils.py", '"""Things."""', "names nothing"),
        (waiting_is_for_conditions, "tests/test_x.py", "time.sleep(1)", "a sleep hopes"),
        (waiting_is_for_conditions, "tests/test_x.py", "from unittest.mock import Mock", "a mock"),
        (nothing_is_left_unfinished, "README.md", "to be done: " + "TO" + "DO", "finish it"),
        (no_path_of_one_machine, "README.md", "see /" + "root/notes", "one machine"),
    ],
)
def test_a_planted_fault_is_found(rule: Rule, path: str, text: str, reason: str) -> None:
    assert any(reason in found for _, found in rule(Path(path), text))


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (imports_stay_within_the_rules, "billing/domain.py", "from billing import policy"),
        (imports_stay_within_the_rules, "leasehold/launcher/nodes.py", "import node_agent"),
        (rules_are_pure, "billing/domain.py", "from chassis.clock import SECOND"),
        (rules_are_pure, "billing/application.py", "import time"),
        (no_path_of_one_machine, "README.md", "https://example.org/work/done"),
    ],
)
def test_what_is_allowed_is_not_found(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Path(path), text)) == []


def house_files() -> list[Path]:
    """Every file that is or would be committed, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout: nothing tells our files from generated ones")
    names = listed.stdout.decode().split("\0")
    return [Path(name) for name in sorted(names) if name and (ROOT / name).is_file()]


def layer_of(path: Path) -> str:
    """`billing/domain.py` and `billing/domain/meter.py` are both the layer `domain`."""
    return path.with_suffix("").parts[1] if len(path.parts) > 1 else ""


def pure_layers(service: str) -> set[str]:
    """Policy, domain, and what they lean on: a rule's engine in a file of its own is a rule."""
    found: set[str] = set()
    waiting = set(PURE)
    while waiting:
        layer = waiting.pop()
        found.add(layer)
        for path in [*(ROOT / service).glob(f"{layer}.py"), *(ROOT / service / layer).glob("*.py")]:
            names = [name.split(".") for _, name in imported(path.read_text())]
            waiting |= {parts[1] for parts in names if parts[0] == service} - found - {service}
    return found


def imported(text: str) -> Iterator[tuple[int, str]]:
    """Each name that an import statement reaches, in full."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def faces_the_wire(path: Path) -> bool:
    layer, prefix = layer_of(path), WIRE_PREFIXES.get(path.parts[0])
    # `api_proof.py` is the API of proofs.
    faces = layer in WIRE_FILES or layer.partition("_")[0] in WIRE_FILES
    return faces or prefix is not None and layer.startswith(prefix)
