import { sql } from 'kysely';
import { installedVersion } from '#lib/installation.ts';
import type { Dialect } from './dialect.ts';
import { initialMigration } from './migrations/0001-initial.ts';
import { sourceChangesMigration } from './migrations/0002-source-changes.ts';
import { deliveriesMigration } from './migrations/0003-deliveries.ts';
import { workflowsMigration } from './migrations/0004-workflows.ts';
import { accountsMigration } from './migrations/0005-accounts.ts';
import { apphooksMigration } from './migrations/0006-apphooks.ts';
import { registryMigration } from './migrations/0007-registry.ts';
import { bundlePackagesMigration } from './migrations/0008-bundle-packages.ts';
import { sessionsMigration } from './migrations/0009-sessions.ts';
import { answeredWaitsMigration } from './migrations/0010-answered-waits.ts';
import { laneLeasesMigration } from './migrations/0011-lane-leases.ts';
import { jobBlameMigration } from './migrations/0012-job-blame.ts';
import { writeProbesMigration } from './migrations/0013-write-probes.ts';
import { healthMigration } from './migrations/0014-health.ts';
import { componentUsesMigration } from './migrations/0015-component-uses.ts';
import { idempotencyKeysMigration } from './migrations/0016-idempotency-keys.ts';
import { ticksAndNodesMigration } from './migrations/0017-ticks-and-nodes.ts';
import { apiRequestKeysMigration } from './migrations/0018-api-request-keys.ts';
import { isolatedSourcesMigration } from './migrations/0019-isolated-sources.ts';
import { ownerSharesMigration } from './migrations/0020-owner-shares.ts';
import { variablesMigration } from './migrations/0021-variables.ts';
import { runReplaysMigration } from './migrations/0022-run-replays.ts';
import { testEventsMigration } from './migrations/0023-test-events.ts';
import { gitRegistriesMigration } from './migrations/0024-git-registries.ts';
import { flowControlMigration } from './migrations/0025-flow-control.ts';
import { controlFlowMigration } from './migrations/0026-control-flow.ts';
import { sourceFlowControlMigration } from './migrations/0027-source-flow-control.ts';
import { importsMigration } from './migrations/0028-imports.ts';
import { runWarningsMigration } from './migrations/0029-run-warnings.ts';
import { blockAttemptsMigration } from './migrations/0030-block-attempts.ts';
import { deliveryTracesMigration } from './migrations/0031-delivery-traces.ts';
import { singleSignOnMigration } from './migrations/0032-single-sign-on.ts';
import { accessMigration } from './migrations/0033-access.ts';
import { disabledReasonMigration } from './migrations/0034-disabled-reason.ts';
import { ownerLimitsMigration } from './migrations/0035-owner-limits.ts';
import { workspaceRetentionMigration } from './migrations/0036-workspace-retention.ts';
import { importUndosMigration } from './migrations/0037-import-undos.ts';
import { connectKeysMigration } from './migrations/0038-connect-keys.ts';
import { deletionsMigration } from './migrations/0039-deletions.ts';
import { fileDaysMigration } from './migrations/0040-file-days.ts';
import { jobOwnersMigration } from './migrations/0041-job-owners.ts';
import { fileBucketsMigration } from './migrations/0045-file-buckets.ts';
import { buildLimitsMigration } from './migrations/0046-build-limits.ts';
import { workspaceLimitsMigration } from './migrations/0047-workspace-limits.ts';
import type { Store, Tx } from './store.ts';

export interface Migration {
  name: string;
  statements: readonly string[];
}

/** In order. A released migration is never edited. */
export const migrations: readonly Migration[] = [
  initialMigration,
  sourceChangesMigration,
  deliveriesMigration,
  workflowsMigration,
  accountsMigration,
  apphooksMigration,
  registryMigration,
  bundlePackagesMigration,
  sessionsMigration,
  answeredWaitsMigration,
  laneLeasesMigration,
  jobBlameMigration,
  writeProbesMigration,
  healthMigration,
  componentUsesMigration,
  idempotencyKeysMigration,
  ticksAndNodesMigration,
  apiRequestKeysMigration,
  isolatedSourcesMigration,
  ownerSharesMigration,
  variablesMigration,
  runReplaysMigration,
  testEventsMigration,
  gitRegistriesMigration,
  flowControlMigration,
  controlFlowMigration,
  sourceFlowControlMigration,
  importsMigration,
  runWarningsMigration,
  blockAttemptsMigration,
  deliveryTracesMigration,
  singleSignOnMigration,
  accessMigration,
  disabledReasonMigration,
  ownerLimitsMigration,
  workspaceRetentionMigration,
  importUndosMigration,
  connectKeysMigration,
  deletionsMigration,
  fileDaysMigration,
  jobOwnersMigration,
  fileBucketsMigration,
  buildLimitsMigration,
  workspaceLimitsMigration,
];

/** The store was written by a newer version, or its history differs: continuing could destroy data. */
export class SchemaError extends Error {
  override name = 'SchemaError';
}

/**
 * Brings the tables to this version, all pending migrations in one transaction, so a failed one leaves nothing.
 * `beforeMigrating` is called when there is something to migrate and something to lose (the embedded store takes its
 * snapshot there). Throws `SchemaError` when the store is newer than this version.
 */
export async function migrate(
  store: Dialect & Pick<Store, 'read' | 'transaction'>,
  options: {
    migrations: readonly Migration[];
    beforeMigrating: (from: string, to: string) => Promise<void>;
  },
): Promise<void> {
  const applied = await appliedMigrations(store);
  await refuseNewer(store, applied, options.migrations);
  const pending = options.migrations.filter((migration) => !applied.includes(migration.name));
  const last = pending.at(-1);
  if (last === undefined) return;
  const newest = applied.at(-1);
  if (newest !== undefined) await options.beforeMigrating(newest, last.name);
  await store.transaction(async (tx) => {
    // Nodes that start together on one PostgreSQL take turns.
    await store.takeTurn(tx, 'migrate');
    await sql`create table if not exists schema_migrations (name text primary key, applied_at text not null, version text)`.execute(
      tx,
    );
    if (!(await recordsVersions({ name: store.name, read: tx })))
      await sql`alter table schema_migrations add column version text`.execute(tx);
    const meanwhile = await appliedNames(tx);
    await refuseNewer({ name: store.name, read: tx }, meanwhile, options.migrations);
    for (const migration of pending.filter(({ name }) => !meanwhile.includes(name))) {
      for (const statement of migration.statements) await sql.raw(statement).execute(tx);
      await sql`insert into schema_migrations (name, applied_at, version)
        values (${migration.name}, ${new Date().toISOString()}, ${installedVersion})`.execute(tx);
    }
  });
}

async function refuseNewer(
  store: Pick<Store, 'name' | 'read'>,
  applied: readonly string[],
  known: readonly Migration[],
): Promise<void> {
  const unknown = applied.filter((name) => !known.some((migration) => migration.name === name));
  if (unknown.length === 0) return;
  const version = await versionOf(store, unknown.at(-1));
  const backup =
    store.name === 'sqlite'
      ? 'the snapshot taken before the upgrade (backups/ in the data folder)'
      : 'your backup of the database from before the upgrade';
  throw new SchemaError(
    `this store was written by ${version === undefined ? 'a newer version of Millrace' : `Millrace ${version}, and this is ${installedVersion}`} ` +
      `(it has ${unknown.join(', ')}): start ${version === undefined ? 'that version' : `Millrace ${version} or newer`}, or restore ${backup}`,
  );
}

/** The version that applied a migration. Undefined: a version that did not record it yet. */
async function versionOf(
  store: Pick<Store, 'name' | 'read'>,
  migration: string | undefined,
): Promise<string | undefined> {
  if (!(await recordsVersions(store))) return undefined;
  const { rows } = await sql<{ version: string | null }>`
    select version from schema_migrations where name = ${migration}`.execute(store.read);
  return rows[0]?.version ?? undefined;
}

async function recordsVersions({ name, read }: Pick<Store, 'name' | 'read'>): Promise<boolean> {
  const { rows } = await (name === 'sqlite'
    ? sql`select 1 from pragma_table_info('schema_migrations') where name = 'version'`
    : sql`select 1 from information_schema.columns
        where table_schema = current_schema() and table_name = 'schema_migrations' and column_name = 'version'`
  ).execute(read);
  return rows.length > 0;
}

/** Names of the migrations that a store has; none: it is empty. */
export async function appliedMigrations(store: Pick<Store, 'name' | 'read'>): Promise<string[]> {
  // Only the schema our statements go to: other applications in one database have tables of this name too.
  const { rows } = await (store.name === 'sqlite'
    ? sql`select 1 from sqlite_master where type = 'table' and name = 'schema_migrations'`
    : sql`select 1 where to_regclass('schema_migrations') is not null`
  ).execute(store.read);
  return rows.length === 0 ? [] : appliedNames(store.read);
}

async function appliedNames(db: Store['read'] | Tx): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`select name from schema_migrations order by name`.execute(db);
  return rows.map((row) => row.name);
}
