import { isDeepStrictEqual } from 'node:util';
import type { ConfiguredProps } from '#components/validate-props.ts';
import { notFound, type Ownership, ownersOf } from '#identity/permissions.ts';
import { holdMemberships } from '#identity/workspace-store.ts';
import type { CallerError } from '#lib/errors.ts';
import { newBase36Key, newId } from '#lib/ids.ts';
import type { ComponentOwner, ComponentResolver } from '#registry/resolve-component.ts';
import type { DeploymentContext } from '#sources/deployment.ts';
import { shapeOfSource } from '#sources/source-shape.ts';
import { findSource } from '#sources/source-store.ts';
import type { Dialect } from '#storage/dialect.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { TriggerKind, TriggerTable } from '#storage/tables/workflow-tables.ts';
import { atParameter, invalidAt } from './at-parameter.ts';
import { sealTriggerAuth, triggerAuthType } from './trigger-auth.ts';
import {
  type HttpAuth,
  hasSameSchedule,
  readTrigger,
  scheduleColumns,
  type TriggerDefinition,
} from './trigger-definition.ts';
import { layTriggerOver, triggerAsInput } from './trigger-input.ts';
import type { TriggerInput } from './workflow-input.ts';

/** The triggers that a workflow is to have. */
export interface TriggerPlan {
  rows: TriggerTable[];
  /** Sources of other owners that the workflow does not listen to yet: the caller has to have the right to them. */
  newForeignSources: { id: string; ownerId: string; parameter: string }[];
  /** Sources to create first; each then gives its row the id. */
  newSources: { row: TriggerTable; at: string; source: NewSource }[];
}

export interface NewSource {
  component_id: string;
  configured_props: ConfiguredProps;
  name?: string;
}

interface PlanSubject {
  workflowId: string;
  owner: ComponentOwner;
  /** The triggers it has now. */
  before: readonly TriggerTable[];
  nowMs: number;
}

interface TriggerPlanOptions {
  db: Db;
  resolver: Pick<ComponentResolver, 'resolve' | 'resolveText'>;
  context: Pick<DeploymentContext, 'sealer'>;
}

/**
 * Turns the triggers of a request into rows. A trigger with the id of an existing one, or at the index of one of its
 * type, keeps id and address. Throws the error of one of them, naming `triggers[<n>]` and the field.
 */
export async function planTriggers(
  options: TriggerPlanOptions,
  inputs: readonly TriggerInput[],
  subject: PlanSubject,
): Promise<TriggerPlan> {
  const kept = matchTriggers(inputs, subject.before);
  const plan: TriggerPlan = { rows: [], newForeignSources: [], newSources: [] };
  for (const [index, input] of inputs.entries()) {
    const former = kept[index];
    // Without a type it changes an existing trigger, with one it is a whole trigger.
    const whole =
      former === undefined || (input.type !== undefined && input.id === undefined)
        ? input
        : layTriggerOver(triggerAsInput(former), input);
    const definition = readTrigger(whole, index);
    const at = `triggers[${index}].props`;
    if (definition.kind === 'on_failure' && plan.rows.some(({ kind }) => kind === 'on_failure'))
      throw invalidAt(`triggers[${index}].type`, 'a workflow has one trigger of type on_failure at most');
    requireWorkspaceForOAuth(definition, subject.owner, at);
    const row = await rowOf(options, definition, former, index, subject);
    if (definition.kind === 'source')
      await planSource(options, definition, { row, at, former }, subject, plan);
    if (row.id !== '' && plan.rows.some(({ id }) => id === row.id))
      throw invalidAt(`${at}.source_id`, `${row.id} is a trigger of this workflow already`);
    plan.rows.push(row);
  }
  return plan;
}

/** A user has no OAuth clients, so such a trigger could never be called. */
function requireWorkspaceForOAuth(definition: TriggerDefinition, owner: ComponentOwner, at: string): void {
  if (definition.kind !== 'http' || definition.auth?.type !== 'oauth') return;
  if (owner.ownerId.startsWith('o_')) return;
  throw invalidAt(
    `${at}.auth.type`,
    'oauth is for workflows of a workspace: its OAuth clients get the tokens',
  );
}

/** For each input the existing trigger that it changes, if any. */
function matchTriggers(
  inputs: readonly TriggerInput[],
  before: readonly TriggerTable[],
): (TriggerTable | undefined)[] {
  const named = new Set(inputs.map((input) => input.id).filter((id) => id !== undefined));
  const seen = new Set<string>();
  return inputs.map((input, index) => {
    const { id, type } = input;
    if (id === undefined) {
      const there = before[index];
      if (there === undefined || named.has(there.id)) return undefined;
      return type === undefined || type === there.kind ? there : undefined;
    }
    const found = before.find((trigger) => trigger.id === id);
    if (found === undefined) throw invalidAt(`triggers[${index}].id`, `the workflow has no trigger ${id}`);
    if (type !== undefined && type !== found.kind)
      throw invalidAt(`triggers[${index}].type`, `${id} is of type ${found.kind}; leave its id out`);
    if (seen.has(id)) throw invalidAt(`triggers[${index}].id`, `${id} is given twice`);
    seen.add(id);
    return found;
  });
}

const idPrefixes: Readonly<Record<Exclude<TriggerKind, 'source'>, string>> = {
  http: 'hi',
  timer: 'ti',
  email: 'ei',
  on_failure: 'fi',
};
const keyPrefixes: Readonly<Partial<Record<TriggerKind, string>>> = { http: 'eo', email: 'em' };

async function rowOf(
  { context }: TriggerPlanOptions,
  definition: TriggerDefinition,
  former: TriggerTable | undefined,
  position: number,
  { workflowId, owner, nowMs }: PlanSubject,
): Promise<TriggerTable> {
  const { kind } = definition;
  const prefix = keyPrefixes[kind];
  const schedule = scheduleColumns(definition);
  const row: TriggerTable = {
    workflow_id: workflowId,
    id: former?.id ?? (kind === 'source' ? '' : newId(idPrefixes[kind])),
    owner_id: owner.ownerId,
    kind,
    position,
    key: former?.key ?? (prefix === undefined ? null : `${prefix}${newBase36Key(13)}`),
    custom_response: kind === 'http' && definition.customResponse ? 1 : 0,
    auth: former?.auth ?? null,
    ...schedule,
    owned: former?.owned ?? 0,
    schedule_changed_at_ms:
      former !== undefined && hasSameSchedule(former, schedule) ? former.schedule_changed_at_ms : nowMs,
    created_at_ms: former?.created_at_ms ?? nowMs,
    updated_at_ms: former?.updated_at_ms ?? nowMs,
  };
  if (kind === 'http' && definition.auth !== undefined)
    row.auth = await authColumn(context, row, definition.auth);
  const isChanged = former !== undefined && !isDeepStrictEqual({ ...row, position: former.position }, former);
  return isChanged ? { ...row, updated_at_ms: nowMs } : row;
}

/** `triggers.auth` as requested; `row` has the present one. Throws `missing_parameter` for a token that is in neither. */
async function authColumn(
  { sealer }: TriggerPlanOptions['context'],
  row: TriggerTable,
  auth: HttpAuth,
): Promise<string | null> {
  if (auth.type === 'none') return null;
  if (auth.type === 'oauth' || auth.token !== undefined) return sealTriggerAuth(sealer, row, auth);
  if (triggerAuthType(row) === auth.type) return row.auth;
  throw invalidAt(
    `triggers[${row.position}].props.auth.token`,
    'required: the trigger has no bearer token that could stay',
    'missing_parameter',
  );
}

type SourceTrigger = Extract<TriggerDefinition, { kind: 'source' }>;

/** Gives the row the source, or plans to create it. */
async function planSource(
  { db, resolver }: TriggerPlanOptions,
  definition: SourceTrigger,
  { row, at, former }: { row: TriggerTable; at: string; former: TriggerTable | undefined },
  { owner, before, nowMs }: PlanSubject,
  plan: TriggerPlan,
): Promise<void> {
  if ('sourceId' in definition) {
    const { sourceId } = definition;
    const parameter = `${at}.source_id`;
    const source = await findSource(db, sourceId);
    if (source === undefined || source.state === 'deploying') throw missingSource(parameter, sourceId);
    // Sources that the workflow already listens to stay, whichever user deploys it.
    if (source.owner_id !== owner.ownerId && !before.some(({ id }) => id === sourceId)) {
      const foreign = { id: sourceId, ownerId: source.owner_id, parameter };
      requireForeignSource(await ownersOf(db, { userId: owner.userId }), foreign);
      plan.newForeignSources.push(foreign);
    }
    if (former?.id === sourceId) return;
    Object.assign(row, { id: sourceId, owned: 0, created_at_ms: nowMs, updated_at_ms: nowMs });
    return;
  }
  const field = 'code' in definition ? 'code' : 'component';
  const component = await atParameter({ parameter: `${at}.${field}` }, async () => {
    const found =
      'code' in definition
        ? await resolver.resolve({ component_code: definition.code }, owner)
        : await resolver.resolveText(definition.component, owner);
    shapeOfSource(found);
    return found;
  });
  const { configuredProps, name } = definition;
  if (former?.owned === 1) {
    const source = await findSource(db, former.id);
    const isSame =
      source?.component_id === component.id &&
      source.sealed_props === null &&
      isDeepStrictEqual(JSON.parse(source.configured_props), configuredProps);
    if (isSame) return;
  }
  Object.assign(row, { id: '', owned: 1, created_at_ms: nowMs, updated_at_ms: nowMs });
  plan.newSources.push({
    row,
    at,
    source: {
      component_id: component.id,
      configured_props: configuredProps,
      ...(name === undefined ? {} : { name }),
    },
  });
}

/**
 * A source of another owner than the workflow's, such as a member's own, may trigger it where the caller may change both, as
 * for a subscription between them. Throws `invalid_parameter`, `forbidden`.
 */
function requireForeignSource(
  owners: Ownership,
  { id, ownerId, parameter }: TriggerPlan['newForeignSources'][number],
): void {
  if (!owners.mayRead(ownerId)) throw missingSource(parameter, id);
  if (!owners.mayWrite(ownerId))
    throw invalidAt(
      parameter,
      `your role in the workspace of ${id} does not allow subscriptions to it`,
      'forbidden',
    );
}

/**
 * Checks both rights again inside the transaction that makes the sources triggers: a membership may have ended since. The
 * caller's memberships are locked until it ends.
 */
export async function holdForeignSources(
  store: Dialect,
  tx: Tx,
  { newForeignSources }: TriggerPlan,
  { ownerId, userId }: ComponentOwner,
): Promise<void> {
  if (newForeignSources.length === 0) return;
  await holdMemberships(store, tx, userId);
  const owners = await ownersOf(tx, { userId });
  if (!owners.mayWrite(ownerId)) throw notFound('workspace', ownerId, 'org_id');
  for (const foreign of newForeignSources) requireForeignSource(owners, foreign);
}

function missingSource(parameter: string, sourceId: string): CallerError {
  return invalidAt(parameter, `there is no source ${JSON.stringify(sourceId)}`);
}
