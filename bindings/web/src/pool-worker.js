// A thread of the engine's pool: takes the seat that the engine prepared, enrols, and computes until it is terminated.
//
// It must never handle messages after that: the call to enrol does not return. The GPU belongs to the engine's thread.

import { gpuDriver } from "./gpu-driver.js";
import { causeOf } from "./module.js";

addEventListener("message", ({ data: { module, memory, seat } }) => {
  try {
    const { exports } = new WebAssembly.Instance(module, { env: { memory }, lanthorn_gpu: gpuDriver(null).imports });
    exports.__stack_pointer.value = seat.stack;
    exports.__wasm_init_tls(seat.storage);
    postMessage({ seated: true });
    try {
      exports.lanthorn_enroll();
    } catch (error) {
      postMessage({ dead: causeOf(error, memory, seat.panicRecord) });
    }
  } catch (error) {
    postMessage({ dead: causeOf(error) });
  }
}, { once: true });
