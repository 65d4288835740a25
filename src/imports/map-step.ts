import { isRecord } from '#components/validate-props.ts';
import type { BranchInput, StepInput } from '#workflows/definitions/step-input.ts';
import { noteMax } from '#workflows/definitions/workflow-input.ts';
import { textsIn, variablesIn } from './find-variables.ts';
import { wrapFirstGeneration } from './first-generation.ts';
import { importedFile } from './imported-file.ts';
import { type MovedSecret, moveSecrets } from './move-secrets.ts';
import {
  byHand,
  checkIt,
  type Finding,
  type ForeignBlock,
  type ForeignStep,
  type StepContent,
  type StepLanguage,
} from './project.ts';
import { hasSecretForm } from './secret-forms.ts';

/** An action of the registry as it is available here. */
export type ActionAvailability =
  | { state: 'exact' | 'included' | 'other_version'; component: string; version: string }
  | { state: 'missing' };

/** What a step is mapped with: the answers of the user, and what this service has. */
export interface MapContext {
  /** The account here that takes the place of one there; undefined: none was chosen. */
  account(oldId: string, app: string): string | undefined;
  /** The data store here that takes the place of one there. */
  dataStore(oldId: string): string;
  /** The source here that takes the place of one there; undefined: there is none. */
  source(oldId: string): string | undefined;
  /** True for a subscription that the import makes. */
  subscribes(oldId: string): boolean;
  action(key: string, version: string): ActionAvailability;
  /** True for a variable that has a value here. */
  isSet(variable: string): boolean;
  /** True for a variable whose value here is secret. */
  isSecret(variable: string): boolean;
}

export interface AccountSlot {
  app: string;
  oldId: string;
  accountId: string | undefined;
  /** `<step>.<prop>`. */
  place: string;
}

export interface ActionUse {
  key: string;
  version: string;
  availability: ActionAvailability;
  step: string;
}

/** A step here, and all that was found on the way. */
export interface MappedStep {
  step: StepInput;
  findings: Finding[];
  secrets: MovedSecret[];
  accounts: AccountSlot[];
  dataStores: string[];
  variables: string[];
  action: ActionUse | undefined;
  /** Path in the folder of the workflow of code that imports files beside it; absent: it imports none. */
  entry?: string;
}

const variableCommand = 'millrace env set NAME --secret';
/** The command that brings every version of every public component. */
export const gitRegistryCommand = 'millrace registry add --git https://github.com/PipedreamHQ/pipedream';

/** Pure: the same step and context give the same result. `name`: its name here. */
export function mapStep(
  foreign: ForeignStep,
  context: MapContext,
  /** `hasFiles`: the files that code imports are there, and are joined with it later. */
  { workflowId, name, hasFiles }: { workflowId: string; name: string; hasFiles: boolean },
): MappedStep {
  const { content } = foreign;
  const mapped: MappedStep = {
    step: { namespace: name },
    findings: [],
    secrets: [],
    accounts: [],
    dataStores: [],
    variables: variablesIn(
      [
        ...textsIn(foreign.props),
        ...textsIn(foreign.block),
        content.kind === 'code' ? content.text : '',
      ].join('\n'),
    ),
    action: undefined,
  };
  // What decides in a block may hold secrets, as props do.
  const given = foreign.block === undefined ? foreign.props : decidingFields(foreign.block);
  const { props, moved, unsure } = moveSecrets(given, { workflowId, namespace: name });
  mapped.secrets = moved;
  for (const { name: variable, place } of moved)
    mapped.findings.push(
      checkIt(`a secret stood in clear in ${place}; it is the secret variable ${variable} now`, name),
    );
  for (const place of unsure)
    mapped.findings.push(
      checkIt(
        `a secret seems to stand in clear in ${place}: if its component does not keep it as a secret, move it to a secret variable`,
        name,
        variableCommand,
      ),
    );
  if (content.kind === 'code' && hasSecretForm(content.text))
    mapped.findings.push(
      checkIt('a secret seems to stand in its code: move it to a secret variable', name, variableCommand),
    );
  if (hasSecretForm(foreign.note))
    mapped.findings.push(checkIt('a secret seems to stand in its note: remove it', name));
  const converted = convertProps(props, { context, mapped, content });
  const shared = {
    namespace: name,
    ...(foreign.disabled ? { disabled: true } : {}),
    ...noteOf(foreign.note, mapped.findings, name),
  };
  mapped.step =
    foreign.block === undefined
      ? { ...shared, ...contentOf(content, { context, mapped, converted, name, hasFiles }) }
      : { ...shared, ...blockOf(foreign.block, props) };
  // What does not run needs nothing before the workflow works.
  if (foreign.disabled) mapped.findings = mapped.findings.map((finding) => ({ ...finding, level: 'check' }));
  return mapped;
}

function decidingFields({ fields, branches }: ForeignBlock): Record<string, unknown> {
  return { ...fields, branches };
}

/** A block without the steps in it. `fields`: what decides in it, without secrets. */
function blockOf({ kind }: ForeignBlock, fields: Record<string, unknown>): Omit<StepInput, 'namespace'> {
  const { branches, ...rest } = fields as { branches: BranchInput[] };
  if (kind === 'map') return { block: kind, ...rest, steps: [] };
  const isLeaf = branches.length === 0;
  return {
    ...{ block: kind, ...rest },
    ...(isLeaf ? {} : { branches: branches.map((branch) => ({ ...branch, steps: [] })) }),
  };
}

interface ContentPlace {
  context: MapContext;
  mapped: MappedStep;
  converted: Record<string, unknown>;
  name: string;
  hasFiles: boolean;
}

function contentOf(
  content: StepContent,
  { context, mapped, converted, name, hasFiles }: ContentPlace,
): Pick<StepInput, 'code' | 'component' | 'props' | 'disabled'> {
  const { findings } = mapped;
  const props = Object.keys(converted).length === 0 ? {} : { props: converted };
  switch (content.kind) {
    case 'missing': {
      const why =
        content.uses === '' ? 'what it runs is not in the export' : `${content.uses} is not in the export`;
      findings.push(byHand(why, name));
      return { code: placeholderCode(why, propsComment(converted)) };
    }
    case 'action': {
      const { key, version, scope } = content;
      const availability = context.action(key, version);
      mapped.action = { key, version, availability, step: name };
      if (availability.state === 'missing') {
        const wanted = version === '' ? key : `${key}@${version}`;
        const why = `this service has no component ${wanted}`;
        if (scope === '')
          findings.push(byHand(`${why}: add its registry and import again`, name, gitRegistryCommand));
        else
          findings.push(
            byHand(
              `${why}, which is private to the workspace ${scope}: save it here and import again`,
              name,
              'millrace registry add --local ./components',
            ),
          );
        return { code: placeholderCode(`${why}: add it and import again`, propsComment(converted)) };
      }
      if (availability.state === 'other_version')
        findings.push(
          checkIt(
            `it was pinned to ${key}@${version}, and version ${availability.version} runs here`,
            name,
            gitRegistryCommand,
          ),
        );
      return { component: availability.component, ...props };
    }
    case 'code':
      return {
        ...codeOf(content, { mapped, name, hasFiles, converted }),
        ...(content.language === 'nodejs' ? props : {}),
      };
  }
}

const languageNames: Readonly<Record<StepLanguage, string>> = {
  nodejs: 'Node.js',
  python: 'Python',
  bash: 'Bash',
  go: 'Go',
  unknown: 'unknown',
};

function codeOf(
  { language, path, text }: Extract<StepContent, { kind: 'code' }>,
  { mapped, name, hasFiles, converted }: Omit<ContentPlace, 'context'>,
): Pick<StepInput, 'code' | 'disabled'> {
  const { findings } = mapped;
  if (language !== 'nodejs') {
    const why = `this is a ${languageNames[language]} step, and steps are JavaScript or TypeScript here`;
    findings.push(byHand(`${why}: it is kept, disabled, with its code in a comment; rewrite it`, name));
    const original = [text, propsComment(converted)].filter((part) => part !== '').join('\n\n');
    return { code: placeholderCode(why, original), disabled: true };
  }
  if (text.trim() === '') {
    findings.push(checkIt('its file is empty: it returns nothing', name));
    return { code: 'export default defineComponent({ run() {} });\n' };
  }
  const file = importedFile(text);
  if (file !== undefined && !hasFiles) {
    const why = `its code imports ${file}, which is not in the export`;
    findings.push(byHand(`${why}: put both into one`, name));
    return { code: placeholderCode(why, text) };
  }
  if (file !== undefined) mapped.entry = path;
  const wrapped = wrapFirstGeneration(text);
  if (wrapped === undefined) return { code: text };
  findings.push(checkIt(`${path} is code of the first generation, which was wrapped: test it`, name));
  if (wrapped.missing.length > 0)
    findings.push(
      byHand(`its code uses ${wrapped.missing.join(', ')}, which the wrapper cannot give it`, name),
    );
  return { code: wrapped.code };
}

/** Code that says, when it runs, why it does nothing else; what it replaces is kept in a comment. */
export function placeholderCode(why: string, original: string): string {
  const comment = original === '' ? '' : `/*\n${original.replaceAll('*/', '* /').replaceAll('\0', '')}\n*/\n`;
  return `${comment}export default defineComponent({
  run() {
    throw new Error(${JSON.stringify(`Not imported: ${why}`)});
  },
});
`;
}

function propsComment(props: Record<string, unknown>): string {
  return Object.keys(props).length === 0 ? '' : `Its props were: ${outlineOf(props)}`;
}

/** Props for a comment. Only expressions are shown: any other text may be a secret, and code is not sealed. */
export function outlineOf(props: Record<string, unknown>): string {
  const shown = (_name: string, value: unknown) =>
    typeof value === 'string' && !/^\s*\{\{[\s\S]*\}\}\s*$/.test(value) ? '…' : value;
  return JSON.stringify(props, shown, 2);
}

function convertProps(
  props: Record<string, unknown>,
  { context, mapped, content }: { context: MapContext; mapped: MappedStep; content: StepContent },
): Record<string, unknown> {
  const converted: Record<string, unknown> = {};
  for (const [prop, value] of Object.entries(props)) {
    // Apps of a Python step, whose code has no props.
    if (prop === '__configurableProps') continue;
    if (value === null || value === undefined) continue;
    if (isRecord(value) && typeof value.authProvisionId === 'string') {
      const oldId = value.authProvisionId;
      const app = appOf(prop, props, content);
      const accountId = context.account(oldId, app);
      mapped.accounts.push({ app, oldId, accountId, place: `${mapped.step.namespace}.${prop}` });
      if (accountId !== undefined) converted[prop] = { authProvisionId: accountId };
      else
        mapped.findings.push(
          byHand(`${prop} needs an account of ${app}`, mapped.step.namespace, connectCommand(app)),
        );
      continue;
    }
    if (isRecord(value) && typeof value.storeId === 'string') {
      if (!/^[\w-]{1,100}$/.test(value.storeId)) {
        mapped.findings.push(byHand(`${prop} names no data store: give it one`, mapped.step.namespace));
        continue;
      }
      mapped.dataStores.push(value.storeId);
      converted[prop] = { storeId: context.dataStore(value.storeId) };
      continue;
    }
    converted[prop] = value;
  }
  return converted;
}

/** The name comes from the archive: what is no plain word is not put into a command. */
export function connectCommand(app: string): string {
  return `millrace accounts create ${/^\w[\w-]*$/.test(app) ? app : 'APP'}`;
}

/** The slug of the app of a prop: what the code says, else the name of the prop. */
function appOf(prop: string, props: Record<string, unknown>, content: StepContent): string {
  const declared = Array.isArray(props.__configurableProps) ? props.__configurableProps : [];
  for (const one of declared)
    if (isRecord(one) && one.name === prop && typeof one.app === 'string') return one.app;
  if (content.kind !== 'code') return prop;
  const name = prop.replaceAll(/[^\w]/g, '');
  const [, body] = new RegExp(`["']?\\b${name}["']?\\s*:\\s*\\{([^{}]*)\\}`).exec(content.text) ?? [];
  return /\bapp["']?\s*:\s*["']([\w-]+)["']/.exec(body ?? '')?.[1] ?? prop;
}

function noteOf(note: string, findings: Finding[], name: string): { note?: string } {
  const text = note.replaceAll('\0', '');
  if (text === '') return {};
  if (text.length > noteMax)
    findings.push(checkIt(`its note is longer than ${noteMax} characters: the rest was cut`, name));
  return { note: text.slice(0, noteMax) };
}
