// Programs in TypeScript compile, and their own tests run.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { compile, out } from "./typed.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const faults = compile([join(here, "tensor-programs.mts")], here, join(out, "test"));

test("the programs compile", () => assert.deepEqual(faults, []));

await import(join(out, "test/tensor-programs.mjs"));
