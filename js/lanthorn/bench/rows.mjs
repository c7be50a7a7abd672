// The file of rows in which every benchmark leaves its figures.
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/** Puts rows into the file; those of the same names give way. */
export function merge(file, rows) {
  const known = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : [];
  const names = new Set(rows.map(({ name }) => name));
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.tmp`, JSON.stringify([...known.filter(({ name }) => !names.has(name)), ...rows]));
  renameSync(`${file}.tmp`, file);
  console.log(`written to ${file}`);
}
