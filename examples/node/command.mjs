// What the examples have in common as commands: their arguments, how they tell of their progress, and how they fail.
import { basename } from "node:path";
import { argv, stderr } from "node:process";
import { pathToFileURL } from "node:url";

import { SingleBar } from "cli-progress";

/** What is wrong with what a command was given. */
export class Refusal extends Error {
  name = "Refusal";
}

/**
 * Runs what Node was started with, for the module of that address alone. What is to be expected of files and arguments is told
 * in one line, with the exit code 1; other errors are faults of the program, and come with their stacks.
 */
export async function command(url, run) {
  if (url !== pathToFileURL(argv[1] ?? "").href) return;
  try {
    await run();
  } catch (error) {
    if (!isExpected(error)) throw error;
    console.error(`${basename(argv[1], ".mjs")}: ${error.message.replaceAll(/\s*\n\s*/g, "; ")}`);
    process.exitCode = 1;
  }
}

/** Whether an error is a refusal, a failure of Effect's (`_tag`), of the engine (`kind`) or of the system (`code`). */
const isExpected = (error) =>
  error instanceof Refusal || (error instanceof Error && ["_tag", "kind", "code"].some((name) => name in error));

/** The whole number that an argument is, of at least `least`. Throws a refusal for anything else. */
export function count(name, argument, least = 1) {
  const number = Number(argument);
  if (/^\d+$/.test(argument) && Number.isSafeInteger(number) && number >= least) return number;
  throw new Refusal(`${name} is ${JSON.stringify(argument)}, expected a whole number of at least ${least}`);
}

/**
 * Tells of the steps of a training: by a bar on a terminal, elsewhere by a line for the first step, for each 100th and for the
 * last.
 */
export function progress(total) {
  if (!stderr.isTTY) {
    const isTold = (step) => step === 1 || step % 100 === 0 || step === total;
    const told = (step, loss) => isTold(step) && console.log(`step ${step} of ${total}: loss ${loss.toFixed(3)}`);
    return { told, stop: () => {} };
  }
  const bar = new SingleBar({ format: "{bar} {value}/{total} steps, loss {loss}, {eta_formatted} left" });
  bar.start(total, 0, { loss: "-" });
  return { told: (step, loss) => bar.update(step, { loss: loss.toFixed(3) }), stop: () => bar.stop() };
}
