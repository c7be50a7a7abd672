/** What can go wrong with a tokenizer. */

import { Data } from "effect";

/**
 * Why a tokenizer was not made, or did not do what it was asked for.
 *
 * ```ts
 * import * as Tokenizer from "@lanthorn/tokenizers";
 * import { Effect } from "effect";
 *
 * const loaded = Tokenizer.fromFile("no/such/tokenizer.json", Tokenizer.strictConfig).pipe(
 *   Effect.catchTag("TokenizerError", (error) => Effect.succeed(`${error.op}: ${error.message}`)),
 * );
 * console.log(await Effect.runPromise(loaded)); // fromFile: no/such/tokenizer.json: cannot read it: No such file or directory
 * ```
 */
export class TokenizerError extends Data.TaggedError("TokenizerError")<{
  /** What was asked for: `fromFile`, `fromJson`, `train`, or the method of a tokenizer. */
  readonly op: string;
  /** The file or value, what was found, and what would be right. */
  readonly message: string;
  /** The engine's name for this kind of fault: `io`, `format`, ... */
  readonly kind?: string | undefined;
}> {}

/** The error of what a call of the addon has thrown: kind, place and message on a line each. */
export function errorOf(op: string, cause: unknown): TokenizerError {
  if (cause instanceof TokenizerError) return cause;
  if (typeof cause !== "string") {
    const message = cause instanceof Error ? cause.message : String(cause);
    return new TokenizerError({ op, message });
  }
  const [kind = "", place = "", ...message] = cause.split("\n");
  return new TokenizerError({ op, message: `${place}: ${message.join("\n")}`, kind });
}

/** An error of what the caller has given. */
export function invalid(op: string, message: string): TokenizerError {
  return new TokenizerError({ op, message, kind: "format" });
}
