"""Lanthorn's tensors in Python: the extension module `lanthorn._C`, and what is plainer to say in Python."""

import builtins
import functools
import inspect

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

    def __new__(cls, function=None):
        mode = super().__new__(cls)
        return mode if function is None else mode(function)

    def __enter__(self):
        self.previous = _C._set_grad_enabled(self.mode)
        return self

    def __exit__(self, *_):
        _C._set_grad_enabled(self.previous)
        return False

    def __call__(self, function):
        if inspect.isgeneratorfunction(function):
            return self._generator(function)

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with type(self)():
                return function(*args, **kwargs)

        return wrapped

    def _generator(self, function):
        """The mode holds while the generator runs, and not while it waits for its caller."""

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            generator = function(*args, **kwargs)
            step, value = generator.send, None
            try:
                while True:
                    with type(self)():
                        item = step(value)
                    try:
                        step, value = generator.send, (yield item)
                    except GeneratorExit:
                        with type(self)():
                            generator.close()
                        raise
                    except BaseException as error:
                        step, value = generator.throw, error
            except StopIteration as end:
                return end.value

        return wrapped


class no_grad(_Mode):
    """Operations are not recorded."""

    mode = False


class enable_grad(_Mode):
    """Operations are recorded again, inside of `no_grad`."""

    mode = True
