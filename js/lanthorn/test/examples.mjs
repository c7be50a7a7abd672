// The code in documentation, for the tests that run it.

/** The blocks of a page, each with the line on which it begins. `unnamed` is the language of those that name none. */
export function blocksOf(text, unnamed) {
  const blocks = [];
  const fence = /^( *)```(\w*)[^\n]*\n([\s\S]*?)^\1```/gm;
  for (const [whole, indent, named, body] of text.matchAll(fence)) {
    const line = text.slice(0, text.indexOf(whole)).split("\n").length;
    const code = indent === "" ? body : body.replaceAll(new RegExp(`^${indent}`, "gm"), "");
    const language = named || unnamed;
    if (["ts", "typescript", "js", "javascript", "mjs"].includes(language)) blocks.push({ language, code, line });
  }
  return blocks;
}

/** The text of the comments of a source, other lines empty, so that lines keep their numbers. */
export function commentsOf(source) {
  const blank = (text) => text.replaceAll(/[^\n]/g, "");
  let at = 0;
  let text = "";
  for (const match of source.matchAll(/\/\*\*[\s\S]*?\*\//g)) {
    text += blank(source.slice(at, match.index));
    text += match[0].replace(/\*\/$/, "").replaceAll(/^\s*\/?\*+ ?/gm, "");
    at = match.index + match[0].length;
  }
  return text;
}
