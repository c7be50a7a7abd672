// The examples, with few steps: they learn, and what they draw and write is there.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const example = (name) => import(new URL(`../../../examples/node/${name}.mjs`, import.meta.url));

test("xor is learned", async () => {
  const { train } = await example("xor");
  const { losses, answers } = train(200);
  assert.ok(losses.at(-1) < 0.05, `${losses.at(-1)}`);
  assert.deepEqual(answers.map(Math.round), [0, 1, 1, 0]);
});

test("digits are read, and the losses are drawn", async () => {
  const { train } = await example("digits");
  const { lossPlot } = await example("plot");
  const { accuracy, losses, evaluations } = train(4);
  assert.ok(accuracy > 0.9, `${accuracy}`);
  assert.equal(losses.length, 4 * 22);
  const svg = lossPlot("Digits", losses, evaluations);
  assert.match(svg, /^<svg /);
  assert.match(svg, /held out/);
  assert.ok((svg.match(/<path/g) ?? []).length > 5);
});

test("a GPT learns characters and writes with them", async () => {
  const { train, generate } = await example("nano-gpt");
  const text = readFileSync(new URL("../../../examples/data/pride_and_prejudice.txt", import.meta.url), "utf8");
  const told = [];
  const sizes = { width: 32, heads: 2, layers: 1, dropout: 0.1 };
  const trained = train(text.slice(0, 20_000), 30, (step, loss) => told.push([step, loss]), sizes);
  assert.equal(told.length, 30);
  const { losses, characters } = trained;
  assert.ok(Math.abs(losses[0] - Math.log(characters.all.length)) < 0.5, `${losses[0]}`);
  assert.ok(losses.at(-1) < losses[0] - 0.7, `${losses[0]} to ${losses.at(-1)}`);
  const written = [...generate(trained, "It is ", 70)];
  assert.equal(written.length, 70);
  assert.ok(written.every((character) => characters.all.includes(character)));
});
