"""What was measured, as a table for people and as JSON for comparisons over time."""

import json
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One figure. ``ratio`` is to what ``against`` names; ``goal`` is the least it should be."""

    name: str
    value: float
    unit: str
    ratio: float | None = None
    against: str = ""
    goal: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.goal is None or self.ratio is None:
            return ""
        return "met" if self.ratio >= self.goal else "missed"


@dataclass
class Results:
    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        self.rows.append(row)
        Console().print(f"  {row.name}: {row.value:,.1f} {row.unit}", highlight=False)

    def show(self) -> None:
        table = Table(title="Leasehold, measured in one run on this machine")
        for heading in ("what", "figure", "ratio", "against", "goal", ""):
            table.add_column(heading, justify="right" if heading in ("figure", "ratio") else "left")
        for row in self.rows:
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}×"
            goal = "" if row.goal is None else f"≥ {row.goal:g}×"
            figure = f"{row.value:,.1f} {row.unit}"
            table.add_row(row.name, figure, ratio, row.against, goal, row.verdict or row.note)
        Console().print(table)

    def write(self, path: Path) -> None:
        machine = {"python": platform.python_version(), "machine": platform.machine()}
        rows = [{**asdict(row), "verdict": row.verdict} for row in self.rows]
        path.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")
