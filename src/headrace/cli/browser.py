"""The browser of ``headrace browse``; needs textual."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.cli.common import message_of, printable
from headrace.cli.previews import describe_file, shrink
from headrace.errors import HeadraceError, MissingExtraError
from headrace.formats.barecat.index.rows import FileInfo
from headrace.progress import format_bytes
from headrace.transfer.extract import extract_files

try:
    from rich.text import Text
    from textual.app import App, ComposeResult
    from textual.binding import Binding
    from textual.containers import Horizontal, VerticalScroll
    from textual.widgets import DataTable, Footer, Header, Static
except ImportError:
    raise MissingExtraError("textual", extra="browse", needed_by="headrace browse") from None

if TYPE_CHECKING:
    from headrace.formats.barecat import Archive, DirInfo

__all__ = ["ArchiveBrowser"]

_FAILURES = (HeadraceError, OSError, ValueError, MemoryError)
_MAX_ROWS = 10_000
_BAR = 10


class ArchiveBrowser(App[None]):
    """A list of a directory beside what is in the file under the cursor.

    Args:
        archive: open for reading.
        directory: where to begin.
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

    def __init__(self, archive: Archive, directory: str = "") -> None:
        super().__init__()
        self.archive = archive
        self.directory = directory
        self.is_by_size = False
        self.entries: list[FileInfo | DirInfo] = []
        self.title = printable(archive.path)

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
        self.table.add_columns("size", "share", "name")
        self.show_directory()
        self.table.focus()

    @property
    def table(self) -> Any:
        """The list."""
        return self.query_one(DataTable)

    def show_directory(self, directory: str | None = None, under_cursor: str = "") -> None:
        """Fill the list with another directory, or with this one again; the cursor goes to an entry of this name.

        Where the directory cannot be read, because the archive is damaged or gone, what is shown stays.
        """
        directory = self.directory if directory is None else directory
        try:
            entries = list(self.archive.scandir(directory))
        except _FAILURES as error:
            self.say_failure(error)
            return
        self.directory = directory
        entries.sort(
            key=lambda entry: (-_size(entry), entry.name) if self.is_by_size else (entry.is_file(), entry.name)
        )
        self.entries = entries[:_MAX_ROWS]
        total = max(sum(map(_size, entries)), 1)
        self.table.clear()
        for entry in self.entries:
            bar = "#" * max(0, min(_BAR, round(_BAR * _size(entry) / total)))  # sizes may be made up
            name = printable(entry.name) + ("/" if entry.is_dir() else "")
            self.table.add_row(Text(format_bytes(_size(entry)), justify="right"), bar, Text(name))
        left_out = len(entries) - len(self.entries)
        more = f", {left_out:,} not shown" if left_out else ""
        self.sub_title = f"/{printable(self.directory)} ({format_bytes(sum(map(_size, entries)))}{more})"
        names = [entry.name for entry in self.entries]
        self.table.move_cursor(row=names.index(under_cursor) if under_cursor in names else 0)
        self.show_preview()

    @property
    def current(self) -> FileInfo | DirInfo | None:
        """The entry under the cursor."""
        row = self.table.cursor_row
        return self.entries[row] if self.entries and 0 <= row < len(self.entries) else None

    def show_preview(self) -> None:
        """Show what the entry under the cursor holds."""
        entry = self.current
        pane = self.query_one("#preview", Static)
        if entry is None:
            pane.update("Nothing is in here.")
        elif isinstance(entry, FileInfo):
            pane.update(self._file_text(entry))
        else:
            facts = f"{entry.num_subdirs:,} directories, {entry.num_files:,} files directly in it"
            whole = f"{entry.num_files_tree:,} files, {format_bytes(entry.size_tree)} in all"
            pane.update("\n".join((printable(entry.name) + "/", facts, whole)))

    def _file_text(self, info: FileInfo) -> Any:
        preview = describe_file(self.archive, info)
        text = Text("\n".join(preview.lines))
        if preview.pixels is not None:
            small = shrink(preview.pixels, max(self.size.width // 2 - 4, 8), max(2 * (self.size.height - 9), 8))
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
        """Open the directory under the cursor."""
        entry = self.current
        if entry is not None and entry.is_dir():
            self.show_directory(entry.path)

    def action_up(self) -> None:
        """Go to the directory above."""
        if self.directory:
            above, _, name = self.directory.rpartition("/")
            self.show_directory(above, name)

    def action_sort(self) -> None:
        """Sort by size, or by name again."""
        entry = self.current
        self.is_by_size = not self.is_by_size
        self.show_directory(under_cursor="" if entry is None else entry.name)

    def action_extract(self) -> None:
        """Write the entry under the cursor below the current directory of the machine."""
        entry = self.current
        if entry is None:
            return
        try:
            result = extract_files(self.archive, ".", [entry.path])
        except _FAILURES as error:
            self.say_failure(error)
        else:
            self.notify(f"{result.files:,} files written to {printable(entry.path)}", markup=False)

    def say_failure(self, error: Exception) -> None:
        """Show for a moment what went wrong."""
        self.notify(printable(message_of(error)), severity="error", markup=False)


def _size(entry: FileInfo | DirInfo) -> int:
    return entry.size if isinstance(entry, FileInfo) else entry.size_tree
