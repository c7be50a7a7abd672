// Measures the face in headless Chromium and merges its rows into a file of rows: node bench/web.mjs FILE [PEERS], where
// PEERS is a folder in which TensorFlow.js is installed (tools/web-bench.sh does that).

import { readFileSync } from "node:fs";
import { brotliCompressSync, gzipSync } from "node:zlib";

import { merge } from "../../../js/lanthorn/bench/rows.mjs";
import { launch, withPage } from "../test/browser.mjs";
import { run } from "../test/run.mjs";

const [file = "out/bench.json", peers] = process.argv.slice(2);
const N = 512;
const rows = [];

for (const name of ["page", "engine", "engine-threads"]) {
  const module = readFileSync(new URL(`../../../js/lanthorn/web/${name}.wasm`, import.meta.url));
  const sizes = { bytes: module.length, gzip_bytes: gzipSync(module, { level: 9 }).length };
  sizes.brotli_bytes = brotliCompressSync(module).length;
  rows.push({ name: `web: size of ${name}.wasm`, ours_s: null, peer: null, peer_s: null, ratio: null, target: null, ...sizes });
  console.log(`${name}.wasm: ${sizes.bytes} bytes, ${sizes.gzip_bytes} gzip, ${sizes.brotli_bytes} brotli`);
}

const browser = await launch();
try {
  for (const threads of [1, 2]) {
    const isolated = threads > 1;
    await withPage(browser, { isolated, folders: { "/peers/": peers } }, async (page) => {
      const ours = await run(page, "matmulSeconds", { threads }, N);
      const theirs = peers === undefined ? null : await run(page, "peerMatmulSeconds", { threads: 1 }, N);
      const ratio = theirs === null ? null : theirs / ours;
      const named = `${threads} thread${threads > 1 ? "s" : ""}`;
      const name = `web: product of ${N}, ${named}`;
      rows.push({ name, ours_s: ours, peer: "tfjs-wasm", peer_s: theirs, ratio, target: null });
      const speed = (seconds) => (seconds === null ? "-" : `${((2 * N ** 3) / seconds / 1e9).toFixed(1)} GFLOP/s`);
      console.log(`${name}: ${speed(ours)}, tfjs-wasm ${speed(theirs)}`);
      const found = await run(page, "responsiveness", { threads });
      const [limit, stop] = [0.05, Math.max(found.longestTask, found.longestStop) / 1e3];
      rows.push({
        name: `web: longest stop of the main thread while the engine computes, ${named}`,
        ours_s: stop,
        peer: "limit",
        peer_s: limit,
        ratio: limit / stop,
        target: 1,
      });
      console.log(`longest stop of the main thread ${(stop * 1e3).toFixed(1)} ms in ${found.elapsed.toFixed(0)} ms, ${named}`);
    });
  }
} finally {
  await browser.close();
}
merge(file, rows);
