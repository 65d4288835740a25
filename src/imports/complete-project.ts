import { isRecord } from '#components/validate-props.ts';
import { type ApiRecords, sourceOf } from './api-records.ts';
import { KeyLedger } from './key-ledger.ts';
import type { ForeignProject, ForeignSource, ForeignTrigger, ForeignWorkflow } from './project.ts';
import { refused } from './project-files.ts';
import { readWorkflowRecord } from './read-project-export.ts';

type Loose = Record<string, unknown>;

/** Fields of workflows that describe their state and are not part of the definition. */
const statusFields = ['health', 'runs', 'warnings', 'deployment_id', 'owner_id', 'project_id'];
/** Redundant fields of steps. */
const repeatedFields = [
  ...['text_raw', 'codeRaw', 'codeConfigJson', 'flat_params_visibility_json', 'appConnections', 'type'],
  ...['authProvisionIdMap', 'authProvisionIds', 'component_owner_id'],
];
/** Fields that are read from the component of a step or trigger. The source of a trigger is read separately. */
const componentFields = ['key', 'version', 'code'];
const triggerFields = ['id', 'type', 'key', 'cron', 'timezone', 'interval_seconds', 'custom_response'];

/**
 * Adds what only the API has to the project from a repository or an archive: the configuration of triggers, sources, webhooks, subscriptions,
 * and further workflows. Throws CallerError `invalid_import` when there is nothing to import.
 */
export function completeProject(project: ForeignProject | undefined, records: ApiRecords): ForeignProject {
  const { objects, workflows: answers, problems } = records;
  const known = project?.workflows ?? [];
  const exported = project?.objects;
  // The API has newer data than an export.
  const sources = new Map(
    [...(exported?.sources ?? []), ...objects.sources].map((source) => [source.id, source]),
  );
  const subscriptions = new Map(
    [...(exported?.subscriptions ?? []), ...objects.subscriptions].map((one) => [one.id, one]),
  );
  for (const answer of answers.values())
    for (const trigger of triggersOf(answer)) addSource(sources, trigger);
  const completed = known.map((workflow) => {
    const answer = answers.get(workflow.id);
    return answer === undefined ? workflow : completeTriggers(workflow, answer);
  });
  const names = new Set(known.map(({ id }) => id));
  const ledger = new KeyLedger();
  const added: ForeignWorkflow[] = [];
  const failed = [...problems];
  for (const [id, answer] of answers) {
    if (names.has(id)) continue;
    const read = readWorkflowRecord(withoutRepeated(answer), { path: `${id}.json`, root: '', ledger });
    if (read === undefined)
      failed.push({ path: `api.workflows.${id}`, message: 'there are no steps and no triggers in it' });
    else added.push(completeTriggers({ ...read, id }, answer));
  }
  const whole = {
    ...objects,
    ...{ sources: [...sources.values()], subscriptions: [...subscriptions.values()] },
  };
  const workflows = [...completed, ...added];
  if (workflows.length + whole.sources.length + whole.webhooks.length + whole.subscriptions.length === 0)
    throw refused('there is nothing to import in the bundle: no workflow, source, webhook or subscription');
  return {
    format: 'bundle',
    workflows,
    problems: [...(project?.problems ?? []), ...failed],
    keys: [...(project?.keys ?? []), ...ledger.uses],
    objects: whole,
  };
}

function triggersOf(answer: Loose): Loose[] {
  return Array.isArray(answer.triggers) ? answer.triggers.filter(isRecord) : [];
}

/** A source that triggers a workflow but is in no list of sources. */
function addSource(sources: Map<string, ForeignSource>, trigger: Loose): void {
  const { id } = trigger;
  if (typeof id !== 'string' || !/^dc_\w{1,100}$/.test(id) || sources.has(id)) return;
  sources.set(id, sourceOf(trigger, { id, component: undefined, events: undefined }));
}

/** Matches triggers by id, because a synced repository has only their ids. */
function completeTriggers(workflow: ForeignWorkflow, answer: Loose): ForeignWorkflow {
  const answers = new Map(triggersOf(answer).map((trigger) => [trigger.id, trigger]));
  return {
    ...workflow,
    triggers: workflow.triggers.map((trigger) => {
      const found = answers.get(trigger.id);
      return found === undefined ? trigger : completeTrigger(trigger, found);
    }),
  };
}

function completeTrigger(trigger: ForeignTrigger, answer: Loose): ForeignTrigger {
  const { cron, timezone, interval_seconds: seconds, custom_response: custom } = answer;
  const address = [answer.endpoint_url, answer.email_address].find((text) => typeof text === 'string');
  const schedule =
    typeof cron === 'string' && cron !== ''
      ? { cron, timezone: typeof timezone === 'string' && timezone !== '' ? timezone : 'UTC' }
      : typeof seconds === 'number'
        ? { interval_seconds: seconds }
        : undefined;
  return {
    ...trigger,
    ...(trigger.kind === 'timer' && schedule !== undefined ? { schedule } : {}),
    ...(trigger.kind === 'http' && typeof custom === 'boolean' ? { customResponse: custom } : {}),
    ...(typeof address === 'string' ? { address: address.replaceAll('\0', '').slice(0, 500) } : {}),
  };
}

/** Removes redundant fields and nulls, so that the reader of exports finds each value under one name. */
function withoutRepeated(answer: Loose): Loose {
  const steps = Array.isArray(answer.steps) ? answer.steps.filter(isRecord) : [];
  const { settings } = answer;
  return {
    ...only(answer, (name) => !statusFields.includes(name)),
    // These values are the defaults.
    ...(isRecord(settings) ? { settings: only(settings, (name) => settings[name] !== false) } : {}),
    triggers: triggersOf(answer).map((trigger) => only(trigger, (name) => triggerFields.includes(name))),
    steps: steps.map((step) => {
      const isFlag = typeof step.component === 'boolean';
      const kept = only(step, (name) => !repeatedFields.includes(name) && !(isFlag && name === 'component'));
      const { savedComponent: saved, code_raw: code } = kept;
      if (!isRecord(saved)) return kept;
      const isRead = (name: string) =>
        componentFields.includes(name) && !(name === 'code' && typeof code === 'string');
      return { ...kept, savedComponent: only(saved, isRead) };
    }),
  };
}

/** The wanted fields that have a value. */
function only(record: Loose, isWanted: (name: string) => boolean): Loose {
  return Object.fromEntries(
    Object.entries(record).filter(([name, value]) => value !== null && value !== undefined && isWanted(name)),
  );
}
