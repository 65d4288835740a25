import { CallerError } from '#lib/errors.ts';
import { findSource } from '#sources/source-store.ts';
import type { Db } from '#storage/store.ts';
import type { ImportedObjectTable } from '#storage/tables/import-tables.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import { compareSource } from './compare-object.ts';
import { findImported, type ImportScope } from './import-store.ts';
import { untilUndisturbed } from './imported-meanwhile.ts';
import { fingerprintOfSource, type MappedSource } from './map-source.ts';
import { statusOf } from './map-workflow.ts';
import {
  changedOnBothSides,
  decideObject,
  type ObjectDecision,
  type ObjectImportOptions,
  type ObjectPlace,
  objectMarkOf,
  recordObject,
  withoutValue,
} from './object-place.ts';
import { byHand, checkIt } from './project.ts';
import { type ObjectItem, objectItemOf } from './report.ts';
import { noChanges, type ReportedChanges } from './report-changes.ts';

export type SourceDecision = ObjectDecision<SourceTable>;

export function decideSource(db: Db, scope: ImportScope, mapped: MappedSource): Promise<SourceDecision> {
  const fingerprint = fingerprintOfSource(mapped);
  return decideObject(db, scope, { kind: 'source', oldId: mapped.oldId, fingerprint, find: findSource });
}

/**
 * Brings a source here, inactive. It is activated where the import activates and nothing is left to do by hand. A source that cannot be
 * deployed is reported as failed.
 */
export function importSource(
  options: ObjectImportOptions,
  place: ObjectPlace,
  mapped: MappedSource,
): Promise<ObjectItem> {
  return untilUndisturbed(() => new SourceImport(options, place, mapped).run());
}

class SourceImport {
  readonly #options: ObjectImportOptions;
  readonly #place: ObjectPlace;
  readonly #mapped: MappedSource;
  readonly #fingerprint: string;

  constructor(options: ObjectImportOptions, place: ObjectPlace, mapped: MappedSource) {
    this.#options = options;
    this.#place = place;
    // Findings are added to it, and the work may be done again.
    this.#mapped = { ...mapped, props: { ...mapped.props }, findings: [...mapped.findings] };
    this.#fingerprint = fingerprintOfSource(mapped);
  }

  async run(): Promise<ObjectItem> {
    const mapped = this.#mapped;
    const decision = await decideSource(this.#options.store.read, this.#place.scope, mapped);
    const differs = decision.outcome === 'updated' || decision.outcome === 'conflict';
    const changes = differs ? await this.#changesOf(decision.present) : noChanges;
    if (decision.outcome === 'conflict') {
      mapped.findings.push(changedOnBothSides());
      return objectItemOf(mapped, { outcome: 'conflict', source: decision.present, changes });
    }
    const present = decision.outcome === 'created' ? undefined : decision.present;
    if (mapped.component === undefined)
      return objectItemOf(mapped, {
        outcome: present === undefined ? 'failed' : 'unchanged',
        source: present,
      });
    try {
      const written = decision.outcome === 'unchanged' ? decision.present : await this.#write(decision);
      const source = (await this.#activate(written)) ?? written;
      return objectItemOf(mapped, { outcome: this.#outcomeOf(decision), source, changes });
    } catch (error) {
      if (!(error instanceof CallerError)) throw error;
      mapped.findings.push(byHand(`it cannot be deployed: ${withoutValue(error)}`));
      return objectItemOf(mapped, { outcome: 'failed', source: present });
    }
  }

  #changesOf(present: SourceTable): Promise<ReportedChanges> {
    const { store, vault } = this.#options;
    return compareSource({ db: store.read, vault }, present, this.#mapped);
  }

  /** After a crash in this import, a source that it made is there already. */
  #outcomeOf({ outcome, before }: SourceDecision): ObjectItem['outcome'] {
    return outcome === 'unchanged' && before.import_id === this.#place.row.id ? 'created' : outcome;
  }

  /** Props that the component here does not have are left out. */
  async #write(decision: Exclude<SourceDecision, { outcome: 'conflict' }>): Promise<SourceTable> {
    const { props, findings } = this.#mapped;
    for (;;) {
      try {
        return await this.#writeOnce(decision);
      } catch (error) {
        const [, prop = ''] = /^configured_props\.(.+)$/.exec(parameterOf(error)) ?? [];
        const isUnknown = error instanceof CallerError && error.message.includes('has no such prop');
        if (!isUnknown || !Object.hasOwn(props, prop)) throw error;
        delete props[prop];
        findings.push(checkIt(`its prop ${prop} was left out: the component here has no such prop`));
      }
    }
  }

  async #writeOnce(decision: Exclude<SourceDecision, { outcome: 'conflict' }>): Promise<SourceTable> {
    const { sources, store } = this.#options;
    const { name, component, props } = this.#mapped;
    const change = { ...component, name, configured_props: props };
    const { owner } = this.#place;
    if (decision.outcome === 'created') {
      const alongside = (tx: Parameters<typeof recordObject>[0], source: SourceTable) =>
        this.#record(tx, source, decision.before, false);
      return (await sources.create({ ...change, active: false }, owner, { alongside })).source;
    }
    const { present: source, before } = decision;
    const updated = await sources.update(source.id, { ...change, active: source.state === 'active' }, owner);
    await store.transaction((tx) => this.#record(tx, updated.source, before, true));
    return updated.source;
  }

  /** Undefined: it stays as it is. One that was deactivated here since is not activated again. */
  async #activate(source: SourceTable): Promise<SourceTable | undefined> {
    const { sources, store } = this.#options;
    const { row, scope, owner } = this.#place;
    const { active, findings, oldId } = this.#mapped;
    const before = await findImported(store.read, scope, 'source', oldId);
    const isWanted = row.activate === 1 && active && statusOf(findings) !== 'by_hand';
    if (!isWanted || source.state === 'active' || before === undefined || objectMarkOf(before).active)
      return undefined;
    try {
      const activated = await sources.update(source.id, { active: true }, owner);
      await store.transaction((tx) => this.#record(tx, activated.source, before, true));
      return activated.source;
    } catch (error) {
      if (!(error instanceof CallerError)) throw error;
      findings.push(
        byHand(
          `it could not be activated: ${error.message}`,
          '',
          `millrace sources update ${source.id} --active`,
        ),
      );
      return undefined;
    }
  }

  #record(
    tx: Parameters<typeof recordObject>[0],
    source: SourceTable,
    before: ImportedObjectTable | undefined,
    present: boolean,
  ): Promise<void> {
    return recordObject(tx, this.#place, {
      ...{ kind: 'source', oldId: this.#mapped.oldId, newId: source.id, fingerprint: this.#fingerprint },
      mark: { updated_at_ms: Number(source.updated_at_ms), active: source.state === 'active' },
      ...{ nowMs: this.#options.clock.now(), before, present },
    });
  }
}

function parameterOf(error: unknown): string {
  const parameter = error instanceof CallerError ? error.details.parameter : undefined;
  return typeof parameter === 'string' ? parameter : '';
}
