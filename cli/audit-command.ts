import type { Command } from 'commander';
import type { AuditRecord } from '#sdk';
import {
  addLimit,
  type CommandOptions,
  type GetSessionOptions,
  leaf,
  limitOf,
  textOption,
} from './command-kit.ts';
import { withOwnerNames } from './owner-names.ts';
import type { Session } from './session.ts';
import { column, showDone, showList } from './show.ts';

export function auditCommand(program: Command, sessionOptions: GetSessionOptions): void {
  addLimit(leaf(program, 'audit', 'who changed what: of a workspace, or of yourself', sessionOptions, list))
    .option('--operation <name>', 'only this operation, such as updateWebhook')
    .option('--object <id>', 'only changes of this object')
    .option('--user <id>', 'only changes by this user, service account or OAuth client')
    .option('--instance', 'changes of users, the registry and the instance, for its admin')
    .option('--export <file>', 'write all that match to this file as JSON lines, oldest first');
}

async function list(session: Session, options: CommandOptions): Promise<void> {
  const api = await session.api();
  const filter = {
    ...(options.instance === true ? { instance: 'true' } : session.owner),
    operation: textOption(options, 'operation'),
    object_id: textOption(options, 'object'),
    user_id: textOption(options, 'user'),
  };
  const file = textOption(options, 'export');
  if (file !== undefined) {
    const bytes = await api.download('/v1/audit/export', filter, session.path(file));
    return showDone(session, `Wrote ${bytes} bytes to ${file}.`, { file, bytes });
  }
  const records = await api.list<AuditRecord>('/v1/audit', limitOf(options), filter);
  const actors = records.map(({ actor }) => ({ name: actor.user_id ?? actor.kind }));
  const named = session.isJson ? actors : await withOwnerNames(session, actors);
  const names = new Map(records.map((record, at) => [record, named[at]?.name]));
  showList<AuditRecord>(
    session,
    records,
    [
      column('WHEN (UTC)', ({ created_at }) => created_at.slice(0, 19).replace('T', ' ')),
      column('WHO', (record) => names.get(record), { isWhole: true }),
      column('OPERATION', 'operation', { isWhole: true }),
      column('OBJECT', 'object_id', { isWhole: true }),
      column('STATUS', 'status'),
      column('CHANGED', ({ before, after }) => Object.keys(after ?? before ?? {}).join(', ')),
    ],
    'No changes are recorded.',
  );
}
