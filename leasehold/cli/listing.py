"""Rows of an answer, laid out for the width there is; whatever the width, nothing is cut.

Whoever copies an id must get all of it, so a column is never narrowed. Where the rows do not fit
side by side, prose at their end moves below them, or each row becomes a block of its own.
"""

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

NOTHING = "–"
GAP = 2
# Prose beside a row needs so many characters to be readable.
PROSE_WIDTH_MIN = 48

Rows = Sequence[Sequence[Text]]


class Listing:
    """A column whose title begins with ``>`` is of numbers and aligned to the right."""

    def __init__(self, columns: Sequence[str], rows: Rows, *, prose: bool = False) -> None:
        """``prose``: the last column is text that may be folded between words."""
        self._titles = [column.removeprefix(">") for column in columns]
        self._numbers = [column.startswith(">") for column in columns]
        self._rows = rows
        self._prose = prose
        self._widths = [
            max([len(title), *(row[index].cell_len for row in rows)])
            for index, title in enumerate(self._titles)
        ]

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        room = options.max_width
        if not self._fits(room):
            self = self._without_empty_columns()
        if self._fits(room):
            yield self._table(len(self._widths), room - self._beside)
        elif self._prose and self._beside <= room >= self._indent + PROSE_WIDTH_MIN:
            yield from self._with_prose_below()
        else:
            yield from self._blocks()

    @property
    def _beside(self) -> int:
        """What all columns but the last take, gaps included."""
        return sum(self._widths[:-1]) + GAP * len(self._widths[:-1])

    @property
    def _indent(self) -> int:
        """Prose below a row begins where the row's first words do."""
        leading = self._numbers.index(False) or 1
        return sum(self._widths[:leading]) + GAP * leading

    def _fits(self, room: int) -> bool:
        last = self._widths[-1]
        return self._beside + (min(last, PROSE_WIDTH_MIN) if self._prose else last) <= room

    def _without_empty_columns(self) -> "Listing":
        kept = [
            index
            for index in range(len(self._titles))
            if any(row[index].plain != NOTHING for row in self._rows)
        ]
        columns = [f"{'>' * self._numbers[index]}{self._titles[index]}" for index in kept]
        rows = [[row[index] for index in kept] for row in self._rows]
        return Listing(columns, rows, prose=self._prose) if kept else self

    def _table(self, count: int, last_width: int) -> Table:
        drawn = Table(
            box=None,
            pad_edge=False,
            padding=(0, GAP, 0, 0),
            header_style="bold",
            show_header=any(self._titles),
        )
        for index in range(count):
            is_last = index == len(self._widths) - 1
            drawn.add_column(
                self._titles[index],
                justify="right" if self._numbers[index] else "left",
                width=min(self._widths[index], last_width) if is_last else self._widths[index],
                overflow="fold",
            )
        for row in self._rows:
            drawn.add_row(*row[:count])
        return drawn

    def _with_prose_below(self) -> Iterator[RenderableType]:
        """Row by row: a table of one row each, and what there is to say about it, indented."""
        for number, row in enumerate(self._rows):
            one = Listing(self._titles, [row])
            one._numbers, one._widths = self._numbers, self._widths
            table = one._table(len(self._widths) - 1, 0)
            table.show_header = number == 0 and any(self._titles[:-1])
            yield table
            if row[-1].plain.strip():
                yield Padding(row[-1], (0, 0, 0, self._indent))

    def _blocks(self) -> Iterator[RenderableType]:
        """Title and cell, line by line; a line that is too long is left to the terminal."""
        width = max(map(len, self._titles))
        for number, row in enumerate(self._rows):
            if number:
                yield Text("")
            for title, cell in zip(self._titles, row, strict=True):
                line = Text.assemble((f"{title:<{width + GAP}}", "bold"), cell)
                line.no_wrap, line.overflow = True, "ignore"
                yield line
