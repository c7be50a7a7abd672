#!/usr/bin/env python3
"""Makes digits.bin from the PyPI package scikit-learn.

    pip download --no-deps scikit-learn
    python3 make_digits.py scikit_learn-*.whl > digits.bin

The package carries the digits as a compressed table, one line each: 64 pixels row by row, 0 (paper) to 16
(ink), then the digit. Here each is 65 bytes: the pixels, then the digit. Only the standard library is needed.
"""

import gzip
import sys
import zipfile

MEMBER = "sklearn/datasets/data/digits.csv.gz"


def main() -> None:
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        table = gzip.decompress(wheel.read(MEMBER)).decode("ascii")
    for number, line in enumerate(table.splitlines(), 1):
        row = bytes(int(float(field)) for field in line.split(","))
        if len(row) != 65 or max(row[:64]) > 16 or row[64] > 9:
            raise ValueError(f"line {number} is no 8x8 digit")
        sys.stdout.buffer.write(row)


if __name__ == "__main__":
    main()
