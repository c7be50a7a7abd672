// Learns exclusive or with the Effect API.
//
//     node examples/node/effect-xor.mjs [STEPS]
import { argv } from "node:process";

import * as BackendCpu from "@lanthorn/backend-cpu";
import { LearningRate, Loss, Model, Optimizer, Tensor, Trainer } from "@lanthorn/effect";
import { Console, Effect } from "effect";

import { command, count } from "./command.mjs";

/** The losses of all steps, and what the network then gives for 00, 01, 10 and 11. */
export const train = (steps, onStep = () => Effect.void) =>
  Effect.gen(function* () {
    const input = yield* Tensor.fromTypedArray(Float32Array.of(0, 0, 0, 1, 1, 0, 1, 1), [4, 2]);
    const target = yield* Tensor.fromTypedArray(Float32Array.of(0, 1, 1, 0), [4, 1]);
    const model = yield* Model.chain(
      yield* Model.linear("fc1", 2, 8),
      yield* Model.tanh,
      yield* Model.linear("fc2", 8, 1),
      yield* Model.sigmoid,
    );
    const losses = [];
    const trainer = yield* Trainer.make(model, {
      optimizer: yield* Optimizer.adam(),
      lr: LearningRate.constant(0.1),
      loss: Loss.mse,
      data: { input, target },
      stop: ({ step, loss }) => step >= steps || loss < 1e-4,
      onStep: (info) => Effect.andThen(Effect.sync(() => losses.push(info.loss)), onStep(info)),
    });
    const { params } = yield* trainer.train();
    const answers = yield* Tensor.toNumberArray(yield* model.execute(params, input));
    return { losses, answers };
  });

const program = Effect.gen(function* () {
  const told = ({ step, loss }) => (step % 100 === 0 ? Effect.log(`step ${step}: loss ${loss.toExponential(2)}`) : Effect.void);
  const { losses, answers } = yield* train(count("STEPS", argv[2] ?? "3000"), told);
  yield* Console.log(`${losses.length} steps, loss ${losses.at(-1).toExponential(2)}`);
  for (const [at, input] of ["00", "01", "10", "11"].entries()) yield* Console.log(`${input} -> ${answers[at].toFixed(3)}`);
});

await command(import.meta.url, () => Effect.runPromise(Effect.provide(program, BackendCpu.layer)));
