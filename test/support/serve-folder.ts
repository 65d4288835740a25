import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, normalize } from 'node:path';

export interface FolderServer {
  /** `http://127.0.0.1:<port>`, without a slash at the end. */
  readonly url: string;
  close(): Promise<void>;
}

/** Files of a folder over HTTP, as a checkout's web view gives them. */
export async function serveFolder(folder: string): Promise<FolderServer> {
  const server = createServer(async (request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url ?? '/', 'http://x').pathname));
    const content = await readFile(join(folder, path)).catch(() => undefined);
    response.writeHead(content === undefined ? 404 : 200, { 'content-type': 'text/plain' }).end(content);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
