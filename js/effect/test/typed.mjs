// Compiles TypeScript of tests and documentation under the package's strict settings.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Where compiled modules lie: within the package, so that their imports are found. */
export const out = join(root, "out");

/** Compiles files of one folder into `folder`; gives what is wrong with them, each by its file and line. */
export function compile(files, rootDir, folder) {
  const { config } = ts.readConfigFile(join(root, "tsconfig.json"), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  // An example declares what it does not go on to use.
  const relaxed = { noUnusedLocals: false, noUnusedParameters: false, declaration: false };
  const program = ts.createProgram(files, { ...options, ...relaxed, rootDir, outDir: folder });
  program.emit();
  return ts.getPreEmitDiagnostics(program).map(({ file, start, messageText }) => {
    const line = file === undefined ? 0 : file.getLineAndCharacterOfPosition(start).line + 1;
    return { file: file && join(file.fileName), line, message: ts.flattenDiagnosticMessageText(messageText, "\n") };
  });
}
