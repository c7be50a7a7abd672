/**
 * The raw calls over pure graphs that a device's addon gives to an adapter.
 *
 * A handle is a positive number; 0 is none. It stands for a node of a graph (*lazy*), for elements (*concrete*), or for
 * an executable, a pool or a sequence, each told apart by the engine. Arguments travel in `scratch`, as in the class
 * API's raw calls (`js/lanthorn/src/raw.ts`): a list is its count and then its numbers, an attribute a tag and its
 * payload. A call that fails gives a negative number, and `error()` then says why.
 *
 * Nothing here changes what a handle stands for: to compute a lazy tensor gives a new concrete one.
 */
export interface GraphRaw {
  /** Shared with the engine; its content holds only until the next call. */
  readonly scratch: Float64Array;
  /** Where programs run. */
  readonly device: string;

  /** Why the last call failed: kind, op and message on a line each; the message may go on over further lines. */
  error(): string;

  /**
   * Applies the op of that number of the table, as the class API's `op`; operands may be lazy or concrete. Where the op has
   * one result, scratch then has what `describe` puts there.
   */
  op(id: number): number;
  /** A concrete tensor of the bytes of elements in row-major order. In scratch: the rank, the sizes. */
  create(dtype: number, bytes: Uint8Array): number;
  /**
   * A node whose elements every execution draws anew; all roots of one execution see one draw. Kind 0 is uniform
   * between `a` and `b`, 1 normal of mean `a` and deviation `b`, 2 the key of a draw for ops that take one. In scratch:
   * the rank, the sizes.
   */
  random(kind: number, dtype: number, a: number, b: number): number;
  /** Starts the sequence of draws anew. */
  seed(seed: number): number;
  /** The `slot`th binding of an execution. In scratch: the rank, the sizes. */
  input(slot: number, dtype: number): number;
  /** The `slot`th scalar of an execution, of rank 0. */
  scalar_input(slot: number, dtype: number): number;
  /** `i32 [length]`: 0, 1, 2 and on; in a decode program the positions of the tokens in their sequence. */
  positions(length: number): number;
  /** Puts dtype, 1 if concrete else 0, rank and sizes into scratch. */
  describe(tensor: number): number;

  /** In scratch: the number of variables, their handles; then the handles of the gradients. */
  grad(loss: number): number;
  /** What `v` becomes along `x`, given along `y`. */
  vjp(y: number, x: number, v: number): number;
  /** What `v` becomes along `y`, given along `x`; forward mode. */
  jvp(y: number, x: number, v: number): number;
  /** `y` for each element of `batched` along `axis` in the place of `x`; results are stacked along axis 0. */
  vmap(y: number, x: number, batched: number, axis: number): number;
  /** The same value, whose graph the backward computes again. */
  checkpoint(x: number): number;

  /**
   * An executable of roots, whose number and handles are in scratch. Flags: 1 optimize, 2 constant weights: the
   * elements of concrete tensors, as they are now, become part of the program; 4 updates: behind the roots is a list of
   * slots, each with the root that may be written over its binding where a call takes that.
   */
  compile(flags: number): number;
  /**
   * An executable of roots over a paged cache, traced for one sequence: causal attention reads and writes the cache,
   * `positions` are those of each sequence. `request` is JSON: `{ maxTokens, blockSize, kvDtype, window?, batch,
   * lastTokenRow, tokenSlot }`. In scratch as for `compile`.
   */
  compile_decode(request: string): number;
  /**
   * About an executable, as JSON: `{ inputs: [{ shape, dtype } | null], scalars, outputs: [{ shape, dtype }], state?,
   * semanticNodesBeforeOptimization, semanticNodesAfterOptimization, instructions: [{ kind, count }], pipelineCount,
   * commandCount, synchronizationCount, memory: { externalBytes, persistentBytes, stateBytes, outputBytes,
   * workspaceBytes, transactionBytes, peakLiveBytes, packingOverheadBytes }, compilePhases: [{ phase, nanoseconds }] }`;
   * a negative number on failure. `inputs` are by slot, null for one that the roots do not read; `scalars` is a number.
   * `state` has the fields of the request and `{ layers, kvHeads, headDim, length, longest }`, `longest` the most tokens of
   * a sequence or null.
   */
  executable(executable: number): string | number;

  /**
   * Computes roots, whose number and handles are in scratch, in one program of the runtime's bounded structural cache.
   * Gives the handles of new concrete tensors, or a promise of them with the number of the job in scratch.
   */
  compute(): Promise<number[]> | number[] | number;
  /**
   * Calls an executable; as `compute`. In scratch four lists: bindings and scalars by slot, slots whose bindings are given
   * up once the call has begun (none for a decode program), sequences (for a decode program alone); then for each sequence the list of its tokens. Bindings and scalars beyond those that the roots read
   * are left alone. In a decode program the binding of `tokenSlot` is 0, or left out at the end of the list, and a call that
   * has read its tokens into the cache is not cancelled any more: its promise is then fulfilled.
   */
  execute(executable: number): Promise<number[]> | number[] | number;
  /** As `execute`, but gives a token for each sequence. `sampling` is JSON: a list of `SamplingOptions`. */
  execute_sampled(executable: number, sampling: string): Promise<number[]> | number[] | number;
  /** A token out of logits `[.., vocab]`, of which the last row counts. `sampling` is JSON. */
  sample(logits: number, sampling: string): number;
  /** The bytes of a concrete tensor in row-major order; a promise, with a job's number in scratch, where they are many. */
  read(tensor: number): Promise<ArrayBuffer> | ArrayBuffer | number;
  /** Asks a job to stop; its promise is rejected once nothing of it runs any more, and nothing has changed then. */
  cancel(job: number): number;

  /**
   * A pool of keys and values. `geometry` is JSON: `{ layers, kvHeads, headDim, maxTokens, blockSize, dtype, attention? }`, dtype
   * one of f32, f16, bf16, int8.
   */
  pool(geometry: string): number;
  sequence(pool: number): number;
  /**
   * Shares whole blocks at the beginning of a prompt, whose tokens are a list in scratch, of which the last is left to be
   * computed; gives how many tokens. Of a prompt that does not fit scratch, the beginning.
   */
  prefill_match(sequence: number): number;
  /** Tokens of a sequence. */
  cursor(sequence: number): number;

  /**
   * Writes the concrete tensors whose number and handles are in scratch to a file; `header` is JSON, `[names, metadata]`. A
   * promise, with the number of the job in scratch.
   */
  save_safetensors(path: string, header: string): unknown;
  /** Reads a file: a promise of `[header, handles]`, with the number of the job in scratch. */
  load_safetensors(path: string): unknown;

  /**
   * Gives up a handle to a concrete tensor, and its elements: nodes over it cannot be computed any more. Jobs that have begun
   * and executables keep what they took.
   */
  clear(tensor: number): number;
  /** Gives up a handle of any kind; 0 if it was there. What nodes over it read stays. */
  release(handle: number): number;
  /** Lets the handles of objects go once the garbage collector has taken the objects: handles in scratch, in order. */
  track(objects: readonly object[]): number;
  /** Lets go now of all handles whose objects are gone; gives how many those were. */
  sweep(): number;
  /** Bytes that the engine holds; puts handles, live, peak and pooled bytes, executables, compiles, calls into scratch. */
  stats(): number;
  /** Stops all work and lets go of everything. */
  close(): number;
}
