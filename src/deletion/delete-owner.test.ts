import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { sql } from 'kysely';
import { insertDeletion } from '#identity/deletion-store.ts';
import { hasOwnedRows, type OwnedRows } from '#storage/owned-rows.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { DeletionTable } from '#storage/tables/deletion-tables.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { removeRows } from './delete-owner.ts';
import { removedTables, tablesToEmpty } from './removed-tables.ts';

/** Columns that say whose a row is; `user_id` does where a row has none of these. */
const ownerColumn = /^(?:owner_id|org_id|workspace_id|(?:emitter|listener)_owner_id)$/;

/** The columns of each table, as the file in storage/tables declares them. */
async function declaredColumns(): Promise<Map<string, string[]>> {
  const contents = await readFile(new URL('../storage/tables.ts', import.meta.url), 'utf8');
  const files = [...contents.matchAll(/from '\.\/(tables\/[\w-]+\.ts)'/g)].map(([, file]) => file ?? '');
  const texts = await Promise.all(
    files.map((file) => readFile(new URL(`../storage/${file}`, import.meta.url), 'utf8')),
  );
  const interfaces = new Map<string, { columns: string[]; base: string | undefined }>();
  for (const text of texts)
    for (const [, name = '', base, body = ''] of text.matchAll(
      /export interface (\w+)(?: extends (\w+))? \{\n(.*?)\n\}/gs,
    ))
      interfaces.set(name, {
        columns: [...body.matchAll(/^ {2}(\w+)\??:/gm)].map(([, column]) => column ?? ''),
        base,
      });
  const columnsOf = (name: string): string[] => {
    const { columns = [], base } = interfaces.get(name) ?? {};
    return base === undefined ? columns : [...columns, ...columnsOf(base)];
  };
  const tables = /export interface Tables \{\n(.*?)\n\}/s.exec(contents)?.[1] ?? '';
  return new Map(
    [...tables.matchAll(/^ {2}(\w+): (\w+);/gm)].map(([, table = '', row = '']) => [table, columnsOf(row)]),
  );
}

/** Tables with an owner of which no rows are removed by it, and how they go. */
const removedOtherwise = ['members', 'group_memberships', 'projects', 'api_clients', 'api_tokens', 'users'];

describe('the tables of a deletion', () => {
  test('have every table with an owner: its rows go with each of its owners', async () => {
    const problems: string[] = [];
    const columns = await declaredColumns();
    assert.ok(columns.size > 70, `${columns.size} tables`);
    for (const [table, names] of columns) {
      const rows = removedTables[table as keyof typeof removedTables];
      const owners = names.filter((name) => ownerColumn.test(name));
      if (owners.length === 0 || removedOtherwise.includes(table) || table === 'key_rotations') continue;
      if (typeof rows === 'string') problems.push(`${table} is left: ${rows}`);
      else if (table !== 'replays')
        for (const owner of owners)
          if (!rows.owners.includes(owner)) problems.push(`${table} does not go with ${owner}`);
    }
    assert.deepEqual(problems, []);
  });
});

interface Column {
  name: string;
  type: string;
}

/** Real tables, not what is declared: columns, and the columns of each index. */
async function columnsIn(store: Store, table: string): Promise<Column[]> {
  const query =
    store.name === 'sqlite'
      ? sql<Column>`select name, type from pragma_table_info(${table})`
      : sql<Column>`select column_name as name, data_type as type from information_schema.columns
          where table_schema = 'public' and table_name = ${table}`;
  return (await query.execute(store.read)).rows;
}

async function indexesIn(store: Store, table: string): Promise<string[]> {
  const query =
    store.name === 'sqlite'
      ? sql<{ columns: string }>`
          select (select group_concat(name) from pragma_index_info(i.name)) as columns
          from pragma_index_list(${table}) as i where i.partial = 0`
      : sql<{ columns: string }>`
          select (select string_agg(a.attname, ',' order by k.n) from unnest(x.indkey::int[]) with ordinality as k(c, n)
            join pg_attribute as a on a.attrelid = x.indrelid and a.attnum = k.c) as columns
          from pg_index as x where x.indrelid = ${table}::regclass and x.indpred is null`;
  return (await query.execute(store.read)).rows.map(({ columns }) => columns);
}

/** Ids that rows of other tables refer to: foreign keys, and what goes beside a row. */
const references: Record<string, string> = { source_id: 'sources', import_id: 'imports' };

/** Writes rows of an owner into a table; every column is filled. */
async function fill(store: Store, tx: Tx, table: string, { owner, count }: { owner: string; count: number }) {
  const columns = await columnsIn(store, table);
  for (let number = 0; number < count; number += 1) {
    const values = columns.map(({ name, type }) => {
      const parent = references[name];
      if (ownerColumn.test(name) || name === 'user_id') return owner;
      if (parent !== undefined) return `${parent}-${owner}-${number}-id`;
      if (/bytea|blob/i.test(type)) return Buffer.from([number]);
      return /int/i.test(type) ? number : `${table}-${owner}-${number}-${name}`;
    });
    await sql`insert into ${sql.table(table)} (${sql.join(columns.map(({ name }) => sql.ref(name)))})
      values (${sql.join(values.map((value) => sql`${value}`))})`.execute(tx);
  }
}

const deletion = (owners: string[]): DeletionTable => ({
  ...{ id: `del_${owners[0]}`, kind: 'workspace', subject_id: owners[0] ?? '', name: 'gone' },
  ...{ owner_ids: JSON.stringify(owners), state: 'removing', removed_rows: 0, requested_by: 'u_1' },
  ...{ created_at_ms: 1, ended_at_ms: null },
});

forEachStore((fixture) => {
  const never = new AbortController().signal;
  const parentsFirst = () =>
    tablesToEmpty.toSorted((one, other) => Number(isParent(other.table)) - Number(isParent(one.table)));
  /** An owner has one row at most where the owner alone is the key. */
  const rowsOf = ({ key, owners }: OwnedRows) => (key.join() === owners.join() ? 1 : 3);
  const isParent = (table: string) => Object.values(references).includes(table);

  test('an index begins with each owner where one is said to, and the key is an index', async () => {
    const { store } = fixture;
    for (const { table, key, owners, isIndexed } of tablesToEmpty) {
      const indexes = await indexesIn(store, table);
      assert.ok(
        indexes.some((index) => index.startsWith(key.join())),
        `${table}: no index ${key.join()} in ${indexes.join(' ')}`,
      );
      if (isIndexed)
        for (const owner of owners)
          assert.ok(
            indexes.some((index) => index.split(',')[0] === owner),
            `${table}: no index begins with ${owner}: ${indexes.join(' ')}`,
          );
    }
  });

  test('every row of the owners of a deletion goes, from every table, and none of another owner', async () => {
    const { store } = fixture;
    await store.transaction(async (tx) => {
      await insertDeletion(tx, deletion(['o_gone', 'u_service']));
      for (const rows of parentsFirst())
        for (const owner of ['o_gone', 'u_service', 'o_stays'])
          await fill(store, tx, rows.table, { owner, count: rowsOf(rows) });
    });
    await removeRows(store, deletion(['o_gone', 'u_service']), never);
    for (const rows of tablesToEmpty) {
      assert.equal(await hasOwnedRows(store.read, rows, ['o_gone', 'u_service']), false, rows.table);
      const { rows: left } = await sql<{ count: number }>`
        select count(*) as count from ${sql.table(rows.table)}`.execute(store.read);
      assert.equal(Number(left[0]?.count), rowsOf(rows), `${rows.table} of another owner`);
    }
    const { removed_rows } = await store.read
      .selectFrom('deletions')
      .select('removed_rows')
      .executeTakeFirstOrThrow();
    const expected = tablesToEmpty.reduce((sum, rows) => sum + 2 * rowsOf(rows), 0);
    assert.equal(Number(removed_rows), expected);
  });

  test('more rows than a batch and a window go, and a deletion that was interrupted continues', async () => {
    const { store } = fixture;
    const table = 'delivery_payloads';
    await store.transaction(async (tx) => {
      await insertDeletion(tx, deletion(['o_gone']));
      for (const owner of ['o_a', 'o_gone', 'o_z']) await fill(store, tx, table, { owner, count: 2_100 });
      await fill(store, tx, 'webhooks', { owner: 'o_gone', count: 450 });
    });
    let transactions = 0;
    const ending = new AbortController();
    const interrupted = {
      ...store,
      transaction: <T>(work: (tx: Tx) => Promise<T>) => {
        transactions += 1;
        if (transactions === 4) ending.abort();
        return store.transaction(work);
      },
    };
    await assert.rejects(removeRows(interrupted, deletion(['o_gone']), ending.signal));
    await removeRows(store, deletion(['o_gone']), never);
    for (const rows of tablesToEmpty) assert.equal(await hasOwnedRows(store.read, rows, ['o_gone']), false);
    const { rows: left } = await sql<{ count: number }>`
      select count(*) as count from ${sql.table(table)}`.execute(store.read);
    assert.equal(Number(left[0]?.count), 4_200);
    const { removed_rows } = await store.read
      .selectFrom('deletions')
      .select('removed_rows')
      .executeTakeFirstOrThrow();
    assert.equal(Number(removed_rows), 2_100 + 450);
  });
});
