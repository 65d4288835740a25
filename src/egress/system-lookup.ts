import { lookup as threadedLookup } from 'node:dns/promises';
import { FairQueue } from '#lib/fair-queue.ts';
import { isAnswer, NameServers } from './name-servers.ts';
import { type ResolverFiles, resolverFiles } from './resolver-files.ts';

/**
 * All addresses of a name, in the order to try them. Rejects with an error that has a `code`, as `dns.lookup` does.
 * Look-ups of one `asker` wait for each other where they have to; those of others do not.
 */
export type LookupAll = (hostname: string, asker?: object) => Promise<readonly { address: string }[]>;

/** A name with all its search domains. */
const lookupMaxMs = 8_000;
/** The system's resolver has two threads for the whole process (libuv), and no way to stop. */
const threads = 2;

export interface SystemLookupOptions {
  /** For tests: name servers as `address:port` instead of those of the machine, and other files. */
  servers?: readonly string[];
  files?: { hosts: string; resolvConf: string };
  /** For tests: the resolver of the system. */
  threaded?: (hostname: string) => Promise<{ address: string }[]>;
  lookupMaxMs?: number;
}

/**
 * Looks names up as the machine does: by its hosts file, its search domains and its name servers. On Linux this does not use the system's
 * resolver: that has two threads for the whole process, and the owner of a name server that does not answer could hold
 * both, and with them the look-ups of all other users. Names that only the system's resolver can know (a name without a dot, mDNS,
 * a machine without name servers, another operating system) are passed to it, one name per caller at a time and in turns.
 * Rejects with EAI_AGAIN when no answer came in time, ENOTFOUND when there is no such name.
 */
export function systemLookup(options: SystemLookupOptions = {}): LookupAll {
  const queue = new FairQueue(threads);
  const readFiles = resolverFiles(options.files ?? { hosts: '/etc/hosts', resolvConf: '/etc/resolv.conf' });
  const threaded = options.threaded ?? ((hostname: string) => threadedLookup(hostname, { all: true }));
  const limitMs = options.lookupMaxMs ?? lookupMaxMs;
  let nameServers = new NameServers(options.servers);
  let filesVersion = '';

  return (hostname, asker = {}) =>
    inTime(limitMs, hostname, async (isOver) => {
      const inTurn = () =>
        queue.run(asker, async () => {
          // The caller gave up long ago, so the look-up gets no thread.
          if (isOver()) throw failure('EAI_AGAIN', hostname);
          return threaded(hostname);
        });
      if (process.platform !== 'linux' && options.servers === undefined) return inTurn();
      const files = await readFiles();
      if (filesVersion !== files.version) {
        filesVersion = files.version;
        nameServers = new NameServers(options.servers);
      }
      const name = hostname.toLowerCase();
      const listed = files.hosts.get(name.replace(/\.$/, ''));
      if (listed !== undefined) return listed.map((address) => ({ address }));
      const found = await askServers(nameServers, candidates(name, files));
      if (found.addresses.length > 0) return found.addresses.map((address) => ({ address }));
      if (found.problem === 'no_server' || isForSystemOnly(name)) return inTurn();
      throw failure(found.problem === 'no_answer' ? 'EAI_AGAIN' : 'ENOTFOUND', hostname);
    });
}

/** The names to ask for, in the order of resolv.conf(5). */
export function candidates(name: string, files: Pick<ResolverFiles, 'search' | 'ndots'>): string[] {
  if (name.endsWith('.')) return [name.slice(0, -1)];
  const withDomains = files.search.map((domain) => `${name}.${domain}`);
  const dots = name.split('.').length - 1;
  return dots >= files.ndots ? [name, ...withDomains] : [...withDomains, name];
}

/** NetBIOS, mDNS and modules of the name service switch: no outsider decides how long these take. */
function isForSystemOnly(name: string): boolean {
  const bare = name.replace(/\.$/, '');
  return !bare.includes('.') || bare.endsWith('.local');
}

type Problem = 'not_found' | 'no_answer' | 'no_server';

async function askServers(
  nameServers: NameServers,
  names: readonly string[],
): Promise<{ addresses: string[]; problem: Problem }> {
  let problem: Problem = 'not_found';
  for (const name of names) {
    const answers = await nameServers.addressesOf(name);
    const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    if (addresses.length > 0) return { addresses, problem };
    for (const answer of answers) {
      if (answer.status === 'rejected') problem = worse(problem, problemOf(answer.reason));
    }
    if (problem === 'no_server') break;
  }
  return { addresses: [], problem };
}

function problemOf(error: unknown): Problem {
  const code = (error as { code?: unknown }).code;
  if (code === 'ECONNREFUSED') return 'no_server';
  return isAnswer(error) ? 'not_found' : 'no_answer';
}

function worse(one: Problem, other: Problem): Problem {
  const order: Problem[] = ['not_found', 'no_answer', 'no_server'];
  return order.indexOf(one) > order.indexOf(other) ? one : other;
}

function failure(code: string, hostname: string): Error {
  const why = code === 'EAI_AGAIN' ? ': no name server answered in time' : '';
  return Object.assign(new Error(`getaddrinfo ${code} ${hostname}${why}`), { code });
}

async function inTime<T>(
  limitMs: number,
  hostname: string,
  work: (isOver: () => boolean) => Promise<T>,
): Promise<T> {
  let over = false;
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    over = true;
    late.reject(failure('EAI_AGAIN', hostname));
  }, limitMs);
  try {
    return await Promise.race([work(() => over), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
