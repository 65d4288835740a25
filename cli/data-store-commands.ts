import type { Command } from 'commander';
import type { DataStore, DataStoreEntry } from '#sdk';
import { pathOf } from './api.ts';
import {
  addLimit,
  type CommandOptions,
  type GetSessionOptions,
  group,
  leaf,
  limitOf,
  textOption,
} from './command-kit.ts';
import { usageError } from './exit-codes.ts';
import { ownedPath } from './owned-path.ts';
import { readTextFile } from './prop-values.ts';
import type { Session } from './session.ts';
import { column, idColumn, showDone, showList, showOne, timeColumn } from './show.ts';

/** Data stores of one owner: the service takes no more. */
const dataStoresMax = 100;

export function dataStoreCommands(program: Command, sessionOptions: GetSessionOptions): void {
  const stores = group(program, 'data-stores', 'keys and values that workflows share');
  const add = (signature: string, summary: string, run: Parameters<typeof leaf>[4]): Command =>
    leaf(stores, signature, summary, sessionOptions, run);
  add('list', 'your data stores, or those of a workspace, newest first', list);
  add('describe <data-store>', 'one data store', async (session, _options, id = '') =>
    showOne(session, await (await session.api()).data<DataStore>('GET', pathOf`/v1/data_stores/${id}`)),
  );
  add('create <name>', 'make a data store', create);
  add('delete <data-store>', 'remove a data store with its entries', remove);
  addLimit(add('entries <data-store>', 'the entries of a data store, by key', listEntries));
  add('get <data-store> <key>', 'the value of an entry, as JSON', get);
  add('set <data-store> <key> [value]', 'set an entry: JSON, or any other text as it is', set)
    .option('--file <file>', 'read the value from a file, - for standard input')
    .option('--ttl <seconds>', 'how long it is kept; without it until it is deleted');
  add('delete-entry <data-store> <key>', 'remove an entry', removeEntry);
}

async function list(session: Session): Promise<void> {
  showList<DataStore>(
    session,
    await (await session.api()).list(ownedPath(session, 'data_stores'), dataStoresMax),
    [
      idColumn(),
      column('NAME', 'name'),
      column('ENTRIES', 'entries'),
      column('BYTES', 'bytes'),
      timeColumn('CHANGED (UTC)', 'updated_at'),
    ],
    'No data stores yet. `millrace data-stores create NAME` makes one.',
  );
}

async function create(session: Session, _options: CommandOptions, name = ''): Promise<void> {
  const made = await (await session.api()).data<DataStore>('POST', '/v1/data_stores', {
    body: { ...session.owner, name },
  });
  if (session.isJson) return session.terminal.printJson(made);
  session.terminal.print(made.id);
}

async function remove(session: Session, _options: CommandOptions, id = ''): Promise<void> {
  await (await session.api()).call('DELETE', pathOf`/v1/data_stores/${id}`);
  showDone(session, `Removed ${id}.`);
}

async function listEntries(session: Session, options: CommandOptions, id = ''): Promise<void> {
  showList<DataStoreEntry>(
    session,
    await (await session.api()).list(pathOf`/v1/data_stores/${id}/entries`, limitOf(options)),
    [
      column('KEY', 'key', { isWhole: true }),
      column('VALUE', ({ value, truncated }) => (truncated === true ? '(over 1 KB)' : JSON.stringify(value))),
      timeColumn('EXPIRES (UTC)', 'expires_at'),
      timeColumn('CHANGED (UTC)', 'updated_at'),
    ],
    'No entries.',
  );
}

async function get(session: Session, _options: CommandOptions, id = '', key = ''): Promise<void> {
  const entry = await (await session.api()).data<DataStoreEntry>(
    'GET',
    pathOf`/v1/data_stores/${id}/entries/${key}`,
  );
  session.terminal.printJson(session.isJson ? entry : entry.value);
}

async function set(session: Session, options: CommandOptions, id = '', key = '', given = ''): Promise<void> {
  const file = textOption(options, 'file');
  if ((file === undefined) === (given === ''))
    throw usageError('give either a value or --file', 'An empty text is \'""\'.');
  const text = file === undefined ? given : await readTextFile(session, file, '--file');
  const ttl = textOption(options, 'ttl');
  if (ttl !== undefined && !(Number(ttl) > 0))
    throw usageError('--ttl: expected a number of seconds above 0');
  const body = { value: jsonOrText(text), ...(ttl === undefined ? {} : { ttl: Number(ttl) }) };
  const api = await session.api();
  const entry = await api.data('PUT', pathOf`/v1/data_stores/${id}/entries/${key}`, { body });
  showDone(session, `Set ${key}.`, entry);
}

/** JSON, or text that is no JSON as it is. */
function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

async function removeEntry(session: Session, _options: CommandOptions, id = '', key = ''): Promise<void> {
  await (await session.api()).call('DELETE', pathOf`/v1/data_stores/${id}/entries/${key}`);
  showDone(session, `Removed ${key}.`);
}
