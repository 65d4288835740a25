import { readFile, realpath } from 'node:fs/promises';
import { posix, relative, resolve, sep } from 'node:path';
import { EgressError } from '#egress/egress-error.ts';
import { CallerError } from '#lib/errors.ts';
import { bytesText } from '#lib/units.ts';
import type { OwnFile } from './builder/build-messages.ts';
import { contentOf, type FileContent } from './builder/text-of.ts';
import { candidatePaths, isRepositoryUrl, rawFileUrl } from './component-url.ts';

/** The guarded way out: resolves, vets and dials; follows redirects and bounds the body. `url` is where it ended. */
export type FetchText = (
  url: string,
  options: { signal: AbortSignal },
) => Promise<{ status: number; body: Buffer; url: string }>;

export interface OwnFileLimits {
  filesMax: number;
  bytesMax: number;
  /** Asking for files that are not there counts too. */
  requestsMax: number;
}

/** What a component is made of apart from npm packages, found file by file while it is bundled. */
export interface OwnFiles {
  entry(): Promise<OwnFile>;
  /** The file behind an import, or null; `CallerError` when it may not be imported. */
  lookUp(importer: string, specifier: string): Promise<OwnFile | null>;
  /** The dependencies that the nearest package.json above the entry declares. */
  declaredDependencies(): Promise<Record<string, string>>;
  /** Every file that was handed out, the entry first. */
  used(): OwnFile[];
}

/** Folders above the entry in which a package.json is looked for. */
const packageLevels = 4;

interface Reader {
  /** The file at an address, also under another one when it moved; null when there is none. */
  read(address: string): Promise<OwnFile | null>;
  addressOf(importer: string, specifier: string): string;
  entryAddress: string;
}

class TreeFiles implements OwnFiles {
  readonly #reader: Reader;
  readonly #limits: OwnFileLimits;
  readonly #reads = new Map<string, Promise<OwnFile | null>>();
  readonly #used = new Map<string, OwnFile>();
  #bytes = 0;

  constructor(reader: Reader, limits: OwnFileLimits, inline?: OwnFile) {
    this.#reader = reader;
    this.#limits = limits;
    if (inline !== undefined) this.#used.set(inline.path, inline);
  }

  async entry(): Promise<OwnFile> {
    const [inline] = this.#used.values();
    if (inline !== undefined) return inline;
    const file = await this.#read(this.#reader.entryAddress);
    if (file === null) {
      throw new CallerError(
        'component_url_unreachable',
        `there is no component at ${this.#reader.entryAddress}`,
        {
          url: this.#reader.entryAddress,
        },
      );
    }
    if (file.encoding !== undefined) {
      const message = `what is at ${this.#reader.entryAddress} is not text: expected one file of code; archives cannot be unpacked`;
      throw new CallerError('invalid_component_code', message, { url: this.#reader.entryAddress });
    }
    return this.#use(file);
  }

  async lookUp(importer: string, specifier: string): Promise<OwnFile | null> {
    const address = this.#reader.addressOf(importer, specifier);
    for (const candidate of candidatePaths(address, importer)) {
      const file = await this.#read(candidate);
      if (file !== null) return this.#use(file);
    }
    return null;
  }

  async declaredDependencies(): Promise<Record<string, string>> {
    const [entry] = this.#used.values();
    if (entry === undefined) return {};
    const addresses = Array.from({ length: packageLevels }, (_, level) => {
      try {
        return this.#reader.addressOf(entry.path, `./${'../'.repeat(level)}package.json`);
      } catch {
        return null;
      }
    });
    for (const address of new Set(addresses)) {
      const file = address === null ? null : await this.#read(address);
      const dependencies = file === null ? null : dependenciesOf(file.text);
      if (dependencies !== null) return dependencies;
    }
    return {};
  }

  used(): OwnFile[] {
    return [...this.#used.values()];
  }

  #use(file: OwnFile): OwnFile {
    this.#used.set(file.path, file);
    return file;
  }

  #read(address: string): Promise<OwnFile | null> {
    let read = this.#reads.get(address);
    if (read === undefined) {
      if (this.#reads.size >= this.#limits.requestsMax)
        throw tooLarge(`${this.#limits.requestsMax} attempts to find its files`);
      read = this.#reader.read(address).then((file) => {
        if (file === null || this.#used.has(file.path)) return file;
        this.#bytes += Buffer.byteLength(file.text);
        if (this.#bytes > this.#limits.bytesMax) throw tooLarge(bytesText(this.#limits.bytesMax));
        if (this.#used.size >= this.#limits.filesMax) throw tooLarge(`${this.#limits.filesMax} files`);
        return file;
      });
      this.#reads.set(address, read);
    }
    return read;
  }
}

export interface FetchOptions {
  fetchText: FetchText;
  limits: OwnFileLimits;
  signal: AbortSignal;
}

/** Code from a request: it has no place, so it imports packages and repository pages only. */
export function inlineFiles(
  code: string,
  language: 'js' | 'ts' | undefined,
  options: FetchOptions,
): OwnFiles {
  const entry: OwnFile = { path: 'component_code', text: code, loader: language ?? 'either' };
  return new TreeFiles(urlReader('', options), options.limits, entry);
}

export function fetchedFiles(url: string, options: FetchOptions): OwnFiles {
  return new TreeFiles(urlReader(rawFileUrl(url), options), options.limits);
}

/** Trusted files on this machine: the registry's own. Nothing outside `root` is read, links included. */
export function localFiles(path: string, root: string, limits: OwnFileLimits): OwnFiles {
  return new TreeFiles(localReader(path, root), limits);
}

/** What a file of a package holds, or null; paths are relative to it. */
export type ReadStored = (path: string) => Promise<FileContent | null>;

export function storedFiles(path: string, read: ReadStored, limits: OwnFileLimits): OwnFiles {
  return new TreeFiles(
    {
      entryAddress: path,
      addressOf: addressInTree,
      read: async (address) => {
        const content = await read(address);
        return content === null ? null : { path: address, ...content };
      },
    },
    limits,
  );
}

/** The address of an import in a tree of files that has a root. */
function addressInTree(importer: string, specifier: string): string {
  if (/^https?:/i.test(specifier)) throw unsupportedUrl(specifier);
  const address = posix.normalize(posix.join(posix.dirname(importer), specifier));
  if (address === '..' || address.startsWith('../')) throw leavesRoot(specifier);
  return address;
}

function urlReader(entryAddress: string, options: FetchOptions): Reader {
  return {
    entryAddress,
    addressOf: (importer, specifier) => {
      if (/^https?:/i.test(specifier)) {
        const isSameOrigin = URL.canParse(importer) && new URL(importer).origin === new URL(specifier).origin;
        if (!isSameOrigin && !isRepositoryUrl(specifier)) throw unsupportedUrl(specifier);
        return rawFileUrl(specifier);
      }
      if (!URL.canParse(importer)) {
        throw new CallerError(
          'unsupported_specifier',
          `the import ${JSON.stringify(specifier.slice(0, 200))} is relative, and code in a request has no files beside it: put the content of that file into the code, or give a component_url`,
          { specifier: specifier.slice(0, 500) },
        );
      }
      return new URL(specifier, importer).href;
    },
    read: async (address) => {
      const isEntry = address === entryAddress;
      const { status, body, url } = await fetchFile(address, options);
      if (status === 404 || status === 410) {
        if (!isEntry) return null;
        throw unreachable(address, `answered ${status}`);
      }
      if (status < 200 || status > 299) throw unreachable(address, `answered ${status}`);
      const isPage = /^\s*<(?:!doctype|html|\?xml)/i.test(body.toString('utf8'));
      // Servers that answer every path with their page: the file is not there. A path that says so is one.
      if (isPage && !isEntry && !/\.(?:html?|xml|svg)$/i.test(new URL(address).pathname)) return null;
      if (isPage && isEntry) throw unreachable(address, 'answered with a web page, not with code');
      return fileOf(url, body);
    },
  };
}

async function fetchFile(address: string, options: FetchOptions): ReturnType<FetchText> {
  try {
    return await options.fetchText(address, { signal: options.signal });
  } catch (error) {
    if (options.signal.aborted || error instanceof CallerError) throw error;
    const { code } = error as { code?: unknown };
    // What was found behind a name is no business of the caller; what the answer was is.
    const isOfAnswer = error instanceof EgressError && error.code.startsWith('ERR_');
    const why = isOfAnswer ? `failed (${error.code}): ${error.message}` : `failed (${code})`;
    throw unreachable(address, typeof code === 'string' ? why : 'failed', error);
  }
}

function localReader(path: string, root: string): Reader {
  const entryAddress = relative(root, resolve(root, path)).split(sep).join('/');
  return {
    entryAddress,
    addressOf: addressInTree,
    read: async (address) => {
      const [real, realRoot] = await Promise.all([
        realpath(resolve(root, address)).catch(() => null),
        realpath(root),
      ]);
      if (real === null) return null;
      if (!real.startsWith(realRoot + sep)) throw leavesRoot(address);
      const bytes = await readFile(real).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'EISDIR' || error.code === 'ENOENT') return null;
        throw error;
      });
      return bytes === null ? null : fileOf(address, bytes);
    },
  };
}

/** Code is text, whatever its encoding. */
function fileOf(path: string, bytes: Buffer): OwnFile {
  const isCode = /\.(?:[mc]?[jt]s|json)$/.test(path.replace(/[?#].*$/s, ''));
  return { path, ...(isCode ? { text: bytes.toString('utf8') } : contentOf(bytes)) };
}

function dependenciesOf(text: string): Record<string, string> | null {
  try {
    const { dependencies } = JSON.parse(text) as { dependencies?: unknown };
    if (typeof dependencies !== 'object' || dependencies === null) return {};
    return Object.fromEntries(
      Object.entries(dependencies).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
    );
  } catch {
    return null;
  }
}

function unreachable(address: string, what: string, cause?: unknown): CallerError {
  return new CallerError(
    'component_url_unreachable',
    `the request to ${address} ${what}`,
    { url: address },
    { cause },
  );
}

function unsupportedUrl(specifier: string): CallerError {
  return new CallerError(
    'unsupported_specifier',
    `the import ${JSON.stringify(specifier.slice(0, 200))} is not supported: URLs of other servers cannot be imported`,
    { specifier: specifier.slice(0, 500) },
  );
}

function leavesRoot(specifier: string): CallerError {
  return new CallerError(
    'unsupported_specifier',
    `the import ${JSON.stringify(specifier)} leaves the folder of components`,
    {
      specifier,
    },
  );
}

function tooLarge(what: string): CallerError {
  return new CallerError('component_too_large', `the component needs more than ${what}`, {});
}
