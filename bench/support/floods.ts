import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { GreedyLoad } from './greedy-client.ts';
import { MailSenders } from './mail-senders.ts';
import type { Service } from './service.ts';

/** Where a flood is made, and how large it is. */
export interface FloodPlace {
  service: Service;
  /** The workspace of the greedy owner. */
  orgId: string;
  smtpPort: number;
  /** Readers that read nothing, in the case `streams`. */
  readers: number;
  /** Workflows that each event starts, in the case `fan-out`. */
  workflows: number;
}

/** The requests that are kept under way, and what ends the flood. */
export interface Flood {
  loads: GreedyLoad[];
  /** May return what was counted. */
  stop?: () => Promise<unknown>;
}

interface Greedy {
  id: string;
  url: string;
}

/** A source of the greedy owner that has a data store and does this for each request. */
async function deployGreedy({ service, orgId }: FloodPlace, name: string, body: string): Promise<Greedy> {
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

/** A workflow of these steps. */
async function deployWorkflow<Trigger>(
  { service, orgId }: FloodPlace,
  {
    name,
    steps,
    triggers = [],
    settings = {},
  }: { name: string; steps: string[]; triggers?: object[]; settings?: object },
): Promise<{ id: string; trigger: Trigger }> {
  const { data } = (await service.api('POST', '/workflows', {
    org_id: orgId,
    steps: steps.map((body, index) => ({
      namespace: `step_${index + 1}`,
      code: `export default defineComponent({ async run({ $ }) { ${body} } })`,
    })),
    triggers,
    settings: { name, auto_deploy: true, ...settings },
  })) as { data: { id: string; triggers: Trigger[] } };
  return { id: data.id, trigger: data.triggers[0] as Trigger };
}

const calls = (name: string, url: string, times: number): GreedyLoad => ({
  ...{ name, url, times },
  headers: {},
  pauseMs: 0,
});

const answer = "this.http.respond({ status: 200, body: 'ok' });";

export const floods: Record<string, (place: FloodPlace) => Promise<Flood>> = {
  events: async (place) => {
    const body = `for (let n = 0; n < 8; n += 1) this.$emit({ n, text: 'y'.repeat(500_000) }); ${answer}`;
    return { loads: [calls('events', (await deployGreedy(place, 'events', body)).url, 1)] };
  },
  values: async (place) => {
    const body = `await Promise.all(Array.from({ length: 8 }, (_, n) => this.ds.set('key ' + n, 'y'.repeat(990_000)))); ${answer}`;
    return { loads: [calls('values', (await deployGreedy(place, 'values', body)).url, 1)] };
  },
  /** Eight sources append fifty values at the same time to an array of 600 KB. */
  append: async (place) => {
    const body = `
      if (!(await this.ds.has('k')) || event.query.fill) await this.ds.set('k', Array.from({ length: 60_000 }, (_, n) => n * 1_000));
      else await Promise.all(Array.from({ length: 50 }, () => this.ds.append('k', 1)));
      ${answer}`;
    const loads: GreedyLoad[] = [];
    for (let n = 0; n < 8; n += 1)
      loads.push(calls('append', (await deployGreedy(place, `append ${n}`, body)).url, 4));
    return { loads };
  },
  replies: async (place) => {
    const body = "this.http.respond({ status: 200, body: 'y'.repeat(5_900_000) });";
    return { loads: [calls('replies', (await deployGreedy(place, 'replies', body)).url, 4)] };
  },
  /** Fifty sources that were not called before, each with the largest events there are. */
  'first events': async (place) => {
    const body = `this.$emit({ text: 'y'.repeat(5_500_000) }); ${answer}`;
    const loads: GreedyLoad[] = [];
    for (let n = 0; n < 50; n += 1)
      loads.push(calls('first events', (await deployGreedy(place, `first ${n}`, body)).url, 1));
    return { loads };
  },
  streams: async (place) => {
    const body = `for (let n = 0; n < 50; n += 1) this.$emit({ n, text: 'y'.repeat(60_000) }); ${answer}`;
    const { id, url } = await deployGreedy(place, 'streams', body);
    const sockets: Socket[] = [];
    for (let n = 0; n < place.readers; n += 1) sockets.push(await openUnread(place.service, id));
    return {
      loads: [calls('streams', url, 4)],
      stop: async () => {
        for (const socket of sockets) socket.destroy();
      },
    };
  },
  /** Readers of pages of 33 MB. */
  pages: async (place) => {
    const { id, url } = await deployGreedy(
      place,
      'pages',
      `this.$emit({ text: 'y'.repeat(5_500_000) }); ${answer}`,
    );
    for (let n = 0; n < 6; n += 1) await fetch(url, { method: 'POST' });
    await delay(1_000);
    const { service } = place;
    const headers = { authorization: `Bearer ${service.apiKey}` };
    return {
      loads: [
        {
          ...calls('pages', `${service.url}/v1/sources/${id}/event_summaries?expand=event&limit=100`, 24),
          ...{ method: 'GET', headers },
        },
      ],
    };
  },
  /** Each event starts many workflows. */
  'fan-out': async (place) => {
    const body = `for (let n = 0; n < 100; n += 1) this.$emit({ n }); ${answer}`;
    const { id, url } = await deployGreedy(place, 'fan-out', body);
    for (let n = 0; n < place.workflows; n += 1)
      await listen(
        place,
        id,
        (await deployWorkflow(place, { name: `listener ${n}`, steps: ['return 1;'] })).id,
      );
    return { loads: [calls('fan-out', url, 1)] };
  },
  /** Eight workflows that are called by forty callers. */
  runs: async (place) => {
    const loads: GreedyLoad[] = [];
    for (let n = 0; n < 8; n += 1) {
      const { trigger } = await deployWorkflow<{ endpoint_url: string }>(place, {
        ...{ name: `runs ${n}`, steps: ['return 1;', 'return 2;'] },
        triggers: [{ type: 'http' }],
      });
      loads.push(calls('runs', trigger.endpoint_url, 5));
    }
    return { loads };
  },
  /** Eight workflows whose first step exports 3.8 MB. */
  exports: async (place) => {
    const loads: GreedyLoad[] = [];
    for (let n = 0; n < 8; n += 1) {
      const { trigger } = await deployWorkflow<{ endpoint_url: string }>(place, {
        name: `exports ${n}`,
        steps: [
          "$.export('large', 'y'.repeat(2_800_000)); for (let n = 0; n < 50; n += 1) $.export('part ' + n, 'y'.repeat(20_000));",
          "return 'y'.repeat(1_000_000);",
        ],
        triggers: [{ type: 'http' }],
      });
      loads.push(calls('exports', trigger.endpoint_url, 5));
    }
    return { loads };
  },
  /** Each of 100 events of a run is sent to 60 webhooks: a third never answers, a third refuses with 64 KB. */
  webhooks: async (place) => {
    const { service, orgId } = place;
    const body = `for (let n = 0; n < 100; n += 1) this.$emit({ n }); ${answer}`;
    const { id, url } = await deployGreedy(place, 'webhooks', body);
    const receivers = await startReceivers();
    for (let n = 0; n < 60; n += 1) {
      const { data } = (await service.api('POST', '/webhooks', {
        url: `${receivers.url}/${['endless', 'refuse', 'accept'][n % 3]}-${n}`,
        org_id: orgId,
      })) as { data: { id: string } };
      await listen(place, id, data.id);
    }
    return { loads: [calls('webhooks', url, 1)], stop: receivers.stop };
  },
  /** Replays of events of 50 KB are started and cancelled. */
  replays: async (place) => {
    const body = `for (let n = 0; n < 20; n += 1) this.$emit({ n, text: 'y'.repeat(50_000) }); ${answer}`;
    const { id, url } = await deployGreedy(place, 'replays', body);
    for (let n = 0; n < 50; n += 1) await fetch(url, { method: 'POST' });
    const listener = await deployWorkflow(place, { name: 'replayed', steps: ['return 1;'] });
    const { service } = place;
    const headers = {
      authorization: `Bearer ${service.apiKey}`,
      'content-type': 'application/json',
    };
    return {
      loads: [
        {
          ...calls('replays', `${service.url}/v1/sources/${id}/replay`, 8),
          headers,
          body: JSON.stringify({ listener_id: listener.id, rate: 100 }),
          removes: `${service.url}/v1/replays`,
        },
      ],
    };
  },
  /** Each run sends 1,000 events that are all due at once, a second later. */
  scheduled: async (place) => {
    const body = `const at = Date.now() + 1_000; for (let n = 0; n < 1_000; n += 1) this.$emit({ n }, { delivery_ts: at }); ${answer}`;
    return { loads: [calls('scheduled', (await deployGreedy(place, 'scheduled', body)).url, 1)] };
  },
  /** Steps return 5 MB that look like the beginnings of thousands of secrets. */
  secrets: async (place) => {
    const { service, orgId } = place;
    for (let n = 0; n < 4; n += 1) {
      const lines = Array.from({ length: 1_400 }, () => `aaaaaaaa${randomBytes(18).toString('hex')}`);
      await service.api('PUT', '/variables', {
        org_id: orgId,
        variables: [{ name: `SECRET_${n}`, value: lines.join('\n'), secret: true }],
      });
    }
    const loads: GreedyLoad[] = [];
    for (let n = 0; n < 4; n += 1) {
      const { trigger } = await deployWorkflow<{ endpoint_url: string }>(place, {
        ...{ name: `secrets ${n}`, steps: ["return 'aaaaaaa'.repeat(700_000);"] },
        triggers: [{ type: 'http' }],
      });
      loads.push(calls('secrets', trigger.endpoint_url, 4));
    }
    return { loads };
  },
  /** Each event has a key of flow control of its own. */
  keys: async (place) => {
    const body = `for (let n = 0; n < 100; n += 1) this.$emit({ key: String(Math.random()) }); ${answer}`;
    const { id, url } = await deployGreedy(place, 'keys', body);
    const flow_control = { concurrency: { limit: 1, key: '{{steps.trigger.event.key}}' } };
    for (let n = 0; n < 4; n += 1) {
      const workflow = await deployWorkflow(place, {
        ...{ name: `keys ${n}`, steps: ['return 1;'] },
        settings: { flow_control },
      });
      await listen(place, id, workflow.id);
    }
    return { loads: [calls('keys', url, 4)] };
  },
  /** Workflows of 499 blocks with 20,000 expressions are deployed and deleted. */
  blocks: async ({ service, orgId }) => {
    const rule = (block: number) => ({
      any: Array.from({ length: 40 }, (_, n) => `{{steps.trigger.event.part_${block} > ${n}}}`),
    });
    const steps = Array.from({ length: 499 }, (_, n) => ({
      ...{ namespace: `block_${n}`, block: 'if' },
      branches: [{ slug: 'yes', if: rule(n), steps: [] }],
    }));
    const headers = { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' };
    return {
      loads: [
        {
          ...calls('blocks', `${service.url}/v1/workflows`, 6),
          headers,
          body: JSON.stringify({ org_id: orgId, steps, settings: { name: 'blocks', auto_deploy: true } }),
          removes: `${service.url}/v1/workflows`,
        },
      ],
    };
  },
  /** Fifteen sources that listen to each other. */
  mesh: async (place) => {
    const sources: Greedy[] = [];
    for (let n = 0; n < 15; n += 1)
      sources.push(await deployGreedy(place, `mesh ${n}`, `this.$emit({ n: Math.random() }); ${answer}`));
    for (const one of sources)
      for (const other of sources) if (one !== other) await listen(place, one.id, other.id);
    return { loads: sources.map(({ url }) => calls('mesh', url, 1)) };
  },
  /** Maps of 300 items within a map of 300, in sixty runs. */
  maps: async (place) => {
    const items = '{{Array.from({ length: 300 }, (_, n) => n)}}';
    const inner = { namespace: 'inner', block: 'map', items, concurrency: 100 };
    const step = { namespace: 'one', code: 'export default defineComponent({ async run() { return 1; } })' };
    const outer = { namespace: 'outer', block: 'map', items, concurrency: 100 };
    const { data } = (await place.service.api('POST', '/workflows', {
      org_id: place.orgId,
      steps: [{ ...outer, steps: [{ ...inner, steps: [step] }] }],
      triggers: [{ type: 'http' }],
      settings: { name: 'maps', auto_deploy: true },
    })) as { data: { triggers: { endpoint_url: string }[] } };
    const url = data.triggers[0]?.endpoint_url ?? '';
    for (let n = 0; n < 60; n += 1) await fetch(url, { method: 'POST' });
    return { loads: [] };
  },
  /** Projects of 950 workflows are imported and activated. */
  imports: async ({ service, orgId }) => {
    const headers = { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' };
    return {
      loads: Array.from({ length: 4 }, (_, project) => {
        const files: Record<string, string> = {};
        for (let n = 0; n < 950; n += 1) {
          const folder = `project_${project}/w${n}-p_A${project}${String(n).padStart(4, '0')}`;
          files[`${folder}/workflow.yaml`] =
            `schema: workflow/2022.04\nname: w${project} ${n}\ntriggers:\n- id: hi_${project}_${n}\nsteps:\n- namespace: one\n  runtime: nodejs20.x\n  uses: "./one/entry.js"\n`;
          files[`${folder}/one/entry.js`] =
            `export default defineComponent({ async run() { return ${project} + ${n}; } });`;
        }
        return {
          ...calls('imports', `${service.url}/v1/imports`, 1),
          headers,
          body: JSON.stringify({ org_id: orgId, files, activate: true }),
        };
      }),
    };
  },
  /** Runs of a source set 9,000 keys of its db. */
  db: async (place) => {
    const { service, orgId } = place;
    const { data } = (await service.api('POST', '/sources/', {
      ...{ name: 'db', org_id: orgId },
      component_code: `export default { name: 'db', version: '0.0.1', props: { http: '$.interface.http', db: '$.service.db' },
        async run() { for (let n = 0; n < 9_000; n += 1) this.db.set('k' + n, n + Math.floor(9 * Math.random())); } };`,
    })) as { data: { configured_props: { http: { endpoint_url: string } } } };
    return { loads: [calls('db', data.configured_props.http.endpoint_url, 5)] };
  },
  /** Bodies of 6 MB that are refused, with an escape for each character. */
  escapes: async ({ service, orgId }) => {
    const headers = { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' };
    const body = `{"org_id":"${orgId}","url":"${'\\u0061'.repeat(1_000_000)}"}`;
    return { loads: [{ ...calls('escapes', `${service.url}/v1/webhooks`, 8), headers, body }] };
  },
  mails: async (place) => {
    const { trigger } = await deployWorkflow<{ email_address: string }>(place, {
      ...{ name: 'mails', steps: ['return 1;'] },
      triggers: [{ type: 'email' }],
    });
    const senders = new MailSenders({
      ...{ port: place.smtpPort, to: trigger.email_address },
      ...{ senders: 6, bytes: 21_000_000 },
    });
    return { loads: [], stop: () => senders.stop() };
  },
};

async function listen({ service }: FloodPlace, emitterId: string, listenerId: string): Promise<void> {
  await service.api('POST', '/subscriptions', { emitter_id: emitterId, listener_id: listenerId });
}

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

/** In a thread of their own: the loop that measures must not wait for them. */
async function startReceivers(): Promise<{ url: string; stop: () => Promise<number> }> {
  const thread = new Worker(
    `const { createServer } = require('node:http');
    createServer((request, response) => {
      request.resume();
      if (request.url.startsWith('/accept')) response.end();
      else if (request.url.startsWith('/refuse')) response.writeHead(500).end('x'.repeat(64_000));
      else {
        const timer = setInterval(() => response.write('x'.repeat(1_000)), 50);
        response.on('close', () => clearInterval(timer));
      }
    }).listen(0, '127.0.0.1', function () { require('node:worker_threads').parentPort.postMessage(this.address().port); });`,
    { eval: true },
  );
  const [port] = (await once(thread, 'message')) as [number];
  return { url: `http://127.0.0.1:${port}`, stop: () => thread.terminate() };
}
