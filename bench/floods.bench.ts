/**
 * What users of a service notice of another owner whose code sends megabytes, or starts hundreds of runs with each event: the other owner has
 * one warm source that answers requests, and deploys a new source now and then. Each flood is alone; the first row is the baseline.
 *
 * Run: npm run bench -- floods [--cases events,values,replies,streams,fan-out,mails] [--seconds 10] [--level kernel]
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { deployAnswering, makeWorkspace, quantile } from './support/answering-source.ts';
import { GreedyClient, type GreedyLoad } from './support/greedy-client.ts';
import { MailSenders } from './support/mail-senders.ts';
import { after, type Neighbour, rowOf, watchNeighbour } from './support/neighbour.ts';
import { treeUsage } from './support/process-tree.ts';
import { freePort, type Service, startService } from './support/service.ts';

const { values: options } = parseArgs({
  options: {
    cases: { type: 'string', default: 'events,values,replies,streams,fan-out,mails' },
    seconds: { type: 'string', default: '10' },
    level: { type: 'string', default: 'kernel' },
    /** Readers that read nothing, in the case `streams`. */
    readers: { type: 'string', default: '390' },
    /** Workflows that each event starts, in the case `fan-out`. */
    workflows: { type: 'string', default: '100' },
  },
});
const seconds = Number(options.seconds);
const settleMs = 2_000;
const smtpPort = await freePort();

interface Greedy {
  id: string;
  url: string;
}

/** A source of the greedy owner that has a data store and does this for each request. */
async function deployGreedy(service: Service, orgId: string, name: string, body: string): Promise<Greedy> {
  const code = `export default { name: '${name}', version: '0.0.1', concurrency: 50,
    props: { http: { type: '$.interface.http', customResponse: true }, ds: { type: 'data_store' } },
    async run(event) { ${body} } };`;
  const store = (await service.api('POST', '/data_stores', { name, org_id: orgId })) as {
    data: { id: string };
  };
  const { data } = (await service.api('POST', '/sources/', {
    ...{ name, org_id: orgId, component_code: code },
    configured_props: { ds: store.data.id },
  })) as { data: { id: string; configured_props: { http: { endpoint_url: string } } } };
  return { id: data.id, url: data.configured_props.http.endpoint_url };
}

const answer = "this.http.respond({ status: 200, body: 'ok' });";

/** Each returns the requests that are kept under way, and what ends the flood. */
const floods: Record<
  string,
  (
    service: Service,
    orgId: string,
  ) => Promise<{ callers: number; url: string; stop?: () => Promise<unknown> }>
> = {
  events: async (service, orgId) => {
    const body = `for (let n = 0; n < 8; n += 1) this.$emit({ n, text: 'y'.repeat(500_000) }); ${answer}`;
    return { callers: 1, url: (await deployGreedy(service, orgId, 'events', body)).url };
  },
  values: async (service, orgId) => {
    const body = `await Promise.all(Array.from({ length: 8 }, (_, n) => this.ds.set('key ' + n, 'y'.repeat(990_000)))); ${answer}`;
    return { callers: 1, url: (await deployGreedy(service, orgId, 'values', body)).url };
  },
  replies: async (service, orgId) => {
    const body = "this.http.respond({ status: 200, body: 'y'.repeat(5_900_000) });";
    return { callers: 4, url: (await deployGreedy(service, orgId, 'replies', body)).url };
  },
  streams: async (service, orgId) => {
    const body = `for (let n = 0; n < 50; n += 1) this.$emit({ n, text: 'y'.repeat(60_000) }); ${answer}`;
    const { id, url } = await deployGreedy(service, orgId, 'streams', body);
    const sockets: Socket[] = [];
    for (let n = 0; n < Number(options.readers); n += 1) sockets.push(await openUnread(service, id));
    return {
      callers: 4,
      url,
      stop: async () => {
        for (const socket of sockets) socket.destroy();
      },
    };
  },
  'fan-out': async (service, orgId) => {
    const body = `for (let n = 0; n < 100; n += 1) this.$emit({ n }); ${answer}`;
    const { id, url } = await deployGreedy(service, orgId, 'fan-out', body);
    for (let n = 0; n < Number(options.workflows); n += 1) {
      const { data } = (await service.api('POST', '/workflows', {
        org_id: orgId,
        steps: [
          { namespace: 'step_1', code: 'export default defineComponent({ async run() { return 1; } })' },
        ],
        triggers: [],
        settings: { name: `listener ${n}`, auto_deploy: true },
      })) as { data: { id: string } };
      await service.api('POST', '/subscriptions', { emitter_id: id, listener_id: data.id });
    }
    return { callers: 1, url };
  },
  mails: async (service, orgId) => {
    const { data } = (await service.api('POST', '/workflows', {
      org_id: orgId,
      steps: [{ namespace: 'step_1', code: 'export default defineComponent({ async run() { return 1; } })' }],
      triggers: [{ type: 'email' }],
      settings: { name: 'mails', auto_deploy: true },
    })) as { data: { triggers: { email_address: string }[] } };
    const to = data.triggers[0]?.email_address ?? '';
    const senders = new MailSenders({ port: smtpPort, to, senders: 6, bytes: 21_000_000 });
    return { callers: 0, url: '', stop: () => senders.stop() };
  },
};

/** A stream whose reader takes nothing after the handshake. */
async function openUnread(service: Service, sourceId: string): Promise<Socket> {
  const { hostname, port, host } = new URL(service.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  socket.write(
    `GET /sources/${sourceId}/sse HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${service.apiKey}\r\n\r\n`,
  );
  const [first] = (await once(socket, 'data')) as [Buffer];
  socket.pause();
  if (!first.toString().startsWith('HTTP/1.1 200')) throw new Error(first.toString());
  return socket;
}

let quietP99: number | undefined;

async function measure(service: Service, target: Neighbour, name: string) {
  const noticed = await watchNeighbour(service, target, name, after(seconds));
  quietP99 ??= quantile(noticed.warm, 0.99);
  const row = {
    ...rowOf(noticed, name, quietP99),
    'RSS MB': Math.round(treeUsage(service.pid).rootRssMb),
  };
  console.log(JSON.stringify(row));
  return row;
}

const rows = [];
for (const name of options.cases.split(',')) {
  const flood = floods[name];
  if (flood === undefined)
    throw new Error(`no case ${name}; the cases are ${Object.keys(floods).join(', ')}`);
  // Each flood has a service of its own: what one leaves behind is not the next one's.
  const service = await startService({
    MILLRACE_SANDBOX: options.level === 'kernel' ? 'require' : 'seat-belt',
    MILLRACE_STREAMS_PER_KEY: '1000',
    MILLRACE_SMTP_PORT: String(smtpPort),
  });
  const client = new GreedyClient();
  try {
    await client.ready();
    const other = await makeWorkspace(service, 'Other');
    const greedy = await makeWorkspace(service, 'Greedy');
    const target = { orgId: other, url: await deployAnswering(service, other, 'warm') };
    for (let n = 0; n < 50; n += 1) await fetch(target.url, { method: 'POST', body: '{}' });
    if (quietP99 === undefined) rows.push(await measure(service, target, 'quiet'));
    const { callers, url, stop } = await flood(service, greedy);
    const load: GreedyLoad = { name, times: callers, url, headers: {}, pauseMs: 0 };
    client.add(load);
    await delay(settleMs);
    rows.push(await measure(service, target, name));
    console.log('requests of the greedy owner:', await client.stop());
    const stopped = await stop?.();
    if (stopped !== undefined) console.log('replies to senders:', stopped);
  } finally {
    await service.stop();
  }
}
console.table(rows);
process.exit();
