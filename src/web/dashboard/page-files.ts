import { readdir, readFile } from 'node:fs/promises';
import { extname, join, relative, sep } from 'node:path';

export type Encoding = 'br' | 'gzip';

export interface PageFile {
  contentType: string;
  /** Its name has a hash of its content: it never changes. */
  immutable: boolean;
  plain: Buffer;
  /** Compressed once, when the pages were built. */
  encoded: Readonly<Partial<Record<Encoding, Buffer>>>;
}

const contentTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.json': 'application/json; charset=utf-8',
};

const endings: readonly [string, Encoding][] = [
  ['.br', 'br'],
  ['.gz', 'gzip'],
];

/**
 * The files of a built dashboard by their path, such as `/assets/app-1a2b.js`. All of them in memory: they are less than
 * two megabytes, and a path that a request names is looked up in this map and nowhere else.
 */
export async function loadPageFiles(folder: string): Promise<ReadonlyMap<string, PageFile>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const contents = new Map<string, Buffer>();
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    contents.set(`/${relative(folder, path).split(sep).join('/')}`, await readFile(path));
  }
  const files = new Map<string, PageFile>();
  for (const [path, plain] of contents) {
    const contentType = contentTypes[extname(path)];
    if (contentType === undefined) continue;
    const encoded: Partial<Record<Encoding, Buffer>> = {};
    for (const [ending, encoding] of endings) {
      const content = contents.get(path + ending);
      if (content !== undefined) encoded[encoding] = content;
    }
    files.set(path, { contentType, immutable: path.startsWith('/assets/'), plain, encoded });
  }
  return files;
}
