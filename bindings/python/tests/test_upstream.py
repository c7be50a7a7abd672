"""The same programs give what upstream gave, to rounding of f64."""

import json
import math
import pathlib

import lanthorn
import programs
import pytest

UPSTREAM = json.loads(pathlib.Path(__file__).with_name("upstream.json").read_text())


def close(found, expected, path=""):
    if isinstance(expected, list):
        assert isinstance(found, (list, tuple)), f"{path}: {found!r} for {expected!r}"
        assert len(found) == len(expected), f"{path}: {len(found)} items for {len(expected)}"
        for at, (a, b) in enumerate(zip(found, expected)):
            close(a, b, f"{path}[{at}]")
    elif isinstance(expected, float):
        assert math.isclose(found, expected, rel_tol=1e-11, abs_tol=1e-12), f"{path}: {found} for {expected}"
    else:
        assert found == expected, f"{path}: {found!r} for {expected!r}"


@pytest.mark.parametrize("program", programs.ALL, ids=lambda program: program.__name__)
def test_program_agrees_with_upstream(program):
    found = program(lanthorn, lanthorn.grad)
    close(found, UPSTREAM[program.__name__], program.__name__)
