// The GPT step of `lanthorn bench --only gpt_step` in JavaScript: 4 layers, 256 wide, 8 heads, 8 sequences of 128 tokens of
// 2,048, forward, mean cross-entropy, backward, the gradients' norm clipped to 1, AdamW. And that program itself.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { jit, nn, optim, Tensor } from "../dist/node.js";

const LAYERS = 4;
const WIDTH = 256;
const HEADS = 8;
const CONTEXT = 128;
const BATCH = 8;
const VOCABULARY = 2048;

class Block extends nn.Module {
  norm1 = new nn.LayerNorm(WIDTH);
  attention = new nn.MultiheadAttention(WIDTH, HEADS);
  norm2 = new nn.LayerNorm(WIDTH);
  wide = new nn.Linear(WIDTH, 4 * WIDTH);
  narrow = new nn.Linear(4 * WIDTH, WIDTH);

  forward(x) {
    const normed = this.norm1.forward(x);
    x = x.add(this.attention.forward(normed, normed, normed, { causal: true }));
    return x.add(this.narrow.forward(this.wide.forward(this.norm2.forward(x)).gelu("tanh")));
  }
}

class Gpt extends nn.Module {
  token = new nn.Embedding(VOCABULARY, WIDTH);
  position = new nn.Embedding(CONTEXT, WIDTH);
  blocks = Array.from({ length: LAYERS }, () => new Block());
  norm = new nn.LayerNorm(WIDTH);
  head = new nn.Linear(WIDTH, VOCABULARY, { bias: false });

  forward(ids) {
    const places = Tensor.arange(0, CONTEXT, 1, { dtype: "i64" });
    const x = this.token.forward(ids).add(this.position.forward(places));
    return this.head.forward(this.norm.forward(this.blocks.reduce((x, block) => block.forward(x), x)));
  }
}

/** A step that gives its loss as a number. */
export function ours() {
  const model = new Gpt();
  const rule = new optim.AdamW(model, { lr: 1e-4 });
  const step = jit((ids, targets) => {
    rule.zeroGrad();
    const loss = nn.crossEntropyLoss(model.forward(ids).reshape([-1, VOCABULARY]), targets.reshape([-1]));
    loss.backward();
    optim.clipGradNorm(rule.parameters(), 1);
    rule.step();
    return loss;
  });
  let turn = 0;
  return () => {
    turn += 1;
    const ids = BigInt64Array.from({ length: BATCH * (CONTEXT + 1) }, (_, at) => BigInt((turn + at * 7919) % VOCABULARY));
    const window = Tensor.fromData(ids, [BATCH, CONTEXT + 1]);
    return step(window.slice(1, 0, CONTEXT), window.slice(1, 1, CONTEXT + 1)).item();
  };
}

/** Seconds of the same step of the command, or undefined where the command is not built. */
export function theirs(command) {
  if (command === undefined) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "lanthorn-bench-"));
  try {
    const file = join(folder, "rows.json");
    // Without the peers of that program: they are measured by it alone.
    const env = { ...process.env, LANTHORN_CACHE: folder };
    execFileSync(command, ["bench", "--only", "gpt_step", "--rounds", "2", "--out", file], { env, stdio: "ignore" });
    return JSON.parse(readFileSync(file, "utf8")).find(({ name }) => name === "gpt_step").ours_s;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
