// A registry of npm's kind on this machine, for the installation of packages that are not published.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

/**
 * Serves packages: `packages` as scripts/pack.mjs lists them in `folder`, each with its `description` (package.json). Gives
 * the address, which names were asked for, and what ends it.
 */
export async function serve(folder, packages) {
  const asked = { documents: [], tarballs: [] };
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url).replace(/^\//, "");
    const { origin } = new URL(`http://${request.headers.host}`);
    const tarball = packages.find((entry) => path === entry.tarball);
    if (tarball !== undefined) {
      asked.tarballs.push(tarball.name);
      return response.end(readFileSync(join(folder, tarball.tarball)));
    }
    const found = packages.find((entry) => path === entry.name);
    asked.documents.push(path);
    if (found === undefined) return response.writeHead(404).end("{}");
    const { name, version, description, tarball: file } = found;
    const integrity = `sha512-${createHash("sha512").update(readFileSync(join(folder, file))).digest("base64")}`;
    const dist = { tarball: `${origin}/${file}`, integrity };
    const document = { name, "dist-tags": { latest: version }, versions: { [version]: { ...description, dist } } };
    response.setHeader("content-type", "application/json");
    return response.end(JSON.stringify(document));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { address: `http://127.0.0.1:${server.address().port}/`, asked, close: () => server.close() };
}

/** The smallest file that has the marks of a platform's library. No process can load it. */
export function libraryFor({ os, cpu, libc }) {
  const bytes = Buffer.alloc(128);
  const isArm = cpu === "arm64";
  if (os === "linux") {
    bytes.writeUInt32BE(0x7f454c46, 0);
    bytes.writeUInt16LE(isArm ? 183 : 62, 18);
    bytes.write(libc === "musl" ? "libc.so\0" : "libc.so.6\0", 64, "latin1");
  } else if (os === "darwin") {
    bytes.writeUInt32LE(0xfeedfacf, 0);
    bytes.writeUInt32LE(isArm ? 0x0100000c : 0x01000007, 4);
  } else {
    bytes.write("MZ", 0, "latin1");
    bytes.writeUInt32LE(64, 60);
    bytes.write("PE\0\0", 64, "latin1");
    bytes.writeUInt16LE(isArm ? 0xaa64 : 0x8664, 68);
  }
  return bytes;
}
