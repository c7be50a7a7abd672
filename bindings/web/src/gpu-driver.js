// The browser's half of the GPU driver (crates/gpu/src/driver/browser.rs): WebGPU objects by the numbers that the
// engine gives them. No shapes and no kernels here.
//
//     const gpu = await openGpu();                  // null where there is no device
//     const driver = gpuDriver(gpu);
//     const { instance } = await WebAssembly.instantiate(bytes, { lanthorn_gpu: driver.imports, ... });
//     driver.attach(instance.exports.memory ?? memory, instance.exports.lanthorn_gpu_arrived);
//
// All of it runs in the worker that opened the device. After `arrived` has been called the engine's readbacks have
// their bytes; `driver.settled()` is a promise that the reads begun so far have ended.

// More storage buffers than this gain little: regions are not that wide.
const STORAGE_BUFFERS = 16;

/** Opens the browser's GPU: its device and what it allows, or null. */
export async function openGpu() {
  const adapter = await globalThis.navigator?.gpu?.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) return null;
  const found = adapter.limits;
  const requiredLimits = {
    maxStorageBuffersPerShaderStage: Math.min(found.maxStorageBuffersPerShaderStage, STORAGE_BUFFERS),
    maxStorageBufferBindingSize: found.maxStorageBufferBindingSize,
    maxBufferSize: found.maxBufferSize,
  };
  return await adapter.requestDevice({ requiredLimits });
}

/** The functions that the engine imports as `lanthorn_gpu`, over a device or null. */
export function gpuDriver(device) {
  const buffers = new Map();
  const pipelines = new Map();
  const reads = new Set();
  // What the platform has objected to, for good: every later call reports it.
  let failure = null;
  let error = "";
  let memory = null;
  let arrived = null;
  // Checks that have not come back yet; a read waits for them.
  let checks = [];

  const bytes = (at, length) => new Uint8Array(memory.buffer, at >>> 0, length >>> 0);
  // The text decoder takes no shared memory: slice copies.
  const text = (at, length) => new TextDecoder().decode(bytes(at, length).slice());

  device?.lost.then((info) => {
    if (info.reason !== "destroyed") failure ??= `the device is lost: ${info.message}`;
  });

  /** Runs `call`; validation errors of it become the failure once they are known. */
  function checked(call) {
    try {
      if (!device) throw new Error("there is no WebGPU device");
      if (failure !== null) throw new Error(failure);
      device.pushErrorScope("out-of-memory");
      device.pushErrorScope("validation");
      try {
        call();
      } finally {
        for (let scope = 0; scope < 2; scope++) {
          checks.push(device.popErrorScope().then((found) => {
            if (found) failure ??= found.message;
          }));
        }
      }
      return 0;
    } catch (thrown) {
      error = String(thrown?.message ?? thrown);
      return 1;
    }
  }

  function known(map, id, what) {
    const found = map.get(id);
    if (!found) throw new Error(`there is no ${what} ${id}`);
    return found;
  }

  const imports = {
    gpu_limits(out) {
      if (!device) return 0;
      const limits = device.limits;
      new Float64Array(memory.buffer, out >>> 0, 4).set([
        limits.maxStorageBuffersPerShaderStage,
        limits.maxStorageBufferBindingSize,
        limits.maxBufferSize,
        limits.maxComputeWorkgroupsPerDimension,
      ]);
      return 1;
    },

    gpu_error(to, capacity) {
      const encoded = new TextEncoder().encode(error).subarray(0, capacity >>> 0);
      bytes(to, encoded.length).set(encoded);
      return encoded.length;
    },

    gpu_create_buffer: (id, size) => checked(() => {
      const { STORAGE, UNIFORM, COPY_SRC, COPY_DST } = GPUBufferUsage;
      buffers.set(id, device.createBuffer({ size, usage: STORAGE | UNIFORM | COPY_SRC | COPY_DST }));
    }),

    gpu_destroy_buffer(id) {
      // What has been submitted still runs.
      buffers.get(id)?.destroy();
      buffers.delete(id);
    },

    gpu_write: (id, offset, from, length) => checked(() => {
      device.queue.writeBuffer(known(buffers, id, "buffer"), offset, bytes(from, length));
    }),

    gpu_create_pipeline: (id, at, length, storage, count) => checked(() => {
      const module = device.createShaderModule({ code: text(at, length) });
      const entry = (binding, type) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } });
      const written = [...bytes(storage, count)];
      const entries = [
        entry(0, "uniform"),
        ...written.map((write, place) => entry(place + 1, write ? "storage" : "read-only-storage")),
      ];
      const group = device.createBindGroupLayout({ entries });
      const layout = device.createPipelineLayout({ bindGroupLayouts: [group] });
      const pipeline = device.createComputePipeline({ layout, compute: { module, entryPoint: "main" } });
      pipelines.set(id, { pipeline, group });
    }),

    gpu_submit: (at, count) => checked(() => {
      const words = new Uint32Array(memory.buffer, at >>> 0, count >>> 0);
      const encoder = device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      let place = 0;
      while (place < words.length) {
        const { pipeline, group } = known(pipelines, words[place], "pipeline");
        const [x, y, bindings] = [words[place + 1], words[place + 2], words[place + 3]];
        place += 4;
        const entries = [];
        for (let binding = 0; binding < bindings; binding++, place += 3) {
          const buffer = known(buffers, words[place], "buffer");
          entries.push({ binding, resource: { buffer, offset: words[place + 1], size: words[place + 2] } });
        }
        pass.setPipeline(pipeline);
        pass.setBindGroup(0, device.createBindGroup({ layout: group, entries }));
        pass.dispatchWorkgroups(x, y);
      }
      pass.end();
      device.queue.submit([encoder.finish()]);
    }),

    gpu_read(ticket, id, offset, to, length) {
      let staging = null;
      const status = checked(() => {
        const buffer = known(buffers, id, "buffer");
        staging = device.createBuffer({ size: length, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
        const encoder = device.createCommandEncoder();
        encoder.copyBufferToBuffer(buffer, offset, staging, 0, length);
        device.queue.submit([encoder.finish()]);
      });
      if (status !== 0) return status;
      const before = checks;
      checks = [];
      const read = (async () => {
        let ok = 1;
        try {
          await Promise.all([staging.mapAsync(GPUMapMode.READ), ...before]);
          if (failure !== null) throw new Error(failure);
          bytes(to, length).set(new Uint8Array(staging.getMappedRange()));
        } catch (thrown) {
          error = failure ?? String(thrown?.message ?? thrown);
          ok = 0;
        }
        staging.destroy();
        arrived(ticket, ok);
      })();
      reads.add(read);
      read.finally(() => reads.delete(read));
      return 0;
    },
  };

  return {
    imports,
    /** Names the engine's memory and its function `lanthorn_gpu_arrived`; to be called before the engine runs. */
    attach(engineMemory, engineArrived) {
      memory = engineMemory;
      arrived = engineArrived;
    },
    /** Resolves when every read that has begun has ended. */
    async settled() {
      await Promise.all(reads);
    },
  };
}
