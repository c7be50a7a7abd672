// Writes src/generated and test/op-table.json from the op table, which comes as JSON on standard input or from the file named first. With
// --check it writes nothing and fails if a file there differs. tools/node-generate.sh runs it.
import { existsSync, readFileSync, writeFileSync } from "node:fs";

const given = process.argv.slice(2).filter((argument) => argument !== "--check");
const text = readFileSync(given[0] ?? 0, "utf8");
const { ops, dtypes } = JSON.parse(text);
dtypes.forEach(({ name, code }, at) => {
  if (code !== at) throw new Error(`the code of ${name} is ${code}; the list of names goes by code`);
});

/** As the addon tells op tables apart: FNV-1a over the names of ops and parameters. */
function fingerprint() {
  const names = ops.map((op) => `${[op.name, ...op.parameters.map(({ name }) => name)].join(",")};`).join("");
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(names)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}

const camel = (name) => name.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());
const idOf = new Map(ops.map((op, id) => [op.name, id]));
const isTensor = (kind) => ["Tensor", "OptionalTensor", "Tensors"].includes(kind);

/** Losses whose targets are ids of classes. */
const CLASS_LOSSES = ["cross_entropy", "nll_loss"];
/** An operand of integers that select, which a caller may give as plain lists. */
const isIds = (op, { name }) => name === "ids" || name === "indices" || (name === "targets" && CLASS_LOSSES.includes(op.name));

/** The TypeScript type of a kind of parameter. */
function typeOf(op, parameter) {
  const { kind, words = [] } = parameter;
  switch (kind) {
    case "Tensor":
    case "OptionalTensor":
      return isIds(op, parameter) ? "Tensor<R> | Ids" : "Tensor<R>";
    case "Tensors":
      return isIds(op, parameter) ? "readonly (Tensor<R> | Ids)[]" : "readonly Tensor<R>[]";
    case "Ints":
    case "Sizes":
      return "Integers";
    case "Bool":
      return "boolean";
    case "Scalar":
    case "OptionalScalar":
      return "Scalar";
    case "DType":
      return "DTypeName";
    case "Text":
      return "string";
    default:
      if (words.length > 0) return words.map((word) => JSON.stringify(word)).join(" | ");
      return "number";
  }
}

/** The call that puts an attribute into scratch at `at`. */
function put(op, { name, kind, words = [] }, at) {
  const value = kind === "DType" && isStatic(op) ? "settings.dtype" : takesSizes(op) ? "sizes" : camel(name);
  switch (kind) {
    case "Float":
    case "OptionalFloat":
      return `owner.putFloat(${at}, "${op.name}", ${value})`;
    case "Ints":
    case "Sizes":
      return `owner.putIntegers(${at}, ${value})`;
    case "Bool":
      return `owner.putBool(${at}, "${op.name}", ${value})`;
    case "Scalar":
    case "OptionalScalar":
      return `owner.putScalar(${at}, "${op.name}", ${value})`;
    case "DType":
      return `owner.putDType(${at}, ${value})`;
    case "Text":
      return `owner.putText(${at}, "${op.name}", ${value})`;
    default:
      if (words.length > 0) {
        return `owner.putWord(${at}, "${op.name}", ${JSON.stringify(words)}, ${value})`;
      }
      return `owner.putInteger(${at}, "${op.name}", ${value})`;
  }
}

/** An op without a tensor to be called on, such as one that makes or joins tensors. */
const isStatic = (op) => op.parameters[0]?.kind !== "Tensor";
const isOptional = (parameter) => "default" in parameter || parameter.kind.startsWith("Optional");
/** The op that takes a number where this one takes a second tensor. */
const scalarOp = (op) => {
  const kinds = op.parameters.map((parameter) => parameter.kind).join();
  return kinds === "Tensor,Tensor" && idOf.has(`${op.name}_scalar`) ? `${op.name}_scalar` : undefined;
};

/** An op that makes a tensor of a shape and nothing else takes the sizes as a list or one by one. */
const takesSizes = (op) => takesOptions(op) && op.parameters.map(({ kind }) => kind).join() === "Sizes,DType";

function signature(op) {
  if (takesSizes(op)) return "...shape: ShapeArguments";
  const parameters = isStatic(op) ? op.parameters.filter(({ kind }) => kind !== "DType") : op.parameters.slice(1);
  const list = parameters.map((parameter, at) => {
    const type = typeOf(op, parameter) + (scalarOp(op) !== undefined ? " | Scalar" : "");
    const trailing = parameters.slice(at).every(isOptional);
    const name = camel(parameter.name);
    return trailing ? `${name}?: ${type}` : isOptional(parameter) ? `${name}: ${type} | undefined` : `${name}: ${type}`;
  });
  if (takesOptions(op)) list.push("options?: Options");
  return list.join(", ");
}

/** An op that makes a tensor of a dtype takes it with the other options of a new tensor. */
const takesOptions = (op) => isStatic(op) && op.parameters.some(({ kind }) => kind === "DType");

function operands(op) {
  const names = op.parameters.filter(({ kind }) => isTensor(kind));
  if (names.length === 1 && names[0].kind === "Tensors") return camel(names[0].name);
  const list = names.map(({ name, kind }, at) => {
    if (at === 0 && !isStatic(op)) return "this";
    const value = camel(name);
    if (kind === "Tensors") {
      const listed = `...tensorsOf("${op.name}", ${JSON.stringify(value)}, ${value})`;
      return isIds(op, { name }) ? `${listed}.map((ids) => idsOf(owner, "${op.name}", ids))` : listed;
    }
    if (!isIds(op, { name })) return value;
    return `idsOf(owner, "${op.name}", ${value})`;
  });
  return `[${list.join(", ")}]`;
}

function body(op) {
  const id = idOf.get(op.name);
  const tensors = op.parameters.filter(({ kind }) => isTensor(kind));
  const attributes = op.parameters.filter(({ kind }) => !isTensor(kind));
  const owner = isStatic(op) ? "const owner = session();" : "const owner = this.session;";
  const scalar = scalarOp(op);
  if (scalar !== undefined) {
    const y = camel(op.parameters[1].name);
    return [
      `if (typeof ${y} === "object") return this.session.binary("${op.name}", ${id}, this, ${y});`,
      `return this.session.scalar("${scalar}", ${idOf.get(scalar)}, this, ${y});`,
    ];
  }
  if (!isStatic(op) && attributes.length === 0 && op.returns === "Tensor") {
    if (tensors.length === 1) return [`return this.session.unary("${op.name}", ${id}, this);`];
    if (tensors.length === 2 && tensors[1].kind === "Tensor" && !isIds(op, tensors[1])) {
      return [`return this.session.binary("${op.name}", ${id}, this, ${camel(tensors[1].name)});`];
    }
  }
  return [owner, ...prepared(op, attributes), `return ${called(op, `${id}`)};`];
}

/** Lines that put all arguments of an op into scratch. */
function prepared(op, attributes) {
  const lines = [];
  // Lists and options may have getters, and these may call ops: they are read before anything is in scratch.
  for (const { name, kind } of attributes) {
    if (takesSizes(op)) continue;
    if (kind === "Ints" || kind === "Sizes") {
      lines.push(`${camel(name)} = integersOf(owner, "${op.name}", ${camel(name)});`);
    }
  }
  if (takesSizes(op)) lines.push(`const [sizes, options] = shapeOf(owner, "${op.name}", shape);`);
  if (takesOptions(op)) lines.push(`const settings = optionsOf("${op.name}", options);`);
  const last = attributes.length - 1;
  if (last >= 0) lines.push(`${last > 0 ? "let" : "const"} at = owner.putTensors("${op.name}", ${operands(op)});`);
  else lines.push(`owner.putTensors("${op.name}", ${operands(op)});`);
  attributes.forEach((attribute, at) => lines.push(`${at < last ? "at = " : ""}${put(op, attribute, "at")};`));
  return lines;
}

function called(op, id) {
  const result = op.returns === "Tensor" ? `owner.one(${id})` : `owner.several(${id})`;
  return takesOptions(op) ? `finish(${result}, settings)` : result;
}

function docs(op) {
  const lines = op.docs.replace(/\[(`[^`]+`)\](\([^)]*\))?/g, "$1").replaceAll("*/", "* /").split("\n");
  if (lines.length === 1) return [`/** ${lines[0]} */`];
  return ["/**", ...lines.map((line) => ` * ${line}`.trimEnd()), " */"];
}

function method(op) {
  const result = op.returns === "Tensor" ? "Tensor<R>" : "Tensor<R>[]";
  const head = isStatic(op) ? `static ${camel(op.name)}<R extends Reading = "sync">` : camel(op.name);
  const lines = [...docs(op), `${head}(${signature(op)}): ${result} {`, ...body(op).map((line) => `  ${line}`), "}"];
  return lines.map((line) => `  ${line}`.trimEnd()).join("\n");
}

/** Ops of other categories that also write their result over their first operand. */
const FURTHER_IN_PLACE = [
  ...["masked_fill", "masked_scatter", "scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_fill"],
  ...["index_put", "tril", "triu", "cumsum", "cumprod"],
];
/** Pointwise ops whose result is `bool`, or no change of the operand. */
const NOT_IN_PLACE = /^(eq|ne|lt|le|gt|ge|cast|where|full_like|zeros_like|ones_like|is.*|signbit|logical_.*|.*_scalar)$/;

/** An op that has a form with `_` at its end, which writes the result over the tensor. */
function isInPlace(op) {
  if (isStatic(op) || op.returns !== "Tensor") return false;
  return (op.category === "Pointwise" && !NOT_IN_PLACE.test(op.name)) || FURTHER_IN_PLACE.includes(op.name);
}

function inPlace(op) {
  const id = idOf.get(op.name);
  const scalar = scalarOp(op);
  const lines = ["const owner = this.session;"];
  if (scalar !== undefined) {
    const y = camel(op.parameters[1].name);
    lines.push(
      `if (typeof ${y} === "object") {`,
      `  owner.putTensors("${op.name}", [this, ${y}]);`,
      `  return owner.assign(this, ${id});`,
      "}",
      `owner.putScalar(owner.putTensors("${scalar}", [this]), "${scalar}", ${y});`,
      `return owner.assign(this, ${idOf.get(scalar)});`,
    );
  } else {
    const attributes = op.parameters.filter(({ kind }) => !isTensor(kind));
    lines.push(...prepared(op, attributes), `return owner.assign(this, ${id});`);
  }
  const name = camel(op.name);
  const head = [`/** Writes what \`${name}\` gives over this tensor. */`, `${name}_(${signature(op)}): this {`];
  return [...head, ...lines.map((line) => `  ${line}`), "}"].map((line) => `  ${line}`.trimEnd()).join("\n");
}

const writing = ops.filter(isInPlace);
const aliased = ops.filter((op) => camel(op.name) !== op.name);
const members = [
  ...aliased.filter((op) => !isStatic(op)).map(({ name }) => [name, camel(name)]),
  ...aliased.filter(isInPlace).map(({ name }) => [`${name}_`, `${camel(name)}_`]),
];
const statics = aliased.filter(isStatic);

const NOTE = "// Generated from the engine's op table by scripts/generate-ops.mjs; change the table instead.";

const table = `${NOTE}

/** Numbers of the ops; they hold for the engine of the fingerprint below. */
export const OP = {
${ops.map((op, id) => `  ${op.name}: ${id},`).join("\n")}
} as const;

/** The table from which this file was made. */
export const FINGERPRINT = ${fingerprint()};

/** Names of element types, each at its code. */
export const DTYPES = [
${dtypes.map(({ name }) => `  ${JSON.stringify(name)},`).join("\n")}
] as const;
`;

const methods = `${NOTE}

import { finish, idsOf, optionsOf, shapeOf, tensorsOf, type Ids, type Options, type ShapeArguments } from "../create.js";
import type { DTypeName, Scalar } from "../dtype.js";
import { integersOf, session, type Integers, type Session } from "../session.js";
import type { Reading, Tensor } from "../tensor.js";

/** The ops of the table as methods. */
export abstract class Operations<R extends Reading> {
  /** @internal */
  abstract readonly session: Session;
  /** @internal */
  abstract readonly handle: number;

${[...ops.map(method), ...writing.map(inPlace)].join("\n\n")}
${statics.map((op) => `\n  static readonly ${op.name} = Operations.${camel(op.name)};\n`).join("")}}

/** The names of the table beside those of JavaScript's style. */
export interface Operations<R extends Reading> {
${members.map(([alias, name]) => `  ${alias}: Operations<R>["${name}"];`).join("\n")}
}

const ALIASES = {
${members.map(([alias, name]) => `  ${alias}: "${name}",`).join("\n")}
} as const;

for (const [alias, name] of Object.entries(ALIASES)) {
  const value = Operations.prototype[name];
  Object.defineProperty(Operations.prototype, alias, { value, writable: true, configurable: true });
}
`;

/** What a test must know to call every op. */
const parameters = ops.map((op) => {
  const entries = op.parameters.map(({ name, kind }) => [name, kind]);
  return `  ${JSON.stringify({ op: op.name, static: isStatic(op), returns: op.returns, parameters: entries })}`;
});

for (const [name, source] of [
  ["src/generated/table.ts", table],
  ["src/generated/ops.ts", methods],
  ["test/op-table.json", `[\n${parameters.join(",\n")}\n]\n`],
]) {
  const target = new URL(`../${name}`, import.meta.url);
  if (!process.argv.includes("--check")) {
    writeFileSync(target, source);
  } else if (!existsSync(target) || readFileSync(target, "utf8") !== source) {
    console.error(`js/lanthorn/${name} is not that of the op table; run tools/node-generate.sh`);
    process.exitCode = 1;
  }
}
