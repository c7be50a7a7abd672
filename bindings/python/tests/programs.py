"""Programs that run on upstream and on lanthorn alike: `make_fixtures.py` writes down what upstream gives.

Each takes a module with upstream's names and a function `grad`, and returns numbers, strings and lists of them.
"""

DTYPES = [
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64",
]


def promotion(t, grad):
    """The result types of pairs of dtypes, for operands with axes, of rank 0, and Python's numbers."""
    found = []

    def note(operation):
        try:
            found.append(str(operation()))
        except (RuntimeError, TypeError):
            found.append("error")

    tensors = {
        name: (t.zeros([2], dtype=getattr(t, name)), t.zeros([], dtype=getattr(t, name))) for name in DTYPES
    }
    for a in DTYPES:
        for b in DTYPES:
            note(lambda: t.promote_types(getattr(t, a), getattr(t, b)))
            note(lambda: t.can_cast(getattr(t, a), getattr(t, b)))
            for x in tensors[a]:
                for y in tensors[b]:
                    note(lambda: t.result_type(x, y))
    for a in DTYPES:
        for x in tensors[a]:
            for number in (True, 3, 2.5):
                note(lambda: t.result_type(x, number))
                note(lambda: (x * number).dtype)
                note(lambda: (x / number).dtype)
                # Upstream has no kernel for these three.
                if a not in ("uint16", "uint32", "uint64"):
                    note(lambda: (number - x).dtype)
    return found


def leaf(t, values):
    return t.tensor(values, dtype=t.float64, requires_grad=True)


def second_derivatives(t, grad):
    """Gradients of gradients, by create_graph."""
    results = []
    x = leaf(t, [[0.3, -0.7, 1.1], [0.9, 0.2, -0.4]])
    w = leaf(t, [[0.5, -1.2], [0.8, 0.1], [-0.3, 0.6]])
    b = leaf(t, [0.1, -0.2])
    functions = [
        lambda: ((x @ w + b).tanh() ** 2).sum(),
        lambda: (x.exp() * x).sum(),
        lambda: ((x * x + 1.0).log() / (x * x + 2.0)).mean(),
        lambda: (x.sigmoid() * x.t().reshape(2, 3)).sum(),
        lambda: ((x ** 3).sum(dim=1) * (x / 3.0).sum(dim=1, keepdim=True).squeeze(1)).sum(),
        lambda: (x[:, 1:] * x[0, 0] - x[:, ::2]).relu().sum() ** 2,
        lambda: (x.unsqueeze(0).expand(4, 2, 3) @ w).pow(2).mean(),
        lambda: x.as_strided((2, 2), (1, 2)).pow(3).sum(),
        lambda: (x.permute(1, 0) * w).pow(2).sum(),
    ]
    for function in functions:
        y = function()
        first = grad(y, [x, w, b], create_graph=True, allow_unused=True)
        results.append(y.item())
        total = None
        for gradient in first:
            results.append(None if gradient is None else gradient.detach().tolist())
            if gradient is not None:
                part = (gradient * gradient).sum()
                total = part if total is None else total + part
        second = grad(total, [x, w, b], allow_unused=True)
        results.extend(None if gradient is None else gradient.tolist() for gradient in second)
    return results


def in_place_through_views(t, grad):
    """The history of a base whose views are written, and of its other views."""
    results = []

    def run(write):
        a = leaf(t, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        y = leaf(t, [0.5, -1.5])
        z = leaf(t, [2.0, 3.0, 4.0])
        base = a * 1.5
        before = base[1]
        write(base, y, z)
        loss = (base * base).sum() + (before * z).sum() + (base.t()[1] * y).sum()
        names = [base.grad_fn.name(), before.grad_fn.name()]
        gradients = grad(loss, [a, y, z], allow_unused=True)
        results.append(names)
        results.append(base.detach().tolist())
        results.extend(None if gradient is None else gradient.tolist() for gradient in gradients)

    def column(base, y, z):
        base[:, 1].add_(y)

    def scaled_row(base, y, z):
        base[1].mul_(z)

    def divided(base, y, z):
        base[0].div_(z)

    def assigned(base, y, z):
        base[:, 0] = y

    def number(base, y, z):
        base[:, 2] = 7.0

    def transposed(base, y, z):
        view = base.t()
        view += z.unsqueeze(1)

    def nested(base, y, z):
        base[:, 1:][0].sub_(y)

    def twice(base, y, z):
        base[0].mul_(z)
        base[:, 1].mul_(y)

    def zeroed(base, y, z):
        base[0].zero_()
        base.mul_(2.0)

    def whole(base, y, z):
        base.add_(z).mul_(z)

    def strided(base, y, z):
        base.as_strided((2, 2), (3, 2)).mul_(y)

    for write in (column, scaled_row, divided, assigned, number, transposed, nested, twice, zeroed, whole, strided):
        run(write)

    # Into memory that asked for no gradient.
    y = leaf(t, [1.0, 2.0])
    base = t.zeros([3, 2], dtype=t.float64)
    base[1] = y * 3.0
    base[2].add_(y)
    results.append(grad((base * base).sum(), [y])[0].tolist())
    results.append([base.requires_grad, base.is_leaf, base._version])
    return results


def hooks(t, grad):
    """The order in which hooks are called, and what they may change."""
    order = []

    def noting(name, factor=None):
        def hook(gradient):
            order.append([name, gradient.tolist() if gradient is not None else None])
            return None if factor is None else gradient * factor

        return hook

    x = leaf(t, [1.0, 2.0])
    y = x * 3.0
    z = y * x
    x.register_hook(noting("x first"))
    x.register_hook(noting("x doubled", 2.0))
    y.register_hook(noting("y"))
    removed = y.register_hook(noting("removed"))
    removed.remove()
    y.register_hook(noting("y halved", 0.5))
    y.register_hook(noting("y after"))
    y.retain_grad()
    z.register_hook(noting("z"))
    x.register_post_accumulate_grad_hook(lambda p: order.append(["accumulated", p.grad.tolist()]))
    z.sum().backward()
    order.append(["x.grad", x.grad.tolist()])
    order.append(["y.grad", y.grad.tolist()])
    (x * 5.0).sum().backward()
    order.append(["x.grad", x.grad.tolist()])
    return order


ALL = [promotion, second_derivatives, in_place_through_views, hooks]
