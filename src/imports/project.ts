import type { ProjectFormat } from '#storage/tables/import-tables.ts';
import type { BlockKind } from '#workflows/definitions/block-definition.ts';
import type { RuleInput } from '#workflows/definitions/rule-input.ts';
import type { SavedAccount } from './saved-accounts.ts';

/**
 * What a reader makes of a project of the hosted service, whatever format it came in: the intermediate form that is mapped to definitions
 * (map-workflow.ts). It holds what stands in the export and nothing of this service. Values of props may be secrets, so the form is never
 * logged and is stored sealed.
 */
export interface ForeignProject {
  format: ProjectFormat;
  workflows: ForeignWorkflow[];
  /** Files that should be workflows and cannot be read, and why. */
  problems: FileProblem[];
  /** Every key that was found, so that nothing is dropped silently. */
  keys: KeyUse[];
  /** What the API of the hosted service has, or triggers of a project export say. Absent: neither. */
  objects?: ForeignObjects;
  /** Accounts that were chosen when a bundle was saved. Absent: it is no bundle. */
  savedAccounts?: SavedAccount[];
}

export interface ForeignObjects {
  sources: ForeignSource[];
  webhooks: ForeignWebhook[];
  subscriptions: ForeignSubscription[];
  accounts: ForeignAccount[];
  /** What the API did not answer. */
  unreadable: UnreadablePart[];
}

export interface ForeignSource {
  /** dc_… */
  id: string;
  name: string;
  active: boolean;
  /** '': not known. */
  component: { key: string; version: string; code: string };
  /** What is known of the props of its component. */
  definitions: { name: string; type: string; app: string }[];
  props: Record<string, unknown>;
  /** Emitted events, newest first: test events of the workflows that listen to it. */
  events: { id: string; event: unknown }[];
}

export interface ForeignWebhook {
  /** wh_… */
  id: string;
  name: string | null;
  description: string | null;
  url: string;
  active: boolean;
}

export interface ForeignSubscription {
  /** sub_… */
  id: string;
  /** dc_…, p_…, all of a kind (dc_*, p_*), or of an owner (o_…, u_…). */
  emitterId: string;
  /** dc_…, p_… or wh_… */
  listenerId: string;
  /** '': the default channel. */
  eventName: string;
}

export interface ForeignAccount {
  /** apn_… */
  id: string;
  /** Slug of its app, or its name where the API gives no slug; '': not known. */
  app: string;
  name: string;
}

export interface UnreadablePart {
  /** Such as `workflows p_…`. */
  part: string;
  reason: string;
}

export interface FileProblem {
  path: string;
  message: string;
}

export interface ForeignWorkflow {
  /** p_…, or `path:<folder>` where the export has none. */
  id: string;
  name: string;
  /** Folders of the project around it; '': none. */
  folder: string;
  /** Its folder in the archive, for messages. */
  path: string;
  active: boolean;
  settings: ForeignSettings;
  triggers: ForeignTrigger[];
  steps: ForeignStep[];
  /** Texts of the files in its folder, by their paths in it; absent: none of its code imports one. */
  files?: Readonly<Record<string, string>>;
  /** What the reader found and could not express in this form. */
  findings: Finding[];
}

export interface ForeignSettings {
  /** Seconds; absent: the default of its trigger. */
  timeout?: unknown;
  /** Megabytes. */
  memory?: unknown;
  autoRetry?: unknown;
  /** Runs at the same time. */
  concurrency?: unknown;
  /** Runs in a window of time. */
  throttle?: unknown;
  /** Events that wait for their turn. */
  queueSize?: unknown;
  /** Only another Millrace has it. */
  isolated?: unknown;
  /** For how long, or whether, its runs are kept. */
  retention?: unknown;
  errorNotification?: unknown;
  /** net_… */
  network?: unknown;
}

export const foreignTriggerKinds = ['http', 'timer', 'email', 'source', 'subscription', 'unknown'] as const;
export type ForeignTriggerKind = (typeof foreignTriggerKinds)[number];

export interface ForeignTrigger {
  /** hi_…, ti_…, ei_…, dc_…, sub_… */
  id: string;
  kind: ForeignTriggerKind;
  /** When a timer fires; absent: the export does not say it. */
  schedule?: { cron: string; timezone: string } | { interval_seconds: number };
  /** True: a step answers the requests of an HTTP trigger. Absent: the export does not say it. */
  customResponse?: boolean;
  /** Its endpoint URL or email address there. Absent: the export does not say it. */
  address?: string;
}

const triggerKinds: Readonly<Record<string, ForeignTriggerKind>> = {
  hi: 'http',
  ti: 'timer',
  ei: 'email',
  dc: 'source',
  sub: 'subscription',
};

/** The kind that an id says; undefined for any other text. */
export function triggerKindOf(id: string): ForeignTriggerKind | undefined {
  const [, prefix = ''] = /^([a-z]+)_\w+$/.exec(id) ?? [];
  return triggerKinds[prefix];
}

export interface ForeignStep {
  namespace: string;
  /** Such as `nodejs20.x`; '': none was given. */
  runtime: string;
  content: StepContent;
  props: Record<string, unknown>;
  disabled: boolean;
  note: string;
  /** The block of control flow that it is; absent: a step. */
  block?: ForeignBlock;
  /** The block that it stands in, by its place in the list of all steps, and the branch. Absent: none, or one that is not made here. */
  inside?: { block: number; branch: number };
}

/** A block whose meaning is sure. The steps in it follow it, branch by branch. */
export interface ForeignBlock {
  kind: Exclude<BlockKind, 'call'>;
  /** Its fields as a definition has them, without branches and steps. */
  fields: Record<string, unknown>;
  /** A map has one, for its steps. */
  branches: { slug: string; if?: RuleInput; case?: unknown }[];
}

const stepLanguages = ['nodejs', 'python', 'bash', 'go', 'unknown'] as const;
export type StepLanguage = (typeof stepLanguages)[number];

/** The extension says it; a file without one is what its runtime says. */
export function languageOf(path: string, runtime: string): StepLanguage {
  const extension = /\.([a-z]+)$/i.exec(path)?.[1]?.toLowerCase() ?? '';
  if (/^[mc]?[jt]s$/.test(extension)) return 'nodejs';
  if (extension === 'py' || /^python/i.test(runtime)) return 'python';
  if (extension === 'sh' || extension === 'bash' || /^(?:bash|sh)/i.test(runtime)) return 'bash';
  if (extension === 'go' || /^go/i.test(runtime)) return 'go';
  return /^node/i.test(runtime) ? 'nodejs' : 'unknown';
}

export type StepContent =
  | { kind: 'code'; language: StepLanguage; path: string; text: string }
  | {
      kind: 'action';
      key: string;
      /** '': any. */
      version: string;
      /** Name of the workspace of a private component; '': a public one. */
      scope: string;
    }
  /** Its file is missing, or `uses` names nothing that is known. */
  | { kind: 'missing'; uses: string };

export const findingLevels = ['check', 'by_hand'] as const;
/** `check`: it was converted, and a user should look at it. `by_hand`: it does not work until a user has done something. */
export type FindingLevel = (typeof findingLevels)[number];

export interface Finding {
  level: FindingLevel;
  /** Name of the step; '': it is about the workflow. */
  step: string;
  message: string;
  /** What to enter; '': no command does it. */
  command: string;
}

export const keyOutcomes = ['converted', 'noted', 'ignored', 'unknown'] as const;
/**
 * `converted`: it is part of the workflow here. `noted`: the report says what it meant. `ignored`: it has no meaning here. `unknown`: the
 * importer does not know it, and the report of its workflow says so.
 */
export type KeyOutcome = (typeof keyOutcomes)[number];

export interface KeyUse {
  /** Such as `steps[].props`. */
  key: string;
  count: number;
  outcome: KeyOutcome;
}

export function checkIt(message: string, step = '', command = ''): Finding {
  return { level: 'check', step, message, command };
}

export function byHand(message: string, step = '', command = ''): Finding {
  return { level: 'by_hand', step, message, command };
}
