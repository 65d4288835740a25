import { type Static, Type } from 'typebox';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import {
  type App,
  callerOf,
  DataOf,
  IdParams,
  namedWorkspace,
  ownerForCreate,
  PageOf,
  PageQuery,
} from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { homeOf, readable, requireWorkspace, writable } from '#identity/permissions.ts';
import { projectOfWorkspace } from '#identity/project-store.ts';
import { importOrder } from '#imports/import-order.ts';
import { countItems, type ImportRow, pageOfImports } from '#imports/import-store.ts';
import type { ImportManager, PlannedImport } from '#imports/manage-imports.ts';
import {
  type AccountChoice,
  accountChoices,
  noQuestions,
  type OpenQuestions,
  openQuestions,
} from '#imports/open-questions.ts';
import { ProjectReader } from '#imports/project-reader.ts';
import { countsOf, type ImportItem, type ImportSummary, needsOf } from '#imports/report.ts';
import { ReportCache } from '#imports/report-cache.ts';
import type { ReportedChanges } from '#imports/report-changes.ts';
import type { Clock } from '#lib/clock.ts';
import type { Store } from '#storage/store.ts';
import { variablesOfWorkflows } from '#user-data/variables/variable-store.ts';
import type { WorkflowViewContext } from '#workflows/definitions/view-workflow.ts';
import {
  AnswersBody,
  consumes,
  contentFields,
  contentOf,
  ImportBody,
  ImportQuery,
  jsonBytesMax,
  optionsOf,
  rawBodies,
  readRawBodies,
} from './import-content.ts';
import { Import, type ImportReport, ListedImport, UndoneImport } from './import-shapes.ts';

export interface ImportRouteOptions {
  store: Store;
  clock: Clock;
  imports: Pick<ImportManager, 'dryRun' | 'start' | 'answer' | 'undo' | 'find'>;
  workflowViews: WorkflowViewContext;
}

/** Additions: bringing projects of another service here. */
export function importRoutes(app: App, options: ImportRouteOptions): void {
  const support = importSupport(options);
  readRawBodies(app);
  app.addHook('preClose', async () => support.reader.close());
  newImportRoutes(app, support);
  readImportRoutes(app, support);
  continueImportRoutes(app, support);
}

type ImportSupport = ReturnType<typeof importSupport>;

/** What the handlers of these routes share. */
function importSupport({ store, clock, imports, workflowViews }: ImportRouteOptions) {
  const shared = { tags: ['imports', 'addition'] };
  const reader = new ProjectReader();
  const addressOf = (kind: ImportItem['triggers'][number]['kind'], key: string | null): string | null => {
    if (key === null) return null;
    return kind === 'email' ? workflowViews.emailAddress(key) : (workflowViews.endpointUrl(key) ?? null);
  };
  const reportOf = async (
    { owner_id, project_id }: Pick<ImportRow, 'owner_id' | 'project_id'>,
    { summary, items, objects }: PlannedImport,
  ): Promise<Static<typeof ImportReport>> => {
    const variables = await variablesOfWorkflows(store.read, owner_id, orNull(project_id));
    const set = new Set(variables.map(({ name }) => name));
    return {
      counts: countsOf(items),
      workflows: items.map(
        ({ old_id, name, folder, status, outcome, workflow_id, active, was_active, ...item }) => ({
          ...{ old_id, name, folder, status, outcome, workflow_id, active, was_active },
          ...changesOf(item),
          triggers: item.triggers.map(({ key, old_address = '', ...trigger }) => ({
            complete: trigger.trigger_id !== null,
            ...trigger,
            address: addressOf(trigger.kind, key),
            old_address: orNull(old_address),
          })),
          findings: item.findings.map((finding) => ({
            ...finding,
            command: finding.command.replaceAll('WORKFLOW', workflow_id ?? 'WORKFLOW'),
          })),
        }),
      ),
      objects: objects.map(({ key, old_address, accounts: _accounts, actions: _actions, ...object }) => ({
        ...object,
        ...changesOf(object),
        address: addressOf('http', key),
        old_address: orNull(old_address),
        findings: object.findings.map((finding) => ({
          ...finding,
          command: finding.command.replaceAll('SOURCE', object.id ?? 'SOURCE'),
        })),
      })),
      ...needsOf(items, objects, {
        isSet: (name) => set.has(name),
        known: summary.accounts ?? [],
      }),
      unreadable: summary.unreadable ?? [],
      ...{
        runtimes: summary.runtimes,
        notified: summary.notified,
        not_compiled: summary.not_compiled ?? 0,
        keys: summary.keys,
        problems: summary.problems,
      },
    };
  };
  const reports = new ReportCache(store, reportOf);
  /** The questions with what may be chosen: accounts of the owner, and of the user who asks and would choose. */
  const withChoices = async (
    { accounts, variables }: OpenQuestions,
    owners: readonly string[],
  ): Promise<Static<typeof Import>['questions']> => {
    const choices = new Map<string, AccountChoice[]>();
    for (const { app } of accounts)
      if (!choices.has(app)) choices.set(app, await accountChoices(store.read, app, owners));
    return {
      accounts: accounts.map((one) => ({ ...one, choices: choices.get(one.app) ?? [] })),
      variables,
    };
  };
  const whole = async (row: ImportRow, userId: string): Promise<Static<typeof Import>> => {
    const { report, done } = await reports.reportOf(row);
    const { kept = [], questions = noQuestions } = JSON.parse(row.summary) as ImportSummary;
    const owners = userId === row.user_id ? [row.owner_id, userId] : [row.owner_id];
    const asked = row.state === 'asking' ? questions : noQuestions;
    return { ...fieldsOf(row, done), report, kept, questions: await withChoices(asked, owners) };
  };

  return { store, clock, imports, shared, reader, reportOf, withChoices, whole };
}

function newImportRoutes(
  app: App,
  { store, clock, imports, shared, reader, reportOf, withChoices, whole }: ImportSupport,
): void {
  app.post(
    '/imports',
    {
      bodyLimit: jsonBytesMax,
      schema: {
        ...shared,
        operationId: 'createImport',
        summary: 'Bring workflows, sources, webhooks and subscriptions of Pipedream here',
        description:
          'Takes a synced repository (a clone, a ZIP of one, or the folder of one workflow), a project export, or a bundle, which also has what ' +
          `the API of Pipedream answered. ${rawBodies} Responds at once; the import is done in the ` +
          'background, each workflow in a transaction of its own, and continues after a crash. Objects are recognised by their ids there: ' +
          'a second import updates what changed there, and reports a conflict for what was also changed here. A dry run answers what would ' +
          'be done, and does nothing.',
        consumes,
        querystring: ImportQuery,
        body: ImportBody,
        response: { 200: DataOf(Import) },
      },
    },
    async (request) => {
      const { userId, keyId } = callerOf(request);
      const ownerId = await ownerForCreate(store.read, request);
      const { isDryRun, asks, activate, projectId, accounts } = optionsOf(request);
      if (projectId !== '') await projectOfWorkspace(store.read, projectId, ownerId);
      const project = await reader.project(ownerId, contentOf(request));
      const wanted = { ownerId, userId, keyId, activate, projectId, answers: { accounts } };
      if (!isDryRun && !asks)
        return { data: selectFields(request, await whole(await imports.start(project, wanted), userId)) };
      const planned = await imports.dryRun(project, wanted);
      const nowMs = clock.now();
      const row: ImportRow = {
        ...{ id: '', owner_id: ownerId, user_id: userId, key_id: keyId, project_id: wanted.projectId },
        ...{ format: project.format, state: 'done', activate: activate ? 1 : 0, summary: '', error: null },
        ...{ workflows: importOrder(project).length, created_at_ms: nowMs, updated_at_ms: nowMs },
      };
      const report = await reportOf(row, planned);
      const open = openQuestions(report);
      if (!isDryRun) {
        const isOpen = open.accounts.length + open.variables.length > 0;
        const started = await imports.start(project, wanted, isOpen ? open : undefined);
        return { data: selectFields(request, await whole(started, userId)) };
      }
      const questions = await withChoices(open, [ownerId, userId]);
      const answer = { ...fieldsOf(row, Number(row.workflows)), report, kept: [], questions };
      return { data: selectFields(request, answer) };
    },
  );

  app.post(
    '/imports/outline',
    {
      bodyLimit: jsonBytesMax,
      schema: {
        ...shared,
        operationId: 'outlineExport',
        summary: 'The structure of an export without its content',
        description:
          'For a report of a format that the importer does not understand: names of keys and types of values, of ids only their prefixes; no text, ' +
          'number, code or path. Nothing is stored. The archive or bundle may also be the body itself.',
        consumes,
        body: Type.Object(contentFields),
        response: { 200: DataOf(Type.Record(Type.String(), Type.Unknown())) },
      },
    },
    async (request) => ({
      data: await reader.outline(callerOf(request).userId, contentOf(request)),
    }),
  );
}

function readImportRoutes(app: App, { store, imports, shared, whole }: ImportSupport): void {
  app.get(
    '/imports',
    {
      schema: {
        ...shared,
        operationId: 'listImports',
        summary: 'Imports of a workspace, or your own, newest first',
        querystring: PageQuery,
        response: { 200: PageOf(ListedImport) },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      const named = namedWorkspace(request);
      const ownerId = named?.id ?? homeOf(caller);
      if (ownerId !== caller.userId)
        await requireWorkspace(store.read, caller, ownerId, 'read', named?.parameter);
      const { rows, totalCount } = await pageOfImports(store.read, ownerId, pageRequest(request));
      const done = await countItems(
        store.read,
        rows.map(({ id }) => id),
      );
      const items = rows.map((row) => fieldsOf(row, done.get(row.id) ?? 0));
      return pageResponse(selectFields(request, items), {
        totalCount,
        cursorOf: (_item, index) => encodeCursor(rows[index]?.id ?? ''),
      });
    },
  );

  app.get(
    '/imports/:id',
    {
      schema: {
        ...shared,
        operationId: 'getImport',
        summary: 'An import: how far it is, and its report',
        params: IdParams('imp_…'),
        response: { 200: DataOf(Import) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const caller = callerOf(request);
      const row = await readable(store.read, caller, await imports.find(id), { what: 'import', id });
      return { data: selectFields(request, await whole(row, caller.userId)) };
    },
  );
}

function continueImportRoutes(app: App, { store, imports, shared, whole }: ImportSupport): void {
  app.post(
    '/imports/:id/answers',
    {
      schema: {
        ...shared,
        operationId: 'answerImport',
        summary: 'Answer the questions of an import, which then begins',
        description:
          'For an import that was started with `ask`. Questions that get no answer stay open: what needs them is by hand in the report. ' +
          'Accounts are those of the owner, or of the user who started the import and gives the answers. Variables are stored with the ' +
          'answers or not at all.',
        params: IdParams('imp_…'),
        body: AnswersBody,
        response: { 200: DataOf(Import) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const caller = callerOf(request);
      const row = await writable(store.read, caller, await imports.find(id), { what: 'import', id });
      const { accounts = {}, variables = {}, activate } = request.body;
      await imports.answer(row, { accounts, variables, activate }, caller);
      return { data: selectFields(request, await whole((await imports.find(id)) ?? row, caller.userId)) };
    },
  );

  app.post(
    '/imports/:id/undo',
    {
      schema: {
        ...shared,
        operationId: 'undoImport',
        summary: 'Remove what an import made and was not changed since',
        description:
          'Subscriptions go first. Sources and webhooks that were changed since stay, as do those with other subscriptions. ' +
          'Workflows that were changed since in any way (deployed, renamed, activated or deactivated, subscribed, or changed by a later import) ' +
          'stay, and so do what they use, data stores with entries and variables with another value; `kept` says why. Workflows that the ' +
          'import only changed stay as they are now: what they were before is not brought back. Requests at the same time share one undo, on whichever ' +
          'nodes, and get the same answer.',
        params: IdParams('imp_…'),
        response: { 200: DataOf(UndoneImport) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const caller = callerOf(request);
      const row = await writable(store.read, caller, await imports.find(id), { what: 'import', id });
      const { removed, kept } = await imports.undo(row.id, caller);
      const after = (await imports.find(id)) ?? row;
      const done = (await countItems(store.read, [id])).get(id) ?? 0;
      return { data: selectFields(request, { ...fieldsOf(after, done), removed, kept }) };
    },
  );
}

/** Reports from before changes were kept have none. */
function changesOf({ changes = [], changes_left_out = 0 }: Partial<ReportedChanges>): ReportedChanges {
  return { changes, changes_left_out };
}

function fieldsOf(row: ImportRow, done: number): Static<typeof ListedImport> {
  return {
    ...{ id: orNull(row.id), state: row.state, error: row.error, format: row.format },
    ...{ activate: row.activate === 1, owner_id: row.owner_id, project_id: orNull(row.project_id) },
    user_id: row.user_id,
    progress: { done, total: Number(row.workflows) },
    created_at: new Date(Number(row.created_at_ms)).toISOString(),
    updated_at: new Date(Number(row.updated_at_ms)).toISOString(),
  };
}

function orNull(text: string): string | null {
  return text === '' ? null : text;
}
