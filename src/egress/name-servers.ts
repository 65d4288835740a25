import { Resolver } from 'node:dns/promises';

/** One question to one name server, and how often each server is asked. */
const questionMs = 2_000;
const tries = 2;
/** Once a name has addresses of one family, those of the other may take so much longer. */
const otherFamilyMs = 500;

/** What one name server answers for itself; another one may know better. */
const unableCodes: ReadonlySet<unknown> = new Set(['ESERVFAIL', 'EREFUSED', 'ENOTIMP']);

type Family = 'resolve4' | 'resolve6';

/** The name servers of the machine, or those given as `address:port`. */
export class NameServers {
  readonly #all: Resolver;

  constructor(servers: readonly string[] | undefined) {
    this.#all = new Resolver({ timeout: questionMs, tries });
    if (servers !== undefined) this.#all.setServers(servers);
  }

  /**
   * IPv4 and IPv6 addresses of a name. Waits for both, but not long for one when the other is there: some servers never
   * answer for a family they do not know.
   */
  async addressesOf(name: string): Promise<PromiseSettledResult<string[]>[]> {
    const tooLate = Promise.withResolvers<never>();
    tooLate.promise.catch(() => {});
    let timer: NodeJS.Timeout | undefined;
    const answers = (['resolve4', 'resolve6'] as const).map(async (family) => {
      const addresses = await this.#ask(family, name);
      timer ??= setTimeout(() => tooLate.reject(new Error('the other family was faster')), otherFamilyMs);
      return addresses;
    });
    const settled = await Promise.allSettled(
      answers.map((answer) => Promise.race([answer, tooLate.promise])),
    );
    clearTimeout(timer);
    return settled;
  }

  /** Node's resolver tries the next server after silence only, not after an answer such as SERVFAIL. */
  async #ask(family: Family, name: string): Promise<string[]> {
    try {
      return await this.#all[family](name);
    } catch (error) {
      const [first, ...others] = this.#all.getServers();
      if (first === undefined || others.length === 0 || !isUnable(error)) throw error;
      // The first one last: it may have been silent, and another one unable.
      return this.#askEach(family, name, [...others, first], error);
    }
  }

  async #askEach(
    family: Family,
    name: string,
    servers: readonly string[],
    firstError: unknown,
  ): Promise<string[]> {
    for (const server of servers) {
      const resolver = new Resolver({ timeout: questionMs, tries: 1 });
      resolver.setServers([server]);
      try {
        return await resolver[family](name);
      } catch (error) {
        if (isAnswer(error)) throw error;
      }
    }
    throw firstError;
  }
}

function isUnable(error: unknown): boolean {
  return unableCodes.has((error as { code?: unknown }).code);
}

/** True when the error is a definite answer about the name, so that another server would say the same. */
export function isAnswer(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return code === 'ENOTFOUND' || code === 'ENODATA' || code === 'EBADNAME' || code === 'EBADQUERY';
}
