"""Figures in words."""

from __future__ import annotations

from headrace.progress import format_bytes

__all__ = ["format_value"]


def format_value(value: float, unit: str) -> str:
    """Spell a figure for people.

    Example:
        >>> format_value(12345.6, "samples/s"), format_value(0.0021, "s"), format_value(2048, "bytes")
        ('12,346 samples/s', '2.10 ms', '2.0 KiB')
    """
    if unit == "bytes":
        return format_bytes(value)
    if unit == "s":
        return _format_seconds(value)
    digits = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{digits}{unit}" if unit == "x" else f"{digits} {unit}".rstrip()


def _format_seconds(value: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if value * factor >= 1:
            return f"{value * factor:.2f} {unit}"
    return f"{value * 1e6:.1f} µs"
