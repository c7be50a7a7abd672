/**
 * The raw calls that a face gives to the class API: Node's addon and the page's module offer the same functions.
 *
 * A handle is a positive number; 0 is none. Arguments travel in `scratch`. A call that fails gives a negative number,
 * and `error()` then says why. Nothing here knows shapes or gradients: those are in the engine.
 */
export interface Raw {
  /** Shared with the engine; its content holds only until the next call. */
  readonly scratch: Float64Array;
  /** Where programs run. */
  readonly device: string;
  /** Names of the counters that `stats` puts into scratch, in their order. */
  readonly counters: readonly string[];

  /** Why the last call failed: kind, op and message on a line each; the message may go on over further lines. */
  error(): string;

  /**
   * Applies the op of that number of the table. In scratch: the number of tensors, their handles, then a tag and its
   * payload for each attribute. Gives the handle, or for an op of several results their count, with the handles in
   * scratch.
   */
  op(id: number): number;
  /** As `op`, but writes the result over `target`, a tensor or a view. */
  assign(target: number, id: number): number;
  /** Writes the elements of `source`, converted and broadcast, over `target`. */
  copy(target: number, source: number): number;
  /** A tensor of the bytes of elements in row-major order. In scratch: the rank, the sizes. */
  create(dtype: number, flags: number, bytes: Uint8Array): number;
  /**
   * Random values: kind 0 uniform between a and b, 1 normal of mean a and deviation b; in scratch as for `create`. Kind
   * 2 is a key for ops that take one.
   */
  random(kind: number, dtype: number, a: number, b: number): number;
  backward(loss: number, seed: number): number;
  /**
   * The gradients of a loss, through which derivatives pass again. In scratch: the number of variables, their handles.
   * Puts the handles of the gradients into scratch. Left out where a face has none.
   */
  gradients?(loss: number, seed: number): number;
  /** The handle of the gradient, or 0. */
  grad(tensor: number): number;
  set_grad(tensor: number, grad: number): number;
  requires_grad(tensor: number, on: number): number;
  detach(tensor: number): number;
  /** Turns gradients off (1) or back on (-1); gives 1 while they are off, else 0. */
  no_grad(change: number): number;
  /** Puts dtype, flags (1 requires grad, 2 tracked, 4 view), rank and sizes into scratch. */
  describe(tensor: number): number;
  seed(seed: number): number;
  release(tensor: number): number;
  stats(): number;
  /** Computes tensors in one program. In scratch: their number, their handles. */
  commit(): number;

  /** Names of the counters that `capture_stats` puts into scratch, in their order. */
  readonly capture_counters: readonly string[];
  /**
   * Starts to record a function. In scratch: the number of its inputs, their handles; then the handles of their
   * placeholders. Purpose 0 and 1 make a program (`jit`, `compile`), 2 and 3 a graph (`func`, without and with tensors
   * from outside).
   */
  capture_begin(purpose: number): number;
  /**
   * Ends the recording. In scratch: the number of results, their handles. Gives the captured function, or 0 if the
   * function is to be recorded once more; `isFinal` 1 says that it has been.
   */
  capture_end(isFinal: number): number;
  /** Ends the recording of a function that has failed. */
  capture_abort(): number;
  /** Calls a captured function. In scratch: the number of tensors, their handles; then the handles of the results. */
  capture_call(captured: number): number;
  /**
   * `capture_call` away from the event loop, as `later`, with the handles of the results. Left out where no call waits.
   */
  capture_later?(captured: number): Promise<number[]> | number[] | number;
  capture_stats(captured: number): number;
  capture_release(captured: number): number;

  /**
   * Whether op `id` runs on tensors of that dtype and the sizes in scratch (rank, sizes): 2 yes, 1 that does not say, 0
   * no. `error()` then has the reason, but for a yes.
   */
  can_run(id: number, dtype: number): number;

  /**
   * The bytes of a tensor in row-major order, computed if they are not yet; a negative number on failure. Node gives
   * them at once, a page gives a promise, because its main thread may not wait.
   */
  read(tensor: number): ArrayBuffer | number | Promise<ArrayBuffer>;

  /**
   * Computes tensors away from the event loop; in scratch as for `commit`. Puts the number of the job into scratch.
   * The promise gives the bytes of each tensor if `bytes` is 1, else an empty list. What takes less than a thread's
   * time is done at once, and its result is no promise. Left out where `read` gives a promise by itself.
   */
  later?(bytes: number): Promise<ArrayBuffer[]> | ArrayBuffer[] | number;
  /** Stops all work and lets go of everything. */
  close?(): void | number;
  /** Asks a job to stop; its promise is rejected once nothing of it runs any more. */
  cancel?(job: number): number;

  /**
   * Lets the handles of objects go once the garbage collector has taken the objects: the handles are in scratch, in
   * the order of `objects`. Left out where a `FinalizationRegistry` does this.
   */
  track?(objects: readonly object[]): number;
  /** Lets go now of all handles whose objects are gone; gives how many those were. */
  sweep?(): number;

  /** Gives the device's idle memory back to the system; how many bytes that were. Left out where there is no such call. */
  trim?(): number;
  /** Forgets the programs that the device keeps for graphs of their structure. Left out where there is no such call. */
  forget_programs?(): number;

  /** The learning rate at a step of a schedule, which is JSON. Left out where there are no schedules. */
  schedule?(schedule: string, step: number): number;
  /**
   * Starts (1) to record what the device does, or ends that (0): gives the kernels that took longest as a text, all spans
   * as a Chrome trace in JSON, and how many were left out. Left out where there is no clock for it.
   */
  profile?(change: number): [table: string, trace: string, leftOut: number] | number;
  /** See `FileCalls`. Left out where there are no files. */
  save_safetensors?(path: string, header: string, later: number): unknown;
  load_file?(form: number, path: string, later: number): unknown;
}
