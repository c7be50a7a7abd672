/** The runtime of `@lanthorn/effect` on the processor, in Node. */

import type { Runtime } from "@lanthorn/effect";
import { Runtime as Service } from "@lanthorn/effect";
import { makeRuntime as adapt, type GraphRaw } from "@lanthorn/effect/adapter";
import { Effect, Layer } from "effect";
import { load } from "lanthorn/addon";

let made: Runtime.RuntimeService | undefined;

/**
 * The service on the processor. The first call loads the addon; later ones give the same service, so that tensors of
 * programs of one process fit together.
 *
 * Use `layer` in programs. Throws the addon's error where there is none for this platform.
 */
export const makeRuntime = (): Runtime.RuntimeService => {
  if (made !== undefined) return made;
  const addon = load();
  const { scratch } = addon;
  const device = "cpu";
  const raw = Object.assign(addon.graph(), { scratch, device }) as GraphRaw;
  const placement = {
    id: "cpu",
    deviceType: "cpu",
    description: "the processor, in main memory",
    ordinal: 0,
    memorySpace: "host",
  };
  return (made = adapt(raw, { backend: { name: "cpu" }, placement }));
};

/**
 * Provides `Runtime` on the processor.
 *
 * ```ts
 * import * as BackendCpu from "@lanthorn/backend-cpu"
 * import { Tensor } from "@lanthorn/effect"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function*() {
 *   return yield* Tensor.toNumberArray(yield* Tensor.ones([2, 2]))
 * })
 *
 * await Effect.runPromise(program.pipe(Effect.provide(BackendCpu.layer)))
 * ```
 */
export const layer: Layer.Layer<Runtime.Runtime> = Layer.effect(Service.Runtime, Effect.sync(makeRuntime));
