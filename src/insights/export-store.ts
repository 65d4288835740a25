import { sql } from 'kysely';
import type { Db } from '#storage/store.ts';
import type { DeploymentTable } from '#storage/tables/workflow-tables.ts';
import type { Tables } from '#storage/tables.ts';
import { viewDeployments } from '#workflows/definitions/view-workflow.ts';

/** Rows read at once. Those that can be large (events, runs, code) are read a few at a time: an export stays within a few MB. */
const smallPage = 200;
const largePage = 10;

interface Part {
  kind: string;
  table: keyof Tables;
  /** What leaves the service. Secrets, sealed texts and tokens are in no list. */
  columns: readonly string[];
  /** The column that says whose a row is. */
  of: string;
  /** A key within `of`, in the order of an index. */
  order: readonly string[];
  page: number;
}

const times = ['created_at_ms', 'updated_at_ms'];
const byOwner = { of: 'owner_id', order: ['created_at_ms', 'id'], page: smallPage };

/** What a workspace is, by its id. */
const ofWorkspace: readonly Part[] = [
  {
    ...{
      kind: 'workspace',
      table: 'workspaces',
      columns: ['id', 'orgname', 'name', 'email', 'created_at_ms'],
    },
    ...{ of: 'id', order: ['id'], page: smallPage },
  },
  {
    ...{ kind: 'member', table: 'members', columns: ['user_id', 'role', 'created_at_ms'] },
    ...{ of: 'workspace_id', order: ['user_id'], page: smallPage },
  },
  {
    ...{ kind: 'project', table: 'projects', columns: ['id', 'name', ...times] },
    ...{ of: 'org_id', order: ['id'], page: smallPage },
  },
];

/** What a user is, by their id: keys without their text, and where they are a member. */
const ofUser: readonly Part[] = [
  {
    ...{ kind: 'user', table: 'users', of: 'id', order: ['id'], page: smallPage },
    columns: ['id', 'username', 'email', 'kind', 'created_at_ms'],
  },
  {
    ...{ kind: 'membership', table: 'members', of: 'user_id', order: ['workspace_id'], page: smallPage },
    columns: ['workspace_id', 'role', 'created_at_ms'],
  },
  {
    ...{ kind: 'api_key', table: 'api_keys', of: 'user_id', order: ['id'], page: smallPage },
    columns: [
      ...['id', 'name', 'key_hint', 'scopes', 'expires_at_ms', 'created_at_ms', 'last_used_at_ms'],
      'revoked_at_ms',
    ],
  },
  {
    ...{ kind: 'identity', table: 'user_identities', of: 'user_id', order: ['issuer'], page: smallPage },
    columns: ['id', 'issuer', 'subject', 'email', 'created_at_ms', 'signed_in_at_ms'],
  },
];

/** What belongs to a workspace or to a user personally. */
const ofOwner: readonly Part[] = [
  {
    ...{ ...byOwner, kind: 'component', table: 'components', order: ['id'], page: largePage },
    columns: ['id', 'component_key', 'name', 'version', 'url', 'code', ...times],
  },
  {
    ...{ ...byOwner, kind: 'source', table: 'sources' },
    columns: ['id', 'user_id', 'component_id', 'name', 'name_slug', 'configured_props', 'state', ...times],
  },
  {
    ...{ ...byOwner, kind: 'workflow', table: 'workflows' },
    columns: ['id', 'user_id', 'project_id', 'name', 'state', 'deployment_id', 'flow_control', ...times],
  },
  {
    ...{ ...byOwner, kind: 'trigger', table: 'triggers', order: ['workflow_id', 'id'] },
    columns: ['workflow_id', 'id', 'kind', 'key', 'interval_seconds', 'cron', 'timezone', ...times],
  },
  {
    ...{ ...byOwner, kind: 'webhook', table: 'webhooks' },
    columns: ['id', 'user_id', 'name', 'description', 'url', 'state', ...times],
  },
  {
    ...{ ...byOwner, kind: 'subscription', table: 'subscriptions', of: 'emitter_owner_id', order: ['id'] },
    columns: ['id', 'emitter_id', 'event_name', 'listener_id', 'user_id', 'created_at_ms'],
  },
  {
    ...{ ...byOwner, kind: 'variable', table: 'variables', order: ['id'] },
    columns: ['id', 'project_id', 'name', 'secret', 'description', 'user_id', ...times],
  },
  {
    ...{ ...byOwner, kind: 'account', table: 'accounts' },
    columns: ['id', 'user_id', 'app_slug', 'app_name', 'name', ...times],
  },
  {
    ...{ ...byOwner, kind: 'data_store', table: 'data_stores' },
    columns: ['id', 'user_id', 'name', ...times],
  },
  {
    ...{ ...byOwner, kind: 'app', table: 'apps', order: ['slug'] },
    columns: ['slug', 'app_id', 'user_id', 'definition', ...times],
  },
];

/** In the order of the index by owner. */
const file: Part = {
  ...{ ...byOwner, kind: 'file', table: 'files', order: ['complete', 'size', 'id'] },
  columns: ['id', 'folder', 'path', 'content_type', 'size', 'sha256', 'expires_at_ms', ...times],
};
const accountAudit: Part = {
  ...{ ...byOwner, kind: 'account_audit_record', table: 'account_audit' },
  columns: ['id', 'account_id', 'app_slug', 'action', 'user_id', 'key_id', 'details', 'created_at_ms'],
};
const variableAudit: Part = {
  ...{ ...byOwner, kind: 'variable_audit_record', table: 'variable_audit' },
  columns: ['id', 'project_id', 'name', 'action', 'user_id', 'key_id', 'details', 'created_at_ms'],
};
const audit: Part = {
  ...{ ...byOwner, kind: 'audit_record', table: 'audit_records' },
  columns: [
    ...[
      'id',
      'actor_kind',
      'user_id',
      'key_id',
      'session',
      'address',
      'operation',
      'object_kind',
      'object_id',
    ],
    ...['status', 'before', 'after', 'parameters', 'request_id', 'created_at_ms'],
  ],
};
const entry: Part = {
  ...{ kind: 'data_store_entry', table: 'data_store_entries', columns: ['store_id', 'key', 'value'] },
  ...{ of: 'store_id', order: ['key'], page: largePage },
};
const deployment: Part = {
  ...{ kind: 'deployment', table: 'deployments', of: 'workflow_id', order: ['number'], page: largePage },
  columns: [
    'id',
    'workflow_id',
    'owner_id',
    'user_id',
    'number',
    'template_id',
    'definition',
    'created_at_ms',
  ],
};
const event: Part = {
  ...{ kind: 'event', table: 'events', of: 'emitter_id', order: ['channel', 'ms', 'seq'], page: largePage },
  columns: ['emitter_id', 'channel', 'ms', 'seq', 'emit_id', 'given_id', 'summary', 'ts_ms', 'event', 'hops'],
};
const run: Part = {
  ...{ kind: 'run', table: 'runs', of: 'workflow_id', order: ['created_at_ms', 'id'], page: largePage },
  columns: [
    ...['id', 'workflow_id', 'deployment_id', 'state', 'emitter_id', 'source_type', 'event', 'trace_id'],
    ...['replay_of', 'error', 'reason', 'created_at_ms', 'started_at_ms', 'ended_at_ms'],
  ],
};
const step: Part = {
  ...{ kind: 'run_step', table: 'run_steps', of: 'run_id', page: largePage },
  order: ['position', 'iteration', 'attempt', 'try'],
  columns: [
    ...['run_id', 'position', 'iteration', 'attempt', 'try', 'step_id', 'namespace', 'state', 'input'],
    ...['exports', 'logs', 'error', 'started_at_ms', 'ended_at_ms'],
  ],
};
const delivery: Part = {
  ...{
    kind: 'delivery',
    table: 'deliveries',
    of: 'listener_id',
    order: ['created_at_ms', 'id'],
    page: smallPage,
  },
  columns: [
    ...['id', 'listener_id', 'subscription_id', 'emitter_id', 'channel', 'emit_id', 'state', 'reason'],
    ...['attempts', 'attempt_log', 'status', 'latency_ms', 'created_at_ms', 'ended_at_ms'],
  ],
};

type Row = Readonly<Record<string, unknown>>;

/** One object of a workspace or user; `kind` says of what sort. */
export interface ExportedObject {
  kind: string;
  data: Row;
}

export interface ExportOptions {
  db: Db;
  /** Files that have expired by then are not in it. */
  nowMs: number;
  /** An address from which the content of a file can be read for some time. */
  urlOf: (fileId: string) => string;
}

/**
 * Everything of a workspace (o_…), or of a user (u_…) personally, one object after another: definitions first, then files, events, runs with
 * their steps, deliveries and audits. Never more than a page is in memory. Each page shows the store as it is then, so an object that changes
 * meanwhile may be in it once as it was and be named by others as it is.
 */
export async function* exportOwner(
  { db, nowMs, urlOf }: ExportOptions,
  ownerId: string,
): AsyncGenerator<ExportedObject> {
  const ids = new Map<string, string[]>();
  for (const part of [...(ownerId.startsWith('o_') ? ofWorkspace : ofUser), ...ofOwner]) {
    for await (const row of rowsOf(db, part, ownerId)) {
      if (typeof row.id === 'string') ids.set(part.kind, [...(ids.get(part.kind) ?? []), row.id]);
      yield { kind: part.kind, data: row };
    }
  }
  const idsOf = (...kinds: string[]) => kinds.flatMap((kind) => ids.get(kind) ?? []);
  for (const id of idsOf('data_store'))
    for await (const row of rowsOf(db, entry, id)) yield { kind: entry.kind, data: row };
  for (const id of idsOf('workflow'))
    for await (const row of rowsOf(db, deployment, id)) {
      // As the API shows it: without the sealed texts of secrets.
      const [shown] = await viewDeployments(db, [row as unknown as DeploymentTable]);
      yield { kind: deployment.kind, data: shown ?? {} };
    }
  for await (const { complete, ...row } of rowsOf(db, file, ownerId)) {
    const isThere =
      Number(complete) === 1 && (row.expires_at_ms === null || Number(row.expires_at_ms) > nowMs);
    if (isThere) yield { kind: file.kind, data: { ...row, url: urlOf(String(row.id)) } };
  }
  for (const id of [...idsOf('source', 'workflow'), ownerId])
    for await (const row of rowsOf(db, event, id)) yield { kind: event.kind, data: row };
  for (const id of idsOf('workflow'))
    for await (const row of rowsOf(db, run, id)) {
      yield { kind: run.kind, data: row };
      for await (const each of rowsOf(db, step, String(row.id))) yield { kind: step.kind, data: each };
    }
  for (const id of idsOf('webhook', 'source', 'workflow'))
    for await (const row of rowsOf(db, delivery, id)) yield { kind: delivery.kind, data: row };
  for (const part of [accountAudit, variableAudit, audit])
    for await (const row of rowsOf(db, part, ownerId)) yield { kind: part.kind, data: row };
}

async function* rowsOf(db: Db, { table, columns, of, order, page }: Part, id: string): AsyncGenerator<Row> {
  const names = (list: readonly string[]) => sql.join(list.map((name) => sql.ref(name)));
  const read = [...new Set([...columns, ...order])];
  for (let last: Row | undefined; ; ) {
    const from = last;
    const after =
      from === undefined
        ? sql``
        : sql` and (${names(order)}) > (${sql.join(order.map((name) => sql`${from[name]}`))})`;
    const { rows } = await sql<Row>`
      select ${names(read)} from ${sql.table(table)} where ${sql.ref(of)} = ${id}${after}
      order by ${names(order)} limit ${sql.lit(page)}`.execute(db);
    yield* rows;
    last = rows.at(-1);
    if (rows.length < page) return;
  }
}
