// The code that README.md and the comments of the sources show: it compiles under the package's strict settings, and runs,
// each block in a thread of its own.
import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import ts from "typescript";

import { folder as written } from "./support.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
/** Within the package, so that its name is found. */
const folder = join(root, "out/documentation");
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });

const files = [join(root, "README.md"), ...readdirSync(join(root, "src")).map((name) => join(root, "src", name))];
const examples = files.flatMap((file) => {
  // In a comment each line begins with an asterisk.
  const text = readFileSync(file, "utf8").replaceAll(/^ *\* ?/gm, (mark) => (file.endsWith(".ts") ? "" : mark));
  return [...text.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map(({ 1: code, index }) => {
    const what = `${relative(root, file)}:${text.slice(0, index).split("\n").length}`;
    const stem = join(folder, what.replaceAll(/\W+/g, "_"));
    writeFileSync(`${stem}.mts`, code);
    return { what, source: `${stem}.mts`, module: `${stem}.mjs` };
  });
});

test("there are examples, and they compile", () => {
  assert.ok(examples.length >= 6, `${examples.length} examples`);
  const { config } = ts.readConfigFile(join(root, "tsconfig.json"), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [] }, ts.sys, root);
  const program = ts.createProgram(
    examples.map(({ source }) => source),
    { ...options, declaration: false, rootDir: root, outDir: root },
  );
  const faults = ts.getPreEmitDiagnostics(program).map(({ file, messageText }) => {
    return `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`;
  });
  assert.deepEqual(faults, []);
  for (const { source } of examples) program.emit(program.getSourceFile(source));
});

for (const { what, module } of examples) {
  test(`the example of ${what} runs`, async () => {
    process.chdir(written);
    const worker = new Worker(module, { stdout: true, stderr: true });
    let output = "";
    for (const stream of [worker.stdout, worker.stderr]) stream.on("data", (text) => (output += text));
    const code = await new Promise((resolve, reject) => worker.on("error", reject).on("exit", resolve));
    assert.equal(code, 0, output);
    // What a comment says of a line that prints is printed.
    for (const [, said] of readFileSync(module, "utf8").matchAll(/^console\.log\(await .*\/\/ (.*)$/gm)) {
      assert.ok(output.includes(said), `expected ${said}, got ${output}`);
    }
  });
}
