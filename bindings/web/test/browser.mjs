// Headless Chromium with a page of ours in it.

import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

import { serve } from "./server.mjs";

const EXECUTABLE = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** WebGPU by the software renderer that Chromium brings. */
const WEBGPU = "--enable-unsafe-webgpu";

/** No traffic of its own. */
const ARGUMENTS = [
  "--no-sandbox",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-quic",
];

/** Starts the browser. */
export async function launch({ webgpu = true } = {}) {
  if (!existsSync(EXECUTABLE)) {
    throw new Error(`there is no browser at ${EXECUTABLE}; install chromium or name another in CHROMIUM`);
  }
  return chromium.launch({ executablePath: EXECUTABLE, args: webgpu ? [...ARGUMENTS, WEBGPU] : ARGUMENTS });
}

/**
 * Runs `work` with a fresh page from a server of its own. What the page logs and the errors that nobody catches in it
 * are in `page.said`.
 */
export async function withPage(browser, options, work) {
  const server = await serve(options);
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    page.said = [];
    page.on("console", (message) => page.said.push(message.text()));
    page.on("pageerror", (error) => page.said.push(String(error)));
    await page.goto(`${server.address}/page`);
    return await work(page);
  } finally {
    await context.close();
    await server.close();
  }
}
