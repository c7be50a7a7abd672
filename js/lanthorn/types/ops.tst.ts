// The types of the ops that are generated from the op table: each kind of parameter, and both styles of names.
import { expect, test } from "tstyche";

import { Tensor } from "lanthorn";

declare const x: Tensor;

test("an op of two tensors takes a number as well", () => {
  expect(x.add).type.toBeCallableWith(x);
  expect(x.add).type.toBeCallableWith(2);
  expect(x.add).type.toBeCallableWith(2n);
  expect(x.add).type.not.toBeCallableWith("2");
  expect(x.add).type.not.toBeCallableWith();
  expect(x.add).type.not.toBeCallableWith(x, x);
});

test("an op of tensors alone takes no number", () => {
  expect(x.matmul).type.toBeCallableWith(x);
  expect(x.matmul).type.not.toBeCallableWith(2);
  expect(x.matmul).type.not.toBeCallableWith([[1, 2]]);
});

test("axes are a number or a list", () => {
  expect(x.sum).type.toBeCallableWith();
  expect(x.sum).type.toBeCallableWith(-1, true);
  expect(x.sum).type.toBeCallableWith([0, 1] as const);
  expect(x.sum).type.not.toBeCallableWith("0");
  expect(x.sum).type.not.toBeCallableWith(0, 1);
  expect(x.softmax).type.not.toBeCallableWith([0]);
});

test("words are those of the table", () => {
  expect(x.gelu).type.toBeCallableWith("tanh");
  expect(x.gelu).type.toBeCallableWith();
  expect(x.gelu).type.not.toBeCallableWith("fast");
  // @ts-expect-error Argument of type '"average"' is not assignable to parameter of type
  x.crossEntropy(x, "average");
});

test("an optional tensor may be left out", () => {
  expect(x.conv2d).type.toBeCallableWith(x);
  expect(x.conv2d).type.toBeCallableWith(x, undefined, [1, 1]);
  expect(x.conv2d).type.not.toBeCallableWith();
});

test("an op of several results gives a list", () => {
  expect(x.topk(2)).type.toBe<Tensor[]>();
  expect(x.splitSizes([1, 2])).type.toBe<Tensor[]>();
  expect(x.softmax(0)).type.toBe<Tensor>();
});

test("dtypes are arguments of methods and options of those that make tensors", () => {
  expect(x.cast).type.toBeCallableWith("bf16");
  expect(x.cast).type.not.toBeCallableWith("fp32");
  expect(Tensor.full).type.toBeCallableWith([2], 1, { dtype: "i32" });
  expect(Tensor.arange).type.toBeCallableWith(0, 10, 2, { dtype: "f64" });
});

test("both styles of names are one method", () => {
  expect(x.log_softmax).type.toBe<(typeof x)["logSoftmax"]>();
  expect(x.cross_entropy(x)).type.toBe<Tensor>();
  expect(x).type.not.toHaveProperty("logsoftmax");
});

test("methods that the engine does not have are none", () => {
  // @ts-expect-error Property 'convolve' does not exist on type
  x.convolve(x);
});
