"""Layers and optimisers of upstream torch, for `nn.test.mjs`: writes `nn-cases.json` beside itself.

Needs torch 2.13. Each layer has parameters drawn from a fixed seed; a case holds them, an input, the output, and the
gradients of `sum(output * weights)` with respect to the input and to each parameter. Each optimiser makes three steps on
given gradients.

    python js/lanthorn/test/nn-cases.py
"""

import json
import pathlib

import torch
from torch import nn, optim

torch.manual_seed(20)


def plain(x):
    return {"shape": list(x.shape), "data": [round(v, 7) for v in x.detach().flatten().tolist()]}


def first(out):
    """The outputs of a layer as a flat list of tensors."""
    if isinstance(out, torch.Tensor):
        return [out]
    return [t for part in out for t in first(part)]


cases = []


def layer(name, arguments, module, *inputs, training=True, fixed=()):
    """A layer in training, or not; `arguments` are those of our class. Inputs at `fixed` places have no gradients."""
    module.train(training)
    for p in module.parameters():
        with torch.no_grad():
            p.add_(0.2 * torch.randn_like(p))
    before = {key: plain(value) for key, value in module.state_dict().items()}
    leaves = [x.clone().requires_grad_(x.is_floating_point() and at not in fixed) for at, x in enumerate(inputs)]
    out = first(module(*leaves))
    weights = [torch.linspace(-1, 2, o.numel()).reshape(o.shape) for o in out]
    sum((o * w).sum() for o, w in zip(out, weights)).backward()
    cases.append({
        "layer": name, "arguments": arguments, "training": training, "state": before,
        "inputs": [{**plain(x), "dtype": "f32" if x.is_floating_point() else "i64"} for x in inputs],
        "outputs": [plain(o) for o in out],
        "weights": [plain(w) for w in weights],
        "inputGrads": [None if x.grad is None else plain(x.grad) for x in leaves],
        "grads": {key: plain(p.grad) for key, p in module.named_parameters()},
        "after": {key: plain(value) for key, value in module.state_dict().items() if key not in dict(module.named_parameters())},
    })


r = torch.randn
layer("Linear", [3, 4], nn.Linear(3, 4), r(2, 3))
layer("Linear", [3, 4, {"bias": False}], nn.Linear(3, 4, bias=False), r(2, 2, 3))
layer("Bilinear", [2, 3, 2], nn.Bilinear(2, 3, 2), r(2, 2), r(2, 3))
layer("Conv1d", [2, 4, 3, {"stride": 2, "padding": 1}], nn.Conv1d(2, 4, 3, stride=2, padding=1), r(2, 2, 7))
layer("Conv2d", [2, 4, [3, 2], {"padding": [1, 0], "groups": 2}], nn.Conv2d(2, 4, (3, 2), padding=(1, 0), groups=2), r(1, 2, 4, 4))
layer("Conv2d", [1, 2, 3, {"padding": "same"}], nn.Conv2d(1, 2, 3, padding="same"), r(1, 1, 4, 5))
layer("Conv3d", [1, 2, 2], nn.Conv3d(1, 2, 2), r(1, 1, 3, 2, 3))
layer("ConvTranspose1d", [2, 3, 3, {"stride": 2, "outputPadding": 1}], nn.ConvTranspose1d(2, 3, 3, stride=2, output_padding=1), r(1, 2, 3))
layer("ConvTranspose2d", [2, 3, 2, {"stride": 2, "padding": 1}], nn.ConvTranspose2d(2, 3, 2, stride=2, padding=1), r(1, 2, 3, 3))
layer("ConvTranspose3d", [1, 2, 2], nn.ConvTranspose3d(1, 2, 2), r(1, 1, 2, 2, 2))
layer("Embedding", [5, 3], nn.Embedding(5, 3), torch.tensor([[0, 4], [2, 4]]))
layer("Embedding", [5, 3, {"paddingIdx": 1}], nn.Embedding(5, 3, padding_idx=1), torch.tensor([1, 3]))
layer("LayerNorm", [4], nn.LayerNorm(4), r(2, 3, 4))
layer("LayerNorm", [[2, 3]], nn.LayerNorm([2, 3]), r(2, 2, 3))
layer("RMSNorm", [4, {"eps": 1e-6}], nn.RMSNorm(4, eps=1e-6), r(2, 4))
layer("GroupNorm", [2, 4], nn.GroupNorm(2, 4), r(2, 4, 3))
layer("BatchNorm1d", [3], nn.BatchNorm1d(3), r(4, 3))
layer("BatchNorm1d", [3], nn.BatchNorm1d(3), r(2, 3, 4), training=False)
layer("BatchNorm2d", [2, {"momentum": 0.3}], nn.BatchNorm2d(2, momentum=0.3), r(2, 2, 3, 2))
layer("BatchNorm3d", [2], nn.BatchNorm3d(2), r(2, 2, 2, 2, 2))
layer("InstanceNorm1d", [2], nn.InstanceNorm1d(2), r(2, 2, 4))
layer("InstanceNorm2d", [2, {"affine": True}], nn.InstanceNorm2d(2, affine=True), r(2, 2, 3, 2))
for name, arguments, module in [
    ("ReLU", [], nn.ReLU()), ("ReLU6", [], nn.ReLU6()), ("LeakyReLU", [0.1], nn.LeakyReLU(0.1)), ("ELU", [], nn.ELU()),
    ("CELU", [0.5], nn.CELU(0.5)), ("SELU", [], nn.SELU()), ("GELU", [], nn.GELU()), ("GELU", ["tanh"], nn.GELU("tanh")),
    ("SiLU", [], nn.SiLU()), ("Mish", [], nn.Mish()), ("Sigmoid", [], nn.Sigmoid()), ("LogSigmoid", [], nn.LogSigmoid()),
    ("Tanh", [], nn.Tanh()), ("Hardtanh", [], nn.Hardtanh()), ("Hardsigmoid", [], nn.Hardsigmoid()),
    ("Hardswish", [], nn.Hardswish()), ("Softplus", [], nn.Softplus()), ("Softsign", [], nn.Softsign()),
    ("Softmax", [1], nn.Softmax(1)), ("LogSoftmax", [], nn.LogSoftmax(-1)), ("GLU", [], nn.GLU()), ("PReLU", [], nn.PReLU()),
    ("Flatten", [], nn.Flatten()), ("Identity", [], nn.Identity()),
]:
    layer(name, arguments, module, 2 * r(2, 3, 4))
layer("MaxPool1d", [2], nn.MaxPool1d(2), r(1, 2, 5))
layer("MaxPool2d", [2, {"stride": 1, "padding": 1}], nn.MaxPool2d(2, stride=1, padding=1), r(1, 1, 3, 4))
layer("AvgPool1d", [3, {"stride": 2}], nn.AvgPool1d(3, stride=2), r(1, 2, 7))
layer("AvgPool2d", [2, {"padding": 1, "countIncludePad": False}], nn.AvgPool2d(2, padding=1, count_include_pad=False), r(1, 1, 4, 3))
layer("AdaptiveAvgPool2d", [[2, 1]], nn.AdaptiveAvgPool2d((2, 1)), r(1, 2, 4, 3))
layer("AdaptiveMaxPool1d", [2], nn.AdaptiveMaxPool1d(2), r(1, 2, 5))
layer("LSTM", [3, 2], nn.LSTM(3, 2, batch_first=True), r(2, 4, 3))
layer("LSTM", [2, 2, {"layers": 2, "bidirectional": True, "batchFirst": False}], nn.LSTM(2, 2, num_layers=2, bidirectional=True), r(3, 2, 2))
layer("GRU", [3, 2, {"layers": 2}], nn.GRU(3, 2, num_layers=2, batch_first=True), r(2, 3, 3))
layer("RNN", [3, 2, {"nonlinearity": "relu", "bias": False}], nn.RNN(3, 2, nonlinearity="relu", bias=False, batch_first=True), r(2, 3, 3))
layer("LSTMCell", [3, 2], nn.LSTMCell(3, 2), r(2, 3))
layer("GRUCell", [3, 2], nn.GRUCell(3, 2), r(2, 3))
layer("RNNCell", [3, 2], nn.RNNCell(3, 2), r(2, 3))


class Attention(nn.MultiheadAttention):
    def forward(self, *x):
        return super().forward(*x, need_weights=False)[0]


layer("MultiheadAttention", [4, 2], Attention(4, 2, batch_first=True), r(2, 3, 4), r(2, 5, 4), r(2, 5, 4))
layer("TransformerEncoderLayer", [4, 2, {"feedForward": 6, "dropout": 0}],
      nn.TransformerEncoderLayer(4, 2, 6, dropout=0, batch_first=True), r(2, 3, 4))
layer("TransformerEncoderLayer", [4, 2, {"feedForward": 6, "dropout": 0, "normFirst": True, "activation": "gelu"}],
      nn.TransformerEncoderLayer(4, 2, 6, dropout=0, batch_first=True, norm_first=True, activation="gelu"), r(2, 3, 4))

x, y = r(3, 4), r(3, 4)
unit, binary = torch.rand(3, 4), (torch.rand(3, 4) > 0.5).float()
ids, sign = torch.tensor([1, 0, 3]), torch.tensor([1.0, -1.0, 1.0])
layer("MSELoss", [], nn.MSELoss(), x, y)
layer("L1Loss", [{"reduction": "sum"}], nn.L1Loss(reduction="sum"), x, y)
layer("HuberLoss", [{"delta": 0.5}], nn.HuberLoss(delta=0.5), x, y)
layer("SmoothL1Loss", [{"reduction": "none"}], nn.SmoothL1Loss(reduction="none"), x, y)
layer("BCELoss", [], nn.BCELoss(), unit, binary)
layer("BCEWithLogitsLoss", [], nn.BCEWithLogitsLoss(), x, binary)
layer("CrossEntropyLoss", [{"labelSmoothing": 0.1}], nn.CrossEntropyLoss(label_smoothing=0.1), x, ids)
layer("CrossEntropyLoss", [{"ignoreIndex": 3, "reduction": "sum"}], nn.CrossEntropyLoss(ignore_index=3, reduction="sum"), x, ids)
layer("NLLLoss", [], nn.NLLLoss(), x.log_softmax(1), ids)
layer("KLDivLoss", [{"reduction": "sum"}], nn.KLDivLoss(reduction="sum"), x.log_softmax(1), y.softmax(1))
layer("PoissonNLLLoss", [], nn.PoissonNLLLoss(), x, unit)
layer("HingeEmbeddingLoss", [], nn.HingeEmbeddingLoss(), unit[:, 0], sign)
layer("CosineEmbeddingLoss", [], nn.CosineEmbeddingLoss(), x, y, sign)
layer("MarginRankingLoss", [{"margin": 0.2}], nn.MarginRankingLoss(0.2), x[:, 0], y[:, 0], sign)
layer("TripletMarginLoss", [], nn.TripletMarginLoss(), x, y, unit)
layer("SoftMarginLoss", [], nn.SoftMarginLoss(), x[:, 0], sign, fixed=(1,))

steps = []


class Lion(optim.Optimizer):
    """Algorithm 2 of Chen et al. 2023; torch has none."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                update = (b1 * m + (1 - b1) * p.grad).sign() + group["weight_decay"] * p
                p.sub_(group["lr"] * update)
                m.mul_(b2).add_((1 - b2) * p.grad)


def optimizer(name, options, make):
    p, grads = r(2, 3), [r(2, 3) for _ in range(3)]
    q = p.clone().requires_grad_()
    step = make([q])
    values = []
    for grad in grads:
        q.grad = grad
        step.step()
        values.append(plain(q))
    steps.append({"optimizer": name, "options": options, "start": plain(p), "grads": [plain(g) for g in grads], "values": values})


optimizer("SGD", {"lr": 0.1}, lambda p: optim.SGD(p, lr=0.1))
optimizer("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weightDecay": 0.1},
          lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.2, weight_decay=0.1))
optimizer("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}, lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True))
optimizer("Adam", {"lr": 0.1, "weightDecay": 0.1}, lambda p: optim.Adam(p, lr=0.1, weight_decay=0.1))
optimizer("AdamW", {"lr": 0.1, "betas": [0.8, 0.95], "eps": 1e-6}, lambda p: optim.AdamW(p, lr=0.1, betas=(0.8, 0.95), eps=1e-6))
optimizer("Lion", {"lr": 0.1, "weightDecay": 0.1}, lambda p: Lion(p, lr=0.1, weight_decay=0.1))

path = pathlib.Path(__file__).with_suffix(".json")
lines = [json.dumps(case, separators=(",", ":")) for case in cases]
more = [json.dumps(case, separators=(",", ":")) for case in steps]
path.write_text('{"layers":[\n' + ",\n".join(lines) + '\n],"optimizers":[\n' + ",\n".join(more) + "\n]}\n")
print(f"{path.name}: {len(cases)} layers, {len(steps)} optimisers, {path.stat().st_size} bytes")
