"""The program that all faces run gives the losses that all faces give."""

import importlib.util
import pathlib

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "xor"


def test_losses_are_those_of_the_other_faces():
    spec = importlib.util.spec_from_file_location("xor", EXAMPLE / "xor.py")
    xor = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(xor)
    lines = (line.split() for line in (EXAMPLE / "losses.txt").read_text().splitlines())
    expected = {int(line[0]): float(line[1]) for line in lines if line and not line[0].startswith("#")}
    assert sorted(expected) == sorted(xor.PRINTED)
    found = {step: loss for step, loss in xor.train() if step in expected}
    for step, loss in expected.items():
        assert abs(found[step] - loss) <= 1e-6, f"step {step}: {found[step]} for {loss}"
