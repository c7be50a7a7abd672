/** The class API on a page, over an engine in a worker. Reads give promises. */

import type { EngineOptions } from "./connection.js";
import { Page } from "./page.js";
import { install, Session } from "./session.js";
// The class first: the ops that it extends refer back to it.
import { Tensor } from "./tensor.js";

export { Tensor };
export type { EngineOptions, Usage } from "./connection.js";
export type { Page } from "./page.js";
export * as nn from "./nn/index.js";
export * as optim from "./optim/index.js";
export type { Abortable, Nested, NestedElements, Range, Read, Reading } from "./tensor.js";
export type {
  Ids,
  KaimingOptions,
  NormalOptions,
  Options,
  ShapeArguments,
  TensorOptions,
  UniformOptions,
  XavierOptions,
} from "./create.js";
export type { DType, DTypeName, Elements, ElementsLike, Scalar } from "./dtype.js";
export type { Raw } from "./raw.js";
export * from "./errors.js";
export * from "./functions.js";

let page: Promise<Page> | undefined;

/**
 * Starts the engine of tensors that are made from now on. A second call gives the same engine, unless the first has
 * failed or the engine was closed.
 */
export function init(options: EngineOptions = {}): Promise<Page> {
  page ??= open(options).catch((error: unknown) => {
    page = undefined;
    throw error;
  });
  return page;
}

async function open(options: EngineOptions): Promise<Page> {
  const opened = await Page.open(new URL(options.base ?? "../web/", import.meta.url), options);
  opened.onclose = () => {
    page = undefined;
  };
  install(new Session(opened));
  return opened;
}
