import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Store } from '#storage/store.ts';
import { type AuditContext, auditContexts } from './audit-context.ts';
import { auditedStore } from './record-change.ts';

function changeBy(userId: string): AuditContext {
  return {
    ...{ recordId: 'aud_1', operation: 'createWorkspace', requestId: null, address: null, parameters: {} },
    ...{ subject: undefined, ownerId: null, createdAtMs: 1 },
    actor: { kind: 'user', userId, keyId: null, sessionId: null },
    ...{ isRecorded: false, before: undefined, further: [], answer: undefined, isOver: false },
  };
}

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
  const settle = () => new Promise<void>((resolve) => setImmediate(resolve));
  const changes = Array.from({ length: 20 }, () => change('u_1'));
  changes.push(
    change('u_2'),
    store.transaction(async () => {}),
  );
  await settle();
  assert.deepEqual(begun.map(({ by }) => by).sort(), ['service', 'u_1', 'u_2']);
  for (let at = 0; at < begun.length; at += 1) {
    begun[at]?.end();
    await settle();
  }
  await Promise.all(changes);
  assert.equal(begun.length, 22);
});
