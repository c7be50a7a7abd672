/**
 * The platforms for which there are packages with the addon, and which of them a process runs on.
 *
 * This list is the only one: the loader chooses from it, and `scripts/pack.mjs` writes the packages' descriptions of it.
 */

/** A package that holds the addon for one platform. */
export interface Platform {
  /** The end of the package's name: `@lanthorn/node-<name>`. */
  readonly name: string;
  /** As `process.platform` says. */
  readonly os: NodeJS.Platform;
  /** As `process.arch` says. */
  readonly cpu: NodeJS.Architecture;
  /** The C library, where a system may have one or the other. */
  readonly libc?: Libc;
}

/** C libraries as npm names them. */
export type Libc = "glibc" | "musl";

export const PLATFORMS: readonly Platform[] = [
  { name: "linux-x64-gnu", os: "linux", cpu: "x64", libc: "glibc" },
  { name: "linux-arm64-gnu", os: "linux", cpu: "arm64", libc: "glibc" },
  { name: "linux-x64-musl", os: "linux", cpu: "x64", libc: "musl" },
  { name: "linux-arm64-musl", os: "linux", cpu: "arm64", libc: "musl" },
  { name: "darwin-arm64", os: "darwin", cpu: "arm64" },
  { name: "darwin-x64", os: "darwin", cpu: "x64" },
  { name: "win32-x64-msvc", os: "win32", cpu: "x64" },
  { name: "win32-arm64-msvc", os: "win32", cpu: "arm64" },
];

/** The name of a platform's package. */
export function packageOf({ name }: Platform): string {
  return `@lanthorn/node-${name}`;
}

/** What `process.report` says of the C library; all of it may be missing. */
export interface Report {
  readonly header?: { readonly glibcVersionRuntime?: string };
  readonly sharedObjects?: readonly string[];
}

/** What a process runs on. */
export interface Host {
  readonly os: string;
  readonly cpu: string;
  /** On Linux the C library, if it is one of the two. */
  readonly libc: Libc | undefined;
  /** All of it in words, for messages. */
  readonly words: string;
}

/** What a process of these properties runs on. `report` is asked on Linux alone. */
export function hostOf(os: string, cpu: string, report: () => Report | undefined): Host {
  if (os !== "linux") return { os, cpu, libc: undefined, words: `${os} ${cpu}` };
  const { header, sharedObjects = [] } = report() ?? {};
  const glibc = header?.glibcVersionRuntime;
  if (glibc) return { os, cpu, libc: "glibc", words: `${os} ${cpu} (glibc ${glibc})` };
  // Node's report knows no version of musl, but musl's loader is among the files that are mapped.
  if (sharedObjects.some((file) => /(^|\/)(ld-musl-|libc\.musl-)/.test(file))) {
    return { os, cpu, libc: "musl", words: `${os} ${cpu} (musl)` };
  }
  return { os, cpu, libc: undefined, words: `${os} ${cpu} (a C library that is neither glibc nor musl)` };
}

/** The one platform of the list that fits, if any does. */
export function platformOf({ os, cpu, libc }: Host): Platform | undefined {
  return PLATFORMS.find((platform) => platform.os === os && platform.cpu === cpu && platform.libc === libc);
}
