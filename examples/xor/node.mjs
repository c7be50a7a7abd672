// Runs the program on Node: node examples/xor/node.mjs (tools/node-build.sh builds what it needs).
import * as lanthorn from "../../js/lanthorn/dist/node.js";
import { xor } from "./xor.mjs";

await xor(lanthorn, console.log);
