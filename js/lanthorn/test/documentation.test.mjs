// The code that the documentation shows: `ts` blocks compile under the package's strict settings, `js` and `ts` blocks run,
// each in a thread of its own. Of the repository's README.md, the package's, docs/node.md and the comments of the sources.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import ts from "typescript";

import * as api from "../dist/node.js";
import { blocksOf, commentsOf } from "./examples.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const repository = fileURLToPath(new URL("../../..", import.meta.url));
/** Within the package, so that `import ... from "lanthorn"` finds it. */
const folder = join(root, "out/documentation");

// What examples write lies where nobody keeps it.
const written = mkdtempSync(join(tmpdir(), "lanthorn-documentation-"));
process.on("exit", () => rmSync(written, { recursive: true, force: true }));

/** Sources of which the code needs a browser: it compiles and is not run. */
const OF_PAGES = ["src/connection.ts", "src/page.ts", "src/web.ts"];

/** An example may take long under a debug build, but not forever. */
const LIMIT = 60_000;

/** A block of a comment says nothing of imports: it has all public names. */
function withImports(code) {
  const isUsed = (name) => new RegExp(`(?<![.\\w])${name}\\b`).test(code);
  const isDeclared = (name) => new RegExp(`\\b(const|let|class|function)\\s+${name}\\b`).test(code);
  const imports = /^import .*from "lanthorn"/m.test(code) ? [] : Object.keys(api).filter((n) => isUsed(n) && !isDeclared(n));
  // On one line, for the numbers of the lines.
  return imports.length === 0 ? code : `import { ${imports.join(", ")} } from "lanthorn"; ${code}`;
}

const sources = readdirSync(join(root, "src"), { recursive: true }).filter((name) => name.endsWith(".ts"));
const pages = [
  ...[join(repository, "README.md"), join(root, "README.md"), join(repository, "docs/node.md")].map((file) => [file, readFileSync(file, "utf8"), false]),
  ...sources.map((name) => {
    const file = join(root, "src", name);
    return [file, commentsOf(readFileSync(file, "utf8")), true];
  }),
];

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const examples = pages.flatMap(([file, text, isComment]) =>
  blocksOf(text, isComment ? "ts" : "text").map(({ language, code, line }) => {
    const name = relative(root, file);
    const isTyped = language.startsWith("t");
    const stem = `${name.replaceAll(/\W+/g, "_")}_${line}`;
    const target = join(folder, `${stem}.${isTyped ? "mts" : "mjs"}`);
    writeFileSync(target, isComment ? withImports(code) : code);
    const isRun = !OF_PAGES.includes(name);
    return { what: `${name}:${line}`, target, isTyped, isRun, module: join(folder, `${stem}.mjs`) };
  }),
);

test("there are examples", () => {
  for (const page of ["README.md", "../../README.md"]) {
    assert.ok(examples.some(({ what }) => what.startsWith(`${page}:`)), `${page} shows no code`);
  }
});

test("typed examples compile", () => {
  const typed = examples.filter(({ isTyped }) => isTyped);
  const { config } = ts.readConfigFile(join(root, "tsconfig.json"), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  // An example declares what it does not go on to use.
  const relaxed = { noUnusedLocals: false, noUnusedParameters: false, declaration: false };
  const program = ts.createProgram(typed.map(({ target }) => target), { ...options, ...relaxed, rootDir: root, outDir: root });
  const faults = [...ts.getPreEmitDiagnostics(program)].map(({ file, start, messageText }) => {
    const example = typed.find(({ target }) => file !== undefined && target === join(file.fileName));
    const line = file === undefined ? 0 : file.getLineAndCharacterOfPosition(start).line + 1;
    return `${example?.what ?? file?.fileName}, its line ${line}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`;
  });
  const ours = new Set(typed.map(({ target }) => target));
  for (const source of program.getSourceFiles()) {
    if (ours.has(join(source.fileName))) program.emit(source);
  }
  assert.deepEqual(faults, []);
});

for (const { what, module, isRun } of examples) {
  if (!isRun) continue;
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
