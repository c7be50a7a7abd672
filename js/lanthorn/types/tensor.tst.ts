// The types of tensors as a user of the package sees them: what reads give on each face, what methods take.
import { expect, test } from "tstyche";

import {
  Tensor,
  type DType,
  type Elements,
  type ElementsLike,
  type Nested,
  type Options,
  type Read,
  type Reading,
  type Scalar,
} from "lanthorn";

declare const here: Tensor;
declare const there: Tensor<"async">;
declare const either: Tensor<Reading>;

test("a tensor of Node is one whose reads are synchronous", () => {
  expect<Tensor>().type.toBe<Tensor<"sync">>();
  expect<Reading>().type.toBe<"sync" | "async">();
});

test("reads give values at once, or promises of them", () => {
  expect(here.item()).type.toBe<number>();
  expect(here.toArray()).type.toBe<Elements>();
  expect(there.item()).type.toBe<Promise<number>>();
  expect(there.toArray()).type.toBe<Promise<Elements>>();
  expect(here.itemAsync()).type.toBe<Promise<number>>();
  expect(there.toArrayAsync({ signal: new AbortController().signal })).type.toBe<Promise<Elements>>();
  expect<Read<"sync", number>>().type.toBe<number>();
  expect<Read<"async", number>>().type.toBe<Promise<number>>();
});

test("a promise is no number", () => {
  expect(Math.sqrt).type.not.toBeCallableWith(there.item());
  expect(Math.sqrt).type.toBeCallableWith(here.item());
  // @ts-expect-error must be of type 'any', 'number', 'bigint' or an enum type
  there.item() * 2;
});

test("results read as their operands do", () => {
  expect(here.add(1)).type.toBe<Tensor>();
  expect(there.add(1)).type.toBe<Tensor<"async">>();
  expect(there.matmul(there).softmax(-1).sum()).type.toBe<Tensor<"async">>();
  expect(there.split(2)).type.toBe<Tensor<"async">[]>();
  expect(there.grad).type.toBe<Tensor<"async"> | null>();
  expect(there.detach()).type.toBe<Tensor<"async">>();
  expect(there.add_(1)).type.toBe<Tensor<"async">>();
  expect(Tensor.concat([there, there])).type.toBe<Tensor<"async">>();
});

test("tensors of the two faces do not mix", () => {
  expect(here.add).type.not.toBeCallableWith(there);
  expect(there.matmul).type.not.toBeCallableWith(here);
  expect(here.where).type.not.toBeCallableWith(there, here);
  // @ts-expect-error is not assignable to parameter of type
  here.copy_(there);
});

test("what is known of a tensor without a read", () => {
  expect(here.shape).type.toBe<readonly number[]>();
  expect(either.dtype).type.toBe<DType>();
  expect(here.rank).type.toBe<number>();
  expect(here.size).type.toBe<number>();
  expect(here.requiresGrad).type.toBe<boolean>();
  // @ts-expect-error Cannot assign to 'dtype' because it is a read-only property
  here.dtype = "f32";
  // @ts-expect-error only permits reading
  here.shape[0] = 1;
});

test("elements are typed arrays, and whatever makes them", () => {
  expect<Elements>().type.toBeAssignableFrom<Float32Array>();
  expect<Elements>().type.toBeAssignableFrom<BigInt64Array>();
  expect<Elements>().type.not.toBeAssignableFrom<number[]>();
  expect<ElementsLike>().type.toBeAssignableFrom<readonly number[]>();
  expect<ElementsLike>().type.toBeAssignableFrom<bigint[]>();
  expect<ElementsLike>().type.not.toBeAssignableFrom<string[]>();
  expect<ElementsLike>().type.not.toBeAssignableFrom<ArrayBuffer>();
  expect<Scalar>().type.toBe<number | bigint | boolean>();
  expect<Nested>().type.toBeAssignableFrom<[[1, 2], [3, 4]]>();
});

test("dtypes are names", () => {
  for (const dtype of ["f32", "f16", "bf16", "f64", "i64", "u8", "bool", "c64"] as const) {
    expect<DType>().type.toBeAssignableFrom(dtype);
  }
  expect<DType>().type.not.toBeAssignableFrom<"fp32">();
  expect<DType>().type.not.toBeAssignableFrom<string>();
});

test("tensors are made of data, shapes and options", () => {
  expect(Tensor.fromData([1, 2], [2])).type.toBe<Tensor>();
  expect(Tensor.fromData<"async">([1, 2])).type.toBe<Tensor<"async">>();
  expect(Tensor.zeros([2, 3], { dtype: "f16", requiresGrad: true })).type.toBe<Tensor>();
  expect(Tensor.ones([2], true)).type.toBe<Tensor>();
  expect(Tensor.rand([2], { low: -1, high: 1, dtype: "f64" })).type.toBe<Tensor>();
  expect(Tensor.randn([2], { mean: 1, std: 2 })).type.toBe<Tensor>();
  expect(new Tensor([[1, 2], [3, 4]])).type.toBe<Tensor>();
  expect<Options>().type.toBeAssignableFrom<{ dtype: "f32" }>();
  expect<Options>().type.not.toBeAssignableFrom<{ dtype: "fp32" }>();
  expect<Options>().type.not.toBeAssignableFrom<"f32">();
});

test("what is no option, shape or datum is refused", () => {
  // @ts-expect-error 'require_grad' does not exist in type
  Tensor.ones([2], { require_grad: true });
  // @ts-expect-error Type '"fp32"' is not assignable to type
  Tensor.ones([2], { dtype: "fp32" });
  // @ts-expect-error Type 'string' is not assignable to type 'Scalar'
  Tensor.fromData(["1"], [1]);
  // @ts-expect-error Type 'string' is not assignable to type
  new Tensor([["1"]]);
});

test("sub, mod and div have further arguments, ranges a step", () => {
  expect(here.sub(5, true)).type.toBe<Tensor>();
  expect(here.mod(7, true)).type.toBe<Tensor>();
  expect(here.div(2, "floor")).type.toBe<Tensor>();
  expect(here.div(1, null, true)).type.toBe<Tensor>();
  expect(here.div).type.not.toBeCallableWith(2, "up");
  expect(here.slice([[0, 4, 2]])).type.toBe<Tensor>();
});

test("a tensor goes at the end of its block", () => {
  expect<Tensor>().type.toBeAssignableTo<Disposable>();
  expect(here.dispose()).type.toBe<void>();
});
