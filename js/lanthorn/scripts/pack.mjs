// Packs what is published: `lanthorn`, the packages that stand on it, and `@lanthorn/node-<platform>` with the addon for
// each platform of src/platforms.ts of which a file is at hand. tools/node-pack.sh runs it.
//
//     node scripts/pack.mjs OUT [--all] [NAME=FILE ...]
//
// NAME is a platform's; without any, js/lanthorn/lanthorn.node is packed for this machine's platform. Files of another
// platform are refused. --all demands a file for every platform, and the browser's modules: what a release needs.
//
// Tarballs and `packages.json`, which lists their files and sizes, go to OUT.
import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { builtFor } from "./binary.mjs";
import { hostOf, packageOf, platformOf, PLATFORMS } from "../dist/platforms.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const repository = resolve(root, "../..");
const describe = (folder) => JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
const { version, license, engines } = describe(root);
/** The packages that stand on `lanthorn`, beside it. */
const FURTHER = ["tokenizers", "effect", "backend-cpu"].map((name) => resolve(root, "..", name));
const LICENSES = ["LICENSE-APACHE", "LICENSE-MIT"];

function fail(message) {
  console.error(`node-pack: ${message}`);
  process.exit(1);
}

const [out, ...named] = process.argv.slice(2).filter((argument) => argument !== "--all");
const all = process.argv.includes("--all");
if (out === undefined) fail("name the folder for the packages: node scripts/pack.mjs OUT [--all] [NAME=FILE ...]");
for (const built of [join(root, "dist/node.js"), ...FURTHER.map((folder) => join(folder, "dist/index.js"))]) {
  if (!existsSync(built)) fail(`${built} is not built; run tools/node-package.sh`);
}

/** The file of each platform that is at hand. */
const files = new Map();
for (const argument of named) {
  const [, name, file] = /^([^=]+)=(.+)$/.exec(argument) ?? fail(`got ${argument}, expected NAME=FILE`);
  if (!PLATFORMS.some((platform) => platform.name === name)) {
    fail(`there is no platform ${name}, only ${PLATFORMS.map((platform) => platform.name).join(", ")}`);
  }
  files.set(name, resolve(file));
}
const host = hostOf(process.platform, process.arch, () => process.report.getReport());
if (files.size === 0) {
  const platform = platformOf(host) ?? fail(`there is no package for ${host.words}; name a platform's file: NAME=FILE`);
  files.set(platform.name, join(root, "lanthorn.node"));
}
for (const platform of PLATFORMS) {
  const file = files.get(platform.name);
  if (file === undefined) {
    if (all) fail(`there is no file for ${platform.name}; name it: ${platform.name}=FILE`);
    continue;
  }
  if (!existsSync(file)) fail(`${file} is not there; tools/node-build.sh builds the addon of this machine`);
  const found = builtFor(readFileSync(file));
  const is = (key) => found?.[key] === platform[key];
  if (!is("os") || !is("cpu") || !is("libc")) {
    const words = found ? [found.os, found.cpu, found.libc].filter(Boolean).join(" ") : "no library of a known kind";
    fail(`${file} is ${words}, expected one for ${platform.name}`);
  }
}
if (all && !existsSync(join(root, "web"))) fail("the browser's modules are not built; run tools/web-build.sh");

const stage = join(out, "stage");
rmSync(stage, { recursive: true, force: true });

/** A folder with what every package holds. */
function begin(name, fields) {
  const folder = join(stage, name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), `${JSON.stringify({ name, version, ...fields }, undefined, 2)}\n`);
  for (const file of LICENSES) copyFileSync(join(repository, file), join(folder, file));
  return folder;
}

/** A package of `source`, a folder of js, with `parts` of it. Another version of the others would not fit, so none is a range. */
function stagePackage(source, parts, fields) {
  // What only a checkout needs stays there, and that it is private: only what is packed here is to be published.
  const { devDependencies, scripts, private: isPrivate, name, version: own, dependencies, ...rest } = describe(source);
  if (own !== version) fail(`${name} is version ${own}, and lanthorn is ${version}`);
  const exact = dependencies && Object.fromEntries(Object.keys(dependencies).map((name) => [name, version]));
  const folder = begin(name, { ...rest, files: [...rest.files, ...LICENSES], ...(exact && { dependencies: exact }), ...fields });
  for (const part of ["README.md", ...parts]) {
    if (existsSync(join(source, part))) cpSync(join(source, part), join(folder, part), { recursive: true });
  }
  return folder;
}

function stagePlatform(platform) {
  const name = packageOf(platform);
  const { os, cpu, libc } = platform;
  const folder = begin(name, {
    description: `The addon of lanthorn for ${[os, cpu, libc].filter(Boolean).join(", ")}`,
    license,
    engines,
    os: [os],
    cpu: [cpu],
    ...(libc && { libc: [libc] }),
    main: "lanthorn.node",
    files: ["lanthorn.node", ...LICENSES],
    // Node cannot map a library out of an archive.
    preferUnplugged: true,
  });
  const text = `# ${name}\n\nThe engine of the package \`lanthorn\`, built for this platform. \`npm install lanthorn\` installs both.\n`;
  writeFileSync(join(folder, "README.md"), text);
  const target = join(folder, "lanthorn.node");
  copyFileSync(files.get(platform.name), target);
  chmodSync(target, 0o755);
  strip(platform, target);
  return folder;
}

/** Takes the names of lines out, most of the file's size. Files of other platforms are packed as they are given. */
function strip(platform, file) {
  if (platform !== platformOf(host) || platform.os === "win32") return;
  try {
    execFileSync("strip", [platform.os === "darwin" ? "-x" : "--strip-debug", file], { stdio: "pipe" });
  } catch (error) {
    console.error(`node-pack: ${file} is packed with its debug information: ${error.message}`);
  }
}

const optionalDependencies = Object.fromEntries(PLATFORMS.map((platform) => [packageOf(platform), version]));
const folders = [
  stagePackage(root, ["dist", "web"], { optionalDependencies }),
  ...FURTHER.map((source) => stagePackage(source, ["dist"])),
  ...PLATFORMS.filter(({ name }) => files.has(name)).map(stagePlatform),
];
const packages = folders.map((folder) => {
  const packed = execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", resolve(out)], {
    cwd: folder,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
    shell: process.platform === "win32",
  });
  const [{ name, filename, size, unpackedSize, files: list }] = JSON.parse(packed);
  // npm 9 names the file as the package, and writes it as the file's name must be.
  const tarball = filename.replace("@", "").replace("/", "-");
  return { name, version, tarball, size, unpackedSize, files: list.map(({ path }) => path).sort() };
});
writeFileSync(join(out, "packages.json"), `${JSON.stringify(packages, undefined, 2)}\n`);
rmSync(stage, { recursive: true });

const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(2)} MiB`;
for (const { tarball, size, unpackedSize, files: list } of packages) {
  console.log(`${join(out, tarball)}: ${list.length} files, ${mib(size)} packed, ${mib(unpackedSize)} unpacked`);
}
const absent = PLATFORMS.filter(({ name }) => !files.has(name)).map(({ name }) => name);
if (absent.length > 0) console.log(`not packed, for want of a file: ${absent.join(", ")}`);
