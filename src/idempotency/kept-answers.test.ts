import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { silentLogger } from '#lib/logger.ts';
import { Vault } from '#vault/vault.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { keptMs, keyRow, takeKeys } from './idempotency-key-store.ts';
import type { KeptAnswer } from './kept-answer.ts';
import { type FoundKey, KeptAnswers } from './kept-answers.ts';
import { IdempotencyKeyPruner } from './prune-keys.ts';

const vault = new Vault(Buffer.alloc(32, 1));
const reply = { status: 201, headers: { 'x-two': ['a', 'b'] }, body: Buffer.from([0, 255, 1]) };

describe('the answers of requests with a key', () => {
  forEachStore((fixture) => {
    const clock = new TestClock();
    const answersOn = (
      options: { store?: typeof fixture.store; ownerBytesMax?: number; pollMs?: number } = {},
    ) =>
      new KeptAnswers({
        ...{ store: fixture.store, vault, clock, logger: silentLogger, waitMs: 600_000 },
        ...options,
      });
    /** A key whose request waits for its reply, with the job it became. */
    async function taken(answers: KeptAnswers, id: string): Promise<FoundKey> {
      const nowMs = clock.now();
      const row = keyRow(
        { id, ownerId: 'o_1', subjectId: 'dc_1', requestDigest: 'digest' },
        { jobId: id, nowMs, accepted: false },
      );
      await fixture.store.transaction(async (tx) => {
        await takeKeys(tx, [row]);
        await tx
          .insertInto('jobs')
          .values({
            ...{ id, kind: 'run_source', owner_id: 'o_1', lane: null, state: 'queued', run_at_ms: nowMs },
            ...{ attempts: 0, losses: 0, blames: 0, alone: 0, lease_node: null, payload: '{}', error: null },
            ...{ created_at_ms: nowMs, updated_at_ms: nowMs },
          })
          .execute();
      });
      return (await answers.find(id)) ?? assert.fail('no key');
    }
    const removeJob = (id: string) =>
      fixture.store.transaction((tx) => tx.deleteFrom('jobs').where('id', '=', id).execute());
    const stored = () => fixture.store.read.selectFrom('idempotency_keys').select(['id', 'answer']).execute();

    test('a reply is kept whole and sealed, the first one counts, and it is gone after 24 hours', async () => {
      const answers = answersOn();
      const key = await taken(answers, 'k');
      assert.equal(key.answer, undefined);
      await answers.record(key, { kind: 'responded', reply });
      await answers.record(key, { kind: 'ended', waits: false });
      assert.deepEqual((await answers.find('k'))?.answer, { kind: 'responded', reply });
      const together = await Promise.all(Array.from({ length: 20 }, () => answers.find('k')));
      // Those that wait at the same time share what was opened.
      assert.ok(new Set(together.map((found) => found?.answer)).size < together.length);
      assert.match((await stored())[0]?.answer ?? '', /^v1\./);
      const pruner = new IdempotencyKeyPruner({ store: fixture.store, clock, logger: silentLogger });
      clock.step(keptMs - 1);
      await pruner.prune();
      assert.equal((await stored()).length, 1);
      clock.step(1);
      assert.equal(await answers.find('k'), undefined);
      await pruner.prune();
      assert.deepEqual(await stored(), []);
    });

    test('an owner keeps so many keys; the oldest are removed', async () => {
      const answers = answersOn();
      for (const id of ['a', 'b', 'c']) {
        await taken(answers, id);
        clock.step(1);
      }
      const { store } = fixture;
      await new IdempotencyKeyPruner({ store, clock, logger: silentLogger, keysPerOwnerMax: 2 }).prune();
      assert.deepEqual((await stored()).map(({ id }) => id).sort(), ['b', 'c']);
    });

    test('of a reply beyond 1 MB, beyond what an owner keeps, or that is private, the status is kept', async () => {
      const answers = answersOn({ ownerBytesMax: 1_000_000 });
      const sized = (bytes: number) => ({
        kind: 'responded' as const,
        reply: { ...reply, body: Buffer.alloc(bytes) },
      });
      // Without the body: to print the difference of two large ones takes minutes.
      const shortOf = (answer: KeptAnswer | undefined) => (answer?.kind === 'responded' ? 'whole' : answer);
      const kindOf = async (id: string, bytes: number, options = {}) => {
        await answers.record(await taken(answers, id), sized(bytes), options);
        return shortOf((await answers.find(id))?.answer);
      };
      const statusOnly = { kind: 'not_kept', status: 201 };
      assert.deepEqual(await kindOf('large', 1024 * 1024), statusOnly);
      assert.deepEqual(await kindOf('private', 1, { isPrivate: true }), statusOnly);
      assert.equal(await kindOf('fits', 400_000), 'whole');
      assert.equal(await kindOf('fits too', 500_000), 'whole', 'that it is sealed does not count');
      assert.deepEqual(await kindOf('full', 100_000), statusOnly, 'headers count');
      assert.equal(await kindOf('small', 10_000), 'whole');
      const another = answersOn({ ownerBytesMax: 1_000_000 });
      await another.record(await taken(another, 'after a start'), sized(100_000));
      assert.deepEqual(
        shortOf((await another.find('after a start'))?.answer),
        statusOnly,
        'what is stored counts',
      );
    });

    test('a repeated request waits until the first is answered, here or on another node', async () => {
      // Longer than the test: only the notification ends the wait.
      const answers = answersOn({ pollMs: 600_000 });
      const recording = fixture.dialect === 'sqlite' ? answers : answersOn({ store: await fixture.open() });
      const key = await taken(answers, 'k');
      const waiting = answers.answerOf(key);
      await recording.record(key, { kind: 'responded', reply });
      assert.deepEqual(await waiting, { kind: 'responded', reply });
    });

    test('one whose run is gone without an answer gets none; a stop and the end of the wait mean: not now', async () => {
      const answers = answersOn({ pollMs: 10 });
      const lost = await taken(answers, 'lost');
      await removeJob('lost');
      assert.deepEqual(await answers.answerOf(lost), { kind: 'not_kept', status: 409 });
      const going = await taken(answers, 'going');
      const short = new KeptAnswers({
        ...{ store: fixture.store, vault, clock, logger: silentLogger, waitMs: 1 },
      });
      assert.equal(await short.answerOf(going), undefined);
      const waiting = answers.answerOf(going);
      answers.stop();
      assert.equal(await waiting, undefined);
      assert.equal(await answers.answerOf(going), undefined);
    });

    test('a run without a caller records its reply, but not when it was interrupted', async () => {
      const answers = answersOn();
      const key = await taken(answers, 'k');
      const first = answers.recorder(key, { isPrivate: false });
      first.interrupted();
      first.ended();
      const second = answers.recorder(key, { isPrivate: false });
      const waiting = answers.answerOf(key);
      second.respond(reply);
      second.ended();
      assert.deepEqual(await waiting, { kind: 'responded', reply });
      const secret = await taken(answers, 'secret');
      const told = answers.answerOf(secret);
      answers.recorder(secret, { isPrivate: true }).respond(reply);
      assert.deepEqual(await told, { kind: 'not_kept', status: reply.status });
    });
  });
});
