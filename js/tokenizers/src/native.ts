/** The addon's calls, and how one of them becomes an Effect. */

import { Effect } from "effect";
import { load } from "lanthorn/addon";

import { errorOf, type TokenizerError } from "./errors.js";

/** A tokenizer of the addon. It goes when the object does. */
export interface Native {
  readonly native: unique symbol;
}

type Later<A> = A | Promise<A>;

/**
 * The object `tokenizers` of the addon: see `bindings/node/src/tokenizers`. What fails throws, or rejects with, a text:
 * kind, place and message on a line each.
 */
interface RawTokenizers {
  job(): number;
  cancel(job: number): void;
  load(job: number, path: string, config: string): Promise<Native>;
  parse(job: number, json: string, config: string): Promise<Native>;
  train(
    job: number,
    lesson: string,
    sources: readonly string[],
    areFiles: number,
    config: string,
    report: ((processed: number, total: number) => void) | undefined,
  ): Promise<Native>;
  encode(
    job: number,
    native: Native,
    texts: readonly string[],
    addSpecialTokens: number,
    fill: number,
    length: number,
    id: number,
  ): Later<[ids: ArrayBuffer, rows: number, columns: number]>;
  decode(job: number, native: Native, ids: Uint8Array, lengths: Uint8Array, skip: number): Later<string[]>;
  chat(job: number, template: string, messages: string, variables: string, begin: number): Promise<string>;
  save(job: number, native: Native, path: string): Promise<void>;
  vocab_size(native: Native): number;
  id(native: Native, token: string): number;
  token(native: Native, id: number): string | undefined;
}

export const raw = load().tokenizers as RawTokenizers;

/**
 * What `start` gives, which throws a text or a `TokenizerError`. An interruption asks the work to stop, and lasts until it
 * has.
 */
export const run = <A>(op: string, start: (job: number) => Later<A>): Effect.Effect<A, TokenizerError> =>
  Effect.callback<A, TokenizerError>((resume) => {
    const fail = (cause: unknown) => resume(Effect.fail(errorOf(op, cause)));
    let job: number;
    let started: Later<A>;
    try {
      job = raw.job();
      started = start(job);
    } catch (cause) {
      return fail(cause);
    }
    if (!(started instanceof Promise)) return resume(Effect.succeed(started));
    const ended = started.then((result) => resume(Effect.succeed(result)), fail);
    return Effect.promise(() => {
      raw.cancel(job);
      return ended;
    });
  });
