// Trains a network on handwritten digits, tells how many it reads that it has not seen, and draws its losses.
//
//     node examples/node/digits.mjs [EPOCHS] [PLOT.svg]
import { readFileSync, writeFileSync } from "node:fs";
import { argv } from "node:process";

import { Tensor, manualSeed, nn, noGrad, optim, saveSafetensors } from "lanthorn";

import { command, count } from "./command.mjs";
import { lossPlot } from "./plot.mjs";

const BATCH = 64;
/** A digit in the file: 64 pixels from 0 to 16, and which digit it is. See examples/data/README.md. */
const RECORD = 65;

/** Images `[n, 64]` from 0 to 1 and labels `[n]` of the digits that are chosen by number. */
function digits(chosen) {
  const file = readFileSync(new URL("../data/digits.bin", import.meta.url));
  const [pixels, labels] = [[], []];
  for (let number = 0; number < file.length / RECORD; number++) {
    if (!chosen(number)) continue;
    const digit = file.subarray(number * RECORD, (number + 1) * RECORD);
    for (const ink of digit.subarray(0, 64)) pixels.push(ink / 16);
    labels.push(digit[64]);
  }
  const images = Tensor.fromData(Float32Array.from(pixels), [labels.length, 64]);
  return { images, labels: Tensor.fromData(Int32Array.from(labels)) };
}

/** Trains on four of five digits; the model, its losses by step, and the share of the other digits that it reads. */
export function train(epochs, told = () => {}) {
  manualSeed(1);
  const seen = digits((number) => number % 5 !== 0);
  const heldOut = digits((number) => number % 5 === 0);
  const model = new nn.Sequential(
    new nn.Linear(64, 128),
    new nn.ReLU(),
    new nn.Dropout(0.2),
    new nn.Linear(128, 10),
  );
  const batches = Math.floor(seen.labels.size / BATCH);
  const adamw = new optim.AdamW(model, { lr: 5e-3 });
  const schedule = new optim.CosineAnnealingLR(adamw, epochs * batches, 1e-4, 10);
  const [losses, evaluations] = [[], []];
  for (let epoch = 1; epoch <= epochs; epoch++) {
    const order = Tensor.randperm(seen.labels.size);
    model.train();
    for (let batch = 0; batch < batches; batch++) {
      const rows = order.narrow(0, batch * BATCH, BATCH);
      adamw.zeroGrad();
      const logits = model.forward(seen.images.indexSelect(0, rows));
      const loss = nn.crossEntropyLoss(logits, seen.labels.indexSelect(0, rows));
      loss.backward();
      adamw.step();
      schedule.step();
      losses.push(loss.item());
    }
    model.eval();
    const { loss, accuracy } = noGrad(() => {
      const logits = model.forward(heldOut.images);
      const right = logits.argmax(-1).eq(heldOut.labels.cast("i64")).cast("f32").mean();
      return { loss: nn.crossEntropyLoss(logits, heldOut.labels).item(), accuracy: right.item() };
    });
    evaluations.push({ step: losses.length, loss, accuracy });
    told({ epoch, ...evaluations.at(-1) });
  }
  return { model, losses, evaluations, accuracy: evaluations.at(-1)?.accuracy ?? 0 };
}

await command(import.meta.url, () => {
  const [epochs, plot] = [count("EPOCHS", argv[2] ?? "20"), argv[3] ?? "digits.svg"];
  const { model, losses, evaluations, accuracy } = train(epochs, ({ epoch, loss, accuracy }) => {
    console.log(`epoch ${epoch}: held-out loss ${loss.toFixed(4)}, ${(100 * accuracy).toFixed(1)} % read`);
  });
  writeFileSync(plot, lossPlot("Digits: cross entropy by step", losses, evaluations));
  saveSafetensors("digits.safetensors", model.stateDict(), { accuracy: accuracy.toFixed(4) });
  console.log(`reads ${(100 * accuracy).toFixed(1)} % of the digits that it has not seen; losses are in ${plot}`);
});
