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
      const name = `web: product of ${N}, ${threads} thread${threads > 1 ? "s" : ""}`;
      rows.push({ name, ours_s: ours, peer: "tfjs-wasm", peer_s: theirs, ratio, target: null });
      const speed = (seconds) => (seconds === null ? "-" : `${((2 * N ** 3) / seconds / 1e9).toFixed(1)} GFLOP/s`);
      console.log(`${name}: ${speed(ours)}, tfjs-wasm ${speed(theirs)}`);
      const { longestTask, longestGap, elapsed } = await run(page, "responsiveness", { threads });
      const limit = 0.05;
      rows.push({
        name: `web: longest main-thread task while the engine computes, ${threads} thread${threads > 1 ? "s" : ""}`,
        ours_s: longestTask / 1e3,
        peer: "limit",
        peer_s: limit,
        // No task was long enough to be reported.
        ratio: longestTask > 0 ? limit / (longestTask / 1e3) : null,
        target: 1,
      });
      console.log(
        `longest main-thread task ${longestTask.toFixed(0)} ms, gap between frames ${longestGap.toFixed(0)} ms, ` +
          `in ${elapsed.toFixed(0)} ms of computing with ${threads} thread${threads > 1 ? "s" : ""}`,
      );
    });
  }
} finally {
  await browser.close();
}
merge(file, rows);
