// The code that the documentation shows compiles under strict settings and runs, each block in a thread of its own. Of the
// package's README.md, of docs/effect.md, and of the comments of the sources.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";

import { blocksOf, commentsOf } from "../../lanthorn/test/examples.mjs";
import { compile, out } from "./typed.mjs";

const packages = fileURLToPath(new URL("../..", import.meta.url));
const folder = join(out, "documentation");
const LIMIT = 120_000;

// What examples write lies where nobody keeps it.
const written = mkdtempSync(join(tmpdir(), "lanthorn-documentation-"));
process.on("exit", () => rmSync(written, { recursive: true, force: true }));

const sources = ["effect/src", "backend-cpu/src"].flatMap((name) =>
  readdirSync(join(packages, name), { recursive: true })
    .filter((file) => file.endsWith(".ts"))
    .map((file) => join(packages, name, file)),
);
const pages = ["effect/README.md", "../docs/effect.md"]
  .map((name) => join(packages, name))
  .filter((file) => existsSync(file));

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const examples = [...pages, ...sources].flatMap((file) => {
  const text = readFileSync(file, "utf8");
  return blocksOf(file.endsWith(".ts") ? commentsOf(text) : text, "text").map(({ code, line }) => {
    const what = `${relative(packages, file)}:${line}`;
    const stem = join(folder, what.replaceAll(/\W+/g, "_"));
    writeFileSync(`${stem}.mts`, code);
    return { what, target: `${stem}.mts`, module: `${stem}.mjs` };
  });
});

test("there are examples", () => {
  assert.ok(examples.length > 10, `${examples.length} examples`);
});

test("examples compile", () => {
  const targets = examples.map(({ target }) => target);
  const faults = compile(targets, folder, folder).map(({ file, line, message }) => {
    const example = examples.find(({ target }) => target === file);
    return `${example?.what ?? file}, its line ${line}: ${message}`;
  });
  assert.deepEqual(faults, []);
});

for (const { what, module } of examples) {
  test(`the example of ${what} runs`, async () => {
    process.chdir(written);
    const worker = new Worker(module, { stdout: true, stderr: true });
    let output = "";
    worker.stdout.on("data", (text) => (output += text));
    worker.stderr.on("data", (text) => (output += text));
    const timer = setTimeout(() => worker.terminate(), LIMIT);
    const ended = new Promise((resolve, reject) => worker.on("error", reject).on("exit", resolve));
    const code = await ended.finally(() => clearTimeout(timer));
    assert.equal(code, 0, `it ended with ${code} after ${output}`);
  });
}
