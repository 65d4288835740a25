import type { Command } from 'commander';
import type { Quota } from '#sdk';
import { pathOf } from './api.ts';
import { type CommandOptions, type GetSessionOptions, leaf, textOption } from './command-kit.ts';
import { usageError } from './exit-codes.ts';
import type { Session } from './session.ts';
import { column, showList } from './show.ts';

/** Each with the name of its field: what an owner has and does, then what a UTC day may use. */
const limits = [
  { name: 'sources', field: 'sources', what: 'sources' },
  { name: 'workflows', field: 'workflows', what: 'active workflows' },
  { name: 'events', field: 'events', what: 'events a day' },
  { name: 'deliveries', field: 'deliveries', what: 'attempts to deliver a day' },
  { name: 'stored-mb', field: 'stored_mb', what: 'stored MB' },
  { name: 'streams', field: 'streams', what: 'open streams on each node' },
  { name: 'builds', field: 'builds', what: 'builds at the same time on each node' },
  { name: 'workspaces', field: 'workspaces', what: 'workspaces that the user creates' },
  { name: 'credits', field: 'credits', what: 'credits a day' },
  { name: 'compute-ms', field: 'compute_ms', what: 'milliseconds of run time a day' },
  { name: 'invocations', field: 'invocations', what: 'invocations a day' },
] as const;
const quotaFields: readonly string[] = ['credits', 'compute_ms', 'invocations'];

/** `millrace limits`: what a user or workspace may have and use. */
export function limitsCommand(program: Command, sessionOptions: GetSessionOptions): void {
  const command = leaf(
    program,
    'limits [id]',
    'what a user (u_…) or workspace (o_…, or --workspace with its name) may have and use, for the admin of the instance; options change it',
    sessionOptions,
    run,
  );
  for (const { name, what } of limits)
    command.option(
      `--${name} <number>`,
      `at most so many ${what}; 0: none, \`instance\`: as the settings say`,
    );
  command.option(
    '--enforced <state>',
    'on or off: whether credits, run time and invocations beyond are refused; `instance`: as the settings say',
  );
}

async function run(session: Session, options: CommandOptions, operand = ''): Promise<void> {
  const api = await session.api();
  const owner =
    operand === ''
      ? (session.workspace ?? (await api.data<{ id: string }>('GET', '/v1/users/me')).id)
      : operand;
  const path = pathOf`/v1/quotas/${owner}`;
  const body = Object.fromEntries(
    limits.flatMap(({ name, field }) => {
      const text = textOption(options, camelCase(name));
      return text === undefined ? [] : [[field, numberOf(name, text)]];
    }),
  ) as Record<string, number | boolean | null>;
  const enforced = textOption(options, 'enforced');
  if (enforced !== undefined) body.enforced = enforcedOf(enforced);
  const quota = await (Object.keys(body).length === 0
    ? api.data<Quota>('GET', path)
    : api.data<Quota>('PUT', path, { body }));
  if (session.isJson) {
    session.terminal.printJson(quota);
    return;
  }
  showList(
    session,
    limitsOf(quota).map(({ field, what }) => ({
      what,
      limit: limitText(quota, field),
      used: quota.used[field],
      from: quota.own[field] === null ? 'the settings' : 'this owner',
    })),
    [column('WHAT', 'what'), column('LIMIT', 'limit'), column('USED', 'used'), column('SET FOR', 'from')],
    '',
  );
  if (!quota.enforced)
    session.terminal.note(
      'Credits, run time and invocations are only reported: --enforced on refuses what goes beyond.',
    );
}

/** Only users create workspaces. */
function limitsOf({ owner_id }: Quota): (typeof limits)[number][] {
  return limits.filter(({ field }) => field !== 'workspaces' || owner_id.startsWith('u_'));
}

/** 0 is no limit, but for what a day may use. */
function limitText(quota: Quota, field: (typeof limits)[number]['field']): string {
  const limit = quota[field];
  return limit === 0 && !quotaFields.includes(field) ? 'none' : String(limit);
}

function numberOf(name: string, text: string): number | null {
  if (text === 'instance') return null;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw usageError(`--${name}: found ${JSON.stringify(text)}, expected a number or \`instance\``);
}

function enforcedOf(text: string): boolean | null {
  if (text === 'instance') return null;
  if (text === 'on' || text === 'off') return text === 'on';
  throw usageError(`--enforced: found ${JSON.stringify(text)}, expected \`on\`, \`off\` or \`instance\``);
}

function camelCase(name: string): string {
  return name.replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase());
}
