import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { compressedFile, plainFile } from '#web/compressed-file.ts';
import type { PageFile } from '#web/dashboard/page-files.ts';
import { escapeHtml } from './escape-html.ts';
import {
  contentsFile,
  type ManualEntry,
  type ManualPart,
  pagesInOrder,
  parseContents,
} from './manual-contents.ts';
import { layOutPage, type PageAssets } from './page-layout.ts';
import { type RenderedPage, renderPage } from './render-page.ts';

/** Suggested pages for a wrong address. */
const suggestionsMax = 5;

/** Everything below /docs that the manual answers, by its address. */
interface MadeManual {
  readonly files: ReadonlyMap<string, PageFile>;
  readonly parts: readonly ManualPart[];
  readonly assets: PageAssets;
}

/**
 * The manual, made from the Markdown of the project on the first request of a page, and kept in memory (some megabytes less
 * than two). URLs are looked up in the made pages, never on the disk. A page that cannot be read fails the request, and the
 * next one tries again.
 */
export class Manual {
  readonly #root: string;
  readonly #version: string;
  #made: Promise<MadeManual> | undefined;

  /** `root`: of the project. */
  constructor({ root, version }: { root: string; version: string }) {
    this.#root = root;
    this.#version = version;
  }

  /** The page or file at an address such as /docs/tutorial, or undefined. */
  async find(address: string): Promise<PageFile | undefined> {
    return (await this.#manual()).files.get(address);
  }

  /** A page that says that there is nothing at this address, and what might be meant. */
  async missing(address: string): Promise<PageFile> {
    const { parts, assets } = await this.#manual();
    const near = nearTo(address, pagesInOrder(parts));
    const meant =
      near.length === 0
        ? ''
        : `<p>Did you mean one of these?</p>\n<ul>${near.map((page) => `<li><a href="${page.address}">${escapeHtml(page.name)}</a></li>`).join('')}</ul>\n`;
    const html = `<h1>There is no such page</h1>
<p>The manual has nothing at <code>${escapeHtml(address.slice(0, 200))}</code>. All its pages are in <a href="#contents">the contents</a>; the search above looks through them.</p>
${meant}<p><a href="/docs">First page of the manual</a></p>
`;
    const title = 'There is no such page';
    const page = { title, address, html, headings: [], previous: undefined, next: undefined };
    return plainFile('.html', layOutPage(page, { parts, assets, version: this.#version }));
  }

  #manual(): Promise<MadeManual> {
    this.#made ??= this.#make().catch((error: unknown) => {
      this.#made = undefined;
      throw error;
    });
    return this.#made;
  }

  async #make(): Promise<MadeManual> {
    const parts = parseContents(await this.#read(contentsFile));
    const order = pagesInOrder(parts);
    const addresses = new Map(order.map(({ file, address }) => [file, address]));
    const rendered: { entry: ManualEntry; page: RenderedPage }[] = [];
    for (const entry of order) {
      const markdown = await this.#read(entry.file);
      const place = { file: entry.file, addressOf: (file: string) => addresses.get(file) };
      rendered.push({ entry, page: renderPage(markdown, place) });
      // Requests for other things do not wait for all pages.
      await setImmediate();
    }
    const files = new Map<string, PageFile>();
    const add = async (name: string, ending: string, text: string): Promise<string> => {
      const hash = createHash('sha256').update(text).digest('base64url').slice(0, 10);
      const address = `/docs/assets/${name}-${hash}${ending}`;
      files.set(address, { ...(await compressedFile(ending, text)), immutable: true });
      return address;
    };
    const search = await add('search', '.js', await this.#read('docs/site/search.js'));
    const assets = {
      style: await add(
        'manual',
        '.css',
        `${await this.#read('dashboard/src/style/theme.css')}${await this.#read('docs/site/manual.css')}`,
      ),
      theme: await add('theme', '.js', await this.#read('dashboard/public/theme.js')),
      script: await add(
        'manual',
        '.js',
        (await this.#read('docs/site/manual.js')).replace("'./search.js'", `'${search}'`),
      ),
      icon: await add('icon', '.svg', await this.#read('dashboard/public/favicon.svg')),
      index: await add('search', '.json', searchIndex(rendered)),
    };
    for (const [at, { entry, page }] of rendered.entries()) {
      const laidOut = {
        ...page,
        address: entry.address,
        previous: order[at - 1],
        next: order[at + 1],
      };
      const html = layOutPage(laidOut, { parts, assets, version: this.#version });
      files.set(entry.address, await compressedFile('.html', html));
    }
    return { files, parts, assets };
  }

  #read(file: string): Promise<string> {
    return readFile(join(this.#root, file), 'utf8');
  }
}

/** Pages whose address or name has the words of the last part of an address, those with most of them first. */
function nearTo(address: string, pages: readonly ManualEntry[]): readonly ManualEntry[] {
  const last = address.toLowerCase().split('/').at(-1) ?? '';
  const words = last.split(/[^a-z0-9]+/).filter((word) => word.length > 2);
  return pages
    .map((page) => {
      const text = `${page.address.split('/').at(-1)} ${page.name}`.toLowerCase();
      return { page, count: words.filter((word) => text.includes(word.replace(/s$/, ''))).length };
    })
    .filter(({ count }) => count > 0)
    .sort((a, b) => b.count - a.count)
    .slice(0, suggestionsMax)
    .map(({ page }) => page);
}

/** `[[address, name of the page, [[anchor, heading, text], …]], …]`, as docs/site/search.js reads it. */
function searchIndex(rendered: readonly { entry: ManualEntry; page: RenderedPage }[]): string {
  return JSON.stringify(
    rendered.map(({ entry, page }) => [
      entry.address,
      page.title,
      page.sections.map(({ id, heading, text }) => [id, heading, text]),
    ]),
  );
}
