// The types of functions, scopes and errors.
import { expect, test } from "tstyche";

import {
  commitAsync,
  crossEntropy,
  DTypeError,
  init,
  LanthornError,
  loadSafetensorsAsync,
  manualSeed,
  memoryLimit,
  noGrad,
  saveSafetensors,
  saveSafetensorsAsync,
  setMemoryLimit,
  ShapeError,
  stats,
  Tensor,
  trackTensors,
} from "lanthorn";
import type { EngineOptions, init as initOfAPage } from "../dist/web.js";

declare const x: Tensor;

test("scopes give what their function gives", () => {
  expect(noGrad(() => 3)).type.toBe<number>();
  expect(noGrad(() => x.add(1))).type.toBe<Tensor>();
  expect(trackTensors(() => ({ loss: x.sum(), all: [x] }))).type.toBe<{ loss: Tensor; all: Tensor[] }>();
  expect(trackTensors(async () => x)).type.toBe<Promise<Tensor>>();
  expect(noGrad).type.not.toBeCallableWith(x);
});

test("a loss reads as its logits do", () => {
  expect(crossEntropy(x, x)).type.toBe<Tensor>();
  expect(crossEntropy(x as unknown as Tensor<"async">, x as unknown as Tensor<"async">)).type.toBe<Tensor<"async">>();
  // @ts-expect-error is not assignable to parameter of type
  crossEntropy(x, x, "average");
});

test("errors say their kind and op", () => {
  expect<ShapeError>().type.toBeAssignableTo<LanthornError>();
  expect<DTypeError>().type.toBeAssignableTo<Error>();
  expect<LanthornError["op"]>().type.toBe<string>();
  expect<LanthornError["kind"]>().type.toBeAssignableFrom<"out_of_memory">();
  expect<LanthornError["kind"]>().type.not.toBeAssignableFrom<"value">();
});

test("settings and counters", () => {
  expect(memoryLimit()).type.toBe<number | undefined>();
  expect(setMemoryLimit).type.toBeCallableWith(undefined);
  expect(setMemoryLimit).type.not.toBeCallableWith("1 GiB");
  expect(stats()["live_bytes"]).type.toBe<number>();
  expect(manualSeed).type.not.toBeCallableWith("7");
  expect(commitAsync([x])).type.toBe<Promise<void>>();
  expect(init()).type.toBe<Promise<void>>();
});

test("files take Maps and signals", () => {
  expect(saveSafetensors).type.toBeCallableWith("path", new Map([["x", x]]));
  expect(saveSafetensorsAsync).type.toBeCallableWith("path", { x }, {}, { signal: AbortSignal.abort() });
  expect(loadSafetensorsAsync).type.toBeCallableWith("path", { signal: AbortSignal.abort() });
  expect(saveSafetensors).type.not.toBeCallableWith("path", [x]);
});

test("a page names its device", () => {
  expect<EngineOptions>().type.toBeAssignableFrom<{ device: "gpu"; threads: 4 }>();
  expect<EngineOptions>().type.not.toBeAssignableFrom<{ device: "tpu" }>();
  expect<typeof initOfAPage>().type.not.toBeCallableWith({ device: "tpu" });
});
