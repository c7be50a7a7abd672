// Trains a small GPT on the characters of a novel and lets it write on, character by character.
//
//     node examples/node/nano-gpt.mjs [STEPS] [CHARACTERS]
import { readFileSync, writeFileSync } from "node:fs";
import { argv, stdout } from "node:process";

import { Tensor, manualSeed, nn, noGrad, optim, trackTensors } from "lanthorn";

import { command, count, progress } from "./command.mjs";
import { lossPlot } from "./plot.mjs";

const CONTEXT = 64;
const BATCH = 16;

/** One layer: attention to what came before, then two linear maps, each on top of what comes in. */
class Block extends nn.Module {
  constructor(width, heads, dropout) {
    super();
    this.norm1 = new nn.LayerNorm(width);
    this.attention = new nn.MultiheadAttention(width, heads);
    this.norm2 = new nn.LayerNorm(width);
    this.wide = new nn.Linear(width, 4 * width);
    this.narrow = new nn.Linear(4 * width, width);
    this.dropout = new nn.Dropout(dropout);
  }

  forward(x) {
    const normed = this.norm1.forward(x);
    x = x.add(this.dropout.forward(this.attention.forward(normed, normed, normed, { causal: true })));
    return x.add(this.dropout.forward(this.narrow.forward(this.wide.forward(this.norm2.forward(x)).gelu())));
  }
}

/** Logits `[batch, seq, vocabulary]` of the next character at each place of `ids [batch, seq]` (Radford et al. 2019). */
export class Gpt extends nn.Module {
  constructor(vocabulary, { width = 96, heads = 4, layers = 3, dropout = 0.05 } = {}) {
    super();
    this.token = new nn.Embedding(vocabulary, width);
    this.position = new nn.Embedding(CONTEXT, width);
    this.blocks = new nn.Sequential(...Array.from({ length: layers }, () => new Block(width, heads, dropout)));
    this.norm = new nn.LayerNorm(width);
    this.initialize(layers);
  }

  /** First values as in GPT-2: narrow ones, so that what comes in is not drowned by what the layers add at first. */
  initialize(layers) {
    noGrad(() => {
      for (const [name, parameter] of this.namedParameters()) {
        if (name.includes("norm")) continue;
        if (name.endsWith("bias")) parameter.zero_();
        else parameter.normal_(0, /(narrow|out_proj)/.test(name) ? 0.02 / Math.sqrt(2 * layers) : 0.02);
      }
    });
  }

  forward(ids) {
    const places = Tensor.arange(0, ids.shape[1], 1, { dtype: "i64" });
    const x = this.token.forward(ids).add(this.position.forward(places));
    // The table of characters also reads the answer.
    return this.norm.forward(this.blocks.forward(x)).linear(this.token.weight);
  }
}

/** A text as numbers of its characters. */
export class Characters {
  constructor(text) {
    this.all = [...new Set(text)].sort();
    this.numbers = new Map(this.all.map((character, number) => [character, number]));
  }

  encode(text) {
    return Int32Array.from(text, (character) => this.numbers.get(character));
  }

  decode(number) {
    return this.all[number];
  }
}

/** Trains a model on a text; gives it with its characters and the losses of all steps. */
export function train(text, steps, told = () => {}, sizes = {}) {
  manualSeed(1);
  const characters = new Characters(text);
  const ids = Tensor.fromData(characters.encode(text));
  const model = new Gpt(characters.all.length, sizes);
  const adamw = new optim.AdamW(model, { lr: 3e-3, betas: [0.9, 0.99], weightDecay: 0.1 });
  const schedule = new optim.CosineAnnealingLR(adamw, steps, 3e-4, Math.ceil(steps / 20));
  const offsets = Tensor.arange(0, CONTEXT + 1, 1, { dtype: "i64" });
  const losses = [];
  for (let step = 1; step <= steps; step++) {
    const loss = trackTensors(() => {
      const starts = Tensor.randint(0, ids.size - CONTEXT - 1, [BATCH, 1]);
      const windows = ids.take(starts.add(offsets));
      adamw.zeroGrad();
      const logits = model.forward(windows.narrow(1, 0, CONTEXT));
      const loss = nn.crossEntropyLoss(logits, windows.narrow(1, 1, CONTEXT));
      loss.backward();
      optim.clipGradNorm(model.parameters(), 1);
      adamw.step();
      return loss.item();
    });
    schedule.step();
    losses.push(loss);
    told(step, loss);
  }
  return { model, characters, losses };
}

/** The characters that a model writes after a text, one by one. */
export function* generate({ model, characters }, start, count, temperature = 0.8) {
  model.eval();
  const ids = [...characters.encode(start)];
  for (let written = 0; written < count; written++) {
    const last = ids.slice(-CONTEXT);
    const next = noGrad(() =>
      trackTensors(() => {
        // Always a whole window, so that one program serves every length: what stands after the text is not seen.
        const window = Int32Array.from({ length: CONTEXT }, (_, at) => last[at] ?? 0);
        const logits = model.forward(Tensor.fromData(window, [1, CONTEXT]));
        const scaled = logits.indexSelect(1, [last.length - 1]).flatten().div(temperature);
        return Tensor.randomKey().categorical(scaled).item();
      }),
    );
    ids.push(next);
    yield characters.decode(next);
  }
}

await command(import.meta.url, () => {
  const steps = count("STEPS", argv[2] ?? "1000");
  const characters = count("CHARACTERS", argv[3] ?? "400", 0);
  const text = readFileSync(new URL("../data/pride_and_prejudice.txt", import.meta.url), "utf8");
  const { told, stop } = progress(steps);
  const trained = train(text, steps, told);
  stop();
  writeFileSync("nano-gpt.svg", lossPlot("A GPT on characters: cross entropy by step", trained.losses));
  for (const character of generate(trained, "It is a truth universally ", characters)) stdout.write(character);
  stdout.write("\n");
});
