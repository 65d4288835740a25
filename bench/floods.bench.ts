/**
 * What users of a service notice of another owner who moves megabytes, or starts hundreds of runs with each event: the other owner has
 * one warm source that answers requests, and deploys a new source now and then. Each flood is alone; the first row is the baseline.
 *
 * Run: npm run bench -- floods [--cases events,mails,…] [--seconds 10] [--level kernel]
 */
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { deployAnswering, makeWorkspace, quantile } from './support/answering-source.ts';
import { floods } from './support/floods.ts';
import { GreedyClient } from './support/greedy-client.ts';
import { after, type Neighbour, rowOf, watchNeighbour } from './support/neighbour.ts';
import { treeUsage } from './support/process-tree.ts';
import { freePort, type Service, startService } from './support/service.ts';

const { values: options } = parseArgs({
  options: {
    cases: { type: 'string', default: Object.keys(floods).join(',') },
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
    MILLRACE_EGRESS: 'public,local',
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
    const { loads, stop } = await flood({
      ...{ service, orgId: greedy, smtpPort },
      ...{ readers: Number(options.readers), workflows: Number(options.workflows) },
    });
    for (const load of loads) client.add(load);
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
