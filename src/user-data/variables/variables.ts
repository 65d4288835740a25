import { createHash } from 'node:crypto';
import { must } from '#lib/assert.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { VariableAuditAction } from '#storage/tables/variable-tables.ts';
import { makeRedactor, type Redactor } from '#vault/redact.ts';
import { openValues, sealValues } from '#vault/sealed-values.ts';
import type { Vault } from '#vault/vault.ts';
import { checkVariableName, checkVariableSet, checkVariableValue } from './variable-rules.ts';
import {
  beginChange,
  deleteVariable,
  deleteVariableSet,
  findVariable,
  findVariables,
  listVariables,
  measureVariables,
  putVariables,
  recordVariableAudit,
  type Variable,
  type VariableScope,
  variablesOfWorkflows,
  variablesStamp,
} from './variable-store.ts';

/** A change of one variable; absent fields stay as they are. */
export interface VariableChange {
  name: string;
  value?: string;
  secret?: boolean;
  description?: string;
}

/** The caller that makes a change. */
export interface VariableActor {
  userId: string;
  keyId: string;
}

/** Variables as code and expressions of workflows get them in `process.env`. */
export interface OpenVariables {
  values: Record<string, string>;
  /** Replaces secret values in everything that leaves a run. One for all deployments, because it grows with the values. */
  redact: Redactor;
  /** Hash of the values. */
  digest: string;
}

export const noVariables: OpenVariables = { values: {}, redact: (text) => text, digest: '' };

/** Maximum of owners and projects whose opened variables are shared between deployments. */
const sharedMax = 10_000;

/**
 * Environment variables of workspaces, projects and users. Promises:
 * - every value is sealed under the data key of its owner; the value of a secret variable is opened for runs only;
 * - a change and its audit entry are stored together;
 * - code finds the variables of its own owner, and no others.
 */
export class Variables {
  readonly #vault: Vault;
  readonly #clock: Clock;
  /** Opened variables of deployments in use, by owner and project: deployments share one copy. */
  readonly #shared = new Map<string, { stamp: string; opened: WeakRef<OpenVariables> }>();

  constructor(options: { vault: Vault; clock: Clock }) {
    this.#vault = options.vault;
    this.#clock = options.clock;
  }

  /**
   * Sets variables in the transaction in which the caller checked the rights, and returns them in the given order. Throws CallerError
   * `missing_parameter` or `invalid_parameter` (`at` is the place of the change in the request), and `conflict` beyond the limits.
   */
  async set(
    tx: Tx,
    scope: VariableScope,
    changes: readonly (VariableChange & { at?: string })[],
    actor: VariableActor,
  ): Promise<Variable[]> {
    await beginChange(tx, scope);
    const names = new Set<string>();
    for (const { name, value, at = '' } of changes) {
      if (names.has(name))
        throw new CallerError(
          'invalid_parameter',
          `${at}name: found ${JSON.stringify(name.slice(0, 60))} a second time, expected each variable once`,
          { parameter: `${at}name` },
        );
      names.add(name);
      checkVariableName(name, `${at}name`);
      if (value !== undefined) checkVariableValue(value, `${at}value`);
    }
    // One statement for all: with a few for each variable, a request of a hundred held the store for tens of milliseconds.
    const before = await findVariables(tx, scope, [...names]);
    const changed = changes.map((change) => this.#changed(scope, before.get(change.name), change, actor));
    const sealed = await sealValues(
      tx,
      { vault: this.#vault, clock: this.#clock },
      {
        ownerId: scope.ownerId,
        secrets: changed.flatMap(({ id }, index) => {
          const value = changes[index]?.value;
          return value === undefined ? [] : [{ id, value }];
        }),
      },
    );
    for (const variable of changed) variable.sealed = sealed.get(variable.id) ?? variable.sealed;
    await putVariables(tx, changed);
    await this.#record(
      tx,
      scope,
      changed.map((variable, index) => ({
        ...{ name: variable.name, actor },
        ...auditOf(variable, before.get(variable.name), changes[index]?.value !== undefined),
      })),
    );
    checkVariableSet(await measureVariables(tx, scope));
    return changed;
  }

  /** The row of a variable after a change, before its value is sealed. */
  #changed(
    { ownerId, projectId }: VariableScope,
    before: Variable | undefined,
    { at = '', name, value, secret, description }: VariableChange & { at?: string },
    actor: VariableActor,
  ): Variable {
    if (value === undefined && before === undefined)
      throw new CallerError('missing_parameter', `${at}value: required for a new variable`, {
        parameter: `${at}value`,
      });
    const isSecret = secret ?? before?.secret === 1;
    if (value === undefined && before?.secret === 1 && !isSecret)
      throw new CallerError(
        'invalid_parameter',
        `${at}secret: the value of ${name} is secret and cannot be shown again, expected a value with secret false`,
        { parameter: `${at}secret` },
      );
    const nowMs = this.#clock.now();
    return {
      id: before?.id ?? newId('var'),
      owner_id: ownerId,
      project_id: projectId,
      name,
      secret: isSecret ? 1 : 0,
      sealed: before?.sealed ?? '',
      bytes: value === undefined ? (before?.bytes ?? 0) : Buffer.byteLength(name) + Buffer.byteLength(value),
      description: description ?? before?.description ?? '',
      user_id: actor.userId,
      created_at_ms: before?.created_at_ms ?? nowMs,
      updated_at_ms: nowMs,
    };
  }

  /** Returns false if there is no such variable. */
  async remove(tx: Tx, scope: VariableScope, name: string, actor: VariableActor): Promise<boolean> {
    await beginChange(tx, scope);
    const variable = await findVariable(tx, scope, name);
    if (variable === undefined) return false;
    await deleteVariable(tx, variable.id);
    await this.#record(tx, scope, [{ name, action: 'deleted', actor, details: {} }]);
    return true;
  }

  /** Removes the variables of a project that is deleted. */
  async removeAll(tx: Tx, scope: VariableScope, actor: VariableActor): Promise<void> {
    await beginChange(tx, scope);
    const variables = await listVariables(tx, scope);
    await this.#record(
      tx,
      scope,
      variables.map(({ name }) => ({ name, action: 'deleted', actor, details: { with: 'project' } })),
    );
    await deleteVariableSet(tx, scope);
  }

  /** Plain values by the ids of their variables, all of one owner. A value that cannot be opened is missing. */
  async plainValues(db: Db, variables: readonly Variable[]): Promise<Map<string, string>> {
    const { values } = await this.#open(
      db,
      variables.filter(({ secret }) => secret === 0),
    );
    return values;
  }

  /**
   * The variables of a workflow of this owner in this project (null: in none). A variable of the project replaces one of the owner. Throws
   * CallerError `not_found` that names a variable whose value cannot be opened, UnavailableError without the right key.
   */
  async open(db: Db, ownerId: string, projectId: string | null): Promise<OpenVariables> {
    const key = JSON.stringify([ownerId, projectId]);
    // Read first: a change in between makes the next call read the variables again.
    const stamp = await variablesStamp(db, ownerId, projectId);
    if (stamp === '') return noVariables;
    const shared = this.#shared.get(key);
    const known = shared?.stamp === stamp ? shared.opened.deref() : undefined;
    if (known !== undefined) return known;
    const opened = await this.#openAll(db, ownerId, projectId);
    this.#shared.delete(key);
    this.#shared.set(key, { stamp, opened: new WeakRef(opened) });
    const [oldest] = this.#shared.keys();
    if (this.#shared.size > sharedMax && oldest !== undefined) this.#shared.delete(oldest);
    return opened;
  }

  async #openAll(db: Db, ownerId: string, projectId: string | null): Promise<OpenVariables> {
    const rows = await variablesOfWorkflows(db, ownerId, projectId);
    // Variables of the project come later, and replace those of the owner.
    const winning = [...new Map(rows.map((row) => [row.name, row])).values()].sort(byName);
    const { values: opened, damaged } = await this.#open(db, winning);
    if (damaged !== undefined)
      throw new CallerError(
        'not_found',
        `the stored value of the variable ${damaged} cannot be opened: set it again`,
        { name: damaged },
      );
    const openedOf = ({ id, name }: Variable) => must(opened.get(id), `the value of ${name}`);
    const values = Object.fromEntries(winning.map((row) => [row.name, openedOf(row)]));
    return {
      values,
      redact: makeRedactor([], winning.filter(({ secret }) => secret === 1).map(openedOf)),
      digest: createHash('sha256').update(JSON.stringify(values)).digest('hex'),
    };
  }

  /** Values by id; `damaged` is the name of a variable that cannot be opened. Throws only with the wrong key. */
  async #open(
    db: Db,
    rows: readonly Variable[],
  ): Promise<{ values: Map<string, string>; damaged: string | undefined }> {
    const open = async (secrets: readonly Variable[]) => {
      const opened = await openValues(db, this.#vault, { ownerId: secrets[0]?.owner_id ?? '', secrets });
      return opened as Map<string, string>;
    };
    try {
      return { values: await open(rows), damaged: undefined };
    } catch (error) {
      if (!isDamaged(error)) throw error;
    }
    const values = new Map<string, string>();
    let damaged: string | undefined;
    for (const row of rows) {
      try {
        for (const [id, value] of await open([row])) values.set(id, value);
      } catch (error) {
        if (!isDamaged(error)) throw error;
        damaged ??= row.name;
      }
    }
    return { values, damaged };
  }

  async #record(
    tx: Tx,
    { ownerId, projectId }: VariableScope,
    entries: readonly (AuditOfChange & { name: string; actor: VariableActor })[],
  ): Promise<void> {
    await recordVariableAudit(
      tx,
      entries.map(({ name, action, actor, details }) => ({
        owner_id: ownerId,
        project_id: projectId,
        ...{ name, action, details },
        user_id: actor.userId,
        key_id: actor.keyId,
        created_at_ms: this.#clock.now(),
      })),
    );
  }
}

/** What the audit keeps of a change. */
interface AuditOfChange {
  action: VariableAuditAction;
  details: Record<string, unknown>;
}

function auditOf(variable: Variable, before: Variable | undefined, hasValue: boolean): AuditOfChange {
  const details = { secret: variable.secret === 1 };
  if (before === undefined) return { action: 'created', details };
  const changed = [
    ...(hasValue ? ['value'] : []),
    ...(variable.secret === before.secret ? [] : ['secret']),
    ...(variable.description === before.description ? [] : ['description']),
  ];
  return { action: 'updated', details: { ...details, changed } };
}

function isDamaged(error: unknown): boolean {
  return error instanceof UnavailableError && error.code === 'sealed_value_damaged';
}

function byName(one: Variable, other: Variable): number {
  return one.name < other.name ? -1 : 1;
}
