import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turnOfLoop } from 'node:timers/promises';
import type { Store } from '#storage/store.ts';
import { changeBy } from '../../test/support/change-by.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { auditContexts } from './audit-context.ts';
import { auditedStore } from './record-change.ts';

test('of the changes of an author one is written at a time, those of others and of the service do not wait for them', async () => {
  const begun: { by: string; end: () => void }[] = [];
  const store = auditedStore({
    transaction: () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      begun.push({ by: auditContexts.getStore()?.actor.userId ?? 'service', end: resolve });
      return promise;
    },
  } as unknown as Store);
  const change = (userId: string) =>
    auditContexts.run(changeBy(userId), () => store.transaction(async () => {}));
  const changes = Array.from({ length: 20 }, () => change('u_1'));
  changes.push(
    change('u_2'),
    store.transaction(async () => {}),
  );
  await turnOfLoop();
  assert.deepEqual(begun.map(({ by }) => by).sort(), ['service', 'u_1', 'u_2']);
  for (let at = 0; at < changes.length; at += 1) {
    // A change that took long, as all do on a busy machine, is followed by a rest.
    await waitFor(() => begun.length > at);
    begun[at]?.end();
  }
  await Promise.all(changes);
  assert.equal(begun.length, 22);
});
