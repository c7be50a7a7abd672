"""Small ops from Python, ours and upstream's in turn in one process; rows are merged into out/bench.json.

    tools/python-bench.sh
"""

import json
import pathlib
import sys
import timeit

import lanthorn

try:
    import torch
except ImportError:
    torch = None

ROUNDS = 7

# Setup, statement, and the ratio (upstream's time over ours) to reach.
WORKLOADS = {
    "python_add_4": ("a, b = t.ones(4), t.ones(4)", "a + b", 1.0),
    "python_add_scalar_4": ("a = t.ones(4)", "a + 1.5", 1.0),
    "python_add_in_place_4": ("a, b = t.ones(4), t.ones(4)", "a.add_(b)", 1.0),
    "python_add_recorded_4": ("a, b = t.ones(4, requires_grad=True), t.ones(4)", "a + b", 1.0),
    "python_view": ("x = t.ones(4, 6)", "x.view(24)", 1.0),
    "python_slice": ("x = t.ones(8, 4)", "x[1:3]", 1.0),
    "python_matmul_64": ("a, b = t.ones(64, 64), t.ones(64, 64)", "a @ b", 1.0),
    "python_backward_chain": (
        "x = t.ones(4, requires_grad=True)",
        "y = x\nfor _ in range(20): y = y * 1.5\ny.sum().backward()",
        1.0,
    ),
}


def timer(module, setup, statement):
    scope = {"t": module}
    exec(setup, scope)
    found = timeit.Timer(statement, globals=scope)
    loops, seconds = found.autorange()
    loops = max(1, int(loops * 0.1 / max(seconds, 1e-9)))
    return lambda: found.timeit(loops) / loops


def main(path):
    if torch is None:
        print("no peer: torch is not installed here", file=sys.stderr)
    else:
        torch.set_num_threads(2)
    rows = []
    print(f"{'name':<24} {'ours':>10} {'torch':>10} {'ratio':>7}")
    for name, (setup, statement, target) in WORKLOADS.items():
        ours = timer(lanthorn, setup, statement)
        theirs = timer(torch, setup, statement) if torch else None
        best, peer = float("inf"), float("inf")
        for _ in range(ROUNDS):
            best = min(best, ours())
            if theirs:
                peer = min(peer, theirs())
        measured = peer if theirs else None
        ratio = peer / best if theirs else None
        shown = f"{peer * 1e6:>7.3f} us {ratio:>7.2f}" if theirs else f"{'-':>10} {'-':>7}"
        print(f"{name:<24} {best * 1e6:>7.3f} us {shown}")
        rows.append({"name": name, "ours_s": best, "peer": "torch", "peer_s": measured, "ratio": ratio,
                     "target": target})
    path = pathlib.Path(path)
    before = json.loads(path.read_text()) if path.exists() else []
    kept = [row for row in before if row["name"] not in WORKLOADS]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept + rows))
    print(f"written to {path}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "out/bench.json")
