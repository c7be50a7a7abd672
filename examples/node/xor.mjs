// Learns exclusive or with a network of two layers.
//
//     node examples/node/xor.mjs [STEPS]
import { argv } from "node:process";

import { Tensor, manualSeed, nn, optim } from "lanthorn";

import { command, count } from "./command.mjs";

/** The losses of all steps, and what the network then gives for 00, 01, 10 and 11. */
export function train(steps) {
  manualSeed(1);
  const x = new Tensor([[0, 0], [0, 1], [1, 0], [1, 1]]);
  const y = new Tensor([[0], [1], [1], [0]]);
  const net = new nn.Sequential(new nn.Linear(2, 8), new nn.Tanh(), new nn.Linear(8, 1));
  const adam = new optim.Adam(net, { lr: 0.05 });
  const losses = [];
  for (let step = 0; step < steps; step++) {
    adam.zeroGrad();
    const loss = nn.bceWithLogitsLoss(net.forward(x), y);
    loss.backward();
    adam.step();
    losses.push(loss.item());
  }
  return { losses, answers: [...net.forward(x).sigmoid().toArray()] };
}

await command(import.meta.url, () => {
  const { losses, answers } = train(count("STEPS", argv[2] ?? "300"));
  for (let step = 0; step < losses.length; step += 50) console.log(`step ${step}: loss ${losses[step].toFixed(4)}`);
  ["00", "01", "10", "11"].forEach((input, at) => console.log(`${input} -> ${answers[at].toFixed(3)}`));
});
