import type { Command } from 'commander';
import type { WorkspaceRetention } from '#sdk';
import { type CommandOptions, type GetSessionOptions, leaf, textOption } from './command-kit.ts';
import { usageError } from './exit-codes.ts';
import type { Session } from './session.ts';
import { column, showList } from './show.ts';

const kinds = ['events', 'runs', 'deliveries', 'audit', 'files'] as const;

/** `millrace retention`: for how many days a workspace keeps what happened. */
export function retentionCommand(program: Command, sessionOptions: GetSessionOptions): void {
  const command = leaf(
    program,
    'retention',
    'for how many days a workspace keeps events, runs, deliveries, audit and files; options change it',
    sessionOptions,
    run,
  );
  for (const kind of kinds)
    command.option(
      `--${kind} <days>`,
      `keep ${kind} for this many days, or \`instance\` for as long as the instance`,
    );
}

async function run(session: Session, options: CommandOptions): Promise<void> {
  const { workspace } = session;
  if (workspace === undefined) throw usageError('days are set for a workspace', 'Give --workspace.');
  const path = `/v1/workspaces/${workspace}/retention`;
  const body = Object.fromEntries(
    kinds.flatMap((kind) => {
      const text = textOption(options, kind);
      return text === undefined ? [] : [[`${kind}_days`, daysOf(kind, text)]];
    }),
  );
  const api = await session.api();
  const retention = await (Object.keys(body).length === 0
    ? api.data<WorkspaceRetention>('GET', path)
    : api.data<WorkspaceRetention>('PUT', path, { body }));
  if (session.isJson) {
    session.terminal.printJson(retention);
    return;
  }
  showList(
    session,
    kinds.map((kind) => ({
      kind,
      days: retention[`${kind}_days`] ?? 'as the instance',
      instance: retention.instance[`${kind}_days`] ?? 'by number only',
    })),
    [column('WHAT', 'kind'), column('DAYS', 'days'), column('THE INSTANCE', 'instance')],
    '',
  );
  if (retention.legal_hold)
    session.terminal.note('A legal hold is in effect: nothing is removed because of its age or number.');
}

function daysOf(kind: string, text: string): number | null {
  if (text === 'instance') return null;
  if (/^[1-9]\d{0,4}$/.test(text)) return Number(text);
  throw usageError(`--${kind}: found ${JSON.stringify(text)}, expected a number of days or \`instance\``);
}
