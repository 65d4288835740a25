import type { Workflow, WorkflowStep, WorkflowTrigger } from '#sdk';
import { type ApiObject, isObject } from './api.ts';
import { maskProps, unmaskProps } from './clear-secrets.ts';
import { CliError } from './exit-codes.ts';
import type { FolderNames } from './folder-names.ts';
import { hasSecretForm } from './secret-forms.ts';

/** The form of workflow.yaml. The layout of folders, and the words that mean the same, are those of synced repositories. */
export const workflowSchema = 'millrace.workflow/1';

/** A workflow as a folder has it: names instead of ids, no secrets, in one order of fields, without what is the default. */
export interface WorkflowForm {
  /** The content of workflow.yaml. */
  file: Fields;
  /** The code of steps, by the path that `uses` says. */
  code: ReadonlyMap<string, string>;
}

type Fields = Record<string, unknown>;

/** What reading a workflow of the service says to its user. */
export type Warn = (place: string, problem: string) => void;

const settingDefaults: Readonly<Fields> = {
  timeout_seconds: null,
  memory_mb: 256,
  auto_retry: false,
  concurrency: null,
  throttle: null,
  queue_size: 100,
  isolated: false,
  flow_control: null,
};
const registryOwner = 'registry';

interface FormOptions {
  names: FolderNames;
  warn: Warn;
  /** Where the folder has the code of this step already, as `uses` says it. */
  usesOf?: (namespace: string) => string | undefined;
  /** The name of a trigger in the folder: the id that it has, or had in the first environment. */
  triggerName?: (id: string) => string;
}

/** What the API answers about a workflow, as a folder has it. */
export function workflowForm(workflow: Workflow, options: FormOptions): WorkflowForm {
  const code = new Map<string, string>();
  const byName = new Map(workflow.steps.map((step) => [step.namespace, step]));
  const inner = new Set(workflow.steps.flatMap(({ block }) => (block === null ? [] : namesIn(block))));
  const entry = (step: WorkflowStep): Fields => {
    const { namespace, block, disabled, note, timeout_seconds, retries } = step;
    const common = { disabled, note, timeout_seconds, retries };
    const entries = (list: unknown): Fields[] =>
      (Array.isArray(list) ? list : []).flatMap((name) => {
        const found = byName.get(String(name));
        return found === undefined ? [] : [entry(found)];
      });
    if (block !== null) {
      const { branches, steps, error_steps: errorSteps, workflow: called, ...fields } = block;
      warnOfSecrets({ ...fields, branches }, namespace, options.warn);
      return {
        namespace,
        ...fields,
        ...(typeof called === 'string'
          ? { workflow: options.names.nameOf('workflows', called) ?? called }
          : {}),
        ...common,
        ...(Array.isArray(branches)
          ? { branches: branches.map((one: ApiObject) => ({ ...one, steps: entries(one.steps) })) }
          : {}),
        ...(steps === undefined ? {} : { steps: entries(steps) }),
        ...(errorSteps === undefined ? {} : { error_steps: entries(errorSteps) }),
      };
    }
    return { namespace, uses: usesOf(step, code, options), props: propsOf(step, options), ...common };
  };
  const steps = workflow.steps.filter(({ namespace }) => !inner.has(namespace)).map(entry);
  return canonicalForm({
    file: {
      schema: workflowSchema,
      name: workflow.name,
      inactive: !workflow.active,
      settings: { ...workflow.settings },
      triggers: workflow.triggers.map((trigger) => triggerEntry(trigger, options)),
      steps,
    },
    code,
  });
}

function namesIn(block: ApiObject): string[] {
  const branches = Array.isArray(block.branches) ? (block.branches as ApiObject[]) : [];
  return [...branches.map(({ steps }) => steps), block.steps, block.error_steps].flatMap((list) =>
    Array.isArray(list) ? list.map(String) : [],
  );
}

/** `key@version` of the registry; any other component is a file, because only this service has it. */
function usesOf(step: WorkflowStep, code: Map<string, string>, options: FormOptions): string {
  const { namespace, savedComponent: saved, component_key: key } = step;
  if (key !== null && (saved === null || step.component_owner_id === registryOwner))
    return saved === null ? key : `${key}@${saved.version}`;
  const kept = options.usesOf?.(namespace);
  const path = kept?.startsWith('./') === true ? kept : newPath(namespace, code);
  const text = step.code_raw ?? saved?.code ?? '';
  if (hasSecretForm(text)) options.warn(`${namespace}: its code`, inClear);
  code.set(path, text);
  return path;
}

/** Some file systems take Fetch and fetch for one folder. */
function newPath(namespace: string, code: ReadonlyMap<string, string>): string {
  const taken = new Set([...code.keys()].map((path) => path.toLowerCase()));
  for (let count = 1; ; count += 1) {
    const path = `./${namespace}${count === 1 ? '' : `-${count}`}/entry.js`;
    if (!taken.has(path.toLowerCase())) return path;
  }
}

function propsOf(step: WorkflowStep, { names, warn }: FormOptions): Fields {
  const { namespace, configured_props_json: text, savedComponent: saved } = step;
  const types = new Map((saved?.configurableProps ?? []).map(({ name, type }) => [name, type]));
  return localProps(JSON.parse(text ?? '{}') as Fields, types, {
    names,
    warn: (prop, problem) => warn(`${namespace}.${prop}`, problem),
  });
}

/** Values of props as a folder has them. `types`: of the props, by their names. */
export function localProps(
  props: ApiObject,
  types: ReadonlyMap<string, string>,
  { names, warn }: { names: FolderNames; warn: Warn },
): Fields {
  const local: Fields = {};
  const shown = maskProps(props, {
    onSecret: (path) => warn(path, masked),
    onUnsure: (place) => warn(place, inClear),
  });
  for (const [name, value] of Object.entries(shown)) {
    const type = types.get(name);
    if (isObject(value) && typeof value.authProvisionId === 'string') {
      local[name] = { authProvisionId: slotOf(value.authProvisionId, names, () => warn(name, noAccount)) };
    } else if (type === 'data_store' && typeof value === 'string' && value.startsWith('ds_')) {
      local[name] = { storeId: names.nameOf('data_stores', value) ?? value };
    } else {
      local[name] = value;
    }
  }
  return local;
}

/** Fields of blocks are in the folder as they are. */
function warnOfSecrets(fields: Fields, namespace: string, warn: Warn): void {
  const warnOf = (place: string) => warn(`${namespace}.${place}`, inClear);
  maskProps(fields, { onSecret: warnOf, onUnsure: warnOf });
}

const noAccount = 'its account is not one of yours, so the folder has its id';
const masked =
  'a secret stands in clear in the workflow; the folder does not have it. Use a secret variable: {{process.env.NAME}}';
const inClear =
  'looks like a secret, and the folder has it in clear. Use a secret variable: {{process.env.NAME}}';

function slotOf(id: string, names: FolderNames, onUnknown: () => void): string {
  const name = names.nameOf('accounts', id);
  if (name === undefined) onUnknown();
  return name ?? id;
}

function triggerEntry(trigger: WorkflowTrigger, { names, triggerName }: FormOptions): Fields {
  const { type, id } = trigger;
  const head = { id: triggerName?.(id) ?? id, type };
  switch (type) {
    case 'http':
      return { ...head, custom_response: trigger.custom_response, auth: trigger.auth.type };
    case 'timer': {
      const { cron, timezone, interval_seconds } = trigger;
      return cron === null ? { ...head, interval_seconds } : { ...head, cron, timezone };
    }
    case 'email':
    case 'on_failure':
      return head;
    case 'source':
      return { type, source: names.nameOf('sources', id) ?? id };
  }
}

/** A form that was read or made: its fields in one order, and no field that is as it would be without it. */
export function canonicalForm({ file, code }: WorkflowForm): WorkflowForm {
  const { schema, name, inactive, settings, triggers, steps, ...rest } = file;
  const different = Object.entries(isObject(settings) ? settings : {}).filter(
    ([field, value]) => JSON.stringify(value) !== JSON.stringify(settingDefaults[field]),
  );
  return {
    file: {
      schema,
      name,
      ...(inactive === true ? { inactive } : {}),
      ...(different.length === 0 ? {} : { settings: sorted(Object.fromEntries(different)) }),
      ...rest,
      triggers: listOf(triggers, 'triggers').map(canonicalTrigger),
      steps: listOf(steps, 'steps').map(canonicalStep),
    },
    code,
  };
}

function listOf(value: unknown, place: string): Fields[] {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value) && value.every(isObject)) return value as Fields[];
  throw new CliError('failed', `${place}: expected a list`);
}

function canonicalTrigger({ id, type, ...fields }: Fields): Fields {
  const head = { ...(id === undefined ? {} : { id }), type };
  const { custom_response, auth, timezone, ...rest } = fields;
  return {
    ...head,
    ...(custom_response === true ? { custom_response } : {}),
    ...(auth === undefined || auth === 'none' ? {} : { auth }),
    ...sorted(rest),
    ...(rest.cron === undefined ? {} : { timezone: timezone ?? 'UTC' }),
  };
}

const blockDefaults: Readonly<Fields> = { on_error: 'fail', concurrency: 10, otherwise: 'end' };

function canonicalStep({ namespace, block, uses, props, ...fields }: Fields): Fields {
  const { disabled, note, timeout_seconds, retries, ...more } = fields;
  const { branches, steps, error_steps: errorSteps, if: rule, ...rest } = more;
  const given = isObject(props) ? props : {};
  const own = Object.entries(rest).filter(
    ([field, value]) => value !== undefined && !(block !== undefined && value === blockDefaults[field]),
  );
  return {
    namespace,
    ...(block === undefined ? {} : { block }),
    ...(uses === undefined ? {} : { uses }),
    ...(rule === undefined ? {} : { if: canonicalRule(rule) }),
    ...sorted(Object.fromEntries(own)),
    ...(Object.keys(given).length === 0 ? {} : { props: sorted(given) }),
    ...(disabled === true ? { disabled } : {}),
    ...(note === undefined || note === null || note === '' ? {} : { note }),
    ...(timeout_seconds === undefined || timeout_seconds === null ? {} : { timeout_seconds }),
    ...(isObject(retries) ? { retries: sorted(retries) } : {}),
    ...(branches === undefined ? {} : { branches: listOf(branches, 'branches').map(canonicalBranch) }),
    ...(steps === undefined ? {} : { steps: listOf(steps, 'steps').map(canonicalStep) }),
    ...(errorSteps === undefined
      ? {}
      : { error_steps: listOf(errorSteps, 'error_steps').map(canonicalStep) }),
  };
}

function canonicalBranch({ slug, if: rule, steps, ...rest }: Fields): Fields {
  return {
    slug,
    ...(rule === undefined ? {} : { if: canonicalRule(rule) }),
    ...rest,
    steps: listOf(steps, 'steps').map(canonicalStep),
  };
}

/** An expression alone is met when its value counts as true. */
function canonicalRule(rule: unknown): unknown {
  if (!isObject(rule)) return rule;
  if (Array.isArray(rule.all)) return { all: rule.all.map(canonicalRule) };
  if (Array.isArray(rule.any)) return { any: rule.any.map(canonicalRule) };
  if ('not' in rule) return { not: canonicalRule(rule.not) };
  const { value, condition, ...rest } = rule;
  const isShort =
    condition === 'TRUE' &&
    Object.keys(rest).length === 0 &&
    (typeof value === 'boolean' || (typeof value === 'string' && /^\s*\{\{[\s\S]*\}\}\s*$/.test(value)));
  return isShort ? value : { ...('value' in rule ? { value } : {}), condition, ...sorted(rest) };
}

/** The same fields in the order of their names. */
export function sorted(fields: Readonly<Fields>): Fields {
  return Object.fromEntries(Object.entries(fields).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

export interface RequestOptions {
  names: FolderNames;
  /** The workflow as it is on the service; undefined: it is new there. */
  present: Workflow | undefined;
  /** Ids of triggers there, by their names in the folder. */
  triggerIds: Readonly<Record<string, string>>;
  /** The value of a secret that the service does not have yet. */
  secretAt: (place: string) => unknown;
  /** The id of what the folder names, or of something else with that id. */
  idOf: (kind: 'accounts' | 'data_stores' | 'workflows' | 'sources', name: string, place: string) => string;
}

/** `steps` of a request. */
export function stepInputs({ file, code }: WorkflowForm, options: RequestOptions): Fields[] {
  const present = new Map((options.present?.steps ?? []).map((step) => [step.namespace, step]));
  const input = (step: Fields): Fields => {
    const { namespace, uses, props, workflow, branches, steps, error_steps: errorSteps, ...rest } = step;
    const name = String(namespace);
    const inputs = (list: unknown) => listOf(list, 'steps').map(input);
    const before = present.get(name);
    return {
      namespace,
      ...rest,
      ...(workflow === undefined
        ? {}
        : { workflow: options.idOf('workflows', String(workflow), `${name}.workflow`) }),
      ...(branches === undefined
        ? {}
        : { branches: listOf(branches, 'branches').map((one) => ({ ...one, steps: inputs(one.steps) })) }),
      ...(steps === undefined ? {} : { steps: inputs(steps) }),
      ...(errorSteps === undefined ? {} : { error_steps: inputs(errorSteps) }),
      ...(uses === undefined ? {} : codeOf(String(uses), code)),
      ...(isObject(props)
        ? {
            props: remoteProps(props, JSON.parse(before?.configured_props_json ?? '{}'), {
              ...options,
              place: name,
            }),
          }
        : {}),
    };
  };
  return listOf(file.steps, 'steps').map(input);
}

function codeOf(uses: string, code: ReadonlyMap<string, string>): Fields {
  return uses.startsWith('./') ? { code: code.get(uses) ?? '' } : { component: uses };
}

/** Values of props as a request has them. `present`: those on the service. */
export function remoteProps(
  props: ApiObject,
  present: ApiObject,
  { idOf, secretAt, place }: Pick<RequestOptions, 'idOf' | 'secretAt'> & { place: string },
): Fields {
  const whole = unmaskProps(props, present, place, secretAt);
  return Object.fromEntries(
    Object.entries(whole).map(([name, value]) => {
      const here = `${place}.${name}`;
      if (isObject(value) && typeof value.authProvisionId === 'string')
        return [name, { authProvisionId: idOf('accounts', value.authProvisionId, here) }];
      if (isObject(value) && typeof value.storeId === 'string')
        return [name, { storeId: idOf('data_stores', value.storeId, here) }];
      return [name, value];
    }),
  );
}

/** `triggers` of a request. A trigger that the service does not have is made; one without an id may be that at its place. */
export function triggerInputs({ file }: WorkflowForm, options: RequestOptions): Fields[] {
  const there = new Map((options.present?.triggers ?? []).map((trigger) => [trigger.id, trigger]));
  return listOf(file.triggers, 'triggers').map((trigger, index) => {
    const { id: name, type, source, auth, ...fields } = trigger;
    const place = `triggers[${index}]`;
    if (type === 'source') {
      const id = options.idOf('sources', String(source), `${place}.source`);
      return there.has(id) ? { id, type } : { type, props: { source_id: id } };
    }
    const known = name === undefined ? undefined : (options.triggerIds[String(name)] ?? String(name));
    const before = known === undefined ? undefined : there.get(known);
    const head = { ...(before === undefined ? {} : { id: before.id }), type };
    if (type !== 'http') return { ...head, props: fields };
    const kept = before?.type === 'http' && before.auth.type === 'static_bearer_token';
    const token =
      auth === 'static_bearer_token' && !kept
        ? { token: options.secretAt(`${String(name ?? place)}.token`) }
        : {};
    return {
      ...head,
      props: {
        custom_response: fields.custom_response === true,
        ...fields,
        auth: { type: auth ?? 'none', ...token },
      },
    };
  });
}

/** `settings` of a request, all of them: a line that was removed is the default again. */
export function settingInputs({ file }: WorkflowForm): Fields {
  return { ...settingDefaults, ...(isObject(file.settings) ? file.settings : {}), name: file.name };
}
