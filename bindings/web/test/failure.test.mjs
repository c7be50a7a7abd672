// What goes wrong on the way to an engine, or in it, is said by name: nothing hangs.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { launch, withPage } from "./browser.mjs";

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** The message with which `init` fails. */
const failure = (page, options = {}) =>
  page.evaluate(async (options) => {
    const { init } = await import("lanthorn");
    return init(options).then(() => "it started", (error) => error.message);
  }, options);

const MISSING = [
  { file: "page.wasm", said: /page\.wasm cannot be fetched: the server says 404/ },
  { file: "engine-worker.js", said: /engine-worker\.js cannot be loaded/ },
  { file: "engine.wasm", said: /engine\.wasm cannot be fetched: the server says 404/ },
  { file: "engine-threads.wasm", said: /engine-threads\.wasm cannot be fetched: the server says 404/, threads: 2 },
  { file: "pool-worker.js", said: /pool-worker\.js cannot be loaded/, threads: 2 },
];

for (const { file, said, threads } of MISSING) {
  test(`${file} that is not there is named`, async () => {
    const replace = { [`/js/lanthorn/web/${file}`]: null };
    await withPage(browser, { isolated: threads === 2, replace }, async (page) => {
      assert.match(await failure(page, { threads }), said);
    });
  });
}

test("a module that is none is named", async () => {
  const replace = { "/js/lanthorn/web/engine.wasm": "this is text" };
  await withPage(browser, { isolated: false, replace }, async (page) => {
    assert.match(await failure(page), /engine\.wasm is no module that this browser takes/);
  });
});

test("a device that there is not is refused", async () => {
  await withPage(browser, { isolated: false }, async (page) => {
    assert.match(await failure(page, { device: "abacus" }), /no device abacus/);
  });
});

test("more shared memory than the browser reserves, or too little to start with, is said", async () => {
  await withPage(browser, { isolated: true }, async (page) => {
    assert.match(await failure(page, { threads: 2, memory: 65536 }), /memory/);
  });
});

test("a page whose engine dies hears why, for what it waits and for what it asks later", async () => {
  await withPage(browser, { isolated: true }, async (page) => {
    await page.evaluate(async () => {
      const { init, Tensor } = await import("lanthorn");
      await init({ threads: 2 });
      globalThis.tensor = Tensor.fromData([1, 2], [2]);
      await tensor.toArray();
    });
    for (const worker of page.workers()) {
      await worker.evaluate(() => void setTimeout(() => { throw new Error("struck by the test"); }, 0)).catch(() => {});
    }
    const told = await page.evaluate(async () => {
      const messages = [];
      for (let attempt = 0; attempt < 2; attempt++) {
        try {
          await tensor.add(1).toArray();
        } catch (error) {
          messages.push(`${error.kind}: ${error.message}`);
        }
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
      return messages;
    });
    assert.ok(told.length > 0 && told.every((text) => /^closed: engine: its worker stopped: .*struck by the test/.test(text)), `${told}`);
  });
});

test("a batch that no page of ours would send ends the engine with a reason", async () => {
  await withPage(browser, { isolated: false }, async (page) => {
    const dead = await page.evaluate(
      () =>
        new Promise((resolve) => {
          const worker = new Worker("/js/lanthorn/web/engine-worker.js", { type: "module" });
          worker.onmessage = ({ data }) => {
            if (data.seats) worker.postMessage({ seated: true });
            if (data.ready) {
              const batch = new Uint8Array([255, 255, 255, 255, 255, 255]).buffer;
              worker.postMessage({ batch }, [batch]);
            }
            if (data.dead) resolve(data.dead);
          };
          worker.postMessage({ start: { threads: 1, device: "cpu" } });
        }),
    );
    assert.match(dead, /a batch does not continue with a message/);
  });
});
