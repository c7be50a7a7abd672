import * as BackendCpu from "@lanthorn/backend-cpu";
import { Gradient, Loss, Runtime, Tensor } from "@lanthorn/effect";
import type { Effect, Layer, Scope } from "effect";
import { expect, test } from "tstyche";

declare const x: Tensor.Any;
declare const concrete: Tensor.Concrete;

type Built = Effect.Effect<Tensor.Lazy, Tensor.TensorError, Runtime.Runtime>;

test("backends", () => {
  expect(BackendCpu.makeRuntime).type.toBe<() => Runtime.RuntimeService>();
  expect(BackendCpu.layer).type.toBe<Layer.Layer<Runtime.Runtime>>();
});

test("a backend may leave out what costs less than its other calls", () => {
  type Needed = Omit<Runtime.RuntimeService, "compute" | "nodeNow">;
  expect<Needed>().type.toBeAssignableTo<Runtime.RuntimeService>();
  expect<Omit<Needed, "execute">>().type.not.toBeAssignableTo<Runtime.RuntimeService>();
});

test("constructors give nodes", () => {
  expect(Tensor.zeros([2])).type.toBe<Built>();
  expect(Tensor.randn([2], { dtype: "bf16" })).type.toBe<Built>();
  expect(Tensor.fromTypedArray(new Uint32Array(2), [2] as const)).type.toBe<Built>();
  expect(Tensor.arange(3, undefined, { dtype: "i64" })).type.toBe<Built>();
  expect(Tensor.randn).type.not.toBeCallableWith([2], { dtype: "i64" });
  expect(Tensor.zeros).type.not.toBeCallableWith([2], { dtype: "int8" });
  expect(Tensor.fromTypedArray).type.not.toBeCallableWith(new Int8Array(2));
  expect(Tensor.fromTypedArray).type.not.toBeCallableWith([1, 2]);
});

test("operations take data first or last, and no numbers", () => {
  expect(Tensor.add(x, x)).type.toBe<Built>();
  expect(Tensor.add(x)).type.toBe<(self: Tensor.Any) => Built>();
  expect(x.pipe(Tensor.add(x))).type.toBe<Built>();
  expect(Tensor.add).type.not.toBeCallableWith(x, 1);
  expect(Tensor.sum(x, { dims: [0], keepdims: true })).type.toBe<Built>();
  expect(x.pipe(Tensor.sum())).type.toBe<Built>();
  expect(x.pipe(Tensor.softmax({ dims: [1] }))).type.toBe<Built>();
  expect(Tensor.sum).type.not.toBeCallableWith(x, { dim: 0 });
  expect(x.pipe(Tensor.where(x, x))).type.toBe<Built>();
  expect(Tensor.take(x, x, { dim: 1 })).type.toBe<Built>();
  expect(x.pipe(Tensor.take(x, { dim: 1 }))).type.toBe<Built>();
  expect(Tensor.pow(x, 2)).type.toBe<Built>();
  expect(Tensor.concat([x, x])).type.toBe<Built>();
  expect(Tensor.concat).type.not.toBeCallableWith([x]);
  expect(Tensor.pad(x, [[1, 2]])).type.toBe<Built>();
  expect(Tensor.maxPool2d(x, { kernelSize: [2, 3] })).type.toBe<Built>();
  expect(Tensor.crossEntropy(x, { target: x })).type.toBe<Built>();
  expect(Tensor.kdaChunk(x, x, x, x, x)).type.toBe<Built>();
  expect(Tensor.kdaChunk(x, x, x, x, x, { scale: 1 })).type.toBe<Built>();
  expect<Tensor.KdaChunkOptions["scale"]>().type.toBe<number | undefined>();
  expect(Tensor.kdaChunk).type.not.toBeCallableWith(x, x, x, x);
  expect(Tensor.kdaChunk).type.not.toBeCallableWith(x, x, x, x, x, { causal: true });
  expect(Tensor.shortConv1d(x, x)).type.toBe<Built>();
  expect(Tensor.shortConv1d).type.not.toBeCallableWith(x, x, { stride: 2 });
  expect(Tensor.linear).type.not.toBeCallableWith(x, x);
  expect(Tensor.linearRows(x, x)).type.toBe<Built>();
  expect(Tensor.split(x, [1, 2])).type.toBe<Effect.Effect<Array<Tensor.Lazy>, Tensor.TensorError, Runtime.Runtime>>();
});

test("computing keeps the form of its roots", () => {
  expect(Tensor.compute([x, x])).type.toBe<
    Effect.Effect<[Tensor.Concrete, Tensor.Concrete], Tensor.TensorError, Runtime.Runtime>
  >();
  expect(Tensor.compute([] as ReadonlyArray<Tensor.Any>)).type.toBe<
    Effect.Effect<Array<Tensor.Concrete>, Tensor.TensorError, Runtime.Runtime>
  >();
  expect(Tensor.toNumberArray(x)).type.toBe<Effect.Effect<Array<number>, Tensor.TensorError, Runtime.Runtime>>();
  expect(Tensor.toTypedArray(x)).type.toBe<Effect.Effect<Tensor.TypedArray, Tensor.TensorError, Runtime.Runtime>>();
  expect(Tensor.clear(concrete)).type.toBe<Effect.Effect<void, never, Runtime.Runtime>>();
  expect(Tensor.clearScoped(concrete)).type.toBe<
    Effect.Effect<Tensor.Concrete, never, Runtime.Runtime | Scope.Scope>
  >();
  expect(Tensor.clear).type.not.toBeCallableWith(x);
  expect(Tensor.sample).type.not.toBeCallableWith(concrete, { temperature: 1 });
});

test("compiled functions have the errors and needs of what they trace", () => {
  expect(
    Tensor.compile(([a]) => Tensor.relu(a as Tensor.Any) as unknown as Effect.Effect<[Tensor.Lazy], "mine", "need">),
  ).type.toBe<Effect.Effect<Tensor.CompiledFn<"mine", "need">>>();
  type Call = ReturnType<Tensor.CompiledFn<"mine", "need">["call"]>;
  expect<Call>().type.toBe<
    Effect.Effect<Array<Tensor.Concrete>, Tensor.TensorError | "mine", Runtime.Runtime | "need">
  >();
  expect<Tensor.CompiledFn["stats"]>().type.toBe<Effect.Effect<Tensor.CompileStats>>();
  expect(Tensor.signatureOf).type.toBeCallableWith([x], {} as Runtime.RuntimeService);
});

test("gradients and losses", () => {
  expect(Gradient.grad(x, [x])).type.toBe<
    Effect.Effect<Array<Tensor.Lazy>, Gradient.GradError | Tensor.TensorError, Runtime.Runtime>
  >();
  expect(Gradient.vmap(x, x, x, { dim: 1 })).type.toBe<Built>();
  expect(Loss.mse(x, x)).type.toBe<Built>();
  expect(x.pipe(Loss.huber(x, { delta: 2, reduction: "none" }))).type.toBe<Built>();
  expect(Loss.mse).type.not.toBeCallableWith(x, x, { reduction: "batchmean" });
  expect(Loss.cosineEmbeddingLoss(x, x, x, { margin: 0.5 })).type.toBe<Built>();
});

test("tensors cannot be changed", () => {
  expect<Tensor.Any["shape"]>().type.toBe<ReadonlyArray<number>>();
  expect(Tensor.isTensor).type.toBe<(self: Tensor.Any) => self is Tensor.Concrete>();
  expect<Tensor.DType>().type.toBe<"f32" | "f64" | "f16" | "bf16" | "i64" | "u8" | "u32">();
});

test("errors carry their data", () => {
  type Error = Tensor.TensorError;
  expect<Error["_tag"]>().type.toBe<"TensorError">();
  expect<Error["backend"]>().type.toBe<Runtime.BackendError | undefined>();
  expect<Gradient.GradError["reason"]>().type.toBe<"non-scalar-output" | "non-float-dtype" | "not-differentiable">();
  expect<Runtime.BackendError["phase"]>().type.toBe<
    "graph" | "autodiff" | "compile" | "execute" | "readback" | "io" | "shutdown"
  >();
});

test("a decode program has the sizes of the state that its pool must have", () => {
  type Sizes = "kdaLayers" | "kdaHeads" | "kdaHeadDim" | "kdaValueDim" | "convLayers" | "convChannels" | "convKernel";
  expect<Pick<Tensor.DecodeProgram, Sizes | "sequences">>().type.toBe<Readonly<Record<Sizes | "sequences", number>>>();
  expect<Readonly<Record<Sizes, number>>>().type.toBeAssignableTo<Tensor.KvRecurrentGeometry>();
  const program = {} as Tensor.DecodeProgram;
  expect(Tensor.makeKvPool).type.toBeCallableWith(0, 0, 0, 64, 16, "f32", program);
  expect(Tensor.makeKvPool).type.not.toBeCallableWith(0, 0, 0, 64, 16, "f32", { kdaLayers: 1 });
  expect<{ sequences: 4 }>().type.toBeAssignableTo<Pick<Runtime.DecodeStateRequest, "sequences">>();
});

test("node requests are of one operation", () => {
  type Add = Runtime.NodeRequest<"add">;
  expect<Add["op"]>().type.toBe<"add">();
  expect<{ op: "add"; inputs: readonly [Tensor.Any, Tensor.Any] }>().type.toBeAssignableTo<Runtime.NodeRequest>();
  expect<{ op: "add"; inputs: readonly [Tensor.Any] }>().type.not.toBeAssignableTo<Runtime.NodeRequest>();
  type Kda = Runtime.NodeRequest<"kdaChunk">;
  expect<Kda["inputs"]["length"]>().type.toBe<5>();
  expect<{ scale: number }>().type.toBeAssignableTo<Kda["attributes"]>();
  expect<Runtime.NodeRequest<"shortConv1d">["attributes"]>().type.toBe<Record<string, never>>();
  expect<{ op: "sum"; inputs: readonly [Tensor.Any] }>().type.not.toBeAssignableTo<Runtime.NodeRequest>();
});
