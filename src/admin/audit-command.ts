import { type AuditContext, auditContexts } from '#audit/audit-context.ts';
import { describeParameters } from '#audit/describe-change.ts';
import { auditedStore, completeRecord } from '#audit/record-change.ts';
import type { Clock } from '#lib/clock.ts';
import { newId } from '#lib/ids.ts';
import type { Store } from '#storage/store.ts';
import type { AdminRequest } from './admin-command-line.ts';

/** Commands about access. Others change no object of the API, or replace the whole store. */
const recorded = /^(?:user|workspace|member|key) /;

/** Runs a command of the operator; what it changes is recorded in the audit of the instance. */
export async function auditCommand<T>(
  { store, clock, request }: { store: Store; clock: Clock; request: Pick<AdminRequest, 'name' | 'options'> },
  run: (store: Store) => Promise<T>,
): Promise<T> {
  if (!recorded.test(request.name)) return run(store);
  const context: AuditContext = {
    ...{ recordId: newId('aud'), operation: request.name, requestId: null, address: null },
    ...{ subject: undefined, ownerId: null, createdAtMs: clock.now() },
    parameters: describeParameters(request.options),
    actor: { kind: 'operator', userId: null, keyId: null, sessionId: null },
    ...{ isRecorded: false, before: undefined, further: [], answer: undefined, isOver: false },
  };
  const result = await auditContexts.run(context, () => run(auditedStore(store)));
  if (context.isRecorded) await completeRecord(store, context, 200);
  return result;
}
