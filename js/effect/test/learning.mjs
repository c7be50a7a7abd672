// What the tests of models, optimisers and training need.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Model, Tensor } from "@lanthorn/effect";
import { Effect } from "effect";

import { assertClose as assertNear, effectTest, f32, run } from "./support.mjs";

export { effectTest as effect, f32, run };

/** Tokens as a text `[1, length]`. */
export const ids = (tokens) => Tensor.fromTypedArray(Uint32Array.from(tokens), [1, tokens.length]);

export const values = (tensor) => Tensor.toNumberArray(tensor);

/** The numbers of several tensors. */
export const allValues = (tensors) => Effect.forEach(tensors, values);

/** Holds f32 numbers against expected ones. */
export const assertClose = (found, expected, tolerance = 1e-6, what = "") => assertNear(found, expected, tolerance, what);

/** Holds a failure against a tag and a text that its message has. */
export function assertFault(error, tag, text) {
  assert.equal(error._tag, tag, String(error));
  assert.match(error.message, text);
}

/** The network that learns exclusive or. */
export const xorModel = Effect.gen(function* () {
  return yield* Model.chain(
    yield* Model.linear("fc1", 2, 8),
    yield* Model.tanh,
    yield* Model.linear("fc2", 8, 1),
    yield* Model.sigmoid,
  );
});

export const xorData = Effect.gen(function* () {
  return { input: yield* f32([0, 0, 0, 1, 1, 0, 1, 1], [4, 2]), target: yield* f32([0, 1, 1, 0], [4, 1]) };
});

/** Parameters of a model that are the same in every run: numbers of a fixed sequence, about as large as first values are. */
export const fixedParams = (model) =>
  Effect.gen(function* () {
    let seed = 1;
    const next = () => ((seed = (seed * 48271) % 2147483647) / 2147483647 - 0.5) * 2;
    const lazy = yield* Effect.forEach(model.parameters, ({ shape }) => {
      const scale = 1 / Math.sqrt(shape.length > 1 ? shape[0] : 1);
      return f32(Array.from({ length: shape.reduce((product, size) => product * size, 1) }, () => scale * next()), shape);
    });
    return yield* Tensor.compute(lazy);
  });

/** A folder that is gone when the process is. */
export function folder() {
  const path = mkdtempSync(join(tmpdir(), "lanthorn-effect-"));
  process.on("exit", () => rmSync(path, { recursive: true, force: true }));
  return path;
}
