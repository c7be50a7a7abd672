"""What can be set of the engine."""

import os
import subprocess
import sys

import lanthorn as L
import pytest


def test_a_memory_limit_is_an_error_and_can_be_lifted():
    assert L.memory_limit() is None
    live, pooled = L._C._memory()
    L.set_memory_limit(live + pooled + (1 << 20))
    try:
        assert L.memory_limit() == live + pooled + (1 << 20)
        with pytest.raises(RuntimeError, match="exceed the limit of"):
            L.ones(1 << 20)
        assert L.ones(16).sum() == 16
    finally:
        L.set_memory_limit(None)
    assert L.memory_limit() is None and L.ones(1 << 20).sum() == 1 << 20


@pytest.mark.parametrize("wrong, error", [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("1GiB", TypeError)])
def test_a_limit_that_is_none(wrong, error):
    with pytest.raises(error, match="set_memory_limit"):
        L.set_memory_limit(wrong)
    assert L.memory_limit() is None


def test_the_environment_sets_the_limit():
    environment = {**os.environ, "LANTHORN_MEMORY_LIMIT": "3MiB", "PYTHONPATH": os.pathsep.join(sys.path)}
    program = "import lanthorn; print(lanthorn.memory_limit())"
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == str(3 << 20)
