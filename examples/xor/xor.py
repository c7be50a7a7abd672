"""XOR learned by a small network: the program of docs/faces.md in Python, op by op, with gradients from the tape.

    tools/python-build.sh && PYTHONPATH=python python3.11 examples/xor/xor.py
"""

import lanthorn

PRINTED = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1500, 2000)


def train(steps=2000, seed=7, learning_rate=0.01, betas=(0.9, 0.999), epsilon=1e-8):
    """Yields step and loss."""
    x = lanthorn.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = lanthorn.tensor([[0.0], [1.0], [1.0], [0.0]])
    w1 = lanthorn.uniform(seed, 0, [2, 8], -1.0, 1.0)
    w2 = lanthorn.uniform(seed, 1, [8, 1], -1.0, 1.0)
    parameters = [w1, lanthorn.zeros(8), w2, lanthorn.zeros(1)]
    for parameter in parameters:
        parameter.requires_grad_()
    w1, b1, w2, b2 = parameters
    moments = [(lanthorn.zeros(*p.shape), lanthorn.zeros(*p.shape)) for p in parameters]
    for step in range(1, steps + 1):
        loss = (((x @ w1 + b1).tanh() @ w2 + b2 - y) ** 2).mean()
        loss.backward()
        controls = [lanthorn.tensor(c) for c in (learning_rate, 1 - betas[0] ** step, 1 - betas[1] ** step)]
        with lanthorn.no_grad():
            for parameter, (m, v) in zip(parameters, moments):
                updated = lanthorn._C._call(
                    "adamw", parameter, parameter.grad, m, v, *controls,
                    beta1=betas[0], beta2=betas[1], eps=epsilon, weight_decay=0.0,
                )
                for target, value in zip((parameter, m, v), updated):
                    target.copy_(value)
                parameter.grad = None
        yield step, loss.item()


if __name__ == "__main__":
    for step, loss in train():
        if step in PRINTED:
            mantissa, exponent = f"{loss:.8e}".split("e")
            print(f"{step} {mantissa}e{int(exponent)}")
