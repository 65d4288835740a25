import { posix } from 'node:path';

/** A page as the table of contents has it. */
export interface ManualEntry {
  /** From the root of the project, such as `docs/guides/webhooks.md`. */
  readonly file: string;
  /** Such as `/docs/guides/webhooks`. */
  readonly address: string;
  readonly name: string;
  /** Pages below it, shown while one of them is read. */
  readonly pages: readonly ManualEntry[];
}

export interface ManualPart {
  readonly name: string;
  readonly pages: readonly ManualEntry[];
}

/** The first page, which is also the table of contents. */
export const contentsFile = 'docs/index.md';

/** New addresses of pages that have moved, so that bookmarks and links from elsewhere keep working. */
export const movedPages: ReadonlyMap<string, string> = new Map([['/docs/behaviour', '/docs/how-it-works']]);

/**
 * The parts of the manual, read from its first page: each heading of depth 2 is a part, each item of the lists below it a page, by
 * its first link; items below an item are pages below a page. So the order is kept in one place, which readers see too.
 */
export function parseContents(markdown: string): readonly ManualPart[] {
  const parts: { name: string; pages: MutableEntry[] }[] = [];
  for (const line of markdown.split('\n')) {
    const part = /^## (.+)$/.exec(line)?.[1];
    if (part !== undefined) parts.push({ name: part, pages: [] });
    const [, indent = '', name = '', link = ''] = /^( *)- \[([^\]]+)\]\(([^)#\s]+\.md)\)/.exec(line) ?? [];
    const pages = parts.at(-1)?.pages;
    if (name === '' || pages === undefined) continue;
    const file = posix.join(posix.dirname(contentsFile), link);
    const entry = { file, address: addressOfFile(file), name, pages: [] };
    (indent === '' ? pages : (pages.at(-1)?.pages ?? pages)).push(entry);
  }
  return parts.filter(({ pages }) => pages.length > 0);
}

interface MutableEntry extends ManualEntry {
  readonly pages: MutableEntry[];
}

/** Every page in the order in which it is read, the first page first. */
export function pagesInOrder(parts: readonly ManualPart[]): readonly ManualEntry[] {
  const first = { file: contentsFile, address: '/docs', name: 'Manual', pages: [] };
  return [first, ...parts.flatMap(({ pages }) => pages.flatMap((page) => [page, ...page.pages]))];
}

/** `docs/a/b.md` is /docs/a/b; a page from elsewhere in the project has its name alone, in lower case. */
function addressOfFile(file: string): string {
  const path = file.replace(/\.md$/, '');
  return path.startsWith('docs/') ? `/${path}` : `/docs/${path.toLowerCase()}`;
}
