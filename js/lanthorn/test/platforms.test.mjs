// Which package a process takes, and for what a library was built.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { hostOf, packageOf, platformOf, PLATFORMS } from "../dist/platforms.js";
import { VERSION } from "../dist/version.js";
import { builtFor } from "../scripts/binary.mjs";
import { libraryFor } from "./registry.mjs";

const GLIBC = { header: { glibcVersionRuntime: "2.36" }, sharedObjects: ["/lib/x86_64-linux-gnu/libc.so.6"] };
const MUSL = { header: {}, sharedObjects: ["/usr/lib/libstdc++.so.6", "/lib/ld-musl-x86_64.so.1"] };
const never = () => assert.fail("the report is asked on Linux alone");

test("one package is chosen by platform, processor and C library", () => {
  const chosen = (os, cpu, report) => {
    const platform = platformOf(hostOf(os, cpu, report));
    return platform && packageOf(platform);
  };
  assert.equal(chosen("linux", "x64", () => GLIBC), "@lanthorn/node-linux-x64-gnu");
  assert.equal(chosen("linux", "x64", () => MUSL), "@lanthorn/node-linux-x64-musl");
  assert.equal(chosen("linux", "arm64", () => GLIBC), "@lanthorn/node-linux-arm64-gnu");
  assert.equal(chosen("linux", "arm64", () => MUSL), "@lanthorn/node-linux-arm64-musl");
  assert.equal(chosen("darwin", "arm64", never), "@lanthorn/node-darwin-arm64");
  assert.equal(chosen("darwin", "x64", never), "@lanthorn/node-darwin-x64");
  assert.equal(chosen("win32", "x64", never), "@lanthorn/node-win32-x64-msvc");
  assert.equal(chosen("win32", "arm64", never), "@lanthorn/node-win32-arm64-msvc");
  for (const [os, cpu, report] of [
    ["linux", "ia32", () => GLIBC],
    ["linux", "x64", () => undefined],
    ["linux", "x64", () => ({ header: {}, sharedObjects: ["/lib/libc.so.7"] })],
    ["freebsd", "x64", never],
    ["win32", "ia32", never],
  ]) {
    assert.equal(chosen(os, cpu, report), undefined, `${os} ${cpu}`);
  }
});

test("messages name the C library", () => {
  assert.equal(hostOf("linux", "x64", () => GLIBC).words, "linux x64 (glibc 2.36)");
  assert.equal(hostOf("linux", "x64", () => MUSL).words, "linux x64 (musl)");
  assert.match(hostOf("linux", "x64", () => undefined).words, /neither glibc nor musl/);
  assert.equal(hostOf("darwin", "arm64", never).words, "darwin arm64");
});

test("no two platforms of the list fit one process", () => {
  const keys = PLATFORMS.map(({ os, cpu, libc }) => `${os} ${cpu} ${libc}`);
  assert.equal(new Set(keys).size, keys.length);
  assert.equal(new Set(PLATFORMS.map(packageOf)).size, keys.length);
});

test("a library says for which platform it was built", () => {
  const own = hostOf(process.platform, process.arch, () => process.report.getReport());
  const { os, cpu, libc } = platformOf(own);
  const addon = new URL("../lanthorn.node", import.meta.url);
  assert.deepEqual(builtFor(readFileSync(addon)), { os, cpu, libc });
  for (const platform of PLATFORMS) {
    const { os, cpu, libc } = platform;
    assert.deepEqual(builtFor(libraryFor(platform)), { os, cpu, libc }, platform.name);
  }
  assert.equal(builtFor(Buffer.from("#!/bin/sh\n")), undefined);
  assert.equal(builtFor(Buffer.alloc(200)), undefined);
});

test("the package and the engine have one version", () => {
  const workspace = readFileSync(new URL("../../../Cargo.toml", import.meta.url), "utf8");
  const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  assert.equal(/^version = "(.*)"/m.exec(workspace)[1], version);
  assert.equal(VERSION, version);
});
