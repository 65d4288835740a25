/**
 * What users of a service notice while the workflows of another owner are deleted, each with a long backlog of runs that wait: the other
 * owner has one warm source that answers requests and deploys a new source now and then. The first row is the baseline.
 *
 * Run: npm run bench -- deletion [--workflows 9] [--runs 3000] [--seconds 10] [--level kernel] [--database URL]
 */
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { deployAnswering, makeWorkspace, quantile, shown } from './support/answering-source.ts';
import { failuresOf, runLoad } from './support/load.ts';
import { after, type Neighbour, rowOf, watchNeighbour } from './support/neighbour.ts';
import { type Service, startService } from './support/service.ts';

const { values: options } = parseArgs({
  options: {
    workflows: { type: 'string', default: '9' },
    /** Runs that wait, for each workflow. */
    runs: { type: 'string', default: '3000' },
    /** Duration of the row before the deletion; the one of the deletion lasts until nothing is left to remove. */
    seconds: { type: 'string', default: '10' },
    level: { type: 'string', default: 'kernel' },
    /** PostgreSQL; default: the embedded store. */
    database: { type: 'string', default: '' },
  },
});
const workflows = Number(options.workflows);
const runs = Number(options.runs);

const waiting =
  'export default defineComponent({ async run() { await new Promise((resolve) => setTimeout(resolve, 250_000)); } })';

async function createWaiting(service: Service, orgId: string): Promise<{ id: string; url: string }> {
  const { data } = (await service.api('POST', '/workflows', {
    org_id: orgId,
    steps: [{ namespace: 'step_1', code: waiting }],
    triggers: [{ type: 'http' }],
    settings: { name: 'waiting', auto_deploy: true, timeout_seconds: 300 },
  })) as { data: { id: string; triggers: { endpoint_url: string }[] } };
  return { id: data.id, url: data.triggers[0]?.endpoint_url ?? '' };
}

/** What the other owner notices until `isOver`. */
async function measure(service: Service, target: Neighbour, name: string, isOver: () => boolean) {
  const startedAt = performance.now();
  const noticed = await watchNeighbour(service, target, name, isOver);
  quietP99 ??= quantile(noticed.warm, 0.99);
  return {
    ...rowOf(noticed, name, quietP99),
    seconds: ((performance.now() - startedAt) / 1000).toFixed(1),
  };
}
let quietP99: number | undefined;

/** Workflows whose runs are not all removed. */
async function removalsLeft(service: Service): Promise<number> {
  const text = await (
    await fetch(`${service.url}/metrics`, { headers: { authorization: `Bearer ${service.apiKey}` } })
  ).text();
  return text
    .split('\n')
    .filter((line) => line.startsWith('millrace_jobs{kind="delete_workflow"'))
    .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

const service = await startService({
  MILLRACE_SANDBOX: options.level === 'kernel' ? 'require' : 'seat-belt',
  ...(options.database === '' ? {} : { MILLRACE_DATABASE_URL: options.database }),
});
try {
  const other = await makeWorkspace(service, 'Other');
  const greedy = await makeWorkspace(service, 'Greedy');
  const target = { orgId: other, url: await deployAnswering(service, other, 'warm') };
  const deleted = [];
  for (let n = 0; n < workflows; n += 1) deleted.push(await createWaiting(service, greedy));
  for (const { url } of deleted) {
    let sent = 0;
    while (sent < runs) {
      const load = await runLoad({ url, connections: 16, seconds: 1, body: '{"n":1}' });
      sent += load.requests;
      const failures = failuresOf(load);
      if (failures !== '') console.log(`backlog: ${failures}`);
    }
  }
  const rows = [await measure(service, target, 'backlog waits', after(Number(options.seconds)))];
  let isGone = false;
  const removal = (async () => {
    const requests = deleted.map(async ({ id }) => {
      const startedAt = performance.now();
      await service.api('DELETE', `/workflows/${id}`);
      return performance.now() - startedAt;
    });
    const times = await Promise.all(requests);
    console.log(`slowest DELETE ${shown(Math.max(...times))} ms`);
    while ((await removalsLeft(service)) > 0) await delay(250);
    isGone = true;
  })();
  const [, row] = await Promise.all([removal, measure(service, target, 'backlog is removed', () => isGone)]);
  rows.push(row);
  console.table(rows);
} finally {
  await service.stop();
}
process.exit();
