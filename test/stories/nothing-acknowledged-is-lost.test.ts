import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { postgresSkip } from '../support/databases.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { Millrace } from '../support/millrace.ts';
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts';
import { createTempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

/** Keeps in its db what it has seen, so that the test can compare three truths: acknowledgements, db and events. */
const recorder = `
export default {
  name: 'Recorder', version: '0.0.1',
  props: { http: '$.interface.http', db: '$.service.db' },
  run(event) {
    const seen = this.db.get('seen') ?? {};
    seen[event.body.n] = (seen[event.body.n] ?? 0) + 1;
    this.db.set('seen', seen);
    this.$emit({ n: event.body.n, times: seen[event.body.n] });
  },
};`;

/** The same, but it answers itself: at once, and in every third run some time before the run is over. */
const answeringRecorder = recorder
  .replace("http: '$.interface.http'", "http: { type: '$.interface.http', customResponse: true }")
  .replace('run(event) {', 'async run(event) {')
  .replace(
    'const seen',
    `this.http.respond({ status: 200, body: 'noted' });
    if (event.body.n % 3 === 0) await new Promise((resolve) => setTimeout(resolve, 8));
    const seen`,
  );

/** Kills on each store, in series on a data folder of their own: `npm run test:kills` has 500. */
const killsWanted = Number(process.env.MILLRACE_TEST_KILLS ?? 0);
const killsPerSeries = 25;
/** A start on PostgreSQL takes longer, and one whose server was killed longer still. */
const roundsOn =
  killsWanted > 0 ? { sqlite: killsPerSeries, postgres: killsPerSeries } : { sqlite: 6, postgres: 4 };
const series = Math.max(1, Math.ceil(killsWanted / killsPerSeries));
/** A kill and what is looked at afterwards take seconds. */
const patience = killsWanted > 0 ? { timeout: killsWanted * 60_000 } : {};
/** In which of the rounds PostgreSQL is killed, and then the service. */
const serverDiesInRound = 1;
/** For each source, and for the workflow. */
const senders = 4;
/** Runs of the workflow that end before each kill. */
const endsBeforeKill = 15;

interface Sent {
  acknowledged: Set<number>;
  last: number;
}

/** A source that requests stream to, and what the test knows of it. */
interface Track {
  sourceId: string;
  path: string;
  sent: Sent;
  collector: EventCollector;
}

/** A source keeps its last 100 events: this many may be acknowledged and not yet read, or those that a kill leaves unread could go. */
const unreadMax = 60;

/** Sends numbered requests until it is stopped, while `mayGoOn`; remembers those that got their 2xx. */
function stream(url: string, sent: Sent, mayGoOn: () => boolean): { stop(): Promise<void> } {
  let going = true;
  const send = async () => {
    while (going) {
      if (!mayGoOn()) {
        await new Promise((resolve) => setTimeout(resolve, 5));
        continue;
      }
      sent.last += 1;
      const n = sent.last;
      try {
        const response = await fetch(url, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: `{"n":${n}}`,
        });
        await response.arrayBuffer();
        if (response.status === 200) sent.acknowledged.add(n);
        else await new Promise((resolve) => setTimeout(resolve, 5));
      } catch {
        // Killed under the request: not acknowledged, so nothing is promised.
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    }
  };
  const running = Promise.all(Array.from({ length: senders }, send));
  return {
    async stop() {
      going = false;
      await running;
    },
  };
}

/** Collects every event over the live stream's store side: the last 100 are readable, so it reads on while they come. */
class EventCollector {
  readonly times = new Map<string, number>();
  readonly byNumber = new Map<number, number>();
  lastId = '0-0';
  ordered = true;

  add(event: { id: string; event: { n: number } }): void {
    if (this.times.has(event.id)) return;
    this.times.set(event.id, 1);
    this.byNumber.set(event.event.n, (this.byNumber.get(event.event.n) ?? 0) + 1);
    if (compareIds(event.id, this.lastId) <= 0) this.ordered = false;
    this.lastId = event.id;
  }
}

function compareIds(a: string, b: string): number {
  const [aMs, aSeq] = a.split('-').map(Number);
  const [bMs, bSeq] = b.split('-').map(Number);
  return (aMs ?? 0) - (bMs ?? 0) || (aSeq ?? 0) - (bSeq ?? 0);
}

async function follow(service: Millrace, { sourceId, collector }: Track) {
  const live = await service.stream(sourceId, { lastEventId: collector.lastId });
  let at = 0;
  const drain = () => {
    for (; at < live.messages.length; at += 1) {
      const message = live.messages[at];
      if (message?.event === 'message' && message.id !== undefined)
        collector.add({ id: message.id, event: message.data.event });
    }
  };
  return { drain, close: () => live.close() };
}

async function pendingJobs(service: Millrace): Promise<number> {
  const text = await (await fetch(`${service.url}/metrics`)).text();
  return [...text.matchAll(/^millrace_jobs\{kind="run_source",state="(?:queued|running)"\} (\d+)/gm)].reduce(
    (sum, match) => sum + Number(match[1]),
    0,
  );
}

/** Each kill hits both sources and the workflow. */
async function killInALoop(options: {
  dataFolder: string;
  databaseUrl?: string;
  /** Kills the server of the store, and starts it again. */
  killServer?: () => Promise<void>;
}): Promise<void> {
  const rounds = options.databaseUrl === undefined ? roundsOn.sqlite : roundsOn.postgres;
  await using receiver = await HttpReceiver.start();
  let service = await Millrace.start(options);
  // Also when the test fails: a service that still runs would keep the file from ending.
  await using _stopped = { [Symbol.asyncDispose]: () => service.kill() };
  const tracks: Track[] = [];
  for (const component_code of [recorder, answeringRecorder]) {
    const source = await service.createSource({ component_code });
    tracks.push({
      sourceId: source.id,
      path: new URL(source.configured_props.http.endpoint_url).pathname,
      sent: { acknowledged: new Set(), last: 0 },
      collector: new EventCollector(),
    });
  }
  const workflow = await WorkflowTrack.create(service, receiver);
  for (let round = 0; round < rounds; round += 1) {
    const moments = tracks.map(({ sent }) => sent.acknowledged.size + 10 + Math.floor(Math.random() * 75));
    const following = await Promise.all(tracks.map((track) => follow(service, track)));
    const sending = [
      ...tracks.map(({ path, sent, collector }, at) =>
        stream(`${service.url}${path}`, sent, () => {
          following[at]?.drain();
          return sent.acknowledged.size - collector.byNumber.size < unreadMax;
        }),
      ),
      workflow.send(service),
    ];
    const isReached = ({ sent }: Track, at: number) => sent.acknowledged.size >= (moments[at] ?? 0);
    await waitFor(() => tracks.every(isReached) && workflow.mayBeKilled, {
      what: 'acknowledgements',
    });
    if (round === serverDiesInRound) await options.killServer?.();
    await service.kill();
    for (const { drain, close } of following) {
      drain();
      close();
    }
    await Promise.all(sending.map((one) => one.stop()));
    service = await Millrace.start(options);
  }
  const following = await Promise.all(tracks.map((track) => follow(service, track)));
  await waitFor(async () => (await pendingJobs(service)) === 0, {
    what: 'the queue to be empty',
  });
  for (const [at, track] of tracks.entries()) {
    const [newest] = await service.events(track.sourceId);
    await waitFor(
      () => {
        following[at]?.drain();
        return track.collector.lastId === newest.id;
      },
      { what: 'the last event on the stream' },
    );
    following[at]?.close();
    await nothingIsLost(service, track, rounds);
  }
  await workflow.nothingIsLost(service);
  await service.stop();
}

async function nothingIsLost(
  service: Millrace,
  { sourceId, path, sent, collector }: Track,
  rounds: number,
): Promise<void> {
  const probe = await fetch(`${service.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"n":0}',
  });
  assert.equal(probe.status, 200, 'the source still works');
  assert.ok(sent.acknowledged.size > rounds * 10);
  assert.ok(collector.ordered, 'event ids strictly increase across every crash');
  const kept = await service.api('GET', `/v1/sources/${sourceId}/event_summaries?limit=100&expand=event`);
  for (const event of kept.body.data)
    if (event.event.n !== 0)
      assert.equal(event.event.times, 1, `invocation ${event.event.n} was committed once`);
  const twice = [...collector.byNumber].filter(([, times]) => times > 1);
  assert.deepEqual(twice, [], 'no event stands twice for one committed invocation');
  // What was acknowledged is in the component db of the source; a last request reads it back.
  const seen = await readSeen(service, sourceId);
  const lost = [...sent.acknowledged].filter((n) => seen[n] === undefined);
  assert.deepEqual(lost, [], 'no acknowledged request is lost');
  const repeated = Object.entries(seen).filter(([n, times]) => n !== '0' && times !== 1);
  assert.deepEqual(repeated, [], 'state of an invocation is committed once');
}

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

interface EndedRun {
  id: string;
  state: string;
  error: unknown;
  ended_at: string | null;
}

/** A workflow of three steps that requests stream to. */
class WorkflowTrack {
  readonly #id: string;
  readonly #path: string;
  readonly #receiver: HttpReceiver;
  readonly #accepted: number[] = [];
  readonly #known: Effect[] = [];
  readonly #endedNumbers = new Set<number>();
  #number = 0;
  #endsWanted = 0;

  static async create(service: Millrace, receiver: HttpReceiver): Promise<WorkflowTrack> {
    const workflow = await service.createWorkflow({
      steps: [1, 2, 3].map((step) => ({ namespace: `s${step}`, code: effectStep(step, receiver.url) })),
      triggers: [{ type: 'http', props: {} }],
    });
    return new WorkflowTrack(workflow.id, new URL(workflow.triggers[0].endpoint_url).pathname, receiver);
  }

  private constructor(id: string, path: string, receiver: HttpReceiver) {
    this.#id = id;
    this.#path = path;
    this.#receiver = receiver;
  }

  /** Sends until it is stopped, which is when the service is gone. */
  send(service: Millrace): { stop(): Promise<void> } {
    let going = true;
    this.#endsWanted = this.#ended().size + endsBeforeKill;
    const send = async () => {
      while (going) {
        this.#number += 1;
        const number = this.#number;
        try {
          const response = await fetch(`${service.url}${this.#path}`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ number }),
          });
          await response.arrayBuffer();
          if (response.status !== 200) throw new Error('not accepted');
          this.#accepted.push(number);
          // A few at a time: which run a kill hits is then a matter of chance.
          await waitFor(() => !going || this.#ended().has(number));
        } catch {
          // Nothing was promised; the next round has another service.
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      }
    };
    const sending = Promise.all(Array.from({ length: senders }, send));
    return {
      async stop() {
        going = false;
        await sending;
      },
    };
  }

  get mayBeKilled(): boolean {
    return this.#ended().size >= this.#endsWanted;
  }

  /** Finished steps never ran again, and every accepted event ended in one finished run. */
  async nothingIsLost(service: Millrace): Promise<void> {
    const runs = await waitFor(
      async () => {
        const all = await this.#allRuns(service);
        return all.every((run) => run.ended_at !== null) && all;
      },
      { what: 'all runs to end' },
    );
    const others = runs.filter(({ state }) => state !== 'succeeded');
    assert.deepEqual(
      others.map(({ id, state, error }) => ({ id, state, error })),
      [],
      'every run succeeded',
    );
    const byNumber = Map.groupBy(this.#effects(), (effect) => effect.number);
    for (const accept of this.#accepted) {
      const of = byNumber.get(accept) ?? [];
      assert.equal(new Set(of.map(({ run }) => run)).size, 1, `event ${accept} is one run`);
      const order = of.map(({ step }) => step);
      assert.deepEqual(
        [...new Set(order)],
        [1, 2, 3],
        `event ${accept}: every step ran, in order, none after a later one: ${order}`,
      );
    }
    const runsByEffect = new Set(this.#effects().map(({ run }) => run));
    // Effects of runs that are not there: their requests were never answered.
    for (const run of runs) assert.ok(runsByEffect.has(run.id), `run ${run.id} ran`);
    assert.ok(runs.length >= this.#accepted.length, 'none was lost');
  }

  /** In the order in which they came. */
  #effects(): Effect[] {
    const { requests } = this.#receiver;
    for (const request of requests.slice(this.#known.length)) {
      const effect = request.json() as Effect;
      this.#known.push(effect);
      if (effect.step === 3) this.#endedNumbers.add(effect.number);
    }
    return this.#known;
  }

  /** Numbers of those whose last step has had its effect. */
  #ended(): Set<number> {
    this.#effects();
    return this.#endedNumbers;
  }

  async #allRuns(service: Millrace): Promise<EndedRun[]> {
    const runs: EndedRun[] = [];
    for (let cursor = ''; ; ) {
      const answer = await service.api('GET', `/v1/workflows/${this.#id}/runs?limit=100${cursor}`);
      runs.push(...answer.body.data);
      if (answer.body.data.length < 100) return runs;
      cursor = `&after=${answer.body.page_info.end_cursor}`;
    }
  }
}

/** Swaps in code that answers the db, keeping the source's state. */
async function readSeen(service: Millrace, sourceId: string): Promise<Record<string, number>> {
  const reader = `
    export default {
      name: 'Reader', version: '0.0.2',
      props: { http: { type: '$.interface.http', customResponse: true }, db: '$.service.db' },
      run() { this.http.respond({ status: 200, body: this.db.get('seen') }); },
    };`;
  const answer = await service.api('PUT', `/v1/sources/${sourceId}`, { component_code: reader });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  const path = new URL(answer.body.data.configured_props.http.endpoint_url).pathname;
  return (await (await fetch(`${service.url}${path}`)).json()) as Record<string, number>;
}

describe(
  'kill -9 while requests stream in to a source that is answered for, to one that answers itself, and to a workflow',
  patience,
  () => {
    test(
      'on SQLite: nothing acknowledged is lost, nothing is committed twice, ids keep increasing, finished steps never run again',
      patience,
      async (t) => {
        for (let at = 0; at < series; at += 1) {
          await using folder = await createTempFolder('kill');
          await killInALoop({ dataFolder: `${folder.path}/data` });
          if (killsWanted > 0) t.diagnostic(`${(at + 1) * killsPerSeries} kills on SQLite`);
        }
      },
    );

    describe('on PostgreSQL, which is killed too', { skip: postgresSkip(), ...patience }, () => {
      let server: PostgresServer;
      before(async () => {
        server = await startPostgres();
      });
      after(() => server?.stop());

      test('the same', patience, async (t) => {
        for (let at = 0; at < series; at += 1) {
          await using folder = await createTempFolder('kill');
          await killInALoop({
            dataFolder: `${folder.path}/data`,
            databaseUrl: server.url,
            killServer: async () => {
              await server.kill();
              await server.restart();
            },
          });
          if (killsWanted > 0) t.diagnostic(`${(at + 1) * killsPerSeries} kills on PostgreSQL`);
        }
      });
    });
  },
);
