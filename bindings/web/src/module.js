// Loading a module and saying why it stopped. Shared by the workers and the page.

/** What a trap or a panic left behind: the panic's own message where there is one. */
export function causeOf(error, memory, record) {
  const text = record === undefined ? "" : panicText(memory, record);
  return text !== "" ? text : error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}

/** The record's form is that of `PanicRecord`: a length, then the text. */
function panicText(memory, record) {
  const length = new DataView(memory.buffer).getUint32(record, true);
  return textOf(memory, record + 4, length);
}

/** Text in a module's memory. A decoder does not take shared memory, hence the copy. */
function textOf(memory, address, length) {
  return new TextDecoder().decode(bytesOf(memory, address, length));
}

/** A copy of bytes in a module's memory. */
export function bytesOf(memory, address, length) {
  return new Uint8Array(memory.buffer, address, length).slice();
}

/** Fetches and compiles a module; says which file is missing or is none. */
export async function compile(url) {
  let response;
  try {
    response = await fetch(url);
  } catch (error) {
    throw new Error(`${url} cannot be fetched: ${error.message}`);
  }
  if (!response.ok) throw new Error(`${url} cannot be fetched: the server says ${response.status}`);
  try {
    return await WebAssembly.compile(await response.arrayBuffer());
  } catch (error) {
    throw new Error(`${url} is no module that this browser takes: ${error.message}`);
  }
}
