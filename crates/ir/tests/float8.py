"""The 8-bit floats by torch 2.13: writes float8.txt beside this file.

Lines `e4m3 d CODE BITS` (what a code stands for, as the bits of an f32) and `e4m3 e BITS CODE` (what an f32 becomes), in
hexadecimal; NaN as the bits 7fc00000 or ffc00000.
"""

import pathlib

import numpy as np
import torch

rng = np.random.default_rng(20260103)
lines = []


def bits(x):
    x = np.asarray(x, np.float32)
    found = x.view(np.uint32).copy()
    nan = np.isnan(x)
    found[nan] = np.where(found[nan] >> 31, 0xffc00000, 0x7fc00000)
    return found


for name, dtype in [("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)]:
    codes = torch.arange(256, dtype=torch.uint8)
    values = codes.view(dtype).float().numpy()
    lines += [f"{name} d {code:02x} {b:08x}" for code, b in enumerate(bits(values))]
    finite = np.sort(values[np.isfinite(values)])
    middle = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    sample = np.concatenate([finite, middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf)),
                             (rng.standard_normal(400) * 2.0 ** rng.integers(-20, 20, 400)).astype(np.float32),
                             np.float32([448, 464, 480, 57344, 61439, 61440, 1e30, np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-30])])
    rounded = torch.tensor(sample).to(dtype).view(torch.uint8).numpy()
    lines += [f"{name} e {b:08x} {code:02x}" for b, code in zip(bits(sample), rounded)]
pathlib.Path(__file__).with_name("float8.txt").write_text("\n".join(lines) + "\n")
print(len(lines), "lines")
