"""Threads, signals and interpreters."""

import os
import subprocess
import sys
import threading
import time

import lanthorn as L
import numpy as np


def test_other_threads_run_during_a_large_product_and_not_during_a_small_one():
    large, small = L.ones(700, 700), L.ones(4, 4)
    done = threading.Event()
    entered = []

    def work():
        entered.append(time.monotonic())
        large @ large
        done.set()

    # The other thread waits for nothing: with switches a thousand seconds apart it only runs when the GIL is free.
    ticks = []

    def other():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        thread = threading.Thread(target=other)
        thread.start()
        work()
    finally:
        sys.setswitchinterval(before)
        done.set()
    thread.join()
    assert any(tick > entered[0] for tick in ticks)
    assert (small @ small).tolist() == [[4.0] * 4] * 4


def test_backward_on_two_threads():
    shared = L.ones(50, 50, requires_grad=True)
    results, failures = {}, []

    def run(name, factor):
        try:
            own = L.ones(50, 50, requires_grad=True)
            for _ in range(20):
                y = shared * factor
                own_part = (own @ own).tanh() * factor
                (y + own_part).sum().backward()
            results[name] = own.grad
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=run, args=(name, name + 1.0)) for name in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures
    # Every addition to the shared gradient has arrived.
    assert shared.grad.tolist() == [[20.0 * (1 + 2 + 3 + 4)] * 50] * 50
    expected = results[0].numpy()
    np.testing.assert_allclose(results[3].numpy(), 4 * expected, rtol=1e-5)


def test_recording_is_each_threads_own():
    seen = []
    with L.no_grad():
        thread = threading.Thread(target=lambda: seen.append(L.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def run_python(source, **keywords):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    return subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, text=True, timeout=120,
                          **keywords)


def test_deep_chains_need_no_deep_stack():
    source = """
import threading, lanthorn as L
def run():
    x = L.ones(1, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1
    y.backward()
    assert x.grad.item() == 1
    z = x
    for _ in range(100_000):
        z = (z * 1.0)[:]
    del z
    base = x * 1
    for _ in range(20_000):
        base[0].add_(0.0)
    base.sum().backward()
    assert x.grad.item() == 2
    print("done")
threading.stack_size(256 * 1024)
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""
    result = run_python(source)
    assert result.returncode == 0 and result.stdout == "done\n", result.stderr


def test_an_interrupt_arrives():
    source = """
import os, signal, threading, lanthorn as L
# A shell's job in the background ignores interrupts, and its children with it.
signal.signal(signal.SIGINT, signal.default_int_handler)
x = L.ones(1, requires_grad=True)
y = x
for _ in range(200_000):
    y = y + 1
y = y * 1
def poke(g):
    os.kill(os.getpid(), signal.SIGINT)
y.register_hook(poke)
z = y * 2
for name, work in {
    "backward": lambda: z.backward(),
    "product": lambda: [os.kill(os.getpid(), signal.SIGINT), L.ones(600, 600) @ L.ones(600, 600)],
}.items():
    try:
        work()
        for _ in range(100): pass
        print(name, "went on")
    except KeyboardInterrupt:
        print(name, "stopped")
assert L.is_grad_enabled()
"""
    result = run_python(source)
    assert result.stdout == "backward stopped\nproduct stopped\n", result.stdout + result.stderr


def test_a_subinterpreter_is_refused():
    source = """
import lanthorn as L
import _xxsubinterpreters as interpreters
one = interpreters.create()
try:
    interpreters.run_string(one, '''
try:
    import lanthorn
    print("imported")
except ImportError as error:
    print("refused:", error)
''')
finally:
    interpreters.destroy(one)
print(L.ones(2).sum().item())
"""
    result = run_python(source)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("refused: ") and result.stdout.endswith("2.0\n"), result.stdout


def test_the_interpreter_ends_with_tensors_alive():
    source = """
import sys, lanthorn as L, numpy as np
x = L.from_numpy(np.ones(3)).requires_grad_()
x.register_hook(lambda g: g)
y = (x * 2).sum()
sys.kept = [x, y, y.grad_fn, x.detach().numpy(), x.detach().__dlpack__()]
class Late:
    def __del__(self):
        L.ones(2) + 1
sys.late = Late()
"""
    result = run_python(source)
    assert result.returncode == 0 and result.stderr == "", result.stderr


def test_fork_after_work():
    x = L.ones(300, 300)
    (x @ x).sum()
    child = os.fork()
    if child == 0:
        ok = (x @ x)[0, 0].item() == 300
        os._exit(0 if ok else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
