// A static server of the repository, with and without the headers that isolate a page.

import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".mjs": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".wasm": "application/wasm",
};

const ISOLATED = {
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
};

const PAGE = `<!doctype html>
<meta charset="utf-8">
<link rel="icon" href="data:,">
<title>Lanthorn</title>
<script type="importmap">{ "imports": { "lanthorn": "/js/lanthorn/dist/web.js" } }</script>
`;

/**
 * Serves files under `/`, an empty page at `/page`, files as `replace` gives them by path (null: not there), and other
 * folders as `folders` gives them by the beginnings of paths. Gives the address and a way to stop.
 */
export async function serve({ isolated, replace = {}, folders = {} }) {
  const server = createServer(async (request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    const headers = { "Cache-Control": "no-store", ...(isolated ? ISOLATED : {}) };
    const send = (status, type, body) => response.writeHead(status, { ...headers, "Content-Type": type }).end(body);
    if (path === "/page") return send(200, TYPES[".html"], PAGE);
    if (path in replace) {
      const body = replace[path];
      return body === null ? send(404, "text/plain", "") : send(200, TYPES[extname(path)], body);
    }
    const [prefix, folder] = Object.entries({ ...folders, "/": ROOT }).find(([prefix]) => path.startsWith(prefix));
    const file = join(folder ?? ROOT, normalize(`/${path.slice(prefix.length)}`));
    const found = (await stat(file).catch(() => undefined))?.isFile();
    if (!found) return send(404, "text/plain", `there is no ${path}`);
    response.writeHead(200, { ...headers, "Content-Type": TYPES[extname(file)] ?? "application/octet-stream" });
    createReadStream(file).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    address: `http://127.0.0.1:${server.address().port}`,
    close: () => new Promise((resolve) => server.close(resolve) && server.closeAllConnections()),
  };
}
