// For which platform a library was built, as its first bytes say. A package with another platform's addon would only be
// found by its users.

const ELF_MACHINES = new Map([[62, "x64"], [183, "arm64"]]);
const MACH_O_MACHINES = new Map([[0x01000007, "x64"], [0x0100000c, "arm64"]]);
const PE_MACHINES = new Map([[0x8664, "x64"], [0xaa64, "arm64"]]);

/** `{ os, cpu, libc }` in npm's words, or `undefined` for what is no library of a known kind. */
export function builtFor(bytes) {
  if (bytes.length < 64) return undefined;
  if (bytes.readUInt32BE(0) === 0x7f454c46) {
    // The C library's name is in the table of names of the libraries that are needed.
    const libc = bytes.includes("libc.so.6\0") ? "glibc" : bytes.includes("libc.so\0") || bytes.includes("libc.musl-") ? "musl" : undefined;
    return { os: "linux", cpu: ELF_MACHINES.get(bytes.readUInt16LE(18)), libc };
  }
  if (bytes.readUInt32LE(0) === 0xfeedfacf) {
    return { os: "darwin", cpu: MACH_O_MACHINES.get(bytes.readUInt32LE(4)), libc: undefined };
  }
  if (bytes.toString("latin1", 0, 2) === "MZ") {
    const at = bytes.readUInt32LE(60);
    if (at + 6 > bytes.length || bytes.toString("latin1", at, at + 4) !== "PE\0\0") return undefined;
    return { os: "win32", cpu: PE_MACHINES.get(bytes.readUInt16LE(at + 4)), libc: undefined };
  }
  return undefined;
}
