import type { Snapshot } from './audit-context.ts';

/** How the value of a field appears: as it is, as the origin of a URL, or only that it is there. */
export type Shown = 'plain' | 'origin' | 'hidden';

/** Stands for a value that is not recorded. */
export const hiddenText = '(hidden)';
const textMax = 200;
/** Maximum of parameters in one record: more than any operation has. */
const namesMax = 100;
/** Characters of the names and values of one record. */
const charactersMax = 10_000;

/** The fields that differ, as they are shown before and after the change. Null: the object is not there. */
export function describeChange(
  before: Snapshot | null,
  after: Snapshot | null,
  shown: Readonly<Record<string, Shown>>,
): { before: Snapshot | null; after: Snapshot | null } {
  const names = Object.keys(shown).filter((name) => before?.[name] !== after?.[name]);
  const fields = (snapshot: Snapshot | null): Snapshot | null =>
    snapshot &&
    Object.fromEntries(names.map((name) => [name, showValue(snapshot[name], shown[name] ?? 'hidden')]));
  return { before: fields(before), after: fields(after) };
}

function showValue(value: unknown, shown: Shown): unknown {
  if (value === null || value === undefined) return null;
  if (shown === 'hidden') return hiddenText;
  if (shown === 'origin') return originOf(value);
  return typeof value === 'string' && value.length > textMax ? `${value.slice(0, textMax)}…` : value;
}

/** Paths and queries of URLs are often secrets. */
function originOf(value: unknown): string {
  return typeof value === 'string' && URL.canParse(value) ? `${new URL(value).origin}/…` : hiddenText;
}

/** Fields of requests whose values are no secrets, and say what was done. Every other value is hidden. */
const plainFields: ReadonlySet<string> = new Set([
  ...[
    'name',
    'description',
    'user',
    'owner',
    'username',
    'email',
    'orgname',
    'role',
    'user_id',
    'scopes',
    'expires_at',
  ],
  ...['active', 'pause', 'force', 'revoke_tokens', 'dry_run', 'auto_deploy', 'enforced', 'plan'],
  ...[
    'workspace',
    'org_id',
    'workspace_id',
    'project_id',
    'workflow_id',
    'template_id',
    'component_id',
    'account_id',
  ],
  ...['emitter_id', 'listener_id', 'event_name', 'app', 'slug', 'key', 'namespace', 'secret', 'ref'],
  ...['start_id', 'end_id', 'from', 'to', 'state', 'rate', 'ignore_hook_errors'],
  ...['credits', 'compute_ms', 'invocations', 'processes_max', 'memory_mb_max', 'billing_period_start'],
]);

/**
 * Parameters of a request without secrets: values of known fields that are short, and the names of all others. Callers choose the names and
 * how many there are, so what is more than any operation takes is left out, and `…` says so. Bodies that are no objects have no parameters.
 */
export function describeParameters(...sources: readonly unknown[]): Record<string, unknown> {
  const described: Record<string, unknown> = {};
  let names = 0;
  let characters = 0;
  for (const source of sources.filter(isPlainObject)) {
    for (const [name, value] of Object.entries(source)) {
      if (value === undefined) continue;
      const shownName = name.slice(0, textMax);
      const shown = plainFields.has(name) ? shortValue(value) : hiddenText;
      names += 1;
      characters += shownName.length + JSON.stringify(shown).length;
      if (names > namesMax || characters > charactersMax) return { ...described, '…': hiddenText };
      described[shownName] = shown;
    }
  }
  return described;
}

/** False for text, bytes, streams and lists: their keys are no names of parameters. */
function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  // Parsed queries have a prototype of their own, below which there is none either.
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function shortValue(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.every((one) => typeof one === 'string') && value.join().length <= textMax
      ? value
      : hiddenText;
  }
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return value;
  return typeof value === 'string' ? showValue(value, 'plain') : hiddenText;
}
