#!/usr/bin/env python3
"""Makes pride_and_prejudice.txt from Debian's package of the R package `janeaustenr`.

    apt-get download r-cran-janeaustenr
    dpkg-deb -x r-cran-janeaustenr_*.deb janeaustenr
    python3 make_book.py janeaustenr > pride_and_prejudice.txt

The package keeps each novel as an R character vector, one line of the printed text per element, in a
"lazy-load database": a file of chunks, each a big-endian u32 (the size unpacked) before a zlib stream of
R's serialisation format (R Internals, section 1.8). Only the standard library is needed to read that.
"""

import pathlib
import re
import struct
import sys
import zlib

STRSXP, CHARSXP = 16, 9


def chunks(database: bytes):
    """The unpacked chunks of a lazy-load database, in file order."""
    while database:
        (size,) = struct.unpack_from(">I", database)
        stream = zlib.decompressobj()
        chunk = stream.decompress(database[4:])
        if len(chunk) != size:
            raise ValueError(f"a chunk unpacks to {len(chunk)} bytes and declares {size}")
        yield chunk
        database = stream.unused_data


def character_vector(chunk: bytes):
    """The strings of a serialised character vector, or None if the chunk holds another kind of object."""
    if chunk[:2] != b"X\n":
        raise ValueError("not R's XDR serialisation")
    (version,) = struct.unpack_from(">I", chunk, 2)
    at = 14
    if version >= 3:  # the native encoding's name follows
        (length,) = struct.unpack_from(">I", chunk, at)
        at += 4 + length
    flags, count = struct.unpack_from(">II", chunk, at)
    if flags & 0xFF != STRSXP:
        return None
    at += 8
    strings = []
    for _ in range(count):
        flags, length = struct.unpack_from(">Ii", chunk, at)
        if flags & 0xFF != CHARSXP:
            raise ValueError("an element is not a string")
        at += 8
        strings.append(chunk[at : at + max(length, 0)].decode("utf-8"))
        at += max(length, 0)
    return strings


def clean(lines):
    """One text: no trailing blanks, at most two empty lines in a row, one newline at the end."""
    text = "\n".join(line.rstrip() for line in lines)
    return re.sub(r"\n{4,}", "\n\n\n", text).strip() + "\n"


def main():
    folder = pathlib.Path(sys.argv[1])
    database = folder / "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"
    for chunk in chunks(database.read_bytes()):
        lines = character_vector(chunk)
        if lines and lines[0].strip().upper() == "PRIDE AND PREJUDICE":
            sys.stdout.buffer.write(clean(lines).encode("utf-8"))
            return
    sys.exit("make_book: the novel is not in this package")


main()
