"""The browser of ``headrace browse``; needs textual."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.cli.common import message_of, printable
from headrace.cli.previews import shrink
from headrace.errors import HeadraceError, MissingExtraError

try:
    from rich.text import Text
    from textual.app import App, ComposeResult
    from textual.binding import Binding
    from textual.containers import Horizontal, VerticalScroll
    from textual.widgets import DataTable, Footer, Header, Static
except ImportError:
    raise MissingExtraError("textual", extra="browse", needed_by="headrace browse") from None

if TYPE_CHECKING:
    from headrace.cli.previews import Preview
    from headrace.cli.shelves import Entry, Shelf

__all__ = ["Browser"]

_FAILURES = (HeadraceError, OSError, ValueError, MemoryError)
_MAX_ROWS = 10_000


class Browser(App[None]):
    """A list beside what is in the entry under the cursor.

    Args:
        shelf: what to look at.
        place: where to begin.
        under_cursor: the name of the entry to begin with.
    """

    CSS = """
    DataTable { width: 1fr; }
    VerticalScroll { width: 1fr; border-left: solid $primary; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        ("right", "enter", "Open"),
        ("left,backspace", "up", "Up"),
        ("s", "sort", "Sort by size or name"),
        ("x", "extract", "Extract here"),
        ("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(self, shelf: Shelf, place: str = "", under_cursor: str = "") -> None:
        super().__init__()
        self.shelf = shelf
        self.place = place
        self.is_by_size = False
        self.entries: list[Entry] = []
        self.title = shelf.title
        self._first = under_cursor

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield Header()
        with Horizontal():
            yield DataTable(cursor_type="row")
            with VerticalScroll(can_focus=False):
                yield Static(id="preview", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Fill the list for the first time; from now on, signals end the browser as ``q`` does."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self.exit, None, 128 + number)
        self.table.add_columns(*self.shelf.columns)
        self.show_place(under_cursor=self._first)
        self.table.focus()

    @property
    def table(self) -> Any:
        """The list."""
        return self.query_one(DataTable)

    def show_place(self, place: str | None = None, under_cursor: str = "") -> None:
        """Fill the list with another place, or with this one again; the cursor goes to an entry of this name.

        Where the place cannot be read, because the file is damaged or gone, what is shown stays.
        """
        place = self.place if place is None else place
        try:
            entries = self.shelf.entries(place, by_size=self.is_by_size)
            about = self.shelf.about(place)
        except _FAILURES as error:
            self.say_failure(error)
            return
        self.place = place
        self.entries = entries[:_MAX_ROWS]
        self.table.clear()
        for entry in self.entries:
            first, *others = entry.cells
            self.table.add_row(Text(first, justify="right"), *map(Text, others))
        left_out = len(entries) - len(self.entries)
        self.sub_title = about + (f", {left_out:,} not shown" if left_out else "")
        names = [entry.name for entry in self.entries]
        self.table.move_cursor(row=names.index(under_cursor) if under_cursor in names else 0)
        self.show_preview()

    @property
    def current(self) -> Entry | None:
        """The entry under the cursor."""
        row = self.table.cursor_row
        return self.entries[row] if self.entries and 0 <= row < len(self.entries) else None

    def show_preview(self) -> None:
        """Show what the entry under the cursor holds."""
        entry = self.current
        pane = self.query_one("#preview", Static)
        try:
            shown = "Nothing is in here." if entry is None else self._text(self.shelf.preview(entry))
        except _FAILURES as error:
            shown = printable(message_of(error))
        pane.update(shown)

    def _text(self, preview: Preview) -> Any:
        text = Text("\n".join(preview.lines))
        if preview.pixels is not None:
            width, height = self.size.width // 2 - 4, 2 * (self.size.height - len(preview.lines) - 5)
            small = shrink(preview.pixels, max(width, 8), max(height, 8))
            for upper, lower in zip(small[::2].tolist(), small[1::2].tolist(), strict=True):
                text.append("\n")
                for top, bottom in zip(upper, lower, strict=True):
                    text.append("▀", f"rgb({top[0]},{top[1]},{top[2]}) on rgb({bottom[0]},{bottom[1]},{bottom[2]})")
        return text

    def on_data_table_row_highlighted(self, event: Any) -> None:
        """The cursor has moved."""
        self.show_preview()

    def on_data_table_row_selected(self, event: Any) -> None:
        """Enter was pressed."""
        self.action_enter()

    def action_enter(self) -> None:
        """Open the entry under the cursor."""
        entry = self.current
        if entry is not None and entry.is_dir:
            self.show_place(entry.place)

    def action_up(self) -> None:
        """Go to the place above."""
        if self.place:
            self.show_place(*self.shelf.above(self.place))

    def action_sort(self) -> None:
        """Sort by size, or by name again."""
        entry = self.current
        self.is_by_size = not self.is_by_size
        self.show_place(under_cursor="" if entry is None else entry.name)

    def action_extract(self) -> None:
        """Write the entry under the cursor below the current directory of the machine."""
        entry = self.current
        if entry is None:
            return
        try:
            said = self.shelf.extract(entry)
        except _FAILURES as error:
            self.say_failure(error)
        else:
            self.notify(said, markup=False)

    def say_failure(self, error: Exception) -> None:
        """Show for a moment what went wrong."""
        self.notify(printable(message_of(error)), severity="error", markup=False)
