import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startPostgres } from '../test/support/postgres-server.ts';
import { startPlainServer } from './baselines.ts';
import { failuresOf, type LoadResult, runLoad } from './support/load.ts';
import { treeUsage } from './support/process-tree.ts';
import { type Service, startService } from './support/service.ts';

/**
 * What connected accounts cost. Each round measures plain node:http first, then Millrace.
 *
 * - `metadata`, `credentials`: GET /v1/accounts/{id}. With credentials each read is recorded on disk before its answer.
 * - `source`, `source-with-account`: a source that answers requests, without and with an account in its props.
 * - `refresh`: accounts whose tokens live for a second, refreshed by the service itself as fast as it can, while the API
 *   is asked for a page of accounts.
 */
const { values: options } = parseArgs({
  options: {
    connections: { type: 'string', default: '16' },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '3' },
    /** Accounts in the refresh case. */
    accounts: { type: 'string', default: '500' },
    /** sqlite, or postgres: a server started for this run, on the same machine. */
    store: { type: 'string', default: 'sqlite' },
  },
});
const seconds = Number(options.seconds);
const rounds = Number(options.rounds);
const connections = Number(options.connections);
const refreshSeconds = 10;

interface Row {
  case: string;
  'per s': number;
  'plain per s': number;
  ratio: string;
  'p50 ms': string;
  'p99 ms': string;
  'CPU µs/req': number;
  notes: string;
}

const postgres = options.store === 'postgres' ? await startPostgres() : undefined;
const plain = await startPlainServer();
const provider = await startProvider();
try {
  const service = await startService({
    MILLRACE_EGRESS: 'public,local',
    MILLRACE_ACCOUNT_CHECK_HOURS: '0',
    ...(postgres && { MILLRACE_DATABASE_URL: postgres.url }),
  });
  try {
    const account = await service.api('POST', '/accounts', {
      app: 'openai',
      credentials: { api_key: 'sk-0123456789' },
    });
    const id = idOf(account);
    const rows: Row[] = [];
    const headers = authorization(service);
    const url = `${service.url}/v1/accounts/${id}`;
    rows.push(await measure('metadata', service, { url, headers, method: 'GET' }));
    rows.push(
      await measure('credentials', service, { url: `${url}?include_credentials=1`, headers, method: 'GET' }),
    );
    for (const [name, account] of [
      ['source', undefined],
      ['source-with-account', id],
    ] as const) {
      const source = await createSource(service, name, account);
      rows.push(await measure(name, service, { url: source, body: '{"number":1}' }));
    }
    console.table(rows);
    await measureRefreshes(service);
  } finally {
    await service.stop();
  }
} finally {
  provider.close();
  await plain.close();
  await postgres?.stop();
}

type Load = Omit<Parameters<typeof runLoad>[0], 'connections' | 'seconds'>;

async function measure(name: string, service: Service, load: Load): Promise<Row> {
  await runLoad({ ...load, connections, seconds: 1 });
  const measured: LoadResult[] = [];
  const plains: LoadResult[] = [];
  let cpuUs = 0;
  for (let round = 0; round < rounds; round += 1) {
    plains.push(await runLoad({ url: plain.url, connections, seconds, body: '{}' }));
    const before = treeUsage(service.pid).cpuUs;
    measured.push(await runLoad({ ...load, connections, seconds }));
    cpuUs += treeUsage(service.pid).cpuUs - before;
  }
  const middle = (results: LoadResult[]) => {
    const found = results.toSorted((a, b) => a.perSecond - b.perSecond)[Math.floor(results.length / 2)];
    if (found === undefined) throw new Error('at least one round is needed');
    return found;
  };
  const [ours, theirs] = [middle(measured), middle(plains)];
  const requests = measured.reduce((sum, result) => sum + result.requests, 0);
  return {
    case: name,
    'per s': Math.round(ours.perSecond),
    'plain per s': Math.round(theirs.perSecond),
    ratio: (ours.perSecond / theirs.perSecond).toFixed(3),
    'p50 ms': ours.p50Ms.toFixed(2),
    'p99 ms': ours.p99Ms.toFixed(1),
    'CPU µs/req': Math.round(cpuUs / Math.max(1, requests)),
    notes: measured.map(failuresOf).join(' ').trim(),
  };
}

async function createSource(service: Service, name: string, accountId: string | undefined): Promise<string> {
  const answer = (await service.api('POST', '/sources/', {
    name,
    component_code: `export default {
      name: 'bench', version: '0.0.1',
      props: { http: { type: '$.interface.http', customResponse: true }, openai: { type: 'app', app: 'openai' } },
      async run(event) { this.http.respond({ status: 200, body: { ok: true } }); this.$emit(event.body); },
    };`.replace(accountId === undefined ? ", openai: { type: 'app', app: 'openai' }" : '~', ''),
    ...(accountId !== undefined && { configured_props: { openai: { authProvisionId: accountId } } }),
  })) as { data: { configured_props: { http: { endpoint_url: string } } } };
  return answer.data.configured_props.http.endpoint_url;
}

async function measureRefreshes(service: Service): Promise<void> {
  await service.api('POST', '/apps', {
    slug: 'bench_hub',
    name: 'Bench Hub',
    description: 'The provider of this benchmark',
    auth_type: 'oauth',
    oauth: {
      version: 2,
      grant: 'client_credentials',
      token_url: `${provider.url}/token`,
      client_auth: 'post',
      scopes: ['api'],
      registration: { url: 'https://bench.example', text: 'None is needed.' },
    },
  });
  await service.api('PUT', '/apps/bench_hub/oauth_client', {
    client_id: 'bench',
    client_secret: 'bench-secret-1',
  });
  const count = Number(options.accounts);
  for (let made = 0; made < count; made += 10) {
    const some = Array.from({ length: Math.min(10, count - made) }, () =>
      service.api('POST', '/accounts', { app: 'bench_hub' }),
    );
    await Promise.all(some);
  }
  const before = treeUsage(service.pid);
  const given = provider.given();
  const asked = runLoad({
    ...{ url: `${service.url}/v1/accounts?limit=10`, headers: authorization(service), method: 'GET' },
    ...{ connections: 1, seconds: refreshSeconds, perSecond: 100 },
  });
  await delay(refreshSeconds * 1000);
  const refreshes = provider.given() - given;
  const after = treeUsage(service.pid);
  const { p50Ms, p99Ms } = await asked;
  console.log(
    `refresh: ${count} accounts of one owner and app, tokens of 1 s: ${Math.round(refreshes / refreshSeconds)} refreshes/s, ` +
      `${Math.round((after.cpuUs - before.cpuUs) / Math.max(1, refreshes))} µs CPU each (API requests included), ` +
      `RSS ${Math.round(before.rootRssMb)} to ${Math.round(after.rootRssMb)} MB; ` +
      `meanwhile a list of accounts, 100/s: p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms`,
  );
}

/** Gives a token of one second to every caller. */
async function startProvider() {
  let given = 0;
  const server = createServer((request, response) => {
    request.resume();
    request.on('end', () => {
      given += 1;
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(
        JSON.stringify({ access_token: `token-number-${given}`, token_type: 'Bearer', expires_in: 1 }),
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    given: () => given,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

function authorization({ apiKey }: Service): Record<string, string> {
  return { authorization: `Bearer ${apiKey}` };
}

function idOf(answer: unknown): string {
  return (answer as { data: { id: string } }).data.id;
}
