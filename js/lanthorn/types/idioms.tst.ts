// The types of what users of torch and polygrad write, of runtimes' own layers, and of files of other writers.
import { expect, test } from "tstyche";

import {
  compileAsync,
  create,
  disposeDefault,
  jitAsync,
  loadGguf,
  loadTorchAsync,
  loadZip,
  nn,
  optim,
  resetCounters,
  stats,
  Tensor,
  type Runtime,
} from "lanthorn";
import * as lanthorn from "lanthorn";

declare const here: Tensor;
declare const there: Tensor<"async">;
declare const page: Runtime<"async">;

test("copies and views read as their tensor does", () => {
  expect(here.clone()).type.toBe<Tensor>();
  expect(there.contiguous()).type.toBe<Tensor<"async">>();
  expect(there.view(2, 3)).type.toBe<Tensor<"async">>();
  expect(here.shrink([[0, 1], null])).type.toBe<Tensor>();
  expect(here.shrink).type.not.toBeCallableWith([[0, 1, 2]]);
  expect(there.dot(there)).type.toBe<Tensor<"async">>();
  expect(here.dot).type.not.toBeCallableWith(2);
  expect(here.isLeaf).type.toBe<boolean>();
  expect(here.is_leaf).type.toBe<boolean>();
  expect(here.device).type.toBe<string>();
  expect(here.updateFrom([1, 2])).type.toBe<Tensor>();
  expect(Tensor.training).type.toBe<boolean>();
  // @ts-expect-error Cannot assign to 'isLeaf' because it is a read-only property
  here.isLeaf = true;
  // @ts-expect-error Type 'number' is not assignable to type 'boolean'
  Tensor.training = 1;
});

test("samples take their settings by name, or as the op does", () => {
  expect(there.sampleLogits({ temperature: 0.5, topK: 3, keepdim: true })).type.toBe<Tensor<"async">>();
  expect(here.sampleLogits()).type.toBe<Tensor>();
  expect(here.sampleLogits(here, 0.5, 3)).type.toBe<Tensor>();
  expect(here.sampleLogits).type.not.toBeCallableWith({ topP: 0.5 });
  expect(here.threefry(here)).type.toBe<Tensor>();
});

test("options of polygrad", () => {
  expect(new Tensor([1], { isParam: true, device: "cpu" })).type.toBe<Tensor>();
  expect(Tensor.scaledUniform(2, 3, { dtype: "f16" })).type.toBe<Tensor>();
  // @ts-expect-error 'logical' does not exist in type
  new Tensor([1], { logical: "always" });
});

test("asynchronous captures give promises", () => {
  const step = jitAsync((a: Tensor) => [a]);
  expect(step(here)).type.toBe<Promise<Tensor[]>>();
  expect(step).type.not.toBeCallableWith(1);
  expect(compileAsync((a: Tensor) => a, [here])).type.toBe<Promise<lanthorn.Compiled<[a: Tensor], Tensor>>>();
  expect(lanthorn.function((a: Tensor) => a.add(1))(here)).type.toBe<Tensor>();
});

test("optimisers and layers", () => {
  const matrices = new optim.Muon([here], { nsSteps: 5 });
  const both = new nn.OptimizerGroup(matrices, new nn.LAMB([here]), new optim.LARS([here], { trust: 0.01 }));
  expect(both.step()).type.toBe<void>();
  expect(both.lr).type.toBe<number>();
  expect(new optim.StepLR(both, 10)).type.toBe<optim.StepLR>();
  expect(new nn.LayerNorm2d(4).forward(here)).type.toBe<Tensor>();
  expect(nn.gatedDeltaRule(here, here, here, here, here)).type.toBe<[output: Tensor, state: Tensor]>();
  expect(optim.Muon).type.not.toBeConstructableWith([here], { trust: 1 });
});

test("several tensors are read with options", () => {
  const { signal } = new AbortController();
  expect(Tensor.toTypedArraysAsync(here, here, { signal })).type.toBe<Promise<lanthorn.Elements[]>>();
  expect(Tensor.toTypedArraysAsync(here)).type.toBe<Promise<lanthorn.Elements[]>>();
  expect(Tensor.toTypedArraysAsync).type.not.toBeCallableWith({ signal: 1 });
});

test("what is put around a tensor", () => {
  expect(here.pad([1, 1], [0, 0], 2)).type.toBe<Tensor>();
  expect(here.pad([[1, 1], null], 2)).type.toBe<Tensor>();
  expect(here.logical_xor(here)).type.toBe<Tensor>();
  expect(here.pad).type.not.toBeCallableWith([1, 1]);
  expect(here.pad).type.not.toBeCallableWith([[1, 1, 1]]);
});

test("a runtime has what the package has", () => {
  const pg = create({ core: "auto", device: "auto" });
  expect(new pg.nn.Linear(2, 1).forward(here)).type.toBe<Tensor>();
  expect(pg.core).type.toBe<"native" | "wasm">();
  expect(page.crossEntropy(there, [0])).type.toBe<Tensor<"async">>();
  expect(page.toTypedArrays(there)).type.toBe<Promise<lanthorn.Elements[]>>();
  expect(pg.grad(here, [here])).type.toBe<Tensor[]>();
  expect(create).type.not.toBeCallableWith({ core: "cuda" });
  expect(disposeDefault()).type.toBe<void>();
  expect(resetCounters()).type.toBe<void>();
  expect(stats().kernels).type.toBe<number>();
});

test("files of other writers", () => {
  expect(loadGguf("x.gguf").encodings).type.toBe<{ readonly [name: string]: string }>();
  expect(loadTorchAsync("x.pt")).type.toBe<Promise<lanthorn.LoadedTensors>>();
  expect(loadZip(new URL("file:///x.zip"))).type.toBe<{ [name: string]: Tensor }>();
});
