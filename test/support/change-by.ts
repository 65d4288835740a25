import type { AuditContext } from '#audit/audit-context.ts';

/** A change of this user, made with no key and no session. */
export function changeBy(userId: string): AuditContext {
  return {
    ...{ recordId: 'aud_1', operation: 'createWorkspace', requestId: null, address: null, parameters: {} },
    ...{ subject: undefined, ownerId: null, createdAtMs: 1 },
    actor: { kind: 'user', userId, keyId: null, sessionId: null },
    ...{ isRecorded: false, before: undefined, further: [], answer: undefined, isOver: false },
  };
}
