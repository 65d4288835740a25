import type { Command } from 'commander';
import type { Usage } from '#sdk';
import { durationText } from './amounts.ts';
import { type CommandOptions, type GetSessionOptions, leaf } from './command-kit.ts';
import { usageError } from './exit-codes.ts';
import type { Session } from './session.ts';
import { column, showList } from './show.ts';

/** `millrace usage`: what a user or workspace used, by day. */
export function usageCommand(program: Command, sessionOptions: GetSessionOptions): void {
  leaf(
    program,
    'usage',
    'what your own things, or those of a workspace, used on each of the last 30 days (UTC)',
    sessionOptions,
    show,
  ).option('--csv', 'print comma-separated values, with a line of names');
}

async function show(session: Session, options: CommandOptions): Promise<void> {
  const isCsv = options.csv === true;
  if (isCsv && session.isJson) throw usageError('--csv and --json are two formats', 'Give one.');
  const { workspace } = session;
  const path = workspace === undefined ? '/v1/users/me/usage' : `/v1/workspaces/${workspace}/usage`;
  const days = await (await session.api()).whole<Usage>(path);
  if (isCsv) {
    const names = Object.keys(days[0] ?? {}) as (keyof Usage)[];
    session.terminal.print(names.join(','));
    for (const day of days) session.terminal.print(names.map((name) => day[name]).join(','));
    return;
  }
  showList<Usage>(
    session,
    days,
    [
      column('DAY (UTC)', 'day', { isWhole: true }),
      column('INVOCATIONS', 'invocations'),
      column('RUN TIME', ({ compute_ms }) => durationText(compute_ms)),
      column('CREDITS', 'credits'),
      column('EVENTS', 'events'),
      column('DELIVERIES', 'deliveries'),
    ],
    'No usage is recorded.',
  );
}
