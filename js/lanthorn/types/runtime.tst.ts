// The types of captured functions and of runtimes, whose tensors read as the runtime does.
import { expect, test } from "tstyche";

import { canRun, compile, create, createAsync, func, getDefaultRuntime, jit, Runtime, Tensor, type Capability } from "lanthorn";
import type { create as createOfAPage, createAsync as createAsyncOfAPage } from "../dist/web.js";

declare const x: Tensor;
declare const page: Runtime<"async">;

test("a captured function takes and gives what the function does", () => {
  const step = jit((a: Tensor, b: Tensor) => ({ loss: a.sub(b).square().mean(), all: [a] }));
  expect(step(x, x)).type.toBe<{ loss: Tensor; all: Tensor[] }>();
  expect(step).type.not.toBeCallableWith(x);
  expect(step).type.not.toBeCallableWith(x, 1);
  expect(func((a: Tensor) => a.add(1))(x)).type.toBe<Tensor>();
  expect(func).type.not.toBeCallableWith((a: Tensor) => a, { implicit: true });
});

test("a compiled function takes its arguments as a list", () => {
  const compiled = compile((a: Tensor) => a.sum(), [x]);
  expect(compiled.run([x])).type.toBe<Tensor>();
  expect(compiled.runAsync([x])).type.toBe<Promise<Tensor>>();
  expect(compiled).type.toBeAssignableTo<Disposable>();
  // @ts-expect-error Argument of type 'Tensor<"sync">' is not assignable to parameter of type
  compiled.run(x);
  // @ts-expect-error Type 'number' is not assignable to type
  compiled.run([1]);
});

test("a runtime's tensors read as the runtime does", () => {
  expect(create()).type.toBe<Runtime>();
  expect(createAsync({ device: "cpu" })).type.toBe<Promise<Runtime>>();
  expect(getDefaultRuntime()).type.toBe<Runtime>();
  expect<ReturnType<typeof createAsyncOfAPage>>().type.toBe<Promise<Runtime<"async">>>();
  expect<ReturnType<typeof createOfAPage>>().type.toBe<never>();

  expect(new page.Tensor([1, 2])).type.toBe<Tensor<"async">>();
  expect(page.Tensor.fromData([1, 2])).type.toBe<Tensor<"async">>();
  expect(page.Tensor.zeros([2], { dtype: "f16" })).type.toBe<Tensor<"async">>();
  expect(page.Tensor.fromData([1]).item()).type.toBe<Promise<number>>();
  expect(create().Tensor.ones([1]).item()).type.toBe<number>();
  expect(page.Tensor.zeros).type.not.toBeCallableWith([2], { dtype: "fp32" });
});

test("whether something runs is one of three words", () => {
  expect(canRun({ op: "matmul", shape: [2, 2], dtype: "f16" })).type.toBe<Capability>();
  expect<Capability["answer"]>().type.toBe<"yes" | "no" | "unknown">();
  expect(canRun).type.not.toBeCallableWith({ shape: [2] });
  expect(canRun).type.not.toBeCallableWith({ op: "matmul", dtype: "half" });
});
