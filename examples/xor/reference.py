"""The losses of `examples/xor`, computed with NumPy alone: in double and in single precision.

    python3 examples/xor/reference.py            prints the losses in single precision
    python3 examples/xor/reference.py --check    holds losses.txt against both, to 1e-6

Nothing of the engine is used: Philox 4x32-10 (Salmon et al. 2011), the gradients and Adam (Kingma and Ba 2015)
stand here as they do in the papers.
"""

import sys
from pathlib import Path

import numpy as np

SHOWN = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1500, 2000]
SEED = 7


def philox(counter, key):
    """One block of four 32-bit words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        first, second = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (second >> 32) ^ c1 ^ k0, second & 0xFFFFFFFF, (first >> 32) ^ c3 ^ k1, first & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def uniform(draw, shape):
    """Values in -1 to 1: the top 24 bits of each word as a fraction of one, doubled, less one."""
    count = int(np.prod(shape))
    words = []
    for block in range((count + 3) // 4):
        counter = (block & 0xFFFFFFFF, block >> 32, draw & 0xFFFFFFFF, draw >> 32)
        words.extend(philox(counter, (SEED & 0xFFFFFFFF, SEED >> 32)))
    unit = np.array([word >> 8 for word in words[:count]], dtype=np.float64) * 2.0**-24
    return (unit * 2.0 - 1.0).reshape(shape)


def train(dtype):
    """The losses of the steps in SHOWN, each before the step's update."""
    x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype)
    y = np.array([[0], [1], [1], [0]], dtype)
    parameters = [uniform(0, (2, 8)), np.zeros(8), uniform(1, (8, 1)), np.zeros(1)]
    parameters = [parameter.astype(dtype) for parameter in parameters]
    m = [np.zeros_like(parameter) for parameter in parameters]
    v = [np.zeros_like(parameter) for parameter in parameters]
    beta1, beta2, rate, epsilon = 0.9, 0.999, dtype(0.01), dtype(1e-8)
    losses = {}
    for step in range(1, 2001):
        w1, b1, w2, b2 = parameters
        hidden = np.tanh(x @ w1 + b1)
        error = hidden @ w2 + b2 - y
        loss = np.mean(error * error)
        if step in SHOWN:
            losses[step] = float(loss)
        output_gradient = error * dtype(2.0 / error.size)
        hidden_gradient = (output_gradient @ w2.T) * (dtype(1) - hidden * hidden)
        gradients = [
            x.T @ hidden_gradient,
            hidden_gradient.sum(axis=0),
            hidden.T @ output_gradient,
            output_gradient.sum(axis=0),
        ]
        correction1, correction2 = dtype(1 - beta1**step), dtype(1 - beta2**step)
        for i, gradient in enumerate(gradients):
            m[i] = dtype(beta1) * m[i] + dtype(1 - beta1) * gradient
            v[i] = dtype(beta2) * v[i] + dtype(1 - beta2) * gradient * gradient
            denominator = np.sqrt(v[i] / correction2) + epsilon
            parameters[i] = parameters[i] - rate / correction1 * m[i] / denominator
    return losses


def main():
    if "--check" not in sys.argv[1:]:
        for step, loss in train(np.float32).items():
            print(f"{step} {loss:.8e}")
        return 0
    lines = (Path(__file__).parent / "losses.txt").read_text().splitlines()
    known = {int(step): float(loss) for step, loss in (line.split() for line in lines)}
    passed = failed = 0
    for dtype in (np.float64, np.float32):
        losses = train(dtype)
        worst = max(abs(losses[step] - known[step]) for step in SHOWN)
        good = worst < 1e-6 and list(known) == SHOWN
        passed, failed = passed + good, failed + (not good)
        print(f"{np.dtype(dtype).name}: largest difference {worst:.2e}")
    print(f"{passed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main())
