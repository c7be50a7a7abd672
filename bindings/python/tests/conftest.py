import gc
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(autouse=True)
def recording():
    """Each test begins and ends with gradients on."""
    import lanthorn

    lanthorn._C._set_grad_enabled(True)
    yield
    assert lanthorn.is_grad_enabled(), "a test or an error left gradients off"
    gc.collect()
