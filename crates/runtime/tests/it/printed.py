"""What torch prints: writes printed.json beside itself. Needs torch 2.13.

A row is a dtype by our name, a shape, the elements (a list, where one element repeats; or `arange`; complex ones are pairs),
and the text. Where torch says `size=(..)` and `torch.float64` we say `shape=[..]` and `f64`.
"""

import json
import math
import pathlib

import torch

NAMES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
         "i32": torch.int32, "u8": torch.uint8, "bool": torch.bool, "c64": torch.complex64, "c128": torch.complex128}
inf, nan = math.inf, math.nan
ROWS = []


def row(dtype, shape, elements):
    count = math.prod(shape)
    if elements == "arange":
        values = list(range(count))
    else:
        values = elements
    if len(values) == 1:
        values = values * count
    if dtype.startswith("c"):
        values = [complex(*pair) for pair in values]
    text = str(torch.tensor(values, dtype=NAMES[dtype]).reshape(shape))
    for name, ours in [("torch.float64", "f64"), ("torch.float16", "f16"), ("torch.bfloat16", "bf16"), ("torch.int32", "i32"),
                       ("torch.int64", "i64"), ("torch.uint8", "u8"), ("torch.bool", "bool"), ("torch.complex64", "c64"),
                       ("torch.complex128", "c128")]:
        text = text.replace(name, ours)
    if "size=(" in text:
        start = text.index("size=(")
        text = text[:start] + text[start:].replace("size=(", "shape=[", 1).replace(")", "]", 1)
    ROWS.append({"dtype": dtype, "shape": shape, "elements": elements, "text": text})


for elements in [[1, 2], [1.5, -2.25, 3], [-0.0, 0.5], [0.0, -0.0], [nan, 1.5], [nan, 1], [nan, nan], [nan, -1.5, inf, -inf],
                 [nan, 100, -2], [1e8, 1], [1, 2e8], [2e8], [1e-5, 0.1], [1e-5], [0, 0.5, 1000], [0.5, 1000.5], [1, 1001],
                 [1e-5, nan, 1], [0, 0, inf], [1.5e-10, -inf], [-1e30, 1e-30], [0.1] * 30, [-1000.5, 2.0] * 9, [3e38]]:
    row("f32", [len(elements)], elements)
for shape in [[2000], [1001], [1000], [40, 30], [3, 2000], [2, 3, 4], [7, 1, 200], [10, 10, 11]]:
    row("f32", shape, "arange")
    row("i64", shape, "arange")
row("f32", [3, 2000], [0])
row("bool", [3, 400], [True])
for elements in [3, 3.25, nan, -inf, 1.5e-10, 2e9, -1]:
    row("f32", [], [elements])
for dtype in NAMES:
    row(dtype, [0], [])
    row(dtype, [0, 3], [])
row("f64", [2], [1.5, 2])
row("f64", [], [1e-300])
row("f16", [2], [1.5, 65504])
row("bf16", [3], [0.1, 300, 1])
row("i32", [2, 2], [1, -200, 3, 40])
row("u8", [3], [0, 255, 3])
row("i64", [], [-7])
row("bool", [2], [True, False])
row("bool", [2], [True, True])
row("bool", [], [False])
row("c64", [2], [[1, 2.5], [3, 0]])
row("c64", [3], [[1, -2.5], [0.25, 3], [-1, 0]])
row("c128", [2], [[1, 2], [-10, nan]])
row("c64", [], [[1, -2]])
row("c64", [2], [[1e-5, -0.0], [1, 1e9]])
row("c64", [1200], [[1, -2]])
lines = [json.dumps(r, separators=(",", ":")) for r in ROWS]
text = ",\n".join(lines).replace("-Infinity", '"-inf"').replace("Infinity", '"inf"').replace("NaN", '"nan"')
pathlib.Path(__file__).with_name("printed.json").write_text("[\n" + text + "\n]\n")
print(len(ROWS), "rows")
