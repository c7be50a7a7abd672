"""What torch takes for the derivative where there is none: writes kinks.json beside itself.

Each row is an op, its operands, its attributes in the order of the table, and the gradients of the sum of its results by
the operands that have one. Points at which the function is smooth stand among them. Needs torch 2.13.
"""

import json
import pathlib

import torch
import torch.nn.functional as F

ROWS = []


def row(op, tensors, attributes, function, wanted=None):
    leaves = [torch.tensor(t, dtype=torch.float64, requires_grad=True) for t in tensors]
    function(*leaves).sum().backward()
    grads = [leaf.grad.tolist() if (wanted is None or i in wanted) else None for i, leaf in enumerate(leaves)]
    ROWS.append({"op": op, "tensors": tensors, "attributes": attributes, "gradients": grads})


AT = [-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 6.0, 2.25]
for op, attributes, function in [
    ("abs", [], torch.abs), ("sign", [], torch.sign), ("relu", [], torch.relu),
    ("softplus", [], F.softplus), ("log_sigmoid", [], F.logsigmoid), ("leaky_relu", [0.2], lambda v: F.leaky_relu(v, 0.2)),
    ("elu", [1.3], lambda v: F.elu(v, 1.3)), ("celu", [0.7], lambda v: F.celu(v, 0.7)), ("selu", [], F.selu),
    ("hardtanh", [], F.hardtanh), ("relu6", [], F.relu6), ("hardsigmoid", [], F.hardsigmoid), ("hardswish", [], F.hardswish),
    ("softsign", [], F.softsign), ("mish", [], F.mish), ("tanhshrink", [], F.tanhshrink), ("softshrink", [0.5], F.softshrink),
    ("hardshrink", [0.5], F.hardshrink), ("threshold", [0.5, -7.0], lambda v: F.threshold(v, 0.5, -7.0)),
    ("silu", [], F.silu), ("gelu", [], F.gelu), ("sinc", [], torch.sinc), ("i0", [], torch.i0), ("i0e", [], torch.special.i0e),
    ("i1", [], torch.special.i1), ("i1e", [], torch.special.i1e), ("frac", [], torch.frac),
]:
    row(op, [AT], attributes, function)
U, V = [0.0, 0.0, 1.0, -1.0, 2.0, -0.5], [0.0, 2.0, 1.0, -1.0, 0.0, 0.25]
row("atan2", [U, V], [], torch.atan2)
row("logaddexp", [U, V], [], torch.logaddexp)
row("fmax", [U, V], [], torch.fmax)
row("fmin", [U, V], [], torch.fmin)
row("maximum", [U, V], [], torch.maximum)
row("minimum", [U, V], [], torch.minimum)
row("copysign", [U, V], [], torch.copysign, wanted=[0])
row("xlogy", [[0.0, 0.0, 2.0, 0.0], [2.0, 0.0, 0.5, 0.1]], [], torch.xlogy, wanted=[0])
row("nan_to_num", [[float("inf"), float("-inf"), 1.0]], [], torch.nan_to_num)
row("prelu", [[[0.0, 1.0], [-1.0, 2.0]], [0.25, 0.5]], [], F.prelu)
SIGN = [1.0, -1.0, 1.0, -1.0, 1.0, -1.0]
for op, function, attributes, torch_attributes in [
    ("l1_loss", F.l1_loss, ["sum"], {}), ("huber_loss", F.huber_loss, [1.0, "sum"], {}),
    ("smooth_l1_loss", F.smooth_l1_loss, [1.0, "sum"], {}), ("mse_loss", F.mse_loss, ["sum"], {}),
]:
    row(op, [U, V], attributes, lambda x, y: function(x, y, reduction="sum", **torch_attributes))
row("hinge_embedding_loss", [[1.0, 1.0, 0.5, 2.0, 0.0, -1.0], SIGN], [1.0, "sum"],
    lambda x, y: F.hinge_embedding_loss(x, y, reduction="sum"), wanted=[0])
row("margin_ranking_loss", [U, V, SIGN], [0.0, "sum"], lambda x, y, t: F.margin_ranking_loss(x, y, t, reduction="sum"),
    wanted=[0, 1])
row("binary_cross_entropy_with_logits", [[0.0, 0.0, 0.0], [0.0, 1.0, 0.3]], ["sum"],
    lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="sum"), wanted=[0])
row("binary_cross_entropy", [[0.0, 1.0, 0.5], [1.0, 0.0, 0.3]], ["sum"],
    lambda x, y: F.binary_cross_entropy(x, y, reduction="sum"), wanted=[0])
row("pairwise_distance", [[[1.0, 2.0]], [[1.0, 2.0]]], [2.0, 0.0], lambda x, y: F.pairwise_distance(x, y, eps=0.0))
row("quantile", [[2.0, 2.0, 1.0, 3.0, 3.0], 0.3], [], torch.quantile, wanted=[0])
row("nanquantile", [[2.0, 2.0, 1.0, 3.0, 3.0], 0.3], [], torch.nanquantile, wanted=[0])
row("entr", [[0.0, -1.0, 0.5, 1.0]], [], torch.special.entr)
row("logit", [[0.0, 1.0, -0.5, 1.5, 0.25, 0.5]], [], torch.logit)
for op, function in [("asin", torch.asin), ("acos", torch.acos), ("atanh", torch.atanh)]:
    row(op, [[1.0, -1.0, 0.5]], [], function)
row("max", [[1.0, float("nan"), 3.0]], [], torch.amax)
row("min", [[1.0, float("nan"), 3.0]], [], torch.amin)
text = ",\n".join(json.dumps(r, separators=(",", ":")).replace("-Infinity", '"-inf"').replace("Infinity", '"inf"').replace("NaN", '"nan"') for r in ROWS)
pathlib.Path(__file__).with_name("kinks.json").write_text("[\n" + text + "\n]\n")
print(len(ROWS), "rows")
