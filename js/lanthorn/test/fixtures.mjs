// The cases of the ops (`crates/optest/fixtures`): calls through the op table with values of NumPy, SciPy, mpmath and
// upstream torch, as the suite in Rust reads them, made through the class API.
import { readdirSync, readFileSync } from "node:fs";

import { commit, Tensor } from "../dist/node.js";
// After the class, which its module needs.
import { Operations } from "../dist/generated/ops.js";

const folder = new URL("../../../crates/optest/fixtures/", import.meta.url);

/** The op table: each op with its parameters, by name. */
export const TABLE = new Map(
  JSON.parse(readFileSync(new URL("./op-table.json", import.meta.url), "utf8")).map((op) => [op.op, op]),
);

/** The types in which cases of f64 are tried, unless a case names fewer. */
export const FLOATS = ["f64", "f32", "f16", "bf16"];

/** How far a result of each type may be from the expected one; the table of `crates/optest/src/tolerance.rs`. */
export function tolerances() {
  const source = readFileSync(new URL("../src/tolerance.rs", folder), "utf8");
  const [, rows] = /TABLE[^=]*=\s*\[([\s\S]*?)\];/.exec(source);
  const table = Object.fromEntries(
    [...rows.matchAll(/DType::(\w+), ([\d.e-]+)/g)].map(([, name, value]) => [name.toLowerCase(), Number(value)]),
  );
  return { ...table, c64: table.f32, c128: table.f64 };
}

/** Every case, with its place for messages. */
export function cases() {
  const files = readdirSync(folder).filter((name) => name.endsWith(".json")).sort();
  return files.flatMap((file) => {
    // Whole numbers that no double holds come as text, and are made exact below.
    const text = readFileSync(new URL(file, folder), "utf8").replaceAll(/(?<=[[,:])-?\d{16,}(?=[,\]}])/g, '"$&"');
    return JSON.parse(text).map((row, number) => ({
      ...row,
      what: [`${file.replace(".json", "")} ${number}, ${row.op}`, row.note].filter(Boolean).join(", "),
      // A case of other types is about them.
      dtypes: row.tensors.some((t) => t?.dtype === "f64") ? (row.dtypes ?? FLOATS) : [],
    }));
  });
}

const SPECIAL = { nan: NaN, inf: Infinity, "-inf": -Infinity };
const isInteger = (dtype) => /^[iu]\d/.test(dtype);
const isComplex = (dtype) => dtype.startsWith("c");

/** A number of a fixture as JavaScript holds one of that type. */
function valueOf(dtype, given) {
  if (isInteger(dtype)) return /64$/.test(dtype) ? BigInt(given) : Number(given);
  return typeof given === "string" ? (SPECIAL[given] ?? Number(given)) : given;
}

/** The elements of a fixture's tensor, of a complex one real and imaginary parts in turn. */
export function elementsOf({ dtype, data }) {
  if (isComplex(dtype)) return data.flat().map((x) => SPECIAL[x] ?? x);
  return data.map((x) => valueOf(dtype, x));
}

/** Operands that are of f32 where the others are of a half type, by op: the place among its tensors. */
const WIDE = { gated_delta_rule: 5 };

/** The operands of a case, those of f64 in `dtype` if one is given. */
export function operandsOf({ op, tensors }, dtype) {
  const isHalf = dtype === "f16" || dtype === "bf16";
  return tensors.map((given, at) => tensorOf(given, isHalf && WIDE[op] === at ? "f32" : dtype));
}

/** The tensor of a fixture, in `dtype` if the fixture is of f64. */
function tensorOf(given, dtype) {
  if (given === null) return undefined;
  const own = given.dtype === "f64" && dtype !== undefined ? dtype : given.dtype;
  const elements = elementsOf(given);
  if (!isComplex(own)) return Tensor.fromData(elements, given.shape, { dtype: own });
  // JavaScript has no complex numbers: they come as pairs.
  const part = own === "c64" ? "f32" : "f64";
  const tensor = Tensor.fromData(elements, [...given.shape, 2], { dtype: part }).asComplex();
  commit([tensor]);
  return tensor;
}

/** The elements of a result, as `elementsOf` gives those of a fixture. */
export function read(tensor) {
  return (isComplex(tensor.dtype) ? tensor.asReal() : tensor).toArray();
}

const isTensor = (kind) => ["Tensor", "OptionalTensor", "Tensors"].includes(kind);
const isNumeric = (kind) => ["Float", "OptionalFloat", "Scalar", "OptionalScalar"].includes(kind);

/** The attributes of a case in the table's order; what it leaves out is undefined, the table's default. */
export function attributesOf({ op, attributes }) {
  return TABLE.get(op)
    .parameters.filter(([, kind]) => !isTensor(kind))
    .map(([name, kind]) => {
      const value = attributes[name] ?? undefined;
      if (/^-?\d{16,}$/.test(value)) return isNumeric(kind) ? BigInt(value) : Number(value);
      return isNumeric(kind) ? (SPECIAL[value] ?? value) : value;
    });
}

/** Calls an op by its name in the table, with tensors and attributes as lists in the table's order. Gives its results. */
export function call(name, tensors, attributes) {
  const { static: isStatic, parameters } = TABLE.get(name);
  const [values, rest] = [[...tensors], [...attributes]];
  let dtype;
  const list = [];
  for (const [, kind] of parameters) {
    if (kind === "Tensors") list.push(values.splice(0));
    else if (isTensor(kind)) list.push(values.shift());
    else if (kind === "DType" && isStatic) dtype = rest.shift()?.dtype;
    else {
      const value = rest.shift() ?? undefined;
      list.push(kind === "DType" ? value?.dtype : value);
    }
  }
  // The class has another method of this name; its ops are of the same engine.
  const method = name === "dot" ? Operations.prototype.dot : list[0]?.[name];
  const result = isStatic ? Tensor[name](...list, { dtype }) : method.apply(list[0], list.slice(1));
  return Array.isArray(result) ? result : [result];
}

/** Where elements differ from expected ones, or undefined: floats within |a - b| <= tolerance * (1 + |b|), others equal. */
export function difference(found, expected, tolerance) {
  if (found.length !== expected.length) return `${found.length} elements, expected ${expected.length}`;
  for (let at = 0; at < expected.length; at++) {
    const [a, b] = [found[at], expected[at]];
    if (a === b || Object.is(a, b) || (typeof b === "boolean" && a === Number(b))) continue;
    const isClose =
      typeof a === "number" && typeof b === "number" && Number.isFinite(b) && Math.abs(a - b) <= tolerance * (1 + Math.abs(b));
    if (!isClose) return `element ${at} is ${a}, expected ${b} within ${tolerance}`;
  }
  return undefined;
}
