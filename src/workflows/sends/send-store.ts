import type { OutcomeRecorder } from '#health/outcome-store.ts';
import { settleJobs } from '#jobs/job-store.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { RunSendTable } from '#storage/tables/workflow-tables.ts';
import type { SendOutcome } from './run-send.ts';
import { type EndedSend, lockRunsOf, outcomesOfSends } from './send-health-store.ts';

const columns = [
  'run_id',
  'number',
  'owner_id',
  'workflow_id',
  'kind',
  'payload',
  'state',
  'result',
  'created_at_ms',
  'ended_at_ms',
] as const;

export async function findRunSend(db: Db, runId: string, number: number): Promise<RunSendTable | undefined> {
  return db
    .selectFrom('run_sends')
    .select(columns)
    .where('run_id', '=', runId)
    .where('number', '=', number)
    .executeTakeFirst();
}

/** What a run has still to send to its stream, in order, locked until the end of the transaction. */
export async function lockQueuedSse(
  store: Pick<Store, 'lockRows'>,
  tx: Tx,
  runId: string,
): Promise<RunSendTable[]> {
  const query = tx
    .selectFrom('run_sends')
    .select(columns)
    .where('run_id', '=', runId)
    .where('kind', '=', 'sse')
    .where('state', '=', 'queued')
    .orderBy('number');
  return (await store.lockRows(query).execute()) as RunSendTable[];
}

/** Records the outcome of a send that was not reported yet. */
async function endRunSend(tx: Tx, end: EndedSend): Promise<void> {
  await tx
    .updateTable('run_sends')
    .set({
      state: end.outcome.state,
      result: JSON.stringify(end.outcome.result),
      ended_at_ms: end.nowMs,
    })
    .where('run_id', '=', end.runId)
    .where('number', '=', end.number)
    .where('state', '=', 'queued')
    .execute();
}

/** The same for several, with what they say about the health of their workflows. */
export async function endRunSends(
  store: Pick<Store, 'lockRows'>,
  tx: Tx,
  ended: readonly EndedSend[],
  outcomes: OutcomeRecorder,
): Promise<void> {
  await lockRunsOf(
    store,
    tx,
    ended.map(({ runId }) => runId),
  );
  for (const end of ended) await endRunSend(tx, end);
  await outcomes.record(tx, await outcomesOfSends(tx, ended));
}

/** How many sends of each run failed; runs without are missing. */
export async function failedSendsOf(db: Db, runIds: readonly string[]): Promise<Map<string, number>> {
  if (runIds.length === 0) return new Map();
  const rows = await db
    .selectFrom('run_sends')
    .select(({ fn }) => ['run_id', fn.countAll().as('count')])
    .where('run_id', 'in', [...runIds])
    .where('state', '=', 'failed')
    .groupBy('run_id')
    .execute();
  return new Map(rows.map(({ run_id, count }) => [run_id, Number(count)]));
}

export interface SendEnd {
  job: { id: string; attempts: number; ownerId: string };
  runId: string;
  number: number;
  /** undefined: there was nothing left to send. */
  outcome: SendOutcome | undefined;
  nowMs: number;
}

/** Ends sends together with their jobs, where this node still holds those. */
export function settleSends(
  store: Store,
  node: string,
  outcomes: OutcomeRecorder,
): BatchWrite<SendEnd, boolean> {
  return {
    name: 'settle-sends',
    endsWork: true,
    ownerOf: ({ job }) => job.ownerId,
    async run(tx, ends) {
      const held = await settleJobs(store, tx, { node, jobs: ends.map(({ job }) => job) });
      const ended = ends.flatMap((end): EndedSend[] =>
        end.outcome !== undefined && held.has(end.job.id) ? [{ ...end, outcome: end.outcome }] : [],
      );
      await endRunSends(store, tx, ended, outcomes);
      await dropUnkept(
        tx,
        ends.map(({ runId }) => runId),
      );
      return ends.map(({ job }) => held.has(job.id));
    },
  };
}

/** What runs sent of which nothing is kept, once it was sent: their own rows are gone. */
export async function dropUnkept(tx: Tx, runIds: readonly string[]): Promise<void> {
  await tx
    .deleteFrom('run_sends')
    .where('run_id', 'in', [...new Set(runIds)])
    .where('state', '!=', 'queued')
    .where((where) =>
      where.not(
        where.exists(where.selectFrom('runs').select('runs.id').whereRef('runs.id', '=', 'run_sends.run_id')),
      ),
    )
    .execute();
}

/**
 * The address of the user who made a workflow, as long as they belong to its owner; undefined when the workflow is gone, or the
 * user is.
 */
export async function addressOfWorkflow(db: Db, workflowId: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('workflows')
    .innerJoin('users', 'users.id', 'workflows.user_id')
    .leftJoin('members', (join) =>
      join
        .onRef('members.workspace_id', '=', 'workflows.owner_id')
        .onRef('members.user_id', '=', 'workflows.user_id'),
    )
    .select(['users.email', 'users.id', 'workflows.owner_id', 'members.role'])
    .where('workflows.id', '=', workflowId)
    .executeTakeFirst();
  if (row === undefined) return undefined;
  return row.owner_id === row.id || row.role !== null ? row.email : undefined;
}

/** The address of a user; undefined for any other owner. */
export async function addressOfUser(db: Db, userId: string): Promise<string | undefined> {
  const row = await db.selectFrom('users').select('email').where('id', '=', userId).executeTakeFirst();
  return row?.email;
}
