import { Type } from 'typebox';
import { OneOf } from '#http/route-support.ts';
import { importStatuses } from '#imports/map-workflow.ts';
import { findingLevels, foreignTriggerKinds, keyOutcomes } from '#imports/project.ts';
import { actionStates, importOutcomes, objectKinds } from '#imports/report.ts';
import { changeKinds } from '#imports/report-changes.ts';
import { importedKinds, importStates, projectFormats } from '#storage/tables/import-tables.ts';

const nullableText = (description: string) => Type.Union([Type.String(), Type.Null()], { description });
const Names = Type.Array(Type.String());

const Findings = Type.Array(
  Type.Object({
    level: OneOf(findingLevels),
    step: Type.String({ description: 'Empty: it is about the whole' }),
    message: Type.String(),
    command: Type.String({ description: 'What to enter; empty: no command does it' }),
  }),
);

const changeFields = {
  changes: Type.Array(
    Type.Object({
      path: Type.String({
        description: 'Such as steps.fetch.props.url, steps.fetch.code, settings.memory_mb',
      }),
      what: OneOf(changeKinds, {
        description: 'added: only the import has it. removed: only this service has it',
      }),
      old: nullableText('Here, shortened; null: there is none, it is secret, or it is code'),
      new: nullableText('There, shortened'),
      lines: Type.Array(Type.String(), {
        description:
          'Changed lines of code with + or -, the first of them; texts that may be secret are hidden',
      }),
    }),
    {
      description:
        'Where it is updated or in conflict: how what is imported differs from what is here (for an updated one: was here). Secrets are compared, ' +
        'and never shown',
    },
  ),
  changes_left_out: Type.Integer({ description: 'More changes than are listed' }),
};

const ImportedWorkflow = Type.Object({
  old_id: Type.String({ description: 'p_… there' }),
  name: Type.String(),
  folder: Type.String({ description: 'Folders of the project around it; empty: none' }),
  status: OneOf(importStatuses, {
    description:
      'converted: nothing is left to do. check: look at its findings. by_hand: it does not work until a user has done what its findings say',
  }),
  outcome: OneOf(importOutcomes, {
    description:
      'conflict: it was changed there and here, and left as it is here. failed: it could not be made, or changed',
  }),
  workflow_id: nullableText('p_… here; null: there is none'),
  active: Type.Boolean({ description: 'Here' }),
  was_active: Type.Boolean({ description: 'There, as the export says' }),
  triggers: Type.Array(
    Type.Object({
      old_id: Type.String({ description: 'hi_…, ti_…, ei_…, dc_… or sub_… there' }),
      kind: OneOf(foreignTriggerKinds),
      trigger_id: nullableText('Here; null: it cannot be made from what the export has'),
      complete: Type.Boolean({ description: 'The export has all that it takes to make it' }),
      address: nullableText('The endpoint URL or email address that takes the place of the one there'),
      old_address: nullableText('The one there; null: only the API of Pipedream has it'),
    }),
  ),
  findings: Findings,
  ...changeFields,
});

const ImportedObject = Type.Object({
  kind: OneOf(objectKinds),
  old_id: Type.String({ description: 'dc_…, wh_… or sub_… there' }),
  name: Type.String(),
  status: OneOf(importStatuses),
  outcome: OneOf(importOutcomes, { description: 'As of a workflow' }),
  id: nullableText('Here; null: there is none'),
  active: Type.Boolean({ description: 'When it was imported' }),
  address: nullableText('The endpoint URL of a source that takes the place of the one there'),
  old_address: nullableText('The one there'),
  findings: Findings,
  ...changeFields,
});

export const ImportReport = Type.Object({
  counts: Type.Object({
    workflows: Type.Integer(),
    converted: Type.Integer(),
    check: Type.Integer(),
    by_hand: Type.Integer(),
    created: Type.Integer(),
    updated: Type.Integer(),
    unchanged: Type.Integer(),
    conflict: Type.Integer(),
    failed: Type.Integer(),
  }),
  workflows: Type.Array(ImportedWorkflow, { description: 'Those that are done, in the order of the export' }),
  objects: Type.Array(ImportedObject, {
    description: 'Sources, webhooks and subscriptions of a bundle, those that are done',
  }),
  unreadable: Type.Array(Type.Object({ part: Type.String(), reason: Type.String() }), {
    description: 'What the API of Pipedream did not answer when the bundle was made',
  }),
  accounts: Type.Array(
    Type.Object({
      app: Type.String({ description: 'Slug of its app' }),
      old_id: Type.String({ description: 'apn_… there' }),
      name: Type.String({ description: 'Its name there; empty: not known' }),
      account_id: nullableText('apn_… here; null: none was chosen'),
      places: Type.Array(Type.String(), { description: '<workflow>: <step>.<prop>, or <source>: <prop>' }),
    }),
  ),
  variables: Type.Array(
    Type.Object({
      name: Type.String(),
      set: Type.Boolean({ description: 'It has a value here' }),
      secret: Type.Boolean({ description: 'The import made it of a secret that stood in clear' }),
      workflows: Names,
    }),
  ),
  data_stores: Type.Array(
    Type.Object({
      old_id: Type.String({ description: 'ds_… there' }),
      data_store_id: nullableText('ds_… here; it is empty'),
      workflows: Names,
    }),
  ),
  actions: Type.Array(
    Type.Object({
      key: Type.String(),
      version: Type.String({ description: 'Pinned there; empty: none' }),
      state: OneOf(actionStates, {
        description: 'included: it ships with the service. missing: its step throws when it runs',
      }),
      found: Type.String({ description: 'The version that runs here; empty: none, or that of the service' }),
      places: Type.Array(Type.String(), { description: '<workflow>: <step>' }),
    }),
  ),
  runtimes: Type.Array(
    Type.Object(
      { runtime: Type.String(), steps: Type.Integer() },
      { description: 'All run on the Node.js of the service' },
    ),
  ),
  notified: Type.Array(Type.String(), {
    description: 'Workflows that asked for a notification of errors: subscribe to their channel $errors',
  }),
  not_compiled: Type.Integer({
    description: 'Code steps that a dry run did not compile within 20 seconds; the import compiles them',
  }),
  keys: Type.Array(
    Type.Object({
      key: Type.String({ description: 'Such as steps[].props' }),
      count: Type.Integer(),
      outcome: OneOf(keyOutcomes, {
        description: 'unknown: the importer does not know it, and a finding of its workflow says so',
      }),
    }),
    { description: 'Every key of the export with its outcome' },
  ),
  problems: Type.Array(Type.Object({ path: Type.String(), message: Type.String() }), {
    description: 'Workflows that cannot be read',
  }),
});

const fields = {
  id: nullableText('imp_…; null: a dry run, which is not kept'),
  state: OneOf(importStates),
  error: nullableText('Why the import failed; what it had made stays'),
  format: OneOf(projectFormats),
  activate: Type.Boolean({ description: 'Workflows that are ready are activated' }),
  owner_id: Type.String({ description: 'u_… or o_…' }),
  project_id: nullableText('proj_… that the workflows are put into'),
  user_id: Type.String({ description: 'The user who started it' }),
  progress: Type.Object({
    done: Type.Integer({ description: 'Workflows, sources, webhooks and subscriptions' }),
    total: Type.Integer(),
  }),
  created_at: Type.String({ description: 'ISO 8601' }),
  updated_at: Type.String({ description: 'ISO 8601' }),
};

const Kept = Type.Array(
  Type.Object({ kind: OneOf(importedKinds), id: Type.String(), reason: Type.String() }),
  {
    description:
      'What the last undo left because it was changed or used since, and why; empty: it left nothing, or there was none',
  },
);

const Questions = Type.Object(
  {
    accounts: Type.Array(
      Type.Object({
        name: Type.String({ description: 'What the answer is given under' }),
        app: Type.String(),
        old_id: Type.String({ description: 'apn_… there' }),
        places: Names,
        choices: Type.Array(Type.Object({ id: Type.String(), name: nullableText('Its name') }), {
          description: 'Accounts here that may be chosen, newest first, at most 50',
        }),
      }),
    ),
    variables: Type.Array(Type.Object({ name: Type.String(), workflows: Names })),
  },
  {
    description:
      'What is needed once for all and is missing: of a dry run, and of an import that is asking; empty otherwise',
  },
);

export const ListedImport = Type.Object(fields);
export const Import = Type.Object({ ...fields, report: ImportReport, kept: Kept, questions: Questions });

export const UndoneImport = Type.Object({
  ...fields,
  removed: Type.Integer({
    description: 'Workflows, sources, webhooks, subscriptions, data stores and variables',
  }),
  kept: Kept,
});
