/** Work of the engine as effects: interrupting one stops the work, and waits until nothing of it runs any more. */

import { Effect } from "effect";
import { errorOfText } from "lanthorn/raw";

import type { BackendError } from "../runtime.js";
import type { Engine } from "./engine.js";

/** Makes the failure out of an error. */
export type Fail = (error: unknown) => BackendError;

/** A call that gives its result at once, after arguments were put into scratch by it. */
export function immediate<A>(fail: Fail, call: () => A): Effect.Effect<A, BackendError> {
  return Effect.suspend(() => {
    try {
      return Effect.succeed(call());
    } catch (error) {
      return Effect.fail(fail(error));
    }
  });
}

/**
 * A call that gives its result, or a promise of it with the number of a job in scratch. `take` makes objects of a result;
 * `drop` gives up a result that comes after an interruption.
 */
export function job<R, A>(
  engine: Engine,
  fail: Fail,
  start: () => Promise<R> | R | number,
  take: (result: R) => A,
  drop: (result: R) => void,
): Effect.Effect<A, BackendError> {
  const { raw } = engine;
  return Effect.callback<A, BackendError>((resume) => {
    let running: Promise<R>;
    let number: number;
    try {
      engine.flush();
      const begun = start();
      if (typeof begun === "number") throw errorOfText(raw.error());
      if (!(begun instanceof Promise)) {
        resume(Effect.succeed(take(begun)));
        return;
      }
      running = begun;
      number = raw.scratch[0] as number;
    } catch (error) {
      resume(Effect.fail(fail(error)));
      return;
    }
    let isInterrupted = false;
    const settle = (result: R) => {
      if (isInterrupted) return drop(result);
      try {
        resume(Effect.succeed(take(result)));
      } catch (error) {
        resume(Effect.fail(fail(error)));
      }
    };
    const refuse = (error: unknown) => {
      if (!isInterrupted) resume(Effect.fail(fail(errorOfText(String(error)))));
    };
    const ended = running.then(settle, refuse);
    return Effect.suspend(() => {
      isInterrupted = true;
      raw.cancel(number);
      return Effect.promise(() => ended);
    });
  });
}
