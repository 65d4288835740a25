import type { Command } from 'commander';
import type { Deployment, Workflow, WorkflowStep, WorkflowSummary, WorkflowTrigger } from '#sdk';
import { durationText } from './amounts.ts';
import { type ApiObject, isObject, pathOf } from './api.ts';
import {
  addLimit,
  type CommandOptions,
  type GetSessionOptions,
  group,
  leaf,
  limitOf,
  textOption,
} from './command-kit.ts';
import { usageError } from './exit-codes.ts';
import { healthList } from './list-command.ts';
import { endpointOf } from './make-source.ts';
import { ownedPath } from './owned-path.ts';
import { withOwnerNames } from './owner-names.ts';
import { readJsonFile } from './prop-values.ts';
import type { Session } from './session.ts';
import {
  column,
  healthColumn,
  idColumn,
  reasonColumn,
  showDone,
  showList,
  showOne,
  timeColumn,
  timeText,
} from './show.ts';
import { unsetVariables } from './unset-variables.ts';
import { visible } from './visible-text.ts';

const steps = column<Pick<Workflow, 'steps'>>('STEPS', (item) => item.steps.length);

/** When the newest run began, and its state. */
function lastRunText({ last_run: run }: WorkflowSummary): string {
  return run === null ? 'never ran' : `${timeText(run.created_at)} ${run.state}`;
}

export function workflowCommands(program: Command, sessionOptions: GetSessionOptions): void {
  const workflows = group(program, 'workflows', 'workflows');
  healthList<WorkflowSummary>(
    workflows,
    'your workflows, or those of a workspace, newest first',
    sessionOptions,
    {
      path: (session) => ownedPath(session, 'workflows'),
      columns: [
        idColumn(),
        column('NAME', 'name'),
        healthColumn(),
        column('TRIGGERS', ({ triggers }) => triggers.map(({ type }) => type).join(', ')),
        steps,
        column('LAST RUN (UTC)', lastRunText),
        timeColumn('CHANGED (UTC)', 'updated_at'),
        reasonColumn(),
      ],
      empty:
        'No workflows yet. `millrace workflows create --file workflow.json` makes one; examples/ has some.',
    },
  );
  leaf(
    workflows,
    'describe <workflow>',
    'one workflow with its triggers and steps',
    sessionOptions,
    describe,
  );
  leaf(workflows, 'create', 'make a workflow from a definition or a template', sessionOptions, create)
    .option('--file <file>', 'definition as JSON: steps, triggers, settings; - for standard input')
    .option('--template <template>', 'make it from this template')
    .option('--project <project>', 'put it into this project of the workspace')
    .option('--name <name>', 'name of the workflow')
    .option('--inactive', 'do not activate it');
  leaf(
    workflows,
    'update <workflow>',
    'rename, activate, deactivate, or deploy another version',
    sessionOptions,
    update,
  )
    .option('--file <file>', 'another definition as JSON, what it leaves out stays; - for standard input')
    .option('--name <name>', 'another name')
    .option('--active', 'activate it')
    .option('--inactive', 'deactivate the workflow; runs under way continue');
  leaf(
    workflows,
    'delete <workflow>',
    'remove a workflow with its triggers, versions and runs',
    sessionOptions,
    remove,
  ).option('--ignore-hook-errors', 'also when a hook of a trigger fails');
  addLimit(
    leaf(workflows, 'deployments <workflow>', 'versions, newest first', sessionOptions, deployments),
    20,
  );
}

async function describe(session: Session, _options: CommandOptions, id = ''): Promise<void> {
  const workflow = await (await session.api()).data<Workflow>('GET', pathOf`/v1/workflows/${id}`);
  if (session.isJson) return session.terminal.printJson(workflow);
  const { steps: itsSteps, triggers, warnings, ...fields } = workflow;
  await showOne(session, fields);
  noteWarnings(session, { warnings });
  session.terminal.print('');
  showList<WorkflowTrigger>(
    session,
    triggers,
    [idColumn('TRIGGER'), column('TYPE', 'type'), column('WHERE OR WHEN', whereOrWhen)],
    'No triggers.',
  );
  session.terminal.print('');
  showList<WorkflowStep>(
    session,
    itsSteps,
    [
      column('STEP', 'namespace'),
      idColumn(),
      column('DISABLED', 'disabled'),
      column('COMPONENT', (step) => step.component_key ?? 'code'),
      column('PROPS', propsText),
    ],
    'No steps.',
  );
}

/** Code steps without props have none to show. */
function propsText({ configured_props_json: props }: WorkflowStep): string | null {
  return props === '{}' ? null : props;
}

function whereOrWhen(trigger: WorkflowTrigger): string | null {
  switch (trigger.type) {
    case 'http':
      return trigger.endpoint_url;
    case 'email':
      return trigger.email_address;
    case 'source':
      return trigger.name;
    case 'on_failure':
      return 'failed runs of other workflows';
    case 'timer': {
      const { cron, interval_seconds: seconds } = trigger;
      return cron ?? (seconds === null ? null : `every ${durationText(seconds * 1000)}`);
    }
  }
}

async function create(session: Session, options: CommandOptions): Promise<void> {
  const file = textOption(options, 'file');
  const template = textOption(options, 'template');
  if ((file === undefined) === (template === undefined))
    throw usageError(
      'give either --file or --template',
      'A definition is JSON with triggers, steps and settings; the folder examples has some.',
    );
  const definition = file === undefined ? {} : await readDefinition(session, file);
  const settings = {
    auto_deploy: options.inactive !== true,
    ...(isObject(definition.settings) ? definition.settings : {}),
    ...(textOption(options, 'name') === undefined ? {} : { name: options.name }),
    ...(options.inactive === true ? { auto_deploy: false } : {}),
  };
  const workflow = await (await session.api()).data<Workflow>('POST', '/v1/workflows', {
    body: {
      ...session.owner,
      ...definition,
      template_id: template,
      project_id: textOption(options, 'project'),
      settings,
    },
  });
  if (session.isJson) return session.terminal.printJson(workflow);
  const addresses = workflow.triggers.map(addressOf).filter((address) => address !== null);
  session.terminal.print([workflow.id, workflow.name, ...addresses].join('  '));
  if (workflow.triggers.length === 0)
    session.terminal.note(
      'It has no trigger: only a subscription to a source or another workflow can start it.',
    );
  for (const trigger of workflow.triggers)
    if (trigger.type === 'email' && trigger.warning !== null)
      session.terminal.note(`${trigger.email_address}: ${trigger.warning}.`);
  noteWarnings(session, workflow);
  const unset = await unsetVariables(session, workflow, textOption(options, 'project'));
  if (unset.length > 0)
    session.terminal.note(
      `It reads variables that are not set: ${unset.join(', ')}. Set each with \`millrace env set NAME=value\`.`,
    );
  session.terminal.note(`Its runs: millrace runs list ${workflow.id}`);
}

function noteWarnings(session: Session, { warnings }: Pick<Workflow, 'warnings'>): void {
  for (const warning of warnings) session.terminal.note(`Warning: ${visible(warning)}.`);
}

/** Where to send something that starts a run; null for a timer, and for a source without an endpoint. */
function addressOf(trigger: WorkflowTrigger): string | null {
  switch (trigger.type) {
    case 'http':
      return trigger.endpoint_url;
    case 'email':
      return trigger.email_address;
    case 'source':
      return endpointOf(trigger) ?? null;
    case 'timer':
    case 'on_failure':
      return null;
  }
}

async function update(session: Session, options: CommandOptions, id = ''): Promise<void> {
  if (options.active === true && options.inactive === true)
    throw usageError('--active and --inactive exclude each other');
  const file = textOption(options, 'file');
  const name = textOption(options, 'name');
  const isToggled = options.active === true || options.inactive === true;
  if (file === undefined && name === undefined && !isToggled) {
    throw usageError('nothing to change', 'Give --name, --file, --active or --inactive.');
  }
  const api = await session.api();
  let workflow: Workflow | undefined;
  if (file !== undefined) {
    const body = { ...session.owner, ...(await readDefinition(session, file)) };
    workflow = await api.data<Workflow>('POST', pathOf`/v1/workflows/${id}/deployments`, { body });
  }
  if (name !== undefined || isToggled) {
    const body = { name, active: isToggled ? options.active === true : undefined };
    workflow = await api.data<Workflow>('PUT', pathOf`/v1/workflows/${id}`, { body });
  }
  if (workflow !== undefined && !session.isJson) noteWarnings(session, workflow);
  showDone(session, `Changed ${id}; it is ${workflow?.active === true ? 'active' : 'inactive'}.`, workflow);
}

async function remove(session: Session, options: CommandOptions, id = ''): Promise<void> {
  const query = { ignore_hook_errors: options.ignoreHookErrors === true ? true : undefined };
  await (await session.api()).call('DELETE', pathOf`/v1/workflows/${id}`, { query });
  showDone(session, `Removed ${id}.`);
}

async function deployments(session: Session, options: CommandOptions, id = ''): Promise<void> {
  const items = await (await session.api()).list<Deployment>(
    pathOf`/v1/workflows/${id}/deployments`,
    limitOf(options),
  );
  showList<Deployment>(
    session,
    session.isJson ? items : await withOwnerNames(session, items),
    [
      idColumn(),
      column('NUMBER', 'number'),
      steps,
      column('BY', 'user_id'),
      timeColumn('CREATED (UTC)', 'created_at'),
    ],
    'No deployments.',
  );
}

async function readDefinition(session: Session, file: string): Promise<ApiObject> {
  const definition = await readJsonFile(session, file, '--file');
  if (!isObject(definition))
    throw usageError(`--file ${file}: expected a JSON object with steps, triggers and settings`);
  const { name, settings } = definition;
  if (name !== undefined && (!isObject(settings) || settings.name === undefined))
    session.terminal.note(
      `--file ${file}: name is not used; the name of a workflow is settings.name, or --name`,
    );
  return definition;
}
