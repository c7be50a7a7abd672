"""Layers of the Effect API in NumPy, for `model.test.mjs`: writes `model-cases.json` beside itself.

Each case holds a layer, its arguments, its parameters, an input and the output, computed in f64 by sums that are written
out.

    python js/effect/test/model-cases.py
"""

import json
import math
import pathlib

import numpy as np

rng = np.random.default_rng(7)
cases = []


def plain(x):
    kind = "f32" if np.issubdtype(x.dtype, np.floating) else "u32"
    return {"shape": list(x.shape), "dtype": kind, "data": [round(float(v), 7) for v in x.flatten()]}


def draw(*shape):
    return np.round(rng.normal(size=shape), 4)


def case(layer, arguments, params, x, y):
    cases.append({"layer": layer, "arguments": arguments, "params": [plain(p) for p in params], "input": plain(x), "output": plain(y)})


def convolve(x, weight, bias, stride=1, padding=0, dilation=1, groups=1):
    """x [batch, in, *sizes]; weight [out, in / groups, *kernel]."""
    rank = x.ndim - 2
    padded = np.pad(x, [(0, 0), (0, 0)] + [(padding, padding)] * rank)
    kernel = weight.shape[2:]
    sizes = [(n - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(padded.shape[2:], kernel)]
    y = np.zeros((x.shape[0], weight.shape[0], *sizes))
    share = weight.shape[0] // groups
    for b, o, *at in np.ndindex(y.shape):
        group = o // share
        for c, *k in np.ndindex(weight.shape[1:]):
            place = tuple(a * stride + d * dilation for a, d in zip(at, k))
            y[(b, o, *at)] += weight[(o, c, *k)] * padded[(b, group * weight.shape[1] + c, *place)]
        y[(b, o, *at)] += bias[o]
    return y


def normalise(x, weight, bias, axes, eps=1e-5):
    mean = x.mean(axis=axes, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + eps) * weight + bias


def turn(x, theta):
    """Rotary embedding of the last axis, first half against second half, by positions of the axis before it."""
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[-2])[:, None] * theta ** (-np.arange(half) / half)[None, :]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def attend(x, params, heads, causal=False, rope=None):
    qkv_weight, qkv_bias, out_weight, out_bias = params
    batch, length, width = x.shape
    size = width // heads
    q, k, v = np.split(x @ qkv_weight + qkv_bias, 3, axis=-1)
    y = np.zeros_like(x)
    for b in range(batch):
        for h in range(heads):
            part = slice(h * size, (h + 1) * size)
            query, key, value = q[b, :, part], k[b, :, part], v[b, :, part]
            if rope:
                query, key = turn(query, rope), turn(key, rope)
            scores = query @ key.T / math.sqrt(size)
            if causal:
                scores = np.where(np.tril(np.ones((length, length))) == 1, scores, -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            y[b, :, part] = weights / weights.sum(-1, keepdims=True) @ value
    return y @ out_weight + out_bias


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def delta_attend(x, params, heads, eps=1e-5):
    """Kimi Delta Attention, one step after the other."""
    projections = [params[0:2], params[2:4], params[4:6]]
    decay_down, decay_up, decay_scale, decay_bias, beta_weight, gate_down, gate_up, norm, out_weight = params[6:]
    batch, length, width = x.shape
    size = width // heads
    mixed = []
    for weight, conv in projections:
        wide = np.pad(x @ weight, [(0, 0), (conv.shape[1] - 1, 0), (0, 0)])
        y = sum(wide[:, tap : tap + length] * conv[:, tap] for tap in range(conv.shape[1]))
        mixed.append(y * sigmoid(y))
    speed = np.log1p(np.exp(x @ decay_down @ decay_up + decay_bias))
    beta = sigmoid(x @ beta_weight)
    y = np.zeros_like(x)
    for b in range(batch):
        for h in range(heads):
            part = slice(h * size, (h + 1) * size)
            state = np.zeros((size, size))
            for t in range(length):
                q, k, v = (projection[b, t, part] for projection in mixed)
                q, k = (z / np.sqrt((z**2).sum() + 1e-6) for z in (q, k))
                state = np.exp(-np.exp(decay_scale[h]) * speed[b, t, part])[:, None] * state
                state = state + beta[b, t, h] * np.outer(k, v - state.T @ k)
                o = state.T @ q / math.sqrt(size)
                y[b, t, part] = o / np.sqrt((o**2).mean() + eps) * norm
    return (y * sigmoid(x @ gate_down @ gate_up)) @ out_weight


x, w, b = draw(2, 3), draw(3, 4), draw(4)
case("linear", ["l", 3, 4], [w, b], x, x @ w + b)
x = draw(2, 2, 3)
case("linear", ["l", 3, 4], [w, b], x, x @ w + b)

x, w, b = draw(2, 2, 7), draw(4, 2, 3), draw(4)
options = {"stride": 2, "padding": 1}
case("conv1d", ["c", 2, 4, 3, options], [w, b], x, convolve(x, w, b, **options))
x, w, b = draw(1, 4, 5, 5), draw(4, 2, 3, 2), draw(4)
options = {"padding": 1, "groups": 2, "dilation": 2}
case("conv2d", ["c", 4, 4, [3, 2], options], [w, b], x, convolve(x, w, b, **options))
x, w, b = draw(2, 3, 4, 4), draw(2, 3, 3, 3), draw(2)
case("conv2d", ["c", 3, 2, 3], [w, b], x, convolve(x, w, b))

w, ids = draw(5, 3), np.array([[4, 0, 1], [1, 1, 3]], dtype=np.uint32)
case("embedding", ["e", 5, 3], [w], ids, w[ids])
case("positionEmbedding", ["p", 5, 3], [w], ids, w[:3])

x, w, b = draw(2, 3, 4), draw(4), draw(4)
case("layerNorm", ["n", 4], [w, b], x, normalise(x, w, b, -1))
w, b = draw(3, 4), draw(3, 4)
case("layerNorm", ["n", [3, 4], {"eps": 0.1}], [w, b], x, normalise(x, w, b, (-2, -1), 0.1))

x = draw(2, 5, 8)
params = [draw(8, 24) * 0.4, draw(24), draw(8, 8) * 0.4, draw(8)]
case("multiHeadAttention", ["a", 8, 2], params, x, attend(x, params, 2))
case("multiHeadAttention", ["a", 8, 2, {"causal": True}], params, x, attend(x, params, 2, causal=True))
case("multiHeadAttention", ["a", 8, 2, {"causal": True, "rope": 100}], params, x, attend(x, params, 2, True, 100))

x = draw(3, 4)
erf = np.vectorize(math.erf)
unary = {
    "tanh": np.tanh(x),
    "sigmoid": 1 / (1 + np.exp(-x)),
    "relu": np.maximum(x, 0),
    "silu": x / (1 + np.exp(-x)),
    "mish": x * np.tanh(np.log1p(np.exp(x))),
    "softplus": np.log1p(np.exp(x)),
}
for name, y in unary.items():
    case(name, None, [], x, y)
tanh_gelu = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
case("gelu", [], [], x, 0.5 * x * (1 + erf(x / math.sqrt(2))))
case("gelu", [{"approximate": "tanh"}], [], x, tanh_gelu)
case("elu", [], [], x, np.where(x > 0, x, np.exp(x) - 1))
case("elu", [{"alpha": 2}], [], x, np.where(x > 0, x, 2 * (np.exp(x) - 1)))
case("leakyRelu", [], [], x, np.where(x > 0, x, 0.01 * x))
case("leakyRelu", [{"negativeSlope": 0.2}], [], x, np.where(x > 0, x, 0.2 * x))
e = np.exp(x)
case("softmax", [], [], x, e / e.sum(-1, keepdims=True))
case("softmax", [0], [], x, e / e.sum(0, keepdims=True))
case("logSoftmax", [], [], x, x - np.log(e.sum(-1, keepdims=True)))

x = draw(2, 3, 2, 2)
case("flatten", [], [], x, x.reshape(2, 12))
case("flatten", [{"startDim": 0}], [], x, x.reshape(24))
case("flatten", [{"startDim": 1, "endDim": 2}], [], x, x.reshape(2, 6, 2))
case("dropout", [{"p": 0}], [], x, x)

x = draw(1, 2, 4, 6)
windows = x.reshape(1, 2, 2, 2, 3, 2)
case("maxPool2d", [{"kernelSize": 2}], [], x, windows.max((3, 5)))
case("avgPool2d", [{"kernelSize": [2, 2], "stride": 2}], [], x, windows.mean((3, 5)))
overlapping = np.zeros((1, 2, 2, 3))
for b, c, i, j in np.ndindex(overlapping.shape):
    overlapping[b, c, i, j] = x[b, c, 2 * i : 2 * i + 2, 2 * j : 2 * j + 1].max()
case("maxPool2d", [{"kernelSize": [2, 1], "stride": 2}], [], x, overlapping)

x = draw(2, 6, 8)
params = [draw(8, 8) * 0.4, draw(8, 4) * 0.5] * 3 + [draw(8, 4) * 0.4, draw(4, 8) * 0.5, draw(2) * 0.5, draw(8)]
params += [draw(8, 2) * 0.4, draw(8, 4) * 0.4, draw(4, 8) * 0.5, draw(4), draw(8, 8) * 0.4]
case("kimiDeltaAttention", ["a", 8, 2], params, x, delta_attend(x, params, 2))
case("kimiDeltaAttention", ["a", 8, 2, {"normEps": 0.1}], params, x, delta_attend(x, params, 2, 0.1))

path = pathlib.Path(__file__).with_name("model-cases.json")
path.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(f"{len(cases)} cases in {path}")
