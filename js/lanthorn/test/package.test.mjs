// The packages as they are published: packed, looked through, installed into an empty folder, run under each Node, and the
// error when the addon is not there or not the right one.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import ts from "typescript";

import { hostOf, packageOf, platformOf, PLATFORMS } from "../dist/platforms.js";
import { libraryFor, serve } from "./registry.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const repository = fileURLToPath(new URL("../../..", import.meta.url));
const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const own = platformOf(hostOf(process.platform, process.arch, () => process.report.getReport()));
const ownPackage = packageOf(own);

/** What an installed package must be able to do: gradients, a loop, a read away from the event loop. */
const PROGRAM = `
import { noGrad, Tensor } from "lanthorn";
const x = Tensor.fromData([1, 2, 3, 4, 5], [5, 1]);
const y = x.mul(2).add(1);
const w = Tensor.zeros([1, 1], true);
const b = Tensor.zeros([1], true);
for (let step = 0; step < 200; step++) {
  x.matmul(w).add(b).sub(y).square().mean().backward();
  noGrad(() => {
    for (const parameter of [w, b]) {
      parameter.sub_(parameter.grad.mul(0.05));
      parameter.grad = null;
    }
  });
}
const [slope] = await w.toArrayAsync();
console.log(JSON.stringify({ node: process.versions.node, slope, intercept: b.item() }));
`;

/** The same of the tokenizers, with a tensor of the same addon. */
const TOKENIZERS = `
import * as Tokenizer from "@lanthorn/tokenizers";
import { Effect } from "effect";
import { Tensor } from "lanthorn";
const config = { ...Tokenizer.strictConfig, padding: Tokenizer.paddingMaxLength(4, 0) };
const source = Tokenizer.trainTexts(["the lamp and the lantern"]);
const lesson = { source, model: "WordLevel", vocabSize: 20, minFrequency: 1, specialTokens: [], progress: Tokenizer.trainProgressNone };
const program = Effect.gen(function* () {
  const tokenizer = yield* Tokenizer.train(lesson, config);
  const { shape } = yield* tokenizer.encodeBatch(["the lamp", "lantern"]);
  const text = yield* tokenizer.decode((yield* tokenizer.encode("the lamp")));
  console.log(JSON.stringify({ shape, text, sum: new Tensor([1, 2, 3]).sum().item() }));
});
await Effect.runPromise(program);
`;

const TYPED = `
import { Tensor, type DType } from "lanthorn";
const dtype: DType = "f32";
const values: number = Tensor.ones([2], { dtype }).sum().item();
// @ts-expect-error
const wrong: string = Tensor.ones([2]).sum().item();
console.log(values, wrong);
`;

let scratch, out, installed, packages, npmrc;

/** Runs npm in a folder with neither the network nor the user's settings. */
function npm(folder, ...args) {
  const env = { ...process.env, npm_config_cache: join(scratch, "cache"), npm_config_update_notifier: "false" };
  for (const name of Object.keys(env)) if (/^npm_(package|lifecycle)/i.test(name)) delete env[name];
  const options = { cwd: folder, env, encoding: "utf8", shell: process.platform === "win32" };
  const { status, stdout, stderr } = spawnSync("npm", [...args, "--no-audit", "--no-fund"], options);
  assert.equal(status, 0, `npm ${args.join(" ")}: ${stdout}${stderr}`);
}

function emptyFolder(name) {
  const folder = join(scratch, name);
  mkdirSync(folder);
  writeFileSync(join(folder, "package.json"), '{ "private": true }\n');
  writeFileSync(join(folder, "program.mjs"), PROGRAM);
  return folder;
}

/** What `import "lanthorn"` says in `folder`. */
function failureIn(folder, env = {}, preload = undefined) {
  const program = 'import("lanthorn").then(() => console.log("loaded"), (e) => console.log(`${e.name} ${e.kind}: ${e.message}`))';
  const file = join(folder, "import.mjs");
  writeFileSync(file, program);
  const args = preload === undefined ? [file] : ["--import", `data:text/javascript,${encodeURIComponent(preload)}`, file];
  return execFileSync(process.execPath, args, { cwd: folder, env: { ...process.env, ...env }, encoding: "utf8" }).trim();
}

before(() => {
  scratch = mkdtempSync(join(tmpdir(), "lanthorn-package-"));
  out = join(scratch, "packed");
  // This machine's addon, and for the other platforms files that only look like theirs: none of them may be installed.
  const files = PLATFORMS.map((platform) => {
    if (platform === own) return `${platform.name}=${join(root, "lanthorn.node")}`;
    const file = join(scratch, `${platform.name}.node`);
    writeFileSync(file, libraryFor(platform));
    return `${platform.name}=${file}`;
  });
  const printed = execFileSync(process.execPath, [join(root, "scripts/pack.mjs"), out, ...files], { encoding: "utf8" });
  packages = JSON.parse(readFileSync(join(out, "packages.json"), "utf8"));
  for (const line of printed.trim().split("\n").slice(0, 3)) console.log(line.replace(scratch, ""));
  for (const { tarball } of packages) assert.ok(existsSync(join(out, tarball)), tarball);
});

after(() => rmSync(scratch, { recursive: true, force: true }));

const packed = (name) => packages.find((entry) => entry.name === name);
const LICENSES = ["LICENSE-APACHE", "LICENSE-MIT"];

test("the package holds the built modules with their types, and nothing else", () => {
  const { files, size } = packed("lanthorn");
  const modules = readdirSync(join(root, "src"), { recursive: true })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => `dist/${name.replaceAll("\\", "/").replace(/\.ts$/, "")}`);
  const expected = [...LICENSES, "README.md", "package.json", ...modules.flatMap((name) => [`${name}.js`, `${name}.d.ts`])];
  // The browser's modules, where they are built.
  assert.deepEqual(files.filter((file) => !file.startsWith("web/")), expected.sort());
  assert.ok(modules.length > 10);
  assert.ok(size < 2 ** 24, `${size} bytes`);
});

/** The packages that stand on `lanthorn`, with those of this repository that they ask for. */
const FURTHER = { tokenizers: ["lanthorn"], effect: ["lanthorn"], "backend-cpu": ["@lanthorn/effect", "lanthorn"] };

for (const [name, needed] of Object.entries(FURTHER)) {
  test(`the package ${name} holds its modules, and asks for what it stands on`, () => {
    const { files, tarball } = packed(`@lanthorn/${name}`);
    const modules = readdirSync(join(repository, "js", name, "src"), { recursive: true })
      .filter((file) => file.endsWith(".ts"))
      .map((file) => `dist/${file.replaceAll("\\", "/").replace(/\.ts$/, "")}`);
    const expected = [...LICENSES, "README.md", "package.json", ...modules.flatMap((name) => [`${name}.js`, `${name}.d.ts`])];
    assert.deepEqual(files, expected.sort());
    const description = JSON.parse(execFileSync("tar", ["-xOf", join(out, tarball), "package/package.json"], { encoding: "utf8" }));
    assert.deepEqual(description.dependencies, Object.fromEntries(needed.map((name) => [name, version])));
    assert.deepEqual(Object.keys(description.peerDependencies), ["effect"]);
    assert.deepEqual([description.scripts, description.private, description.devDependencies], [undefined, undefined, undefined]);
  });
}

test("a platform's package holds one addon", () => {
  assert.equal(packages.length, PLATFORMS.length + 1 + Object.keys(FURTHER).length);
  for (const platform of PLATFORMS) {
    const { files } = packed(packageOf(platform));
    assert.deepEqual(files, [...LICENSES, "README.md", "lanthorn.node", "package.json"]);
  }
});

test("an addon of another platform is not packed", () => {
  const other = PLATFORMS.find((platform) => platform.os !== own.os);
  const args = [join(root, "scripts/pack.mjs"), join(scratch, "wrong"), `${other.name}=${join(root, "lanthorn.node")}`];
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  assert.equal(status, 1);
  assert.match(stderr, new RegExp(`lanthorn.node is ${own.os} ${own.cpu}.*, expected one for ${other.name}`));
});

test("the tarballs install into an empty folder without the network, and run", () => {
  installed = emptyFolder("installed");
  const tarballs = ["lanthorn", ownPackage].map((name) => join(out, packed(name).tarball));
  npm(installed, "install", "--offline", ...tarballs);
  const description = JSON.parse(readFileSync(join(installed, "node_modules/lanthorn/package.json"), "utf8"));
  assert.equal(description.scripts, undefined, "nothing runs at installation");
  assert.equal(description.private, undefined);
  assert.equal(description.dependencies, undefined);
  assert.equal(description.devDependencies, undefined);
  assert.deepEqual(Object.keys(description.optionalDependencies).sort(), PLATFORMS.map(packageOf).sort());
  const { slope, intercept } = run(process.execPath);
  assert.ok(Math.abs(slope - 2) < 0.1 && Math.abs(intercept - 1) < 0.3, `${slope}, ${intercept}`);
});

/** A program of runtime, graphs and the class API on one addon. */
const EFFECT = `
import * as BackendCpu from "@lanthorn/backend-cpu";
import { Gradient, Tensor } from "@lanthorn/effect";
import { Effect } from "effect";
const program = Effect.gen(function* () {
  const x = yield* Tensor.arange(3);
  const [gradient] = yield* Gradient.grad(yield* Tensor.sum(yield* Tensor.square(x)), [x]);
  console.log(JSON.stringify(yield* Tensor.toNumberArray(gradient)));
});
await Effect.runPromise(Effect.provide(program, BackendCpu.layer));
`;

/** Faults are seen whatever libraries of types a program has: a name that it has not would make `any` of what is beside it. */
const EFFECT_TYPED = `
import { Tensor } from "@lanthorn/effect";
Tensor.fromTypedArray(Float32Array.of(1));
// @ts-expect-error
Tensor.fromTypedArray("1");
// @ts-expect-error
Tensor.fromTypedArray(Int32Array.of(1));
`;

test("the packages for Effect install beside effect, and run", () => {
  const folder = emptyFolder("effect");
  writeFileSync(join(folder, "program.mjs"), TOKENIZERS);
  writeFileSync(join(folder, "graph.mjs"), EFFECT);
  // The checkout's, since there is no network.
  const effect = join(repository, "js/node_modules/effect");
  const names = Object.keys(FURTHER).map((name) => `@lanthorn/${name}`);
  const tarballs = ["lanthorn", ownPackage, ...names].map((name) => join(out, packed(name).tarball));
  npm(folder, "install", "--offline", ...tarballs, effect);
  const text = execFileSync(process.execPath, ["program.mjs"], { cwd: folder, encoding: "utf8" });
  assert.deepEqual(JSON.parse(text), { shape: [2, 4], text: "the lamp", sum: 6 });
  const gradient = execFileSync(process.execPath, ["graph.mjs"], { cwd: folder, encoding: "utf8" });
  assert.deepEqual(JSON.parse(gradient), [0, 2, 4]);

  const file = join(folder, "typed.mts");
  const half = "\nTensor.fromTypedArray(Float16Array.of(1));\n";
  for (const [libraries, source] of [[["es2023"], EFFECT_TYPED], [["es2023", "esnext.float16"], EFFECT_TYPED + half]]) {
    writeFileSync(file, source);
    const lib = ["dom", ...libraries].map((name) => `lib.${name}.d.ts`);
    const module = { module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext };
    const program = ts.createProgram([file], { strict: true, noEmit: true, skipLibCheck: true, target: ts.ScriptTarget.ES2022, types: [], lib, ...module });
    const faults = ts.getPreEmitDiagnostics(program).map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"));
    assert.deepEqual(faults, [], String(libraries));
  }
});

function run(node) {
  const text = execFileSync(node, ["program.mjs"], { cwd: installed, encoding: "utf8" });
  return JSON.parse(text);
}

test("the installed package runs under every Node that is supported", async (t) => {
  const majors = ["20", "22", "24"].filter((major) => !process.versions.node.startsWith(`${major}.`));
  const found = spawnSync(join(repository, "tools/node-versions.sh"), majors, { encoding: "utf8" });
  const nodes = (found.stdout ?? "").split("\n").filter(Boolean);
  if (nodes.length < majors.length) t.diagnostic(`not under every one: ${found.stderr || found.error}`);
  const expected = run(process.execPath);
  const versions = nodes.map((node) => {
    const { node: version, slope, intercept } = run(node);
    assert.deepEqual([slope, intercept], [expected.slope, expected.intercept], version);
    return version;
  });
  t.diagnostic(`ran under ${[expected.node, ...versions].join(", ")}`);
  if (nodes.length === 0) t.skip(`no other Node is to be had: ${found.stderr || found.error}`);
});

test("a program in TypeScript finds the types, those of a page too", () => {
  const file = join(installed, "typed.mts");
  writeFileSync(file, TYPED);
  const compile = (options) => {
    const shared = { strict: true, noEmit: true, target: ts.ScriptTarget.ES2022, lib: ["lib.es2023.d.ts", "lib.esnext.disposable.d.ts", "lib.dom.d.ts"], types: [], skipDefaultLibCheck: true };
    const program = ts.createProgram([file], { ...shared, ...options });
    const faults = ts.getPreEmitDiagnostics(program).map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"));
    return { faults, files: program.getSourceFiles().map(({ fileName }) => fileName) };
  };
  const node = compile({ module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext });
  assert.deepEqual(node.faults, []);
  // Declarations hold under settings that this package is not built with.
  const strict = compile({ module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true });
  assert.deepEqual(strict.faults, []);
  assert.ok(node.files.some((name) => name.endsWith("lanthorn/dist/node.d.ts")));
  const page = compile({ module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler });
  assert.deepEqual(page.faults, []);
  assert.ok(page.files.some((name) => name.endsWith("lanthorn/dist/web.d.ts")));
});

test("npm installs the package of this platform and of no other", async () => {
  const entries = packages.map((entry) => {
    const read = ["-xOf", join(out, entry.tarball), "package/package.json"];
    return { ...entry, description: JSON.parse(execFileSync("tar", read, { encoding: "utf8" })) };
  });
  const folder = emptyFolder("chosen");
  const registry = await serve(out, entries);
  try {
    await npmLater(folder, ["install", "lanthorn", "--registry", registry.address]);
  } finally {
    registry.close();
  }
  assert.deepEqual(readdirSync(join(folder, "node_modules/@lanthorn")), [ownPackage.replace("@lanthorn/", "")]);
  assert.deepEqual(registry.asked.tarballs.sort(), [ownPackage, "lanthorn"].sort());
  assert.equal(failureIn(folder), "loaded");
});

/** As `npm`, but without blocking this process, which serves. */
async function npmLater(folder, args) {
  const { execFile } = await import("node:child_process");
  const { promisify } = await import("node:util");
  const env = { ...process.env, npm_config_cache: join(scratch, "cache-of-registry"), npm_config_update_notifier: "false" };
  await promisify(execFile)("npm", [...args, "--no-audit", "--no-fund"], { cwd: folder, env, shell: process.platform === "win32" });
}

test("each way of lacking the addon is an error that says what to do", () => {
  const folder = join(scratch, "broken");
  cpSync(installed, folder, { recursive: true });
  const addonFolder = join(folder, "node_modules", ownPackage);
  const addon = join(addonFolder, "lanthorn.node");
  const host = new RegExp(`no addon for ${own.os} ${own.cpu}.*, Node ${process.versions.node}: `);
  const says = (message, kind, ...patterns) => {
    for (const pattern of [new RegExp(`^LanthornError ${kind}: load: `), host, ...patterns]) assert.match(message, pattern);
  };

  const description = JSON.parse(readFileSync(join(addonFolder, "package.json"), "utf8"));
  writeFileSync(join(addonFolder, "package.json"), JSON.stringify({ ...description, version: "0.0.1" }));
  says(failureIn(folder), "format", /is version 0\.0\.1, and lanthorn is /, new RegExp(`npm install lanthorn@${version} ${ownPackage}@${version}`));
  writeFileSync(join(addonFolder, "package.json"), JSON.stringify(description));

  // An addon of another version in a package of the right one.
  const constant = join(folder, "node_modules/lanthorn/dist/version.js");
  const text = readFileSync(constant, "utf8");
  writeFileSync(constant, text.replace(version, "9.9.9"));
  writeFileSync(join(addonFolder, "package.json"), JSON.stringify({ ...description, version: "9.9.9" }));
  says(failureIn(folder), "format", new RegExp(`lanthorn.node is of version ${version}, and lanthorn is 9\\.9\\.9`));
  writeFileSync(constant, text);
  writeFileSync(join(addonFolder, "package.json"), JSON.stringify(description));
  assert.equal(failureIn(folder), "loaded");

  writeFileSync(addon, "what a proxy sent in place of the file");
  says(failureIn(folder), "io", /lanthorn\.node cannot be loaded: /);

  rmSync(addonFolder, { recursive: true });
  const missing = failureIn(folder);
  says(missing, "io", new RegExp(`looked for the package ${ownPackage} \\(not in .*node_modules`), /lanthorn\.node \(not there\)/, /npm install /, /LANTHORN_ADDON/);

  // The development build beside the package, and a file that the environment names.
  says(failureIn(folder, { LANTHORN_ADDON: join(folder, "none.node") }), "io", /none\.node cannot be loaded: /, /LANTHORN_ADDON names it/);
  assert.equal(failureIn(folder, { LANTHORN_ADDON: join(root, "lanthorn.node") }), "loaded");
  cpSync(join(root, "lanthorn.node"), join(folder, "node_modules/lanthorn/lanthorn.node"));
  assert.equal(failureIn(folder), "loaded");
});

test("a process on musl looks for the package of musl", { skip: process.platform !== "linux" && "Linux alone has two C libraries" }, () => {
  const musl = 'process.report.getReport = () => ({ header: {}, sharedObjects: ["/lib/ld-musl-x86_64.so.1"] });';
  const message = failureIn(installed, {}, musl);
  assert.match(message, new RegExp(`no addon for linux ${process.arch} \\(musl\\)`));
  assert.match(message, new RegExp(`looked for the package @lanthorn/node-linux-${process.arch}-musl`));
  assert.match(message, new RegExp(`What is installed is for another platform: ${ownPackage}\\.`));
  const neither = 'process.report.getReport = () => ({ header: {}, sharedObjects: [] });';
  assert.match(failureIn(installed, {}, neither), /^UnsupportedError unsupported: .*there is no package for this platform/);
});
