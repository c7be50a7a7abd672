// Threads and the end of a process.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";

const here = fileURLToPath(new URL(".", import.meta.url));

const HEAD = `
  import * as BackendCpu from "@lanthorn/backend-cpu";
  import { Tensor } from "@lanthorn/effect";
  import { Effect } from "effect";
  const run = (effect) => Effect.runPromise(Effect.provide(effect, BackendCpu.layer));
  const long = Effect.gen(function* () {
    let x = yield* Tensor.randn([600, 600]);
    const scale = yield* Tensor.constant(0.05);
    for (let at = 0; at < 100; at++) x = yield* Tensor.matmul(x, yield* Tensor.mul(x, scale));
    return yield* Tensor.compute([x]);
  });
`;

/** A module of that source, which finds the packages. */
const start = (source) =>
  spawnSync(process.execPath, ["--input-type=module", "--eval", HEAD + source], {
    cwd: here,
    encoding: "utf8",
    timeout: 60_000,
  });

test("threads have runtimes of their own", async () => {
  const source = `${HEAD}
    import { parentPort } from "node:worker_threads";
    const sum = Effect.flatMap(Tensor.arange(1000), (x) => Effect.flatMap(Tensor.sum(x), Tensor.toNumberArray));
    parentPort.postMessage(await run(sum));
  `;
  // Within this package, so that the imports are found.
  const { mkdirSync, writeFileSync } = await import("node:fs");
  mkdirSync(new URL("../out", import.meta.url), { recursive: true });
  const file = new URL("../out/thread.mjs", import.meta.url);
  writeFileSync(file, source);
  const answers = await Promise.all(
    Array.from(
      { length: 3 },
      () =>
        new Promise((resolve, reject) => {
          const worker = new Worker(file);
          worker.on("message", resolve).on("error", reject);
        }),
    ),
  );
  assert.deepEqual(answers, [[499500], [499500], [499500]]);
});

test("a thread that ends with work in flight ends", async () => {
  const { mkdirSync, writeFileSync } = await import("node:fs");
  mkdirSync(new URL("../out", import.meta.url), { recursive: true });
  const file = new URL("../out/ending.mjs", import.meta.url);
  writeFileSync(
    file,
    `${HEAD}
    import { parentPort } from "node:worker_threads";
    run(long);
    setImmediate(() => parentPort.postMessage("begun"));
  `,
  );
  const worker = new Worker(file);
  await new Promise((resolve, reject) => worker.on("message", resolve).on("error", reject));
  assert.equal(await worker.terminate(), 1);
});

test("a process that exits with work in flight exits", () => {
  const { status, signal, stderr } = start(`run(long); setTimeout(() => process.exit(7), 20);`);
  assert.deepEqual([status, signal, stderr], [7, null, ""]);
});

test("a process ends by itself once its work is done", () => {
  const { status, stdout, stderr } = start(
    `console.log(await run(Effect.flatMap(Tensor.ones([2]), Tensor.toNumberArray)));`,
  );
  assert.deepEqual([status, stdout, stderr], [0, "[ 1, 1 ]\n", ""]);
});

test("importing a backend does not load the addon", () => {
  const { status, stdout } = start(`console.log(process.memoryUsage === undefined, typeof BackendCpu.makeRuntime);`);
  assert.deepEqual([status, stdout], [0, "false function\n"]);
  const missing = spawnSync(
    process.execPath,
    [
      "--input-type=module",
      "--eval",
      HEAD +
        `
    try { BackendCpu.makeRuntime(); } catch (error) { console.log(error.kind); }
  `,
    ],
    { cwd: here, encoding: "utf8", env: { ...process.env, LANTHORN_ADDON: "/nowhere/lanthorn.node" } },
  );
  assert.equal(missing.stdout, "io\n", missing.stderr);
});
