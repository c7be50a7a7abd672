// Runs a case of `cases.mjs` in a page.

/** Starts an engine in the page and runs a case there. */
export function run(page, name, options = {}, ...rest) {
  return page.evaluate(
    async ([name, options, rest]) => {
      const lanthorn = await import("lanthorn");
      const engine = await lanthorn.init(options);
      const cases = await import("/bindings/web/test/cases.mjs");
      try {
        return await cases[name](lanthorn, engine, ...rest);
      } finally {
        engine.close();
      }
    },
    [name, options, rest],
  );
}
