"""What the programs that stand for a peer share: the protocol by which the benchmark asks them.

A benchmark is a ratio against a named peer, and on a busy machine two runs one after the other are no ratio. So such a
program waits on standard input, and the benchmark alternates: some repeats of ours, some of the peer's, and again.

One line in, one line of JSON out; nothing is written unasked.

    run NAME REPEATS   -> {"name": NAME, "median_s": SECONDS, "min_s": SECONDS, "repeats": REPEATS}
    list               -> {"peer": "torch", "version": "2.13.0...", "threads": 2, "names": [NAME, ...]}
    quit, end of input -> (the program ends)
    anything else      -> {"error": SENTENCE}

The first `run` of a name builds its data and warms up (1 s at most); later ones go on with what is there. A time is
seconds for one execution of the workload; a short workload is executed several times for one repeat and the time
divided, so that the clock and the interpreter do not count.

    PROGRAM --all [REPEATS]   prints {"name": NAME, "seconds": MEDIAN} for every workload and ends
    PROGRAM --threads N ...   N threads instead of 2
"""

import json
import os
import statistics
import sys
import time

# One repeat lasts at least so long.
SHORTEST_REPEAT_S = 0.01
WARM_UP_S = 1.0

# name -> (workload, executions per repeat)
ready = {}


def models():
    """The folder into which `models.sh` puts models."""
    cache = os.environ.get("LANTHORN_CACHE") or os.path.join(os.path.expanduser("~"), ".cache", "lanthorn")
    return os.path.join(cache, "models")


def threads():
    """How many threads the command line asks for."""
    return int(sys.argv[sys.argv.index("--threads") + 1]) if "--threads" in sys.argv else 2


def prepare(build, name):
    """Builds a workload once, warms it up, and finds how many executions make one repeat."""
    if name not in ready:
        workload = build()
        began = time.perf_counter()
        fastest = float("inf")
        for _ in range(50):
            before = time.perf_counter()
            workload()
            after = time.perf_counter()
            fastest = min(fastest, after - before)
            if after - began > WARM_UP_S:
                break
        ready[name] = workload, max(1, round(SHORTEST_REPEAT_S / fastest))
    return ready[name]


def measure(build, name, repeats):
    """Seconds per execution, one for each repeat."""
    workload, executions = prepare(build, name)
    times = []
    for _ in range(repeats):
        before = time.perf_counter()
        for _ in range(executions):
            workload()
        times.append((time.perf_counter() - before) / executions)
    return times


def serve(peer, version, threads, workloads):
    """Answers until the end of input; `workloads` are functions that build a workload, by name."""

    def answer(line):
        words = line.split()
        if words == ["list"]:
            return {"peer": peer, "version": version, "threads": threads, "names": list(workloads)}
        if len(words) != 3 or words[0] != "run" or not words[2].isdecimal() or int(words[2]) == 0:
            return {
                "error": f"not understood: {line.strip()!r}; 'run NAME REPEATS', 'list' or 'quit' would be right"
            }
        name, repeats = words[1], int(words[2])
        if name not in workloads:
            return {"error": f"no workload {name!r}; there are {', '.join(workloads)}"}
        times = measure(workloads[name], name, repeats)
        return {"name": name, "median_s": statistics.median(times), "min_s": min(times), "repeats": repeats}

    if "--all" in sys.argv:
        after = sys.argv[sys.argv.index("--all") + 1 :]
        repeats = int(after[0]) if after and after[0].isdecimal() else 7
        for name, build in workloads.items():
            seconds = statistics.median(measure(build, name, repeats))
            print(json.dumps({"name": name, "seconds": seconds}), flush=True)
        return
    for line in sys.stdin:
        if line.strip() == "quit":
            return
        if line.strip():
            print(json.dumps(answer(line)), flush=True)
