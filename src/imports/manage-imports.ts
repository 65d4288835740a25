import { setImmediate } from 'node:timers/promises';
import { refuseDeleted } from '#identity/deletion-store.ts';
import { ownersOf } from '#identity/permissions.ts';
import { newId } from '#lib/ids.ts';
import type { ImportTable } from '#storage/tables/import-tables.ts';
import { sealValue } from '#vault/sealed-values.ts';
import { triggersOf } from '#workflows/definitions/trigger-store.ts';
import { scheduleFindings } from './added-triggers.ts';
import { answerImport, type GivenAnswers, insertImportJob, requireRoomToAsk } from './answer-import.ts';
import { compareWorkflow } from './compare-workflow.ts';
import { compileSteps, joinFiles } from './compile-steps.ts';
import { decideImport, type ImportDecision, isRenamedHere } from './decide-import.ts';
import { findSavedAccounts } from './find-saved-accounts.ts';
import { checkAnswers, type ImportAnswers, loadContext } from './import-context.ts';
import { importOrder } from './import-order.ts';
import type { ImportOptions, SealedProject } from './import-project.ts';
import { findImport, findImported, forgetOldImports, type ImportRow, insertImport } from './import-store.ts';
import { fingerprintOf, type MappedWorkflow, mapWorkflow } from './map-workflow.ts';
import { changedOnBothSides } from './object-place.ts';
import type { OpenQuestions } from './open-questions.ts';
import { planObjects } from './plan-objects.ts';
import type { Finding, ForeignProject } from './project.ts';
import { type ImportItem, type ImportSummary, itemOf, type ObjectItem, summaryOf } from './report.ts';
import { noChanges, type ReportedChanges } from './report-changes.ts';
import type { UndoneBy, UndoneObjects, UndoOptions } from './undo-import.ts';
import { ImportUndos } from './undo-once.ts';

/** Imports of one owner that have ended and are still on record; what older ones made stays, and can no longer be undone. */
const importsKept = 100;

/** How long a dry run compiles code. */
const compileMaxMs = 20_000;

export interface ImportRequest {
  ownerId: string;
  userId: string;
  keyId: string;
  /** proj_…; '': none. */
  projectId: string;
  activate: boolean;
  answers: ImportAnswers;
}

/** What an import would do, or what it has done. */
export interface PlannedImport {
  summary: ImportSummary;
  /** The outcomes of workflows. */
  items: ImportItem[];
  /** The outcomes of sources, webhooks and subscriptions. */
  objects: ObjectItem[];
}

export interface ManageImportOptions extends ImportOptions, UndoOptions {
  deployer: ImportOptions['deployer'] & UndoOptions['deployer'];
  sources: ImportOptions['sources'] & UndoOptions['sources'];
  variables: UndoOptions['variables'] & ImportOptions['variables'];
  /** A job was queued. */
  onJobs: () => void;
}

export class ImportManager {
  readonly #options: ManageImportOptions;
  readonly #undos: ImportUndos;

  constructor(options: ManageImportOptions) {
    this.#options = options;
    this.#undos = new ImportUndos(options);
  }

  /** What an import would do now. Writes nothing. Throws CallerError `invalid_parameter` for accounts that cannot be used. */
  async dryRun(project: ForeignProject, request: ImportRequest): Promise<PlannedImport> {
    const { store, vault, findComponent, builder } = this.#options;
    const { ownerId, userId, projectId, answers } = request;
    await checkAnswers(store.read, answers, [ownerId, userId]);
    const scope = { owner_id: ownerId, project_id: projectId };
    const owners = (await ownersOf(store.read, { userId })).ids;
    const saved = await findSavedAccounts(store.read, project.savedAccounts ?? [], [ownerId, userId]);
    const context = await loadContext(store.read, project, {
      ...{ scope, answers: { ...answers, saved } },
      findComponent: (key, version) => findComponent(key, version, owners),
    });
    const compiling = { builder, ownerId };
    const compiled = { known: new Map(), untilMs: performance.now() + compileMaxMs };
    let left = 0;
    const objects = await planObjects({ db: store.read, vault }, project, { scope, context });
    const items: ImportItem[] = [];
    for (const foreign of project.workflows) {
      // Others have their turn between workflows, whatever the store does.
      await setImmediate();
      const planned = await joinFiles(mapWorkflow(foreign, context), compiling);
      const before = await findImported(store.read, scope, 'workflow', planned.oldId);
      const decision = await decideImport(store.read, before, fingerprintOf(planned));
      const workflow = 'workflow' in decision ? decision.workflow : undefined;
      const isDeployed = decision.outcome === 'created' || decision.outcome === 'updated';
      const { mapped, left: notCompiled } = isDeployed
        ? await compileSteps(planned, compiling, compiled)
        : { mapped: planned, left: 0 };
      left += notCompiled;
      const { changes, findings } = await this.#changesOf(decision, mapped);
      items.push(
        itemOf(
          { ...mapped, findings: [...mapped.findings, ...findings] },
          {
            ...{ outcome: decision.outcome, workflowId: workflow?.id ?? null, triggers: [], changes },
            active: workflow?.state === 'active',
            dataStores: context.dataStores,
          },
        ),
      );
    }
    return { summary: { ...summaryOf(project), not_compiled: left }, items, objects };
  }

  /** What a dry run says of a workflow that is here: how it differs, and what the import would not change. */
  async #changesOf(
    decision: ImportDecision,
    mapped: MappedWorkflow,
  ): Promise<{ changes: ReportedChanges; findings: Finding[] }> {
    if (decision.outcome === 'created' || decision.outcome === 'unchanged')
      return { changes: noChanges, findings: [] };
    const { store, vault } = this.#options;
    const { workflow } = decision;
    const triggers = await triggersOf(store.read, workflow.id);
    const { name: _name, ...rest } = mapped.settings;
    const isKept = decision.outcome === 'updated' && isRenamedHere(decision);
    const imported = { mapped: { ...mapped, settings: isKept ? rest : mapped.settings }, triggers };
    return {
      changes: await compareWorkflow({ db: store.read, vault }, workflow, imported),
      findings: decision.outcome === 'conflict' ? [changedOnBothSides()] : scheduleFindings(triggers, mapped),
    };
  }

  /**
   * Stored when it resolves: a job does the import, also after a crash. With `questions` it begins when they are answered (`answer`), and ends
   * when no answers come in time. Throws as `dryRun` does.
   */
  async start(
    project: ForeignProject,
    request: ImportRequest,
    questions?: OpenQuestions,
  ): Promise<ImportRow> {
    const { store, vault, clock, logger, onJobs } = this.#options;
    const { ownerId, userId, keyId, projectId, activate, answers } = request;
    await checkAnswers(store.read, answers, [ownerId, userId]);
    const nowMs = clock.now();
    const id = newId('imp');
    const asks = questions !== undefined;
    const kept: SealedProject = { project, answers };
    const summary: ImportSummary = { ...summaryOf(project), ...(asks ? { questions } : {}) };
    const row: ImportRow = {
      ...{ id, owner_id: ownerId, user_id: userId, key_id: keyId, project_id: projectId },
      ...{ format: project.format, state: asks ? 'asking' : 'waiting', activate: activate ? 1 : 0 },
      ...{ summary: JSON.stringify(summary), workflows: importOrder(project).length, error: null },
      ...{ created_at_ms: nowMs, updated_at_ms: nowMs },
    };
    await store.transaction(async (tx) => {
      await refuseDeleted(tx, ownerId);
      if (asks) await requireRoomToAsk(tx, ownerId);
      const sealed = await sealValue(tx, { vault, clock }, { ownerId, id, value: kept });
      const stored: ImportTable = { ...row, sealed, undo_node: null };
      await forgetOldImports(tx, ownerId, importsKept);
      await insertImport(tx, stored);
      await insertImportJob({ store }, tx, { id, ownerId, nowMs, expires: asks });
    });
    onJobs();
    logger.info({ import: id, owner: ownerId, user: userId, workflows: row.workflows }, 'import.started');
    return row;
  }

  /** Lets an import that asks begin. Throws as `answerImport` does. */
  async answer(row: ImportRow, answers: GivenAnswers, by: { userId: string; keyId: string }): Promise<void> {
    await answerImport(this.#options, row, answers, by);
    this.#options.onJobs();
    this.#options.logger.info({ import: row.id, owner: row.owner_id, user: by.userId }, 'import.answered');
  }

  /**
   * Removes what an import made and what was not changed or used since. May be repeated; requests at the same time share one undo, over all
   * nodes. Throws CallerError `conflict` while the import is under way.
   */
  undo(id: string, by: UndoneBy): Promise<UndoneObjects> {
    return this.#undos.undo(id, by);
  }

  find(id: string): Promise<ImportRow | undefined> {
    return findImport(this.#options.store.read, id);
  }
}
