"""Small JPEGs of every kind, and changes that keep their segments: tables, headers, codes, restarts, fill bytes."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image as Pillow
from tests.helpers import image_file, picture
from tests.unit.loader.jpegs import with_sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SOF = (0xC0, 0xC1, 0xC2, 0xC3, 0xC9, 0xCA)
DHT, DQT, DRI, SOS, EOI = 0xC4, 0xDB, 0xDD, 0xDA, 0xD9


@dataclass
class Segment:
    """A marker, its body, and for a scan the codes behind it: pieces between restart markers, without stuffing."""

    marker: int
    body: bytearray
    pieces: list[bytearray] = field(default_factory=list)
    restarts: list[bytes] = field(default_factory=list)  # what stands between the pieces
    after: bytes = b""  # what stands behind the last piece

    def pack(self) -> bytes:
        head = bytes([0xFF, self.marker]) + (len(self.body) + 2 & 0xFFFF).to_bytes(2, "big") + self.body
        codes = b"".join(
            piece.replace(b"\xff", b"\xff\x00") + mark
            for piece, mark in zip(self.pieces, [*self.restarts, b""][: len(self.pieces)], strict=True)
        )
        return head + codes + self.after


def take_apart(data: bytes) -> list[Segment]:
    """The segments of an intact JPEG, without its first and last marker."""
    segments, at = [], 2
    while data[at + 1] != EOI:
        size = int.from_bytes(data[at + 2 : at + 4], "big")
        segment = Segment(data[at + 1], bytearray(data[at + 4 : at + 2 + size]))
        at += 2 + size
        if segment.marker == SOS:
            piece = bytearray()
            while data[at] != 0xFF or data[at + 1] == 0 or 0xD0 <= data[at + 1] <= 0xD7:
                if data[at] == 0xFF and data[at + 1] != 0:
                    segment.pieces.append(piece)
                    segment.restarts.append(data[at : at + 2])
                    piece, at = bytearray(), at + 2
                    continue
                piece.append(data[at])
                at += 2 if data[at] == 0xFF else 1
            segment.pieces.append(piece)
        segments.append(segment)
    return segments


def put_together(segments: Iterable[Segment], end: bytes = b"\xff\xd9") -> bytes:
    return b"\xff\xd8" + b"".join(segment.pack() for segment in segments) + end


def complete_code(segment: Segment, rng: np.random.Generator) -> None:
    """Give the last Huffman table of a segment codes until no bits are left, so that one of them is all ones."""
    at = 0
    while True:
        size = 17 + sum(segment.body[at + 1 : at + 17])
        if at + size >= len(segment.body) or rng.random() < 0.5:
            break
        at += size
    counts = list(segment.body[at + 1 : at + 17])
    used = sum(count << (16 - length) for length, count in enumerate(counts, 1))
    free = (1 << 16) - used
    symbols = [bytearray() for _ in range(16)]
    place = at + 17
    for length, count in enumerate(counts):
        symbols[length] += segment.body[place : place + count]
        place += count
    known = {symbol for one in symbols for symbol in one}
    others = [s for s in range(16 if segment.body[at] < 16 else 256) if s not in known]
    for length in range(1, 17):
        while free >= 1 << (16 - length) and others and (free & ((1 << (17 - length)) - 1) or length == 16):
            symbols[length - 1].append(others.pop(int(rng.integers(len(others)))))
            free -= 1 << (16 - length)
    table = bytes([segment.body[at], *(min(len(one), 255) for one in symbols)]) + b"".join(symbols)
    segment.body[at : at + size] = table


def _one_of(segments: list[Segment], markers: tuple[int, ...], rng: np.random.Generator) -> Segment | None:
    found = [segment for segment in segments if segment.marker in markers]
    return found[int(rng.integers(len(found)))] if found else None


def _change_body(*markers: int) -> Callable[[list[Segment], np.random.Generator], None]:
    def change(segments: list[Segment], rng: np.random.Generator) -> None:
        segment = _one_of(segments, markers, rng)
        if segment is not None and segment.body:
            for _ in range(int(rng.integers(1, 3))):
                at = int(rng.integers(len(segment.body)))
                value = int(rng.choice([0, 1, 2, 63, 255, segment.body[at] ^ (1 << int(rng.integers(8)))]))
                segment.body[at] = value

    return change


def _change_length(segments: list[Segment], rng: np.random.Generator) -> None:
    segment = segments[int(rng.integers(len(segments)))]
    if rng.random() < 0.5:
        segment.body.append(int(rng.integers(256)))
    elif segment.body:
        segment.body.pop()


def _complete(segments: list[Segment], rng: np.random.Generator) -> None:
    segment = _one_of(segments, (DHT,), rng)
    if segment is not None:
        complete_code(segment, rng)


def _change_codes(segments: list[Segment], rng: np.random.Generator) -> None:
    segment = _one_of(segments, (SOS,), rng)
    if segment is not None:
        piece = segment.pieces[int(rng.integers(len(segment.pieces)))]
        for _ in range(int(rng.integers(1, 4))):
            if piece:
                piece[int(rng.integers(len(piece)))] ^= 1 << int(rng.integers(8))


def _shorten_codes(segments: list[Segment], rng: np.random.Generator) -> None:
    segment = _one_of(segments, (SOS,), rng)
    if segment is not None:
        piece = segment.pieces[int(rng.integers(len(segment.pieces)))]
        del piece[len(piece) - min(int(rng.integers(1, 9)), len(piece)) :]


def _lengthen_codes(segments: list[Segment], rng: np.random.Generator) -> None:
    segment = _one_of(segments, (SOS,), rng)
    if segment is not None:
        piece = segment.pieces[int(rng.integers(len(segment.pieces)))]
        piece += bytes(rng.choice([0, 255, 0x55], int(rng.integers(1, 4))).tolist())


def _fill_bytes(segments: list[Segment], rng: np.random.Generator) -> None:
    segment = _one_of(segments, (SOS,), rng)
    if segment is None:
        return
    for i in range(len(segment.restarts)):
        if rng.random() < 0.5:
            segment.restarts[i] = b"\xff" * int(rng.integers(1, 6)) + segment.restarts[i]
    if rng.random() < 0.3:
        segment.after = b"\xff" * int(rng.integers(1, 4))


def _restarts(segments: list[Segment], rng: np.random.Generator) -> None:
    segment = _one_of(segments, (SOS,), rng)
    if segment is None:
        return
    kind = int(rng.integers(5))
    i = int(rng.integers(len(segment.restarts))) if segment.restarts else 0
    if kind == 0 and segment.restarts:  # another number
        segment.restarts[i] = bytes([0xFF, 0xD0 + int(rng.integers(8))])
    elif kind == 1 and segment.restarts:  # twice
        segment.restarts[i] *= 2
    elif kind == 2 and segment.restarts:  # one is missing
        segment.pieces[i] += segment.pieces.pop(i + 1)
        del segment.restarts[i]
    elif kind == 3:  # one more
        piece = segment.pieces[i]
        cut = int(rng.integers(len(piece) + 1))
        segment.pieces[i : i + 1] = [piece[:cut], piece[cut:]]
        segment.restarts.insert(i, bytes([0xFF, 0xD0 + i % 8]))
    else:
        segment.after = bytes([0xFF, 0xD0 + len(segment.restarts) % 8])


def _interval(segments: list[Segment], rng: np.random.Generator) -> None:
    found = _one_of(segments, (DRI,), rng)
    value = int(rng.integers(0, 9)).to_bytes(2, "big")
    if found is not None:
        found.body[:] = value
    else:
        segments.insert(len(segments) - 1, Segment(DRI, bytearray(value)))


def _rubbish(segments: list[Segment], rng: np.random.Generator) -> None:
    found = segments[int(rng.integers(len(segments)))]
    found.after += bytes(rng.integers(0, 255, int(rng.integers(1, 6))).tolist())


def _other_segment(segments: list[Segment], rng: np.random.Generator) -> None:
    kind = int(rng.choice([0xE0, 0xE1, 0xEE, 0xFE, 0xDC, 0xDE, 0xCC, 0xF0, DHT, DQT]))
    body = bytearray(rng.integers(0, 256, int(rng.integers(0, 20))).tolist())
    if kind == 0xEE:
        body = bytearray(b"Adobe\0\x64\0\0\0\0" + bytes([int(rng.integers(0, 4))]))
    segments.insert(int(rng.integers(len(segments) + 1)), Segment(kind, body))


def _move(segments: list[Segment], rng: np.random.Generator) -> None:
    i, j = rng.integers(0, len(segments), 2).tolist()
    segments[i], segments[j] = segments[j], segments[i]


def _twice(segments: list[Segment], rng: np.random.Generator) -> None:
    i = int(rng.integers(len(segments)))
    segments.insert(int(rng.integers(i, len(segments) + 1)), segments[i])


def _drop(segments: list[Segment], rng: np.random.Generator) -> None:
    del segments[int(rng.integers(len(segments)))]


def _frame_kind(segments: list[Segment], rng: np.random.Generator) -> None:
    frame = _one_of(segments, SOF, rng)
    if frame is not None:
        frame.marker = int(rng.choice([0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC9, 0xCA, 0xCB]))


def _frame_facts(segments: list[Segment], rng: np.random.Generator) -> None:
    frame = _one_of(segments, SOF, rng)
    if frame is not None and len(frame.body) > 8:
        at = int(rng.choice([0, 2, 4, 6, 7, 8, 10, 11, 13, 14]))
        values = {0: [8, 12, 16, 2], 2: range(1, 50), 4: range(1, 50)}
        if at < len(frame.body):
            frame.body[at] = int(
                rng.choice(list(values.get(at, [0, 1, 2, 3, 0x11, 0x21, 0x12, 0x22, 0x41, 0x14, 0x44])))
            )


CHANGES: tuple[Callable[[list[Segment], np.random.Generator], None], ...] = (
    _change_body(DHT),
    _change_body(DQT),
    _change_body(SOS),
    _change_body(*SOF),
    _change_body(DHT),
    _change_length,
    _complete,
    _complete,
    _change_codes,
    _change_codes,
    _change_codes,
    _shorten_codes,
    _lengthen_codes,
    _fill_bytes,
    _restarts,
    _interval,
    _rubbish,
    _other_segment,
    _move,
    _twice,
    _drop,
    _frame_kind,
    _frame_facts,
)


def _made(seed: int, height: int, width: int, **options: Any) -> bytes:
    return image_file(picture(seed, height, width), "JPEG", **options)


def _cmyk(**options: Any) -> bytes:
    out = io.BytesIO()
    Pillow.fromarray(picture(9, 17, 23)).convert("CMYK").save(out, "JPEG", **options)
    return out.getvalue()


# Pillow writes none; made with libjpeg-turbo, arith_code = TRUE.
_ARITHMETIC = {
    "arithmetic": (
        b"/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxO"
        b"UlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09P"
        b"T09PT09PT0//yQARCAASABUDASIAAhEBAxEB/8wACgAQEAUBEBEF/9oADAMBAAIRAxEAPwDR1glo2yyb4liDoAAAE3CT8uWfb1OP"
        b"ZYvtl4VgEbJsXsORD6S8Nbi+wT7PPBdfgH7T8GftBm4Yd67LDwVrFk7jq49aUvOp2ZtOHYUbJqD+4oeQO4bI/9k="
    ),
    "arithmetic, restarts": (
        b"/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxO"
        b"UlNSMj5aYVpQYEpRUk//yQALCAASABUBAREA/8wABgAQEAX/3QAEAAL/2gAIAQEAAD8A0dlflbgbM8b32N2NVS4j27fqOB5VCT1B"
        b"rRVa/9DR1iJ+taneR1j69pzLaBIi3VNBBBmxFpSrQp5Q/9HR0z44aGHL2HDCbftICktgCewS/MB1dD/AGID/0tHZQJ6hlMWxMM96"
        b"liUxpzDDMeV3XLj/09HVuMdQ/wClymIyLxzOKv/Z"
    ),
    "arithmetic, progressive": (
        b"/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxO"
        b"UlNSMj5aYVpQYEpRUk//ygALCAASABUBAREA/8wABAAQ/9oACAEBAAAAAdCNE7pl4P/MAAQQBf/aAAgBAQABBQLkZwM0eIIQ/8wA"
        b"BBAF/9oACAEBAAY/AtBY9Qb/zAAEEAX/2gAIAQEAAT8hAkV+IoMdf5Jy19EtyLmdNgJeOXMydHI4mYL/2gAIAQEAAAAQzP/MAAQQ"
        b"Bf/aAAgBAQABPxDaJIVXISV3gTQj7g/MSNQEgeblHC4+Ejt/RFlVlopZHne1V2LJUwQM3TJdPsGmFLqW3CLebJsKGvKQzIt4Cf/Z"
    ),
}
KINDS: dict[str, bytes] = {
    "4:4:4": _made(1, 19, 29, subsampling=0),
    "4:2:2": _made(2, 19, 29, subsampling=1),
    "4:2:0": _made(3, 33, 35, subsampling=2),
    "4:4:0": with_sampling(_made(4, 13, 36, subsampling=1), 0x12, 19, 29),
    "4:1:1": with_sampling(_made(5, 13, 60, subsampling=2), 0x41, 120, 8),
    "grey": image_file(picture(6, 21, 27)[:, :, 0], "JPEG"),
    "RGB": _made(7, 17, 19, keep_rgb=True),
    "restarts": _made(8, 24, 40, restart_marker_blocks=1, subsampling=1),
    "restarts, rows": _made(9, 33, 40, restart_marker_rows=1, subsampling=0, optimize=True),
    "restarts, grey": image_file(picture(10, 24, 40)[:, :, 0], "JPEG", restart_marker_blocks=3, optimize=True),
    "optimised": _made(11, 25, 31, optimize=True, quality=97),
    "coarse": _made(12, 25, 31, quality=3),
    "narrow": _made(13, 20, 3, subsampling=2),
    "progressive": _made(14, 19, 29, progressive=True),
    "progressive, restarts": _made(15, 19, 29, progressive=True, restart_marker_blocks=2),
    "progressive, grey": image_file(picture(16, 19, 29)[:, :, 0], "JPEG", progressive=True),
    **{name: base64.b64decode(text) for name, text in _ARITHMETIC.items()},
    "CMYK": _cmyk(),
    "CMYK, progressive": _cmyk(progressive=True),
}


def mutant(seed: int) -> tuple[str, bytes]:
    """A changed JPEG; the same for the same seed."""
    rng = np.random.default_rng(seed)
    name = list(KINDS)[int(rng.integers(len(KINDS)))]
    segments = take_apart(KINDS[name])
    words = []
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        number = int(rng.integers(len(CHANGES)))
        if segments:
            CHANGES[number](segments, rng)
        words.append(str(number))
    end = b"\xff\xd9" if rng.random() < 0.95 else b""
    return f"{seed}: {name}, changes {' '.join(words)}", put_together(segments, end)
