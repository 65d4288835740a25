import type { ComponentBuilder } from '#components/build-component.ts';
import { ownersOf } from '#identity/permissions.ts';
import { findUser } from '#identity/user-store.ts';
import type { JobPayloads } from '#jobs/job-kinds.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import { type LeasedJob, settleJobs } from '#jobs/job-store.ts';
import { CallerError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { ComponentOwner } from '#registry/resolve-component.ts';
import type { Tx } from '#storage/store.ts';
import type { ImportedObjectTable, ImportTable } from '#storage/tables/import-tables.ts';
import type { TriggerTable, WorkflowTable } from '#storage/tables/workflow-tables.ts';
import type { Variables } from '#user-data/variables/variables.ts';
import { openValue } from '#vault/sealed-values.ts';
import type { WorkflowDeployer } from '#workflows/definitions/deploy-workflow.ts';
import { triggersOf } from '#workflows/definitions/trigger-store.ts';
import type { TriggerInput } from '#workflows/definitions/workflow-input.ts';
import { addedTriggers, scheduleFindings, triggerInputs } from './added-triggers.ts';
import { compareWorkflow } from './compare-workflow.ts';
import { joinFiles } from './compile-steps.ts';
import {
  type Deployment,
  decideImport,
  type ImportDecision,
  isRenamedHere,
  markOf,
  type WorkflowMark,
} from './decide-import.ts';
import { findSavedAccounts } from './find-saved-accounts.ts';
import { type FindComponent, type ImportAnswers, loadContext } from './import-context.ts';
import { importDataStores, importSecrets, rememberAccounts } from './import-objects.ts';
import { importObject, importOrder } from './import-order.ts';
import {
  changeImport,
  findImported,
  findSealedImport,
  type ImportScope,
  insertItem,
  itemsOf,
  putImported,
} from './import-store.ts';
import { ImportedMeanwhile, untilUndisturbed } from './imported-meanwhile.ts';
import { fingerprintOf, type MappedWorkflow, mapWorkflow, statusOf } from './map-workflow.ts';
import { changedOnBothSides, type ObjectImportOptions } from './object-place.ts';
import { byHand, checkIt, type ForeignProject } from './project.ts';
import { repairSteps } from './repair-steps.ts';
import { type ImportItem, itemOf, type ObjectItem } from './report.ts';
import { noChanges, type ReportedChanges } from './report-changes.ts';
import { putTestEvents, type TestEvent, testEventsIn } from './test-events.ts';

/** What is sealed with an import until it is done. */
export interface SealedProject {
  project: ForeignProject;
  answers: ImportAnswers;
}

export interface ImportOptions extends ObjectImportOptions {
  node: string;
  logger: Logger;
  variables: Pick<Variables, 'set'>;
  deployer: Pick<WorkflowDeployer, 'create' | 'deploy' | 'update' | 'remove'>;
  builder: Pick<ComponentBuilder, 'join'>;
  /** How a component can be named by this owner. */
  findComponent: (key: string, version: string, owners: readonly string[]) => ReturnType<FindComponent>;
  /** Called after variables of an owner were changed. */
  onVariableChange: (ownerId: string) => void;
}

/**
 * Does imports. Each workflow is made in one transaction with its item of the report and with what it is recognised by later; a source, a
 * webhook or a subscription with what it is recognised by. So after a crash the import continues with the first one that has no item, and
 * nothing is made twice or in part.
 */
export function importProjectHandler(options: ImportOptions): JobHandler {
  const { store, node, clock, logger } = options;
  const settle = (job: LeasedJob, end: (tx: Tx) => Promise<unknown>) =>
    store.transaction(async (tx) => {
      const held = await settleJobs(store, tx, { node, jobs: [job] });
      if (held.has(job.id)) await end(tx);
    });
  const fail = (tx: Tx, id: string, error: string) =>
    changeImport(tx, id, ['waiting', 'running'], {
      ...{ state: 'failed', sealed: null, error, updated_at_ms: clock.now() },
    });
  return {
    async run(job, signal) {
      const { import_id: id, expires } = job.payload as JobPayloads['import_project'];
      if (expires === true)
        return settle(job, (tx) =>
          changeImport(tx, id, ['asking'], {
            ...{ state: 'failed', sealed: null, updated_at_ms: clock.now() },
            error: 'no answers came within 24 hours: import again',
          }),
        );
      const row = await findSealedImport(store.read, id);
      if (row?.sealed == null) return settle(job, async () => {});
      try {
        await importAll(options, { ...row, sealed: row.sealed }, signal);
      } catch (error) {
        if (!(error instanceof CallerError)) throw error;
        await settle(job, (tx) => fail(tx, id, error.message));
        logger.warn({ import: id, owner: row.owner_id, error: error.message }, 'import.failed');
        return;
      }
      await settle(job, (tx) =>
        changeImport(tx, id, ['waiting', 'running'], {
          ...{ state: 'done', sealed: null, updated_at_ms: clock.now() },
        }),
      );
      logger.info({ import: id, owner: row.owner_id, workflows: Number(row.workflows) }, 'import.finished');
    },
    async quarantined(job) {
      const { import_id: id } = job.payload as JobPayloads['import_project'];
      await store.transaction((tx) =>
        fail(tx, id, 'the service ended several times while it did this import'),
      );
    },
  };
}

/** Throws CallerError for what ends the whole import. */
async function importAll(
  options: ImportOptions,
  row: ImportTable & { sealed: string },
  signal: AbortSignal,
): Promise<void> {
  const { store, vault, clock } = options;
  const { id, owner_id: ownerId, user_id: userId, sealed } = row;
  const owners = await ownersOf(store.read, { userId });
  const user = await findUser(store.read, userId);
  if (user === undefined || user.disabled_at_ms !== null)
    throw new CallerError(
      'forbidden',
      'the user who started the import is disabled: import again as another one',
    );
  if (!owners.mayWrite(ownerId))
    throw new CallerError(
      'forbidden',
      'the user who started the import may no longer change things of this workspace',
    );
  const { project, answers } = (await openValue(store.read, vault, { ownerId, id, sealed })) as SealedProject;
  await store.transaction((tx) =>
    changeImport(tx, id, ['waiting'], { state: 'running', updated_at_ms: clock.now() }),
  );
  const scope = { owner_id: ownerId, project_id: row.project_id };
  const made = { importId: id, scope, userId, keyId: row.key_id };
  const saved = await findSavedAccounts(store.read, project.savedAccounts ?? [], [ownerId, userId]);
  const given = { ...answers, saved };
  await rememberAccounts(options, made, given);
  const readableOwners = owners.ids;
  const context = await loadContext(store.read, project, {
    ...{ scope, answers: given },
    findComponent: (key, version) => options.findComponent(key, version, readableOwners),
  });
  await importDataStores(options, made, project, context.dataStores);
  const done = new Set((await itemsOf(store.read, id)).map(({ position }) => Number(position)));
  const place = { row, scope, owner: { ownerId, userId, readableOwners } };
  const events = testEventsIn(project);
  for (const [position, one] of importOrder(project).entries()) {
    if (done.has(position)) continue;
    signal.throwIfAborted();
    if (one.kind !== 'workflow') {
      const item = await importObject(options, place, one, context);
      if (item.kind === 'source' && item.id !== null) context.sources.set(item.old_id, item.id);
      await store.transaction((tx) => writeItem(tx, { row, position }, item));
      continue;
    }
    const mapped = await joinFiles(mapWorkflow(one.foreign, context), {
      builder: options.builder,
      ownerId,
    });
    await importSecrets(options, made, mapped);
    const work = new WorkflowImport(options, {
      ...{ ...place, position, dataStores: context.dataStores },
      events: events.get(mapped.oldId) ?? [],
    });
    await work.run(mapped);
  }
}

function writeItem(
  tx: Tx,
  { row, position }: Pick<WorkflowPlace, 'row' | 'position'>,
  item: ImportItem | ObjectItem,
): Promise<void> {
  return insertItem(tx, {
    ...{ import_id: row.id, owner_id: row.owner_id, position, item: JSON.stringify(item) },
  });
}

interface WorkflowPlace {
  row: ImportTable;
  scope: ImportScope;
  position: number;
  owner: ComponentOwner;
  dataStores: ReadonlyMap<string, string>;
  /** The last events of the sources that it listens to. */
  events: readonly TestEvent[];
}

interface Fingerprints {
  fingerprint: string;
  /** Where steps had to be replaced: of what is deployed. */
  repaired?: string;
}

/** Brings one workflow here: made, changed, or left as it is. */
class WorkflowImport {
  readonly #options: ImportOptions;
  readonly #place: WorkflowPlace;

  constructor(options: ImportOptions, place: WorkflowPlace) {
    this.#options = options;
    this.#place = place;
  }

  async run(mapped: MappedWorkflow): Promise<void> {
    const { store } = this.#options;
    const { scope } = this.#place;
    const fingerprint = fingerprintOf(mapped);
    await untilUndisturbed(async () => {
      const before = await findImported(store.read, scope, 'workflow', mapped.oldId);
      const decision = await decideImport(store.read, before, fingerprint);
      await this.#carryOut(decision, mapped, fingerprint);
    });
  }

  async #carryOut(decision: ImportDecision, mapped: MappedWorkflow, fingerprint: string): Promise<void> {
    if (decision.outcome === 'created' || decision.outcome === 'updated')
      return this.#deploy(decision, mapped, fingerprint);
    return this.#leave(decision, mapped);
  }

  /** Activates it if that is what the import is for, and changes nothing else. */
  async #leave(
    { workflow, outcome, before }: Extract<ImportDecision, { workflow: WorkflowTable }>,
    mapped: MappedWorkflow,
    as: 'unchanged' | 'conflict' = outcome === 'conflict' ? outcome : 'unchanged',
  ): Promise<void> {
    const { store, deployer } = this.#options;
    const { scope, dataStores } = this.#place;
    const triggers = await triggersOf(store.read, workflow.id);
    const changes = as === 'unchanged' ? noChanges : await this.#changesOf(workflow, { mapped, triggers });
    const findings = as === 'unchanged' ? mapped.findings : [...mapped.findings, changedOnBothSides()];
    const mark = markOf(before);
    // One that was deactivated here since stays so.
    const activates = as === 'unchanged' && !mark.active && this.#isReady(mapped);
    const activated =
      activates && workflow.state !== 'active'
        ? await deployer.update(workflow.id, { active: true })
        : undefined;
    const active = workflow.state === 'active' || activates;
    await store.transaction(async (tx) => {
      if (activates) {
        const { updated_at_ms } = activated ?? workflow;
        const marked = { ...mark, active, updated_at_ms: Number(updated_at_ms), ...this.#changedBy(before) };
        await putImported(tx, { ...before, ...scope, mark: JSON.stringify(marked) }, before);
      }
      const made = { outcome: as, workflowId: workflow.id, active, triggers, dataStores, changes };
      await this.#writeItem(tx, itemOf({ ...mapped, findings }, made));
    });
  }

  #changesOf(
    workflow: WorkflowTable,
    imported: Parameters<typeof compareWorkflow>[2],
  ): Promise<ReportedChanges> {
    const { store, vault } = this.#options;
    return compareWorkflow({ db: store.read, vault }, workflow, imported);
  }

  #changedBy({ import_id }: ImportedObjectTable): Pick<WorkflowMark, 'changed_by'> {
    const { id } = this.#place.row;
    return import_id === id ? {} : { changed_by: id };
  }

  #isReady({ active, findings }: MappedWorkflow): boolean {
    return this.#place.row.activate === 1 && active && statusOf(findings) !== 'by_hand';
  }

  /** A step that cannot be deployed is replaced by one that says so, until the rest can. */
  async #deploy(decision: Deployment, mapped: MappedWorkflow, fingerprint: string): Promise<void> {
    let current = mapped;
    for (;;) {
      const deployed = fingerprintOf(current);
      // Steps that could not be deployed then cannot be now.
      if (decision.outcome === 'updated' && markOf(decision.before).repaired === deployed)
        return this.#leave(decision, current);
      try {
        const repaired = deployed === fingerprint ? {} : { repaired: deployed };
        return await this.#write(decision, current, { fingerprint, ...repaired });
      } catch (error) {
        if (!(error instanceof CallerError)) throw error;
        const repaired = repairSteps(current.steps, error);
        if (repaired === undefined) return this.#writeFailure(decision, current, error);
        const { steps, finding } = repaired;
        current = { ...current, steps, findings: [...current.findings, finding] };
      }
    }
  }

  async #write(decision: Deployment, mapped: MappedWorkflow, prints: Fingerprints): Promise<void> {
    const { deployer, store } = this.#options;
    const { row, owner } = this.#place;
    const findings = [...mapped.findings];
    const activation = this.#isReady(mapped) ? { auto_deploy: true } : {};
    let changes = noChanges;
    const alongside = (tx: Tx, workflow: WorkflowTable) =>
      this.#record(tx, { workflow, decision, prints, changes, mapped: { ...mapped, findings } });
    if (decision.outcome === 'created') {
      await deployer.create(
        {
          steps: mapped.steps,
          triggers: triggerInputs(mapped),
          settings: { ...mapped.settings, ...activation },
          ...(row.project_id === '' ? {} : { projectId: row.project_id }),
        },
        owner,
        { alongside },
      );
      return;
    }
    const { workflow } = decision;
    const { name: _name, ...rest } = mapped.settings;
    const settings = isRenamedHere(decision) ? rest : mapped.settings;
    const present = await triggersOf(store.read, workflow.id);
    const added = addedTriggers(present, mapped);
    changes = await this.#changesOf(workflow, { mapped: { ...mapped, settings }, triggers: present });
    findings.push(...scheduleFindings(present, mapped));
    if (added.length > 0) findings.push(checkIt('its triggers changed there: see that all are right here'));
    await deployer.deploy(
      workflow.id,
      {
        follows: workflow.deployment_id,
        steps: mapped.steps,
        settings: { ...settings, ...activation },
        ...(added.length === 0 ? {} : { triggers: [...present.map(keptTrigger), ...added] }),
      },
      owner,
      { alongside },
    );
  }

  async #record(
    tx: Tx,
    {
      workflow,
      decision,
      prints: { fingerprint, ...repaired },
      changes,
      mapped,
    }: {
      workflow: WorkflowTable;
      decision: Deployment;
      prints: Fingerprints;
      changes: ReportedChanges;
      mapped: MappedWorkflow;
    },
  ): Promise<void> {
    const { row, scope, dataStores } = this.#place;
    const active = workflow.state === 'active';
    const { before, outcome } = decision;
    const { deployment_id, name } = workflow;
    const mark: WorkflowMark = {
      ...{ deployment_id, name, active, updated_at_ms: Number(workflow.updated_at_ms) },
      ...(outcome === 'updated' ? this.#changedBy(decision.before) : {}),
      ...repaired,
    };
    const isWritten = await putImported(
      tx,
      {
        ...scope,
        ...{ kind: 'workflow', old_id: mapped.oldId, new_id: workflow.id, fingerprint },
        import_id: outcome === 'created' || before === undefined ? row.id : before.import_id,
        mark: JSON.stringify(mark),
        created_at_ms: this.#options.clock.now(),
      },
      before,
    );
    if (!isWritten) throw new ImportedMeanwhile();
    await putTestEvents(tx, workflow, this.#place.events, this.#options.clock.now());
    const triggers = await triggersOf(tx, workflow.id);
    const made = { outcome, workflowId: workflow.id, active, triggers, dataStores, changes };
    await this.#writeItem(tx, itemOf(mapped, made));
  }

  async #writeFailure(decision: Deployment, mapped: MappedWorkflow, error: CallerError): Promise<void> {
    const findings = [...mapped.findings, byHand(`it cannot be deployed: ${error.message}`)];
    const { store } = this.#options;
    const { dataStores } = this.#place;
    // One that could not be changed stays as it was.
    const workflow = decision.outcome === 'updated' ? decision.workflow : undefined;
    const triggers = workflow === undefined ? [] : await triggersOf(store.read, workflow.id);
    const made = {
      workflowId: workflow?.id ?? null,
      active: workflow?.state === 'active',
      triggers,
      dataStores,
    };
    await store.transaction((tx) =>
      this.#writeItem(tx, itemOf({ ...mapped, findings }, { outcome: 'failed', ...made })),
    );
  }

  #writeItem(tx: Tx, item: ImportItem): Promise<void> {
    return writeItem(tx, this.#place, item);
  }
}

/** The trigger stays as it is. */
function keptTrigger({ id, kind }: TriggerTable): TriggerInput {
  return { id, type: kind };
}
