import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test } from 'node:test';
import { sql } from 'kysely';
import { postgresSkip } from '../../test/support/databases.ts';
import { createStoreLocation, type StoreLocation } from '../../test/support/stores.ts';
import { type Migration, migrations, SchemaError } from './migrate.ts';
import type { Store } from './store.ts';

const addNotes: Migration = {
  name: '0901-notes',
  statements: ['create table notes (text text not null)', `insert into notes (text) values ('migrated')`],
};
const withNotes = [...migrations, addNotes];
const broken: Migration = {
  name: '0902-broken',
  statements: ['create table half_done (text text)', 'insert into no_such_table values (1)'],
};

async function tableNames(store: Store): Promise<string[]> {
  return (await store.read.introspection.getTables()).map(({ name }) => name).sort();
}

async function applied(store: Store): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`select name from schema_migrations order by name`.execute(
    store.read,
  );
  return rows.map(({ name }) => name);
}

async function notes(store: Store): Promise<string[]> {
  return (await sql<{ text: string }>`select text from notes`.execute(store.read)).rows.map(
    ({ text }) => text,
  );
}

/** What a version did that recorded no versions. */
function forgetVersions(store: Store): Promise<unknown> {
  return store.transaction((tx) => sql`alter table schema_migrations drop column version`.execute(tx));
}

/** Runs `use` on an opened store and closes it. */
async function using<T>(opened: Promise<Store>, use: (store: Store) => Promise<T>): Promise<T> {
  const store = await opened;
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

function insertEmitter(store: Store, id: string): Promise<unknown> {
  return store.transaction((tx) =>
    tx
      .insertInto('emitters')
      .values({ id, owner_id: 'o_1', last_ms: 0, last_seq: 0, dedupe: '{}' })
      .execute(),
  );
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  const skip = dialect === 'postgres' && postgresSkip();
  const testIn = (name: string, body: (place: StoreLocation) => Promise<void>): void => {
    test(name, async () => {
      const place = await createStoreLocation(dialect);
      try {
        await body(place);
      } finally {
        await place.remove();
      }
    });
  };

  describe(`migrations on ${dialect}`, { skip }, () => {
    testIn('a new store gets every table, and opening it again changes nothing', async (place) => {
      const first = await using(place.open(), async (store) => {
        assert.deepEqual(
          await applied(store),
          migrations.map(({ name }) => name),
        );
        return tableNames(store);
      });
      for (const table of ['events', 'jobs', 'nodes', 'emitters', 'sources'])
        assert.ok(first.includes(table), table);
      assert.deepEqual(await using(place.open(), tableNames), first);
    });

    testIn('an older store gets only what it lacks, and keeps its data', async (place) => {
      await using(place.open(), (store) => insertEmitter(store, 'old'));
      await using(place.open({ migrations: withNotes }), async (store) => {
        assert.deepEqual(await notes(store), ['migrated']);
        assert.deepEqual(await applied(store), [...migrations.map(({ name }) => name), addNotes.name]);
        assert.equal((await store.read.selectFrom('emitters').select('id').execute()).length, 1);
      });
      await using(place.open({ migrations: withNotes }), async (store) => {
        assert.deepEqual(await notes(store), ['migrated']);
      });
    });

    testIn(
      'a store written by a newer version is refused, says by which, and is left alone',
      async (place) => {
        await using(place.open({ migrations: withNotes }), (store) =>
          store.transaction((tx) =>
            sql`update schema_migrations set version = '7.8.9' where name = ${addNotes.name}`.execute(tx),
          ),
        );
        await assert.rejects(place.open(), (error: Error) => {
          assert.ok(error instanceof SchemaError);
          assert.match(error.message, /written by Millrace 7\.8\.9, and this is .* \(it has 0901-notes\)/);
          assert.match(error.message, /start Millrace 7\.8\.9 or newer, or restore/);
          return true;
        });
        await using(place.open({ migrations: withNotes }), async (store) => {
          assert.deepEqual(await notes(store), ['migrated']);
        });
      },
    );

    testIn(
      'a store of before versions were recorded is migrated, and records them from then on',
      async (place) => {
        await using(place.open(), forgetVersions);
        await using(place.open({ migrations: withNotes }), async (store) => {
          const { rows } = await sql<{ name: string }>`
          select name from schema_migrations where version is not null`.execute(store.read);
          assert.deepEqual(rows, [{ name: addNotes.name }]);
          await forgetVersions(store);
        });
        await assert.rejects(place.open(), /written by a newer version of Millrace \(it has 0901-notes\)/);
      },
    );

    testIn('a migration that fails leaves nothing of itself or of those before it', async (place) => {
      const before = await using(place.open(), tableNames);
      await assert.rejects(place.open({ migrations: [...withNotes, broken] }), /no_such_table/);
      assert.deepEqual(await using(place.open(), tableNames), before);
    });
  });
}

test('nodes that start together on one new PostgreSQL migrate it once', {
  skip: postgresSkip(),
}, async () => {
  const place = await createStoreLocation('postgres');
  try {
    const stores = await Promise.all(Array.from({ length: 4 }, () => place.open({ migrations: withNotes })));
    for (const store of stores) assert.deepEqual(await notes(store), ['migrated']);
    for (const store of stores) await store.close();
  } finally {
    await place.remove();
  }
});

test('a table of the same name that another application has elsewhere in the database is not ours', {
  skip: postgresSkip(),
}, async () => {
  const place = await createStoreLocation('postgres');
  try {
    await using(place.open({ migrations: [] }), async (store) => {
      await sql`create schema auth`.execute(store.read);
      await sql`create table auth.schema_migrations (version text)`.execute(store.read);
    });
    await using(place.open(), async (store) => assert.ok((await tableNames(store)).includes('events')));
  } finally {
    await place.remove();
  }
});

describe('the snapshot before a migration of the embedded store', () => {
  const backupsOf = async (place: StoreLocation) =>
    (await readdir(join(place.location, 'backups')).catch(() => [])).sort();

  test('is taken when there is something to lose, and holds everything from before', async () => {
    const place = await createStoreLocation('sqlite');
    try {
      await using(place.open(), (store) => insertEmitter(store, 'old'));
      assert.deepEqual(await backupsOf(place), []);
      await using(place.open({ migrations: withNotes }), (store) => insertEmitter(store, 'new'));
      const [name = '', ...rest] = await backupsOf(place);
      assert.deepEqual(rest, []);
      assert.match(name, new RegExp(`-before-${migrations.at(-1)?.name}-to-0901-notes[.]sqlite$`));
      const snapshot = new DatabaseSync(join(place.location, 'backups', name), { readOnly: true });
      assert.deepEqual(
        snapshot
          .prepare('select id from emitters')
          .all()
          .map(({ id }) => id),
        ['old'],
      );
      assert.equal(
        snapshot.prepare(`select count(*) as n from sqlite_master where name = 'notes'`).get()?.n,
        0,
      );
      snapshot.close();
      await using(place.open({ migrations: withNotes }), async () => {});
      assert.equal((await backupsOf(place)).length, 1);
    } finally {
      await place.remove();
    }
  });

  test('of an upgrade that fails again and again stands there once', async () => {
    const place = await createStoreLocation('sqlite');
    try {
      await using(place.open(), (store) => insertEmitter(store, 'old'));
      for (let start = 0; start < 4; start += 1)
        await assert.rejects(place.open({ migrations: [...migrations, broken] }), /no_such_table/);
      assert.equal((await backupsOf(place)).length, 1);
    } finally {
      await place.remove();
    }
  });
});
