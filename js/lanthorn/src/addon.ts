/**
 * Finds the addon: the file that `LANTHORN_ADDON` names, else the package of this platform, else the file that
 * `tools/node-build.sh` puts beside this package. The first that is there is the one; it works or is an error.
 */

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { errorOf, type ErrorKind } from "./errors.js";
import { FINGERPRINT } from "./generated/table.js";
import { hostOf, packageOf, platformOf, PLATFORMS, type Host, type Platform, type Report } from "./platforms.js";
import type { Raw } from "./raw.js";
import { VERSION } from "./version.js";

/** What the addon is beside its raw calls. */
export interface Addon extends Raw {
  /** The calls of `@lanthorn/tokenizers`, which knows what they are. */
  readonly tokenizers: object;
  /** The devices that it was built with. */
  readonly devices: readonly string[];
  /** The calls of another session, without what all sessions of the environment share. */
  open(): Addon | number;
  /** The calls of a new state of pure graphs, without what all of the environment share. */
  graph(): object;
  /** The version of the engine's crates, which is that of this package. */
  readonly version: string;
  /** The op table from which the addon was built. */
  readonly fingerprint: number;
  /** The memory limit in bytes; 0 for none. */
  memory_limit(): number;
  set_memory_limit(bytes: number): number;
}

/** The variable that names a file to take instead of any other. */
export const VARIABLE = "LANTHORN_ADDON";

const require = createRequire(import.meta.url);

/** Loads the addon for this process. */
export function load(): Addon {
  const host = hostOf(process.platform, process.arch, report);
  const named = process.env[VARIABLE];
  if (named) return open(resolve(named), host, `${VARIABLE} names it`);

  const platform = platformOf(host);
  const installed = platform && locate(packageOf(platform));
  if (installed !== undefined) {
    const { version, folder } = installed;
    if (version !== VERSION) {
      const found = `${packageOf(platform as Platform)} in ${folder} is version ${version}`;
      throw failure("format", host, `${found}, and lanthorn is ${VERSION}. Install both in one version: ${remedy(platform)}`);
    }
    return open(join(folder, "lanthorn.node"), host, remedy(platform));
  }
  const beside = fileURLToPath(new URL("../lanthorn.node", import.meta.url));
  if (existsSync(beside)) return open(beside, host, "tools/node-build.sh builds it");
  throw missing(host, platform, beside);
}

/** Node's report without what takes long: the names of network peers. */
function report(): Report | undefined {
  const settings = process.report as (NodeJS.ProcessReport & { excludeNetwork?: boolean }) | undefined;
  if (settings === undefined) return undefined;
  const before = settings.excludeNetwork;
  settings.excludeNetwork = true;
  try {
    return settings.getReport() as Report;
  } finally {
    if (before === undefined) delete settings.excludeNetwork;
    else settings.excludeNetwork = before;
  }
}

/** The folder and version of a package, if it is installed where this package finds it. */
function locate(name: string): { folder: string; version: string } | undefined {
  try {
    const description = require.resolve(`${name}/package.json`);
    return { folder: dirname(description), version: require(description).version };
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "MODULE_NOT_FOUND") return undefined;
    throw cause;
  }
}

/** The addon in `file`; `advice` says what to do if it is none, or another one. */
function open(file: string, host: Host, advice: string): Addon {
  let addon: Addon;
  try {
    addon = require(file) as Addon;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.split("\nRequire stack:")[0] : String(cause);
    throw failure("io", host, `${file} cannot be loaded: ${reason} (${advice})`, cause);
  }
  const { version, fingerprint } = addon;
  if (version !== VERSION) {
    throw failure("format", host, `${file} is of version ${version ?? "none"}, and lanthorn is ${VERSION} (${advice})`);
  }
  if (fingerprint !== FINGERPRINT) {
    throw failure("format", host, `${file} was built from another op table than this package (${advice})`);
  }
  // A copy: V8 looks the properties of an object that an addon has filled up in a table at each access.
  return { ...addon, device: addon.devices[0] as string };
}

function remedy(platform: Platform | undefined): string {
  return `npm install lanthorn@${VERSION} ${platform ? `${packageOf(platform)}@${VERSION}` : ""}`.trim();
}

/** Nothing is there. */
function missing(host: Host, platform: Platform | undefined, beside: string): Error {
  const build = `build the addon with tools/node-build.sh of the repository and name the file by ${VARIABLE}`;
  const file = `the file ${beside} (not there)`;
  const others = PLATFORMS.map(packageOf).filter((name) => locate(name) !== undefined);
  const found = others.length > 0 ? `. What is installed is for another platform: ${others.join(", ")}` : "";
  if (platform === undefined) {
    return failure("unsupported", host, `there is no package for this platform; looked for ${file}${found}. To run here, ${build}`);
  }
  const name = packageOf(platform);
  const folders = (require.resolve.paths(name) ?? []).slice(0, 3).join(", ");
  return failure(
    "io",
    host,
    `looked for the package ${name} (not in ${folders}, ...) and for ${file}${found}. Run \`${remedy(platform)}\`; it is an optional ` +
      `dependency, which --omit=optional, --no-optional or a node_modules copied from another platform leaves out. Or ${build}`,
  );
}

function failure(kind: ErrorKind, host: Host, message: string, cause?: unknown): Error {
  const error = errorOf(kind, "load", `no addon for ${host.words}, Node ${process.versions.node}: ${message}`);
  if (cause !== undefined) error.cause = cause;
  return error;
}
