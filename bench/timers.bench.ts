import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { treeUsage } from './support/process-tree.ts';
import { type Service, startService } from './support/service.ts';

/**
 * Many timer sources that are due in the same second: how late their code runs, from the moment of the tick to the first
 * line of `run`, with the service, its store and its sandboxes as they are. Each minute that is watched is a row; in the
 * first one most deployments have no code in a process yet.
 *
 * With `--spread`, timers of 60 s that began one after another, as users have them: how much later than at its best moment each
 * source ran, over all the minutes.
 *
 * Run: npm run bench -- timers [--sources 1000] [--owners 1] [--minutes 2] [--sandbox auto] [--spread]
 */
const { values: options } = parseArgs({
  options: {
    sources: { type: 'string', default: '1000' },
    owners: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '2' },
    sandbox: { type: 'string', default: 'auto' },
    spread: { type: 'boolean', default: false },
  },
});
const count = Number(options.sources);
const owners = Number(options.owners);

const code = `export default {
  name: 'bench tick', version: '0.0.1',
  props: { timer: { type: '$.interface.timer', default: { cron: '* * * * *' } } },
  async run(event) { this.$emit({ late: Date.now() - event.timestamp * 1000, at: event.timestamp, ranAt: Date.now() }); },
};`;

const service = await startService({ MILLRACE_SANDBOX: options.sandbox, MILLRACE_LOG_LEVEL: 'warn' });
try {
  console.table(options.spread ? await measureSpread(service) : await measure(service));
} finally {
  await service.stop();
}

interface Tick {
  late: number;
  at: number;
  ranAt: number;
}

async function makeSources(api: Service['api'], timer: object): Promise<string[]> {
  const places: { component_id: string; org_id?: string }[] = [];
  for (let n = 0; n < owners; n += 1) {
    const org_id = n === 0 ? undefined : await workspace(api, `Bench ${n}`);
    const where = org_id === undefined ? {} : { org_id };
    const { data } = (await api('POST', '/components', { component_code: code, ...where })) as {
      data: { id: string };
    };
    places.push({ component_id: data.id, ...where });
  }
  const startedAt = performance.now();
  const ids: string[] = [];
  const make = async (from: number): Promise<void> => {
    for (let n = from; n < count; n += 8) {
      const body = {
        ...places[n % owners],
        name: `tick ${n}`,
        configured_props: { timer },
      };
      const { data } = (await api('POST', '/sources', body)) as { data: { id: string } };
      ids.push(data.id);
    }
  };
  await Promise.all(Array.from({ length: 8 }, (_, n) => make(n)));
  console.log(`${count} sources made in ${Math.round((performance.now() - startedAt) / 1000)} s`);
  return ids;
}

/** The first minute is not counted: in it the code of each source is evaluated. */
async function measureSpread({ api, pid }: Service): Promise<object[]> {
  const ids = await makeSources(api, { intervalSeconds: 60 });
  await delay(60_000);
  const from = Date.now();
  const before = treeUsage(pid).cpuUs;
  let rssMax = 0;
  const seconds = Number(options.minutes) * 60;
  for (let second = 0; second < seconds; second += 10) {
    await delay(10_000);
    rssMax = Math.max(rssMax, treeUsage(pid).rssMb);
  }
  const { cpuUs, processes } = treeUsage(pid);
  const until = Date.now();
  const late: number[] = [];
  let missed = 0;
  for (const id of ids) {
    const { data } = (await api('GET', `/sources/${id}/events?n=${Number(options.minutes) + 3}`)) as {
      data: { e: Tick }[];
    };
    const ran = data.map(({ e }) => e.ranAt).filter((atMs) => atMs >= from && atMs < until);
    missed += Math.max(0, Number(options.minutes) - ran.length);
    const phases = ran.map((atMs) => (atMs - from) % 60_000);
    // One that is due as the minute begins is early in some minutes and at the end of others.
    const isAtEdge = phases.some((phase) => phase < 5000) && phases.some((phase) => phase > 55_000);
    const best = Math.min(...phases.filter((phase) => !isAtEdge || phase > 30_000));
    late.push(...phases.map((phase) => (phase - best + 60_000) % 60_000));
  }
  late.sort((a, b) => a - b);
  const quantile = (q: number) => late[Math.min(late.length - 1, Math.floor(late.length * q))];
  return [
    {
      ...{ sources: count, owners, minutes: Number(options.minutes), ticks: late.length, missed },
      ...{ 'p50 ms': quantile(0.5), 'p99 ms': quantile(0.99), 'last ms': late.at(-1) },
      ...{ cores: ((cpuUs - before) / 1e6 / seconds).toFixed(2), processes, 'RSS MB': Math.round(rssMax) },
    },
  ];
}

async function measure({ api, pid }: Service): Promise<object[]> {
  const ids = await makeSources(api, { cron: '* * * * *' });
  const rows: object[] = [];
  let from = Math.ceil(Date.now() / 60_000) * 60;
  for (let minute = 0; minute < Number(options.minutes); minute += 1, from += 60) {
    await delay(from * 1000 - 2000 - Date.now());
    const before = treeUsage(pid).cpuUs;
    await delay(from * 1000 + 40_000 - Date.now());
    const { cpuUs, rssMb, processes } = treeUsage(pid);
    const ticks = (await Promise.all(ids.map((id) => tickOf(api, id, from)))).filter(
      (tick) => tick !== undefined,
    );
    const late = ticks.map((tick) => tick.late).sort((a, b) => a - b);
    const quantile = (q: number) => late[Math.min(late.length - 1, Math.floor(late.length * q))];
    rows.push({
      ...{ sources: count, owners, minute: minute + 1, ticks: ticks.length },
      ...{ 'p50 ms': quantile(0.5), 'p99 ms': quantile(0.99), 'last ms': late.at(-1) },
      ...{ 'CPU s': (cpuUs - before) / 1e6, processes, 'RSS MB': Math.round(rssMb) },
    });
  }
  return rows;
}

async function tickOf(api: Service['api'], id: string, at: number): Promise<Tick | undefined> {
  const { data } = (await api('GET', `/sources/${id}/events?n=3`)) as { data: { e: Tick }[] };
  return data.map((one) => one.e).find((tick) => tick.at === at);
}

async function workspace(api: Service['api'], name: string): Promise<string> {
  const { data } = (await api('POST', '/workspaces', { name })) as { data: { id: string } };
  return data.id;
}
