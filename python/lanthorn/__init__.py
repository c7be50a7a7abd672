"""Lanthorn's tensors in Python: the extension module `lanthorn._C`, and what is plainer to say in Python."""

import builtins
import functools

from . import _C
from ._C import *  # noqa: F401,F403
from ._C import Tensor, backward, grad, is_grad_enabled  # noqa: F401


class set_grad_enabled:
    """Records operations, or not, from here on or inside a `with`."""

    def __init__(self, mode):
        # `bool` is a dtype here.
        self.mode = builtins.bool(mode)
        self.previous = _C._set_grad_enabled(self.mode)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _C._set_grad_enabled(self.previous)
        return False


class _Mode:
    """Turns recording on or off inside a `with` or a function."""

    mode = True

    def __enter__(self):
        self.previous = _C._set_grad_enabled(self.mode)
        return self

    def __exit__(self, *_):
        _C._set_grad_enabled(self.previous)
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with type(self)():
                return function(*args, **kwargs)

        return wrapped


class no_grad(_Mode):
    """Operations are not recorded."""

    mode = False


class enable_grad(_Mode):
    """Operations are recorded again, inside of `no_grad`."""

    mode = True
