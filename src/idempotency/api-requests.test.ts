import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { forgetNode, registerNode } from '#jobs/node-store.ts';
import { UnavailableError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { readTimeMs, storeTime } from '#storage/store-time.ts';
import { rotateDataKeys } from '#vault/rotate-data-keys.ts';
import { Vault } from '#vault/vault.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { ApiRequests } from './api-requests.ts';
import { KeptAnswers, type TakenKey } from './kept-answers.ts';

const vault = new Vault(Buffer.alloc(32, 1));
const reply = { status: 201, headers: { 'content-type': 'application/json' }, body: Buffer.from('{"n":1}') };

/** A store of which transactions fail while `isAway` says so. */
function unsteady(store: Store, isAway: () => boolean): Store {
  return new Proxy(store, {
    get(target, name) {
      if (name === 'transaction' && isAway())
        return () => Promise.reject(new UnavailableError('store_unavailable', 'away'));
      const value = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

describe('requests to the API with a key', () => {
  forEachStore((fixture) => {
    const clock = new TestClock();
    const requestsOn = (node: string, { store = fixture.store, retryMs = 600_000 } = {}) => {
      const answers = new KeptAnswers({ store, vault, clock, logger: silentLogger, waitMs: 1 });
      return new ApiRequests({ store, answers, node, clock, logger: silentLogger, retryMs });
    };
    let sent = 0;
    const take = (requests: ApiRequests, id = 'k', requestDigest = 'digest') => {
      sent += 1;
      return requests.take({
        ...{ id, ownerId: 'u_1', subjectId: 'u_1', requestDigest },
        ...{ requestId: `request ${sent}`, rights: '{}' },
      });
    };
    /** The first request with a key. */
    const first = async (requests: ApiRequests, id = 'k'): Promise<TakenKey> => {
      const outcome = await take(requests, id);
      return 'taken' in outcome ? outcome.taken : assert.fail(outcome.earlier.state);
    };
    /** What a repeated request finds. */
    const stateOf = async (requests: ApiRequests, id = 'k', digest = 'digest') => {
      const outcome = await take(requests, id, digest);
      return 'earlier' in outcome ? outcome.earlier.state : 'first';
    };
    const addNode = async (node: string) => {
      const nowMs = await readTimeMs(fixture.store.read, storeTime(fixture.store, clock));
      await fixture.store.transaction((tx) => registerNode(tx, node, { nowMs, leaseMs: 600_000 }));
    };

    test('a request is taken once, and its reply is kept whole', async () => {
      const requests = requestsOn('node_a');
      const outcomes = await Promise.all([take(requests), take(requests), take(requests)]);
      const states = outcomes.map((outcome) => ('taken' in outcome ? 'first' : outcome.earlier.state));
      assert.deepEqual(states, ['first', 'in_progress', 'in_progress']);
      assert.equal(await stateOf(requests, 'k', 'another digest'), 'conflict');
      const [one] = outcomes;
      assert.ok(one !== undefined && 'taken' in one);
      await requests.keep(one.taken, reply);
      const again = await take(requests);
      assert.deepEqual(again, {
        earlier: { state: 'answered', answer: { kind: 'responded', reply }, rights: '{}' },
      });
      const { answer } = await fixture.store.read
        .selectFrom('idempotency_keys')
        .select('answer')
        .executeTakeFirstOrThrow();
      assert.match(answer ?? '', /^v1\./, 'sealed');
    });

    test('a kept reply is resealed when the data keys are rotated', async () => {
      const requests = requestsOn('node_a');
      await requests.keep(await first(requests), reply);
      const { resealed } = await rotateDataKeys(
        { store: fixture.store, vault, clock, progress: () => {} },
        null,
      );
      assert.equal(resealed, 1);
      assert.equal(await stateOf(requests), 'answered');
    });

    test('a key is free again when nothing was done, and of no more use when the outcome is unknown', async () => {
      const requests = requestsOn('node_a');
      await requests.free(await first(requests));
      await requests.abandon(await first(requests));
      assert.equal(await stateOf(requests), 'unknown');
    });

    test('another node sees a request under way while its node lives, then that its outcome is unknown', async () => {
      const [here, there] = [requestsOn('node_a'), requestsOn('node_b')];
      await addNode('node_a');
      const taken = await first(here);
      assert.equal(await stateOf(there), 'in_progress');
      await fixture.store.transaction((tx) => forgetNode(tx, 'node_a'));
      assert.equal(await stateOf(there), 'unknown');
      // It lived, and had only lost its lease.
      await here.keep(taken, reply);
      assert.equal(await stateOf(there), 'answered');
    });

    test('a new process under the name of a node does not think that it has its requests', async () => {
      await first(requestsOn('node_a'));
      await addNode('node_a');
      assert.equal(await stateOf(requestsOn('node_a')), 'unknown');
    });

    test('how requests ended while the store was away is stored when it is back', async () => {
      let isAway = false;
      const requests = requestsOn('node_a', { store: unsteady(fixture.store, () => isAway) });
      const [kept, freed] = [await first(requests, 'kept'), await first(requests, 'freed')];
      isAway = true;
      await requests.keep(kept, reply);
      await requests.free(freed);
      await assert.rejects(take(requests, 'kept'), { code: 'store_unavailable' });
      isAway = false;
      const again = await take(requests, 'kept');
      assert.deepEqual(again, {
        earlier: { state: 'answered', answer: { kind: 'not_kept', status: 201 }, rights: '{}' },
      });
      assert.equal(await stateOf(requests, 'freed'), 'first');
      requests.stop();
    });

    test('other nodes learn how such a request ended, without a repetition here', async () => {
      await addNode('node_a');
      let isAway = false;
      const here = requestsOn('node_a', { store: unsteady(fixture.store, () => isAway), retryMs: 1 });
      const there = requestsOn('node_b');
      const taken = await first(here);
      isAway = true;
      await here.keep(taken, reply);
      assert.equal(await stateOf(there), 'in_progress');
      isAway = false;
      await waitFor(async () => (await stateOf(there)) === 'answered');
      here.stop();
    });
  });
});
