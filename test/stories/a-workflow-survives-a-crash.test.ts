import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachService } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

/** On PostgreSQL each costs the lease of the node that died. */
const kills = { sqlite: 6, postgres: 3 };
const senders = 8;
const endsBeforeKill = 15;

interface Effect {
  number: number;
  run: string;
  step: number;
}

/** A step whose only effect is a line in the ledger of the test, at an arbitrary moment of its life. */
function effectStep(step: number, ledger: string): string {
  return `export default defineComponent({
    async run({ steps }) {
      const pause = () => new Promise((resolve) => setTimeout(resolve, Math.random() * 15));
      await pause();
      const effect = { number: steps.trigger.event.body.number, run: steps.trigger.context.id, step: ${step} };
      await fetch('${ledger}', { method: 'POST', body: JSON.stringify(effect) });
      await pause();
      return { effect, before: Object.keys(steps) };
    },
  });`;
}

forEachService((fixture) => {
  let receiver: HttpReceiver;
  before(async () => {
    receiver = await HttpReceiver.start();
  });
  after(() => receiver.close());

  test('kill -9 between and inside steps, again and again: finished steps never run again, every accepted event ends in one finished run', async () => {
    const workflow = await fixture.service.createWorkflow({
      steps: [1, 2, 3].map((step) => ({ namespace: `s${step}`, code: effectStep(step, receiver.url) })),
      triggers: [{ type: 'http', props: {} }],
    });
    const path = new URL(workflow.triggers[0].endpoint_url).pathname;
    const effects = () => receiver.requests.map((request) => request.json() as Effect);
    const accepted: number[] = [];
    let number = 0;
    for (let kill = 0; kill < kills[fixture.dialect]; kill += 1) {
      let isUp = true;
      const ended = new Set(
        effects()
          .filter(({ step }) => step === 3)
          .map((effect) => effect.number),
      );
      const before = ended.size;
      const send = async () => {
        while (isUp) {
          number += 1;
          const mine = number;
          try {
            const response = await fetch(`${fixture.service.url}${path}`, {
              method: 'POST',
              headers: { 'content-type': 'application/json' },
              body: JSON.stringify({ number: mine }),
            });
            if (response.status !== 200) continue;
            accepted.push(mine);
            // A few at a time: which run a kill hits is then a matter of chance.
            await waitFor(
              () => !isUp || effects().some((effect) => effect.number === mine && effect.step === 3),
            );
          } catch {
            // The service is gone; the next round has another.
          }
        }
      };
      const sending = Array.from({ length: senders }, send);
      await waitFor(
        () =>
          new Set(
            effects()
              .filter(({ step }) => step === 3)
              .map((effect) => effect.number),
          ).size >=
          before + endsBeforeKill,
        { what: 'runs to end' },
      );
      const killed = fixture.service.kill();
      isUp = false;
      await killed;
      await Promise.all(sending);
      await fixture.restart('kill');
    }
    const runs = await waitFor(
      async () => {
        const all = await allRuns(workflow.id);
        return all.every((run) => run.ended_at !== null) && all;
      },
      { timeoutMs: 30_000, what: 'all runs to end' },
    );
    assert.deepEqual([...new Set(runs.map((run) => run.state))], ['succeeded']);

    const byNumber = Map.groupBy(effects(), (effect) => effect.number);
    for (const accept of accepted) {
      const of = byNumber.get(accept) ?? [];
      assert.equal(new Set(of.map(({ run }) => run)).size, 1, `event ${accept} is one run`);
      const order = of.map(({ step }) => step);
      assert.deepEqual(
        [...new Set(order)],
        [1, 2, 3],
        `event ${accept}: every step ran, in order, none after a later one: ${order}`,
      );
    }
    const runsByEffect = new Set(effects().map(({ run }) => run));
    // Effects of runs that are not there: their requests were never answered.
    for (const run of runs) assert.ok(runsByEffect.has(run.id), `run ${run.id} ran`);
    assert.ok(runs.length >= accepted.length, 'none was lost');
  });

  async function allRuns(
    workflowId: string,
  ): Promise<{ id: string; state: string; ended_at: string | null }[]> {
    const runs: { id: string; state: string; ended_at: string | null }[] = [];
    for (let cursor = ''; ; ) {
      const answer = await fixture.service.api('GET', `/v1/workflows/${workflowId}/runs?limit=100${cursor}`);
      runs.push(...answer.body.data);
      if (answer.body.data.length < 100) return runs;
      cursor = `&after=${answer.body.page_info.end_cursor}`;
    }
  }
});
