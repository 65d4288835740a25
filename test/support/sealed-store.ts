import assert from 'node:assert/strict';
import type { TableMetadata } from 'kysely';
import { openValues, sealValues, type ValueSealer } from '#sources/sealed-props.ts';
import { beforeChange, describeBefore } from '#sources/source-change.ts';
import type { Store } from '#storage/store.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import type { Tables } from '#storage/tables.ts';
import { openObject, openValue, type SealOptions, sealObject, sealValue } from '#vault/sealed-values.ts';
import type { Vault } from '#vault/vault.ts';
import { sealedStep } from '#workflows/definitions/load-step.ts';
import { openTriggerAuth, sealTriggerAuth } from '#workflows/definitions/trigger-auth.ts';
import {
  defaultWorkflowSettings,
  type WorkflowDefinition,
} from '#workflows/definitions/workflow-definition.ts';
import { sourceRow } from './source-row.ts';

/** The sealed content of each column of an owner, opened as the service does; the texts name owner and column. */
export function expectedSecrets(ownerId: string): Record<string, unknown> {
  const secret = (place: string) => `secret of ${ownerId} in ${place}`;
  return {
    account: { token: secret('account') },
    client: secret('client'),
    reply: secret('reply'),
    flow: { verifier: secret('flow') },
    webhook: secret('webhook'),
    oldWebhook: secret('old webhook'),
    trigger: { type: 'static_bearer_token', token: secret('trigger') },
    openTrigger: { type: 'oauth' },
    source: { plain: 1, first: secret('source'), second: [secret('source')] },
    before: { plain: 2, first: secret('before') },
    step: { url: 'x', key: secret('step') },
    variable: secret('variable'),
  };
}

/** Stores a row of every kind that holds something sealed, for an owner that has none yet. */
export async function storeSealed(
  store: Store,
  { vault, clock }: SealOptions,
  ownerId: string,
): Promise<void> {
  const secrets = expectedSecrets(ownerId);
  const id = (prefix: string) => `${prefix}_${ownerId}`;
  const sealer: ValueSealer = {
    open: () => Promise.reject(new Error('nothing is opened while it is stored')),
    seal: (owner, objectId, value) =>
      store.transaction((tx) => sealValue(tx, { vault, clock }, { ownerId: owner, id: objectId, value })),
  };
  const value = (objectId: string, name: string) => sealer.seal(ownerId, objectId, secrets[name]);
  const object = (objectId: string, name: string) =>
    store.transaction((tx) =>
      sealObject(
        tx,
        { vault, clock },
        { ownerId, id: objectId, value: secrets[name] as Record<string, unknown> },
      ),
    );
  const source = sourceRow(id('dc'), { ownerId });
  const now = await sealValues(
    sealer,
    source,
    secrets.source as Record<string, unknown>,
    new Set(['first', 'second']),
  );
  const before = await sealValues(
    sealer,
    source,
    secrets.before as Record<string, unknown>,
    new Set(['first']),
  );
  const step = { id: id('c'), owner_id: ownerId };
  const props = await sealValues(sealer, step, secrets.step as Record<string, unknown>, new Set(['key']));
  const definition: WorkflowDefinition = {
    steps: ['plain', 'sealed'].map((namespace) => ({
      id: namespace === 'sealed' ? step.id : `${step.id}_plain`,
      namespace,
      componentId: 'sc_1',
      origin: 'code',
      componentKey: null,
      configuredProps: props.configured_props,
      sealedProps: namespace === 'sealed' ? props.sealed_props : null,
      dynamicProps: null,
      disabled: false,
    })),
    settings: defaultWorkflowSettings,
  };
  const trigger = { id: id('hi'), owner_id: ownerId };
  const auth = await sealTriggerAuth(sealer, trigger, secrets.trigger as never);
  const rows: { table: keyof Tables; row: Record<string, unknown> }[] = [
    { table: 'accounts', row: { id: id('apn'), sealed: await object(id('apn'), 'account') } },
    { table: 'oauth_clients', row: { id: id('oa'), sealed_secret: await value(id('oa'), 'client') } },
    { table: 'connect_flows', row: { id: id('cf'), sealed: await object(id('cf'), 'flow') } },
    { table: 'connect_flows', row: { id: id('cg'), sealed: '' } },
    { table: 'idempotency_keys', row: { id: id('ik'), answer: await value(id('ik'), 'reply') } },
    { table: 'idempotency_keys', row: { id: id('il'), answer: 'accepted' } },
    {
      table: 'webhooks',
      row: {
        id: id('wh'),
        secret: await value(id('wh'), 'webhook'),
        old_secret: await value(id('wh'), 'oldWebhook'),
      },
    },
    { table: 'triggers', row: { ...trigger, workflow_id: id('p'), auth } },
    { table: 'triggers', row: { ...trigger, id: id('hj'), workflow_id: id('p'), auth: 'oauth' } },
    {
      table: 'sources',
      row: { ...source, ...now, before_change: describeBefore({ ...source, ...before }, []) },
    },
    { table: 'variables', row: { id: id('var'), sealed: await value(id('var'), 'variable') } },
    { table: 'deployments', row: { id: id('d'), definition: JSON.stringify(definition) } },
  ];
  const columns = await columnsByTable(store);
  await store.transaction(async (tx) => {
    for (const { table, row } of rows)
      await tx
        .insertInto(table)
        .values(filled(columns.get(table) ?? [], { owner_id: ownerId, ...row }) as never)
        .execute();
  });
}

/** Opens all of it again. */
export async function openSealed(
  store: Store,
  vault: Vault,
  ownerId: string,
): Promise<Record<string, unknown>> {
  const id = (prefix: string) => `${prefix}_${ownerId}`;
  const sealer = {
    open: (owner: string, objectId: string, sealed: string) =>
      openValue(store.read, vault, { ownerId: owner, id: objectId, sealed }),
  };
  const row = async (table: keyof Tables, rowId: string) =>
    (await store.read
      .selectFrom(table)
      .selectAll()
      .where('id' as never, '=', rowId as never)
      .executeTakeFirstOrThrow()) as unknown as Record<string, string>;
  const value = async (table: keyof Tables, prefix: string, column: string) =>
    sealer.open(ownerId, id(prefix), (await row(table, id(prefix)))[column] ?? '');
  const object = async (table: keyof Tables, prefix: string) =>
    openObject(store.read, vault, {
      ownerId,
      id: id(prefix),
      sealed: (await row(table, id(prefix))).sealed ?? '',
    });
  const source = (await row('sources', id('dc'))) as unknown as SourceTable;
  const before = beforeChange(source);
  assert.ok(before);
  const definition = JSON.parse((await row('deployments', id('d'))).definition ?? '') as WorkflowDefinition;
  const step = definition.steps.find(({ namespace }) => namespace === 'sealed');
  assert.ok(step);
  return {
    account: await object('accounts', 'apn'),
    client: await value('oauth_clients', 'oa', 'sealed_secret'),
    flow: await object('connect_flows', 'cf'),
    reply: await value('idempotency_keys', 'ik', 'answer'),
    webhook: await value('webhooks', 'wh', 'secret'),
    oldWebhook: await value('webhooks', 'wh', 'old_secret'),
    trigger: await openTriggerAuth(sealer, (await row('triggers', id('hi'))) as never),
    openTrigger: await openTriggerAuth(sealer, (await row('triggers', id('hj'))) as never),
    source: await openValues(sealer, source),
    before: await openValues(sealer, before.source),
    step: await openValues(sealer, sealedStep(step, ownerId)),
    variable: await value('variables', 'var', 'sealed'),
  };
}

type Column = TableMetadata['columns'][number];

/** Read once per store: the tables stay as they are. */
const knownColumns = new WeakMap<Store, Promise<Map<string, Column[]>>>();

function columnsByTable(store: Store): Promise<Map<string, Column[]>> {
  const known = knownColumns.get(store);
  if (known !== undefined) return known;
  const read = store.read.introspection
    .getTables()
    .then((tables) => new Map(tables.map(({ name, columns }) => [name, columns])));
  knownColumns.set(store, read);
  return read;
}

/** The row, with something harmless in each column that must not be empty and is not given. */
function filled(columns: readonly Column[], given: Record<string, unknown>): Record<string, unknown> {
  const fillers = columns
    .filter(({ isNullable, name }) => !isNullable && !(name in given))
    .map(({ name, dataType, hasDefaultValue }) => [
      name,
      hasDefaultValue ? undefined : fillerOf(dataType, `${name} of ${given.id}`),
    ])
    .filter(([, value]) => value !== undefined);
  return { ...Object.fromEntries(fillers), ...given };
}

function fillerOf(dataType: string, text: string): string | number {
  return /int/i.test(dataType) ? 1 : text;
}

/** Every column of every table that holds text, for looking for what must not be there. */
export async function allTexts(store: Store): Promise<{ table: string; column: string; text: string }[]> {
  const found: { table: string; column: string; text: string }[] = [];
  for (const table of (await columnsByTable(store)).keys()) {
    const rows = await store.read
      .selectFrom(table as keyof Tables)
      .selectAll()
      .execute();
    for (const row of rows)
      for (const [column, value] of Object.entries(row))
        if (typeof value === 'string') found.push({ table, column, text: value });
        else if (value instanceof Uint8Array)
          found.push({ table, column, text: Buffer.from(value).toString('latin1') });
  }
  return found;
}
