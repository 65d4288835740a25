import { createHash } from 'node:crypto';
import type { StepInput } from '#workflows/definitions/step-input.ts';
import {
  isNamespace,
  type SettingsInput,
  stepsMax,
  type TriggerInput,
  triggersMax,
} from '#workflows/definitions/workflow-input.ts';
import { textsIn } from './find-variables.ts';
import { hiddenValues } from './hidden-values.ts';
import { mapSettings } from './map-settings.ts';
import { type AccountSlot, type ActionUse, type MapContext, mapStep } from './map-step.ts';
import type { MovedSecret } from './move-secrets.ts';
import { nestSteps } from './nest-steps.ts';
import { byHand, checkIt, type Finding, type ForeignTrigger, type ForeignWorkflow } from './project.ts';

/** A workflow as it is to be deployed here, with what a user should know of it. */
export interface MappedWorkflow {
  oldId: string;
  name: string;
  folder: string;
  path: string;
  /** It was active there. */
  active: boolean;
  steps: StepInput[];
  settings: SettingsInput;
  /** In the order of the export; without `input`: it cannot be made from what the export has. */
  triggers: MappedTrigger[];
  findings: Finding[];
  secrets: MovedSecret[];
  accounts: AccountSlot[];
  dataStores: string[];
  variables: string[];
  actions: ActionUse[];
  /** Steps, by their place among all of them (`flattenSteps`), whose code imports `files`, by the path of the code. */
  entries: { step: number; path: string }[];
  files: Readonly<Record<string, string>>;
}

export interface MappedTrigger {
  oldId: string;
  kind: ForeignTrigger['kind'];
  /** Its endpoint URL or email address there; '': not known. */
  address: string;
  input: TriggerInput | undefined;
}

export const importStatuses = ['converted', 'check', 'by_hand'] as const;
export type ImportStatus = (typeof importStatuses)[number];

const nameMax = 200;
/** In commands of findings; replaced by the id of the workflow as soon as it has one. */
const workflowPlace = 'WORKFLOW';

/** Pure: a workflow as these answers and this service make it. */
export function mapWorkflow(foreign: ForeignWorkflow, context: MapContext): MappedWorkflow {
  const findings = [...foreign.findings];
  const given = foreign.steps.slice(0, stepsMax);
  if (given.length < foreign.steps.length)
    findings.push(byHand(`it has ${foreign.steps.length} steps, and the first ${stepsMax} were imported`));
  const names = namesOf(
    given.map(({ namespace }) => namespace),
    findings,
  );
  const mapped = given.map((step, at) =>
    mapStep(step, context, {
      ...{ workflowId: foreign.id, name: names[at] ?? step.namespace },
      hasFiles: foreign.files !== undefined,
    }),
  );
  if (foreign.steps.length === 0) findings.push(checkIt('it has no steps'));
  const triggers = mapTriggers(foreign, context, findings);
  const variables = [...new Set(mapped.flatMap((step) => step.variables))].sort();
  for (const variable of variables.filter((one) => !context.isSet(one)))
    findings.push(
      checkIt(
        `it reads ${variable}, which is not set`,
        '',
        `millrace env set ${/^\w+$/.test(variable) ? variable : 'NAME'}`,
      ),
    );
  findings.push(
    ...hiddenValues(
      mapped.map(({ step, variables: read }, at) => ({
        ...{ name: step.namespace, disabled: step.disabled === true, variables: read },
        text: [step.code ?? '', ...textsIn(given[at]?.props)].join('\n'),
      })),
      context.isSecret,
    ),
  );
  const name = foreign.name.replaceAll('\0', '').slice(0, nameMax);
  return {
    oldId: foreign.id,
    name,
    folder: foreign.folder,
    path: foreign.path,
    active: foreign.active,
    steps: nestSteps(
      mapped.map(({ step }) => step),
      given,
    ),
    settings: { name, ...mapSettings(foreign.settings, findings) },
    triggers,
    findings: [...findings, ...mapped.flatMap((step) => step.findings)],
    secrets: mapped.flatMap(({ secrets }) => secrets),
    accounts: mapped.flatMap(({ accounts }) => accounts),
    dataStores: [...new Set(mapped.flatMap(({ dataStores }) => dataStores))],
    variables,
    actions: mapped.flatMap(({ action }) => action ?? []),
    entries: mapped.flatMap(({ entry: path }, step) => (path === undefined ? [] : [{ step, path }])),
    files: foreign.files ?? {},
  };
}

export function statusOf(findings: readonly Finding[]): ImportStatus {
  if (findings.some(({ level }) => level === 'by_hand')) return 'by_hand';
  return findings.length > 0 ? 'check' : 'converted';
}

/** The same text for the same definition: a later import compares it. Secrets are variables, and not in it. */
export function fingerprintOf({ steps, settings, triggers }: MappedWorkflow): string {
  // An export that says less of a trigger than a later one is completed by it.
  const print = ({ oldId, kind, input }: MappedTrigger) =>
    input !== undefined && (kind === 'timer' || kind === 'source') ? [oldId, input.props] : oldId;
  const text = JSON.stringify([steps, settings, triggers.map(print)]);
  return createHash('sha256').update(text).digest('hex');
}

/** Names that steps can have here: expressions name steps by them, so they change only where they must. */
function namesOf(given: readonly string[], findings: Finding[]): string[] {
  const taken = new Set<string>();
  return given.map((namespace, at) => {
    let name = namespace;
    if (!isNamespace(name) || taken.has(name)) {
      const base = namespace
        .replaceAll(/[^A-Za-z0-9_]/g, '_')
        .replace(/^(?=\d|$)/, '_')
        .slice(0, 90);
      for (let number = at + 1; !isNamespace(name) || taken.has(name); number += 1)
        name = `${base}_${number}`;
      findings.push(
        checkIt(
          `its name ${JSON.stringify(namespace.slice(0, 100))} cannot be used here: change steps.… in expressions and code`,
          name,
        ),
      );
    }
    taken.add(name);
    return name;
  });
}

function mapTriggers(foreign: ForeignWorkflow, context: MapContext, findings: Finding[]): MappedTrigger[] {
  const triggers = foreign.triggers.map((trigger) => ({
    oldId: trigger.id,
    kind: trigger.kind,
    address: trigger.address ?? '',
    input: triggerInput(trigger, { foreign, context, findings }),
  }));
  if (triggers.length > triggersMax)
    findings.push(
      byHand(`it has ${triggers.length} triggers, and a workflow has at most ${triggersMax} here`),
    );
  if (triggers.length === 0) findings.push(checkIt('it has no trigger in the export'));
  return triggers.slice(0, triggersMax);
}

function triggerInput(
  { id, kind, schedule, customResponse }: ForeignTrigger,
  { foreign, context, findings }: { foreign: ForeignWorkflow; context: MapContext; findings: Finding[] },
): TriggerInput | undefined {
  const source = kind === 'source' ? context.source(id) : undefined;
  switch (kind) {
    case 'http':
      return { type: 'http', props: { custom_response: customResponse ?? answersItself(foreign) } };
    case 'email':
      findings.push(checkIt(`its email trigger ${id} has a new address, and mail needs MILLRACE_SMTP_PORT`));
      return { type: 'email', props: {} };
    case 'timer':
      if (schedule !== undefined) return { type: 'timer', props: { ...schedule } };
      findings.push(
        byHand(
          `the schedule of its timer ${id} is not in the export: give it, as cron with timezone or as interval_seconds`,
          '',
          `echo '{"triggers":[{"type":"timer","props":{"cron":"0 9 * * *","timezone":"UTC"}}]}' | millrace workflows update ${workflowPlace} --file -`,
        ),
      );
      return undefined;
    case 'source':
      if (source !== undefined) return { type: 'source', props: { source_id: source } };
      findings.push(
        byHand(
          `its source ${id} is not here: import with --api-key-file to bring it, or deploy its component here with its props and subscribe the workflow to it`,
          '',
          `millrace subscriptions create SOURCE ${workflowPlace}`,
        ),
      );
      return undefined;
    case 'subscription':
      if (context.subscribes(id)) return undefined;
      findings.push(
        byHand(
          `what its subscription ${id} listens to is not in the export: subscribe it to the same emitter here`,
          '',
          `millrace subscriptions create EMITTER ${workflowPlace}`,
        ),
      );
      return undefined;
    case 'unknown':
      findings.push(
        byHand(
          id === ''
            ? 'one of its triggers has no id, so its kind is not known'
            : `its trigger ${JSON.stringify(id.slice(0, 60))} is of a kind that the importer does not know`,
        ),
      );
      return undefined;
  }
}

/** The export does not say whether the trigger waits for a response; steps that respond do. */
function answersItself({ steps }: ForeignWorkflow): boolean {
  return steps.some(
    ({ content, disabled }) =>
      !disabled &&
      ((content.kind === 'code' &&
        /\$\.respond\s*\(|(?<![\w$.])\$respond\s*\(|\bpd\.respond\s*\(/.test(content.text)) ||
        (content.kind === 'action' && content.key === 'http-return-http-response')),
  );
}
