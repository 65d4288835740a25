import { readFile, stat } from 'node:fs/promises';
import { isIP } from 'node:net';

/** What the files of the machine say about names. */
export interface ResolverFiles {
  /** Addresses by name in lower case, as /etc/hosts lists them. */
  hosts: ReadonlyMap<string, readonly string[]>;
  /** Domains that are tried behind a name. */
  search: readonly string[];
  /** A name with fewer dots is tried with the domains first. */
  ndots: number;
  /** Changes with the files. */
  version: string;
}

const searchMax = 6;

export function parseHosts(text: string): Map<string, string[]> {
  const hosts = new Map<string, string[]>();
  for (const line of text.split('\n')) {
    const [address = '', ...names] = (line.split('#', 1)[0] ?? '').trim().split(/\s+/);
    if (isIP(address) === 0) continue;
    for (const name of names) {
      const key = name.toLowerCase();
      hosts.set(key, [...(hosts.get(key) ?? []), address]);
    }
  }
  return hosts;
}

/** https://man7.org/linux/man-pages/man5/resolv.conf.5.html: of `search` and `domain` the last one counts. */
export function parseResolvConf(text: string): { search: string[]; ndots: number } {
  let search: string[] = [];
  let ndots = 1;
  for (const line of text.split('\n')) {
    const [keyword, ...values] = line.trim().split(/\s+/);
    if (keyword === 'search' || keyword === 'domain') {
      search = values.map((domain) => domain.replace(/\.$/, '')).filter((domain) => domain !== '');
    }
    if (keyword !== 'options') continue;
    for (const value of values) {
      const given = /^ndots:(\d+)$/.exec(value)?.[1];
      if (given !== undefined) ndots = Math.min(Number(given), 15);
    }
  }
  return { search: search.slice(0, searchMax), ndots };
}

/** Reads them again only when they have changed; a file that is not there says nothing. */
export function resolverFiles(paths: { hosts: string; resolvConf: string }): () => Promise<ResolverFiles> {
  let known: ResolverFiles | undefined;
  return async () => {
    const version = (await Promise.all([modified(paths.hosts), modified(paths.resolvConf)])).join(' ');
    if (known?.version !== version) {
      const [hosts, resolvConf] = await Promise.all([textOf(paths.hosts), textOf(paths.resolvConf)]);
      known = { hosts: parseHosts(hosts), ...parseResolvConf(resolvConf), version };
    }
    return known;
  };
}

async function modified(path: string): Promise<string> {
  const found = await stat(path).catch(() => undefined);
  return found === undefined ? '-' : `${found.mtimeMs}/${found.size}`;
}

async function textOf(path: string): Promise<string> {
  return readFile(path, 'utf8').catch(() => '');
}
