import type { Command } from 'commander';
import type { Import, ImportSummary } from '#sdk';
import { pathOf } from './api.ts';
import {
  addLimit,
  type CommandOptions,
  type GetSessionOptions,
  leaf,
  limitOf,
  textOption,
} from './command-kit.ts';
import type { Session } from './session.ts';
import { column, idColumn, showList, timeColumn } from './show.ts';
import { noteKept, showImport } from './show-import.ts';

/** Commands about imports that are done or under way. */
export function importListCommands(imports: Command, sessionOptions: GetSessionOptions): void {
  addLimit(
    leaf(imports, 'list', 'imports of a workspace, or your own, newest first', sessionOptions, list),
    20,
  );
  leaf(
    imports,
    'show <id>',
    'the report of an import (imp_…) again, or how far it is',
    sessionOptions,
    show,
  ).option('--markdown <file>', 'write the report to this file as well');
}

async function list(session: Session, options: CommandOptions): Promise<void> {
  const api = await session.api();
  showList<ImportSummary & { id: string }>(
    session,
    await api.list('/v1/imports', limitOf(options), { ...session.owner }),
    [
      idColumn(),
      column('STATE', 'state'),
      column('DONE', ({ progress }) => `${progress.done} of ${progress.total}`),
      column('FORMAT', ({ format }) => format.replaceAll('_', ' ')),
      column('PROJECT', 'project_id'),
      timeColumn('STARTED (UTC)', 'created_at'),
      column('ERROR', 'error'),
    ],
    'Nothing was imported yet. `millrace import pipedream PATH` does it.',
  );
}

async function show(session: Session, options: CommandOptions, id = ''): Promise<void> {
  const api = await session.api();
  const found = await api.data<Import>('GET', pathOf`/v1/imports/${id}`);
  await showImport(session, found, { isPlan: false, markdown: textOption(options, 'markdown') });
  if (session.isJson) return;
  const { state, progress, error, kept } = found;
  if (state === 'waiting' || state === 'running')
    session.terminal.note(`${progress.done} of ${progress.total} are imported; the service continues.`);
  if (state === 'asking')
    session.terminal.note(
      'It waits for answers: give them on its page in the dashboard, or with POST /v1/imports/{id}/answers, within 24 hours of its start.',
    );
  if (state === 'failed') session.terminal.problem(`the import failed: ${error ?? ''}`);
  if (state !== 'undone') return;
  session.terminal.note('It was undone; above is what it had done.');
  noteKept(session, kept);
}
