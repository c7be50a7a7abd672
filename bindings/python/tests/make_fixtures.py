"""Writes what upstream torch 2.13 gives for programs.py to upstream.json.

    benches/peers/setup.sh
    ~/.cache/lanthorn/peers/bin/python bindings/python/tests/make_fixtures.py
"""

import json
import pathlib

import programs
import torch

if __name__ == "__main__":
    found = {program.__name__: program(torch, torch.autograd.grad) for program in programs.ALL}
    found["torch"] = torch.__version__
    path = pathlib.Path(__file__).with_name("upstream.json")
    path.write_text(json.dumps(found, separators=(",", ":")) + "\n")
    print(path)
