"""Values of the special functions, computed with mpmath at 60 digits: writes values.json beside itself.

Each row is a function's name and its points: argument(s), value. Needs mpmath and NumPy.
"""

import json
import math
import pathlib

import mpmath as mp
import numpy as np

mp.mp.dps = 60
rng = np.random.default_rng(7)
SQRT2 = mp.sqrt(2)


def points(*ranges):
    """Arguments: those given, and eight at random in each range."""
    found = []
    for r in ranges:
        found += [float(v) for v in (rng.uniform(*r, 8) if isinstance(r, tuple) else [r])]
    return found


def near(*centres):
    """Arguments close to points of interest, on both sides."""
    return [c + s * e for c in centres for e in (1e-1, 1e-3, 1e-6, 1e-10, 1e-14) for s in (1, -1)]


def erfcx(x):
    if x < 100:
        return mp.exp(x * x) * mp.erfc(x)
    # The asymptotic series, to 60 digits and more.
    return sum((-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(40)) / (x * mp.sqrt(mp.pi))


def ndtr(x):
    return mp.erfc(-x / SQRT2) / 2


def log_ndtr(x):
    return mp.log1p(-ndtr(-x)) if x > 0 else mp.log(erfcx(-x / SQRT2) / 2) - x * x / 2


def quantile(log_p):
    """Newton's steps on log_ndtr in high precision."""
    if log_p > mp.log(mp.mpf(1) / 2):
        return -quantile(mp.log(-mp.expm1(log_p)))
    x = -mp.sqrt(-2 * log_p) if log_p < -1 else mp.mpf(-1) / 2
    for _ in range(200):
        step = (log_ndtr(x) - log_p) * erfcx(-x / SQRT2) * mp.sqrt(mp.pi / 2)
        x -= step
        if abs(step) <= abs(x) * mp.mpf(10) ** -45:
            break
    return x


def ndtri(p):
    return mp.mpf(0) if p == mp.mpf(1) / 2 else quantile(mp.log(p)) if p < 0.5 else -quantile(mp.log(1 - p))


def erfinv(y):
    if abs(y) < 1e-15:
        return y * mp.sqrt(mp.pi) / 2 * (1 + mp.pi * y * y / 12)
    return mp.mpf(0) if y == 0 else mp.sign(y) * -ndtri((1 - abs(y)) / 2) / SQRT2


def erfcinv(y):
    return -ndtri(y / 2) / SQRT2


def repeated_integral(n, x):
    """e^(x^2) i^n erfc(x), by its integral 2 / (sqrt(pi) n!) of (t - x)^n e^(x^2 - t^2)."""
    f = lambda s: s**n * mp.exp(-s * s - 2 * s * x)
    return 2 / mp.sqrt(mp.pi) / mp.factorial(n) * mp.quad(f, [0, 0.25, 0.5, 1, 2, 4, 8, 16, 40])


def polygamma(n, x):
    return mp.psi(int(n), x)


tails = points((-3, 3), (-10, -3), (-38, -10), (3, 30))
table = {
    "sinh": (mp.sinh, points((-1, 1), (-700, 700))),
    "cosh": (mp.cosh, points((-1, 1), (-700, 700))),
    "asin": (mp.asin, points((-1, 1), 1e-9, 0.999999)),
    "acos": (mp.acos, points((-1, 1), 1e-9, 0.999999)),
    "atan": (mp.atan, points((-1, 1), (-1e3, 1e3), 1e-9, 1e300)),
    "asinh": (mp.asinh, points((-1, 1), (-1e3, 1e3), 1e-9, 1e300)),
    "acosh": (mp.acosh, points((1, 2), (2, 1e3), 1 + 1e-9, 1e300)),
    "atanh": (mp.atanh, points((-1, 1), 1e-9, 0.999999)),
    "erfc": (mp.erfc, points((-3, 3), (3, 26))),
    "lgamma": (mp.loggamma, points((0, 1), (1, 3), (3, 50), (50, 1e4), 1e-200, 1e20, 1e300) + near(1.0, 2.0)),
    "softplus": (lambda x: mp.log1p(mp.exp(x)), points((-1, 1), (-700, -1), (1, 700), 0.0)),
    "erfcx": (erfcx, points((-1, 1), (-26, -1), (1, 24), (24, 27), (27, 1e3), (1e3, 1e8), 0.0, 25.0, 1e200)),
    "log_erfcx": (lambda x: x * x + mp.log(mp.erfc(x)) if x < 100 else mp.log(erfcx(x)),
                  points((-1, 1), (-1e3, -1), (1, 24), (24, 27), (27, 1e3), 1e9) + near(0.0, 0.5)),
    "erfinv": (erfinv, points((-1, 1), (-0.85, 0.85), (-1e-3, 1e-3), 1e-300, 1 - 1e-16, -1 + 1e-12, 0.85, 0.0)),
    "erfcinv": (erfcinv, points((0, 2), (0, 1e-3), 1e-20, 1e-100, 1e-300, 1e-320, 2 - 1e-15, 0.15) + near(1.0)),
    "ndtr": (ndtr, tails + points(-37.5, 0.0, -1.0, -5.0, -20.0)),
    "log_ndtr": (log_ndtr, tails + points((-1e4, -38), -40.0, -1e10, -1e100, 37.0, -1.0)),
    "ndtri": (ndtri, points((0, 1), (0, 1e-3), (0.99, 1), 1e-20, 1e-100, 1e-300, 5e-324, 0.075, 0.925) + near(0.5)),
    "ndtri_exp": (quantile, points((-1, 0), (-10, -1), (-690, -10), (-710, -690), (-1e4, -710), -1e-10, -1e-20, -1e-300,
                                   -0.145, -1e10, -1e100, -1e300)),
    "digamma": (mp.digamma, points((0, 1), (1, 3), (3, 12), (12, 1e4), (-20, 0), (-1e3, -20), 1e-10, 1e15, 1e-300)),
    "i0": (lambda x: mp.besseli(0, x), points((-8, 8), (8, 100), (100, 700), 0.0, 8.0, 712.0)),
    "i0e": (lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), points((-8, 8), (8, 100), (100, 1e4), 0.0, 8.0)),
    "i1": (lambda x: mp.besseli(1, x), points((-8, 8), (8, 100), (100, 700), -1e-10, 8.0, -712.0)),
    "i1e": (lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), points((-8, 8), (-100, -8), (100, 1e4), 1e-200, 8.0)),
    "polygamma": (polygamma, [(n, x) for n in (1.0, 2.0, 3.0, 7.0, 20.0, 60.0)
                              for x in points((0, 1), (1, 20), (20, 300), (-9, 0), 1e-5)]
                  + [(1.0, 1e10), (2.0, 1e10), (1.0, -1000.25), (170.0, 3.5), (200.0, 40.0), (100.0, 1e4), (3.0, -0.5)]),
    "erfc_integral": (repeated_integral, [(n, x) for n in (0.0, 1.0, 2.0, 3.0, 5.0)
                                          for x in points((-5, 0), (0, 1), (1, 2), (2, 30)) + [0.0, 1.0]]),
}

rows = {}
for name, (function, arguments) in table.items():
    rows[name] = []
    for at in arguments:
        at = at if isinstance(at, tuple) else (at,)
        value = function(*(mp.mpf(v) for v in at))
        if abs(value) > 1e308:
            continue
        rows[name].append([*at, float(value)])
        assert math.isfinite(rows[name][-1][-1]), (name, at, value)
text = ",\n".join(f'"{name}": {json.dumps(row, separators=(",", ":"))}' for name, row in rows.items())
pathlib.Path(__file__).with_name("values.json").write_text("{\n" + text + "\n}\n")
print({name: len(row) for name, row in rows.items()})
