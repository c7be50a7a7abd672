// Which windows a sampler draws, and what its state brings back.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Sampler } from "@lanthorn/effect";
import { Effect } from "effect";

import { assertFault } from "./learning.mjs";

const config = { length: 10 * 8 + 1, block: 8, batch: 2 };
const make = (settings = config) => Effect.runSync(Sampler.make(settings));
const sorted = (starts) => starts.toSorted((a, b) => a - b);
const ALL = Array.from({ length: 10 }, (_, at) => 8 * at);

test("each window is drawn once in each epoch", () => {
  const sampler = make();
  for (let epoch = 0; epoch < 3; epoch++) {
    const drawn = Array.from({ length: 5 }, () => sampler.next()).flat();
    assert.deepEqual(sorted(drawn), ALL);
    assert.equal(sampler.state().epoch, epoch);
    assert.equal(sampler.state().cursor, 10);
  }
});

test("epochs are in different orders", () => {
  const sampler = make({ length: 1001, block: 1, batch: 1000 });
  const first = sampler.next();
  assert.notDeepEqual(sampler.next(), first);
  assert.notDeepEqual(first, sorted(first));
});

test("an epoch that ends within a batch is whole all the same", () => {
  const sampler = make({ ...config, batch: 4 });
  const drawn = Array.from({ length: 5 }, () => sampler.next()).flat();
  assert.deepEqual(sorted(drawn.slice(0, 10)), ALL);
  assert.deepEqual(sorted(drawn.slice(10)), ALL);
});

test("a tail that makes no window is left out", () => {
  const sampler = make({ length: 8 * 3, block: 8, batch: 2 });
  assert.equal(sampler.state().order.length, 2);
});

test("a state goes on where it was taken, and does not change later", () => {
  const sampler = make();
  sampler.next();
  const state = sampler.state();
  const rest = Array.from({ length: 4 }, () => sampler.next());
  const restored = Effect.runSync(Sampler.restore(config, state));
  assert.deepEqual(restored.state(), state);
  assert.deepEqual(Array.from({ length: 4 }, () => restored.next()), rest);
  assert.equal(state.cursor, 2);
  assert.equal(state._tag, "SamplerState");
  assert.deepEqual(state.config, config);
});

test("a state at the end of an epoch begins the next", () => {
  const sampler = make();
  for (let at = 0; at < 5; at++) sampler.next();
  const restored = Effect.runSync(Sampler.restore(config, sampler.state()));
  const next = Array.from({ length: 5 }, () => restored.next()).flat();
  assert.deepEqual(sorted(next), ALL);
  assert.equal(restored.state().epoch, 1);
});

test("settings that make no sampler are named", () => {
  const fault = (settings) => Effect.runSync(Effect.flip(Sampler.make(settings)));
  assertFault(fault({ length: 4, block: 8, batch: 1 }), "SamplerError", /4 tokens make 0 windows .* at least 9 tokens/);
  assertFault(fault({ length: 20, block: 8, batch: 3 }), "SamplerError", /a batch takes 3/);
  assertFault(fault({ length: 100, block: 0, batch: 1 }), "SamplerError", /block is 0, expected an integer above 0/);
  assertFault(fault({ length: 100, block: 8, batch: 1.5 }), "SamplerError", /batch is 1.5/);
  assertFault(fault({ length: 100, block: "8", batch: 1 }), "SamplerError", /block is the text "8"/);
  assertFault(fault(null), "SamplerError", /the settings are null, expected length, block and batch/);
  assertFault(fault({ length: 2 ** 52, block: 1, batch: 1 }), "SamplerError", /4503599627370495 windows .* at most 4294967295 windows/);
});

test("states that do not fit are refused", () => {
  const state = make().state();
  const fault = (change, settings = config) => Effect.runSync(Effect.flip(Sampler.restore(settings, { ...state, ...change })));
  assertFault(fault({}, { ...config, block: 4 }), "SamplerError", /the state is of block 8, the sampler of block 4/);
  assertFault(fault({ order: new Uint32Array(7) }), "SamplerError", /holds 7 windows, expected 10/);
  assertFault(fault({ order: new Uint32Array(10) }), "SamplerError", /no permutation/);
  assertFault(fault({ order: Uint32Array.from(state.order, (window) => window + 1) }), "SamplerError", /no permutation/);
  assertFault(fault({ cursor: 11 }), "SamplerError", /cursor is 11, expected an integer from 0 to 10/);
  assertFault(fault({ epoch: -1 }), "SamplerError", /epoch is -1/);
});

test("what is no state is refused by what it is", () => {
  const state = make().state();
  const fault = (given) => Effect.runSync(Effect.flip(Sampler.restore(config, given)));
  const order = (last) => [...state.order.slice(0, 9), last];
  const refused = [
    [null, /the state is null/],
    [undefined, /the state is undefined/],
    ["state", /the state is the text "state"/],
    [[], /the config of the state is undefined/],
    [{}, /the config of the state is undefined/],
    [{ ...state, config: { ...config, length: Number.NaN } }, /the state is of length NaN/],
    [{ ...state, order: undefined }, /the order is undefined, expected a Uint32Array/],
    [{ ...state, order: null }, /the order is null/],
    [{ ...state, order: order(-1) }, /the order is an object of class Array, expected a Uint32Array/],
    [{ ...state, order: order(2.5) }, /the order is an object of class Array/],
    [{ ...state, order: order("3") }, /the order is an object of class Array/],
    [{ ...state, order: Int32Array.from(order(-1)) }, /the order is an object of class Int32Array/],
    [{ ...state, order: Float32Array.from(order(2.5)) }, /the order is an object of class Float32Array/],
    [{ ...state, order: {} }, /the order is an object of class Object/],
    [{ ...state, cursor: Number.NaN }, /the cursor is NaN/],
    [{ ...state, cursor: 2.5 }, /the cursor is 2.5/],
    [{ ...state, cursor: "2" }, /the cursor is the text "2"/],
    [{ ...state, cursor: undefined }, /the cursor is undefined/],
    [{ ...state, epoch: Number.NaN }, /the epoch is NaN/],
    [{ ...state, epoch: Infinity }, /the epoch is Infinity/],
    [{ ...state, epoch: undefined }, /the epoch is undefined/],
  ];
  for (const [given, message] of refused) assertFault(fault(given), "SamplerError", message);
});
