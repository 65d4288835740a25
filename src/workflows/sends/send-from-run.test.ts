import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { after, before, beforeEach, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { SMTPServer } from 'smtp-server';
import { AddressPolicy } from '#egress/address-policy.ts';
import { createGuardedDispatcher, type GuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import type { StoredEvent } from '#events/event.ts';
import { EventBus } from '#events/event-bus.ts';
import { insertEmitter } from '#events/event-store.ts';
import { healthOf } from '#health/health-store.ts';
import { OutcomeRecorder } from '#health/outcome-store.ts';
import { insertNewJobs, jobRow, type LeasedJob } from '#jobs/job-store.ts';
import { silentLogger } from '#lib/logger.ts';
import type { StepSend } from '#runner/call-outcome.ts';
import type { Store } from '#storage/store.ts';
import type { RunSendTable, RunTable } from '#storage/tables/workflow-tables.ts';
import { newRunRow } from '#workflows/runs/new-run.ts';
import type { RunTrigger } from '#workflows/runs/run.ts';
import { awsSignatures } from '../../../test/support/aws-signature.ts';
import { HttpReceiver } from '../../../test/support/http-receiver.ts';
import { noSubscribers } from '../../../test/support/no-subscribers.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { createMailServer, type MailServer } from './send-email.ts';
import { RunSends, type SendOptions } from './send-from-run.ts';
import { lockRunsOf, outcomesOfSends } from './send-health-store.ts';
import { findRunSend } from './send-store.ts';

const node = 'node_1';
const never = new AbortController().signal;
const nowMs = Date.UTC(2027, 4, 6, 7, 8, 9);

/** Stores what a run sends, and the jobs of it as held by this node; answers these. */
async function queueSends(
  store: Store,
  run: { id: string; ownerId: string; workflowId: string },
  asked: readonly [StepSend['kind'], unknown][],
): Promise<LeasedJob[]> {
  const jobs = asked.map((_, index): LeasedJob => {
    const payload = { run_id: run.id, number: index + 1 };
    const id = `${run.id}:${index + 1}`;
    const more = { lane: null, attempts: 1, bytes: 0, createdAtMs: nowMs };
    return { id, kind: 'send_from_run', ownerId: run.ownerId, payload, ...more };
  });
  const rows = asked.map(
    ([kind, payload], index): RunSendTable => ({
      run_id: run.id,
      number: index + 1,
      owner_id: run.ownerId,
      workflow_id: run.workflowId,
      kind,
      payload: JSON.stringify(payload),
      state: 'queued',
      result: null,
      created_at_ms: nowMs,
      ended_at_ms: null,
    }),
  );
  await store.transaction(async (tx) => {
    await tx
      .insertInto('runs')
      .values(endedRun(run, nowMs))
      .onConflict((conflict) => conflict.column('id').doNothing())
      .execute();
    await tx.insertInto('run_sends').values(rows).execute();
    const ofJobs = jobs.map(({ id, ownerId, payload }) =>
      jobRow({ id, kind: 'send_from_run', ownerId, payload: payload as never, runAtMs: nowMs, nowMs }, node),
    );
    await insertNewJobs(store, tx, ofJobs);
  });
  return jobs;
}

/** The run whose sends these are. */
function endedRun(run: { id: string; ownerId: string; workflowId: string }, nowMs: number): RunTable {
  const trigger: RunTrigger = {
    workflowId: run.workflowId,
    ownerId: run.ownerId,
    deploymentId: 'd_1',
    flowControl: null,
    emitterId: null,
    sourceType: 'HTTP',
    event: '{}',
    hops: 0,
  };
  const row = newRunRow(trigger, { id: run.id, nowMs, token: 'token', state: 'running' });
  return { ...row, state: 'succeeded', ended_at_ms: nowMs };
}

interface ReceivedMail {
  to: string[];
  text: string;
}

forEachStore((fixture) => {
  let receiver: HttpReceiver;
  let dispatcher: GuardedDispatcher;
  let smtp: SMTPServer;
  let mail: MailServer;
  const mails: ReceivedMail[] = [];

  before(async () => {
    receiver = await HttpReceiver.start();
    dispatcher = createGuardedDispatcher({
      policy: new AddressPolicy({ allow: ['local'], deny: () => [] }),
    });
    smtp = new SMTPServer({
      authOptional: true,
      disabledCommands: ['STARTTLS'],
      onData(stream, session, done) {
        const chunks: Buffer[] = [];
        stream.on('data', (chunk: Buffer) => chunks.push(chunk));
        stream.on('end', () => {
          const to = session.envelope.rcptTo.map(({ address }) => address);
          mails.push({ to, text: Buffer.concat(chunks).toString() });
          done();
        });
      },
    });
    const listening = once(smtp.listen(0, '127.0.0.1'), 'listening');
    await listening;
    const { port } = smtp.server.address() as AddressInfo;
    mail = createMailServer({ url: `smtp://127.0.0.1:${port}`, from: 'millrace@example.com' });
  });
  beforeEach(() => {
    mails.length = 0;
    receiver.requests.length = 0;
    receiver.answerAlways({});
  });
  after(async () => {
    mail.close();
    await new Promise<void>((resolve) => smtp.close(() => resolve()));
    await dispatcher.destroy();
    await receiver.close();
  });

  const setUp = async (options: Partial<SendOptions> = {}) => {
    const { store } = fixture;
    const bus = new EventBus(silentLogger);
    const published: StoredEvent[] = [];
    bus.observe((events) => published.push(...events));
    const clock = new TestClock(nowMs);
    const sends = new RunSends({
      ...{
        store,
        node,
        clock,
        bus,
        router: noSubscribers,
        outcomes: new OutcomeRecorder(store, () => false),
      },
      http: { dispatcher, version: '1.2.3', timeoutMs: 60_000 },
      mail,
      objects: {
        endpoint: receiver.url,
        region: 'eu-west-1',
        accessKey: 'the-access-key',
        secretKey: 'the-secret-key',
        dispatcher,
        ownBucket: 'own-bucket',
      },
      ...options,
    });
    const queue = (...asked: [StepSend['kind'], unknown][]) =>
      queueSends(store, { id: 'run_1', ownerId: 'o_1', workflowId: 'p_1' }, asked);
    /** Does one send and answers its record. */
    const send = async (kind: StepSend['kind'], payload: unknown) => {
      const [job] = await queue([kind, payload]);
      assert.ok(job);
      await sends.run(job, never);
      const row = await findRunSend(store.read, 'run_1', 1);
      assert.equal(row?.ended_at_ms, nowMs);
      assert.deepEqual(await store.read.selectFrom('jobs').select('id').execute(), [], 'the job ended too');
      return { state: row.state, result: JSON.parse(row.result ?? 'null') as Record<string, unknown> };
    };
    return { store, sends, queue, send, published };
  };

  const insertWorkflow = async (ownerId: string, userId: string) => {
    const times = { created_at_ms: nowMs, updated_at_ms: nowMs };
    await fixture.store.transaction(async (tx) => {
      await tx
        .insertInto('users')
        .values({
          id: 'u_1',
          username: 'mira',
          email: 'mira@example.com',
          is_admin: 0,
          kind: 'person',
          workspace_id: null,
          created_by: null,
          disabled_at_ms: null,
          created_at_ms: nowMs,
        })
        .execute();
      await tx
        .insertInto('workflows')
        .values({
          ...{ id: 'p_1', owner_id: ownerId, user_id: userId, project_id: null, name: 'w' },
          ...{ state: 'active', deployment_id: 'd_1' },
          ...times,
        })
        .execute();
    });
  };

  test('$.send.http makes the request as it was asked for and keeps what was answered', async () => {
    const { send } = await setUp();
    receiver.answerAlways({ status: 201, body: 'x'.repeat(3000) });
    const { state, result } = await send('http', {
      method: 'POST',
      url: `${receiver.url}/path?a=1`,
      params: { b: ['2', 3], c: null, d: 'ä&' },
      headers: { 'X-Own': 'yes' },
      data: { some: 'data' },
      auth: { username: 'me', password: 'pä' },
    });
    const [request] = receiver.requests;
    assert.equal(request?.method, 'POST');
    assert.equal(request.url, '/path?a=1&b=2&b=3&d=%C3%A4%26');
    assert.deepEqual(request.json(), { some: 'data' });
    assert.equal(request.headers['content-type'], 'application/json');
    assert.equal(request.headers['x-own'], 'yes');
    assert.equal(request.headers['user-agent'], 'Millrace/1.2.3');
    assert.equal(request.headers.authorization, `Basic ${Buffer.from('me:pä').toString('base64')}`);
    assert.equal(state, 'sent');
    assert.equal(result.status, 201);
    assert.equal((result.body as string).length, 1024);
  });

  test('an answer other than 2xx, a redirect, none in time, and no connection are failures with a record', async () => {
    for (const [answer, expected] of [
      [
        { status: 500, body: 'no' },
        { status: 500, body: 'no' },
      ],
      [
        { status: 302, headers: { location: '/elsewhere' } },
        { status: 302, body: '' },
      ],
    ] as const) {
      const { send, store } = await setUp();
      receiver.answerAlways(answer);
      const { state, result } = await send('http', { method: 'GET', url: receiver.url });
      delete result.duration_ms;
      assert.deepEqual([state, result], ['failed', expected]);
      await store.transaction((tx) => tx.deleteFrom('run_sends').execute());
    }
    assert.equal(receiver.requests.length, 2, 'nothing was sent twice');
    const { send, store } = await setUp({ http: { dispatcher, version: '1', timeoutMs: 300 } });
    receiver.answerAlways(() => undefined);
    const late = await send('http', { method: 'PUT', url: receiver.url });
    assert.equal(late.state, 'failed');
    assert.match(String(late.result.error), /ETIMEDOUT.* 300 ms/);
    await store.transaction((tx) => tx.deleteFrom('run_sends').execute());
    const gone = await (await setUp()).send('http', { method: 'PUT', url: 'http://127.0.0.1:1/' });
    assert.match(String(gone.result.error), /ECONNREFUSED/);
  });

  test('the workflow fails with the reason of a send, and succeeds once all sends of a run were made', async () => {
    const { store, sends, queue } = await setUp({ mail: undefined });
    await insertWorkflow('o_1', 'u_1');
    const health = async () => (await healthOf(store.read, 'workflow', ['p_1'], nowMs)).get('p_1');
    const get = (path: string) => ['http', { method: 'GET', url: `${receiver.url}${path}` }] as const;
    const sendAll = async (...asked: (readonly [StepSend['kind'], unknown])[]) => {
      await store.transaction(async (tx) => {
        await tx.deleteFrom('run_sends').execute();
        await tx.deleteFrom('jobs').execute();
      });
      for (const job of await queue(
        ...asked.map(([kind, payload]): [StepSend['kind'], unknown] => [kind, payload]),
      ))
        await sends.run(job, never);
      return health();
    };
    assert.equal((await health())?.state, 'untested');
    const failing = await sendAll(get('/a'), ['email', { subject: 'x' }], get('/b'));
    assert.deepEqual([failing?.state, failing?.failures], ['failing', 1]);
    assert.match(
      failing?.reason ?? '',
      /what it sends failed: email: no mail server is set: .*MILLRACE_SMTP_URL/,
    );
    const again = await sendAll(['sse', { payload: 1 }], get('/c'));
    assert.deepEqual([again?.state, again?.failures], ['failing', 2]);
    assert.equal((await sendAll(get('/d'), get('/e')))?.state, 'healthy');
    receiver.answerAlways({ status: 418 });
    assert.match((await sendAll(get('/f')))?.reason ?? '', /http: answered 418/);
    await store.transaction((tx) => tx.updateTable('runs').set({ state: 'failed' }).execute());
    receiver.answerAlways({});
    assert.equal((await sendAll(get('/g')))?.state, 'failing', 'the run itself has failed');
    const { run_id: runId, number } = await store.read
      .selectFrom('run_sends')
      .select(['run_id', 'number'])
      .executeTakeFirstOrThrow();
    const ended = { runId, number, outcome: { state: 'failed', result: { status: 500 } }, nowMs } as const;
    const [outcome] = await store.transaction((tx) => outcomesOfSends(tx, [ended]));
    assert.equal(outcome?.version, 'd_1', 'a success of the next deployment is one of its own');
  });

  test('of two sends that end at the same moment, the second one waits for what the first one records', async () => {
    const { store, queue } = await setUp();
    await queue(['http', {}]);
    const { id } = await store.read.selectFrom('runs').select('id').executeTakeFirstOrThrow();
    const order: string[] = [];
    let second: Promise<void> | undefined;
    await store.transaction(async (tx) => {
      await lockRunsOf(store, tx, [id]);
      second = store.transaction(async (other) => {
        await lockRunsOf(store, other, [id]);
        order.push('second');
      });
      // Without the lock the second one needs a few statements.
      for (let n = 0; n < 50; n += 1) await tx.selectFrom('runs').select('id').execute();
      order.push('first');
    });
    await second;
    assert.deepEqual(order, ['first', 'second']);
  });

  test('headers and parameters that are no text are sent as JSON', async () => {
    const odd = { toString: 1, valueOf: null };
    const { send } = await setUp();
    const payload = {
      method: 'GET',
      url: receiver.url,
      headers: { a: odd, b: [1, [odd]] },
      params: { c: [odd] },
    };
    assert.equal((await send('http', payload)).state, 'sent');
    const [request] = receiver.requests;
    assert.deepEqual(
      [request?.headers.a, request?.headers.b],
      [JSON.stringify(odd), `1, ${JSON.stringify(odd)}`],
    );
  });

  test('what is not vetted is not reached, and what cannot be sent says why', async () => {
    const strict = createGuardedDispatcher({
      policy: new AddressPolicy({ allow: ['public'], deny: () => [] }),
    });
    for (const [kind, payload, expected] of [
      ['http', { method: 'GET', url: receiver.url }, /EACCES/],
      ['http', { method: 'post', url: receiver.url }, /^method: expected one of .*upper case/],
      ['http', { url: receiver.url }, /^method: required/],
      ['http', { method: 'GET' }, /^url: required/],
      ['http', { method: 'GET', url: 'ftp://example.com' }, /http: or https:/],
      ['http', 'text', /^the argument is not an object/],
      ['email', { subject: 'x' }, /^no mail server is set: .*MILLRACE_SMTP_URL/],
      ['s3', { bucket: 'b', payload: 1 }, /^no object storage is set: MILLRACE_S3_ACCESS_KEY/],
      ['sse', { payload: 1 }, /^channel: required/],
      ['sse', { channel: 'a\nb', payload: 1 }, /^channel: expected one line/],
    ] as const) {
      const { send, store } = await setUp({
        http: { dispatcher: strict, version: '1.2.3' },
        mail: undefined,
        objects: undefined,
      });
      const { state, result } = await send(kind, payload);
      assert.equal(state, 'failed');
      assert.match(String(result.error), expected);
      await store.transaction((tx) => tx.deleteFrom('run_sends').execute());
    }
    assert.equal(receiver.requests.length, 0);
    await strict.destroy();
  });

  test('$.send.email goes to the user who made the workflow only', async () => {
    const { send } = await setUp();
    await insertWorkflow('u_1', 'u_1');
    const { state, result } = await send('email', {
      to: 'victim@example.com',
      cc: 'victim@example.com',
      subject: 'Line\r\nBcc: victim@example.com',
      text: 'Hello',
      html: '<b>Hello</b>',
      attachments: [{ filename: 'a.txt', content: 'aGk=', encoding: 'base64', path: '/etc/hostname' }],
    });
    assert.equal(state, 'sent', JSON.stringify(result));
    const [received] = mails;
    assert.deepEqual(received?.to, ['mira@example.com']);
    assert.match(received.text, /^To: mira@example.com\r$/m);
    assert.match(received.text, /^From: millrace@example.com\r$/m);
    assert.match(received.text, /^Subject: Line Bcc: victim@example.com\r$/m);
    assert.match(received.text, /^Auto-Submitted: auto-generated\r$/m);
    assert.match(received.text, /aGk=/);
    assert.doesNotMatch(received.text, /^(cc|bcc):/im);
    assert.ok(result.message_id);
  });

  test('$.send.email is not sent to a user who left the workspace', async () => {
    const { send } = await setUp();
    await insertWorkflow('o_1', 'u_1');
    const { state, result } = await send('email', { subject: 'x', text: 'y' });
    assert.deepEqual([state, mails.length], ['failed', 0]);
    assert.match(String(result.error), /no longer exists/);
  });

  test('an action sends at once, mail only to the user who runs it, and nothing is kept of it', async () => {
    const { store, sends } = await setUp();
    await insertWorkflow('u_1', 'u_1');
    const asked: StepSend[] = [
      { kind: 'http', payload: JSON.stringify({ method: 'POST', url: `${receiver.url}/now` }) },
      { kind: 'email', payload: JSON.stringify({ to: 'victim@example.com', subject: 'x', text: 'y' }) },
      { kind: 'emit', payload: '{"event":1,"channel":null}' },
    ];
    const action = { id: 'r_1', ownerId: 'o_1', userId: 'u_1' };
    const outcomes = await sends.sendNow(asked, action, new AbortController().signal);
    assert.deepEqual(
      outcomes.map(({ state }) => state),
      ['sent', 'sent', 'failed'],
    );
    assert.deepEqual(mails[0]?.to, ['mira@example.com']);
    assert.doesNotMatch(mails[0]?.text ?? '', /^x-millrace-workflow/im);
    const [refused] = await sends.sendNow(
      asked.slice(1, 2),
      { ...action, userId: 'oac_1' },
      new AbortController().signal,
    );
    assert.match(refused?.result.error ?? '', /an access token is no user/);
    assert.deepEqual(await store.read.selectFrom('run_sends').select('kind').execute(), []);
  });

  test('$.send.s3 puts a gzipped line of JSON under prefix and hour, signed for the storage', async () => {
    const { send } = await setUp();
    const { state, result } = await send('s3', {
      bucket: 'my-bucket',
      prefix: '/raw events/',
      payload: { some: ['data'] },
    });
    assert.equal(state, 'sent', JSON.stringify(result));
    const key = 'raw events/2027/05/06/07/2027-05-06-07-08-09-run_1-1.gz';
    assert.equal(result.key, key);
    const [request] = receiver.requests;
    assert.ok(request);
    assert.deepEqual([request.method, request.url], ['PUT', `/my-bucket/${key.replace(' ', '%20')}`]);
    assert.equal(gunzipSync(request.body).toString(), '{"some":["data"]}\n');
    const { sent, expected, scope } = awsSignatures(request, 'the-secret-key');
    assert.equal(sent, expected);
    assert.match(scope, /^\d{8}\/eu-west-1\/s3\/aws4_request$/);
  });

  test('$.send.s3 reaches no other place than a bucket, and reports what the storage answered', async () => {
    for (const argument of [
      { bucket: '../other', payload: 1 },
      { bucket: 'A', payload: 1 },
      { bucket: 'my-bucket', prefix: 'a/../../other', payload: 1 },
      { bucket: 'my-bucket', prefix: 'half \ud800', payload: 1 },
      { bucket: 'my-bucket' },
    ]) {
      const { send, store } = await setUp();
      assert.equal((await send('s3', argument)).state, 'failed');
      await store.transaction((tx) => tx.deleteFrom('run_sends').execute());
    }
    assert.equal(receiver.requests.length, 0);
    const { send } = await setUp();
    receiver.answerAlways({ status: 403, body: '<Error>no</Error>' });
    const { state, result } = await send('s3', { bucket: 'my-bucket', payload: 1 });
    assert.deepEqual([state, result.status, result.body], ['failed', 403, '<Error>no</Error>']);
  });

  test('$.send.sse becomes an event of the workflow, which its stream brings', async () => {
    const { send, store, published } = await setUp();
    await store.transaction((tx) => insertEmitter(tx, { id: 'p_1', ownerId: 'o_1' }));
    const { state, result } = await send('sse', { channel: 'orders', payload: { n: 1 } });
    assert.equal(state, 'sent');
    const [event] = published;
    assert.deepEqual([event?.channel, event?.event], ['$sse', '{"channel":"orders","payload":{"n":1}}']);
    assert.equal(result.event_id, `${event?.ms}-${event?.seq}`);
  });

  test('what a run sends to its stream keeps its order, and is there once, also when its jobs run at the same moment', async () => {
    const { store, sends, queue, published } = await setUp();
    await store.transaction((tx) => insertEmitter(tx, { id: 'p_1', ownerId: 'o_1' }));
    const asked = Array.from({ length: 20 }, (_, n): [StepSend['kind'], unknown] =>
      n === 7 ? ['sse', { channel: '' }] : ['sse', { channel: 'c', payload: n }],
    );
    const jobs = await queue(...asked);
    await Promise.all(jobs.reverse().map((job) => sends.run(job, never)));
    const numbers = published.map(({ event }) => (JSON.parse(event) as { payload: number }).payload);
    assert.deepEqual(numbers, Array.from({ length: 20 }, (_, n) => n).toSpliced(7, 1));
    assert.equal((await findRunSend(store.read, 'run_1', 8))?.state, 'failed');
    assert.equal((await findRunSend(store.read, 'run_1', 9))?.state, 'sent');
    assert.deepEqual(await store.read.selectFrom('jobs').select('id').execute(), []);
  });

  test('a send that was reported already, or belongs to another node, is not reported again', async () => {
    const { store, sends, queue } = await setUp();
    const asked: [StepSend['kind'], unknown] = ['http', { method: 'GET', url: receiver.url }];
    const [first, second] = await queue(asked, asked);
    assert.ok(first && second);
    await sends.run({ ...first, attempts: 2 }, never);
    assert.equal((await findRunSend(store.read, 'run_1', 1))?.state, 'queued');
    await sends.run(first, never);
    await sends.run(first, never);
    assert.equal(receiver.requests.length, 2, 'once by each node that held it');
    await sends.quarantined(first);
    await sends.quarantined(second);
    const rows = [1, 2].map((number) => findRunSend(store.read, 'run_1', number));
    const states = (await Promise.all(rows)).map((row) => [row?.state, row?.result]);
    assert.equal(states[0]?.[0], 'sent');
    assert.deepEqual(states[1], ['failed', '{"error":"given up after several attempts"}']);
  });

  test('receivers of one owner that hang hold up no other owner', async () => {
    const { store, sends, queue } = await setUp({ http: { dispatcher, version: '1', timeoutMs: 2_000 } });
    receiver.answerAlways((request) => (request.url === '/hangs' ? undefined : {}));
    const hanging = Array.from({ length: 40 }, (): [StepSend['kind'], unknown] => [
      'http',
      { method: 'GET', url: `${receiver.url}/hangs` },
    ]);
    const jobs = await queue(...hanging);
    const [other] = await queueSends(store, { id: 'run_2', ownerId: 'o_2', workflowId: 'p_2' }, [
      ['http', { method: 'GET', url: receiver.url }],
    ]);
    assert.ok(other);
    const stop = new AbortController();
    const all = jobs.map((job) => sends.run(job, stop.signal).catch(() => {}));
    await receiver.waitForRequest(8);
    await sends.run(other, never);
    assert.equal((await findRunSend(store.read, 'run_2', 1))?.state, 'sent');
    assert.equal(receiver.requests.filter(({ url }) => url === '/hangs').length, 8);
    stop.abort(new Error('the service stops'));
    await Promise.all(all);
  });
});
