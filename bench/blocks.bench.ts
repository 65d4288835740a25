import { parseArgs } from 'node:util';
import { treeUsage } from './support/process-tree.ts';
import { type Service, startService } from './support/service.ts';

/**
 * Blocks of workflows, through an HTTP trigger that answers when the run has ended; each against a workflow without the block
 * in the same run.
 *
 * - `parallel`: ten branches of one step that waits 200 ms, against one such step.
 * - `map`: a thousand items of a step that returns the item, against the same number of steps one after the other (from 50).
 */
const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    items: { type: 'string', default: '1000' },
    concurrency: { type: 'string', default: '10' },
  },
});
const rounds = Number(options.rounds);
const items = Number(options.items);

const waits = `export default defineComponent({ async run() { await new Promise((resolve) => setTimeout(resolve, 200)); return 1; } })`;
const returnsItem = `export default defineComponent({ run({ steps }) { return steps.each.item; } })`;
const returnsOne = `export default defineComponent({ run() { return 1; } })`;
const answers = `export default defineComponent({ async run({ $ }) { await $.respond({ status: 200, body: 'done' }); } })`;

const service = await startService({});
try {
  // The prewarmed pool fills after the service is ready.
  await new Promise((resolve) => setTimeout(resolve, 2000));
  const one = await createWorkflow(service, [{ namespace: 'one', code: waits }]);
  const branches = Array.from({ length: 10 }, (_, n) => ({
    slug: `b${n}`,
    steps: [{ namespace: `s${n}`, code: waits }],
  }));
  const ten = await createWorkflow(service, [{ namespace: 'both', block: 'parallel', branches }]);
  await compare('parallel of 10 against 1 step of 200 ms', one, ten, 1);

  const serial = 50;
  const steps = Array.from({ length: serial }, (_, n) => ({ namespace: `s${n}`, code: returnsOne }));
  const inTurn = await createWorkflow(service, steps);
  const mapped = await createWorkflow(service, [
    {
      namespace: 'each',
      block: 'map',
      items: `{{Array.from({ length: ${items} }, (_, n) => n)}}`,
      concurrency: Number(options.concurrency),
      steps: [{ namespace: 'work', code: returnsItem }],
    },
  ]);
  await compare(`map of ${items} against ${serial} steps in turn`, inTurn, mapped, items / serial);
} finally {
  await service.stop();
}

async function createWorkflow(of: Service, steps: readonly object[]): Promise<string> {
  const answer = (await of.api('POST', '/workflows', {
    steps: [...steps, { namespace: 'answer', code: answers }],
    triggers: [{ type: 'http', props: { custom_response: true } }],
    settings: { name: 'bench', auto_deploy: true },
  })) as { data: { triggers: { endpoint_url: string }[] } };
  return answer.data.triggers[0]?.endpoint_url ?? '';
}

/** `work`: how many times the second does what the first does. */
async function compare(name: string, baseline: string, subject: string, work: number): Promise<void> {
  const times: Record<'baseline' | 'subject', number[]> = { baseline: [], subject: [] };
  let cpuUs = 0;
  await timed(baseline);
  await timed(subject);
  for (let round = 0; round < rounds; round += 1) {
    times.baseline.push(await timed(baseline));
    const before = treeUsage(service.pid).cpuUs;
    times.subject.push(await timed(subject));
    cpuUs += treeUsage(service.pid).cpuUs - before;
  }
  const ours = medianOf(times.subject);
  const base = medianOf(times.baseline);
  console.table([
    {
      case: name,
      'baseline ms': Math.round(base),
      ms: Math.round(ours),
      'of the baseline': (ours / base).toFixed(2),
      'for the same work': (ours / base / work).toFixed(2),
      'CPU ms': Math.round(cpuUs / 1000 / rounds),
    },
  ]);
}

/** From the request to the answer of the last step, in ms. */
async function timed(url: string): Promise<number> {
  const startedAt = performance.now();
  const answer = await fetch(url, { method: 'POST' });
  const text = await answer.text();
  if (text !== 'done') throw new Error(`the run answered ${answer.status} ${text.slice(0, 200)}`);
  return performance.now() - startedAt;
}

function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
