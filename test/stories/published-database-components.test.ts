import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { createTestDatabase, postgresSkip, type TestDatabase } from '../support/databases.ts';
import { type MariadbServer, mariadbSkip, startMariadb } from '../support/mariadb-server.ts';
import { startPostgresTls } from '../support/postgres-tls.ts';
import { exportsOf, PublishedComponents } from '../support/published-components.ts';

const password = `canary-${randomBytes(9).toString('base64url')}`;

/** Ids and names in the events of a source, oldest first. */
async function rowsOf(published: PublishedComponents, sourceId: string): Promise<[number, string][]> {
  const events = await published.service.events(sourceId);
  return events.map(({ event }): [number, string] => [event.id, event.name]).toReversed();
}

/** Switches a source off and on: its timer fires when it becomes active. */
async function pollNow(published: PublishedComponents, sourceId: string): Promise<void> {
  for (const active of [false, true]) {
    const { status, body } = await published.service.api('PUT', `/v1/sources/${sourceId}`, { active });
    assert.equal(status, 200, JSON.stringify(body));
  }
}

describe('mysql: new-row and three actions, with a real MariaDB that demands TLS', {
  skip: mariadbSkip(),
}, () => {
  let published: PublishedComponents;
  let mariadb: MariadbServer;

  before(async () => {
    published = await PublishedComponents.prepare();
    mariadb = await startMariadb({
      certificate: published.authority.issue(['db.example']),
      statements: [
        `ALTER USER root@localhost IDENTIFIED BY '${randomBytes(18).toString('base64url')}';`,
        'CREATE DATABASE shop;',
        `CREATE USER ada IDENTIFIED BY '${password}';`,
        'GRANT ALL ON shop.* TO ada;',
        'CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(200));',
        "INSERT INTO shop.orders (name) VALUES ('first'), ('second');",
      ],
    });
    await published.start({
      dialect: 'sqlite',
      apps: ['mysql'],
      connectTo: [`db.example:3306:127.0.0.1:${mariadb.port}`],
    });
  });

  after(async () => {
    try {
      await published?.assertSealed([password]);
    } finally {
      await published?.close();
      await mariadb?.stop();
    }
  });

  const credentials = (): Record<string, unknown> => ({
    host: 'db.example',
    port: 3306,
    username: 'ada',
    password,
    database: 'shop',
    // The component verifies the server's certificate and name then.
    ca: published.authority.pem,
  });

  test('rows that are there and rows that a step adds become events', async () => {
    const mysql = await published.account('mysql', credentials());
    await published.testedHealthy(mysql);
    const source = await published.source('mysql', 'new-row', { mysql, table: 'orders', column: 'id' });
    assert.deepEqual(await rowsOf(published, source.id), [
      [2, 'second'],
      [1, 'first'],
    ]);
    const attack = "x'); DROP TABLE orders; -- ";
    const run = await published.runSteps(
      [
        // What it asks for besides the table, its additionalProps read from the database.
        {
          app: 'mysql',
          action: 'create-row',
          props: { mysql, table: 'orders', name: '{{steps.trigger.event.body.name}}' },
        },
        {
          app: 'mysql',
          action: 'execute-raw-query',
          props: {
            mysql,
            sql: { app: 'mysql', query: 'SELECT name FROM orders WHERE id > ? ORDER BY id', params: [1] },
          },
        },
      ],
      { name: attack },
    );
    const { create_row, execute_raw_query } = exportsOf(run);
    assert.equal(create_row.$summary, 'Successfully added 1 row(s) to table orders');
    assert.deepEqual(execute_raw_query.$return_value, [{ name: 'second' }, { name: attack }]);
    assert.equal(execute_raw_query.$summary, 'Returned 2 rows');
    const stream = await published.service.stream(source.id);
    await pollNow(published, source.id);
    assert.deepEqual((await stream.message(1)).data.event, { id: 3, name: attack });
    stream.close();
  });

  test('a wrong password fails as the server says, and a wrong authority before anything is sent', async () => {
    const query = async (change: Record<string, unknown>) => {
      const mysql = await published.account('mysql', { ...credentials(), ...change });
      const props = { mysql, sql: { app: 'mysql', query: 'SELECT 1', params: [] } };
      return JSON.stringify(await published.runSteps([{ app: 'mysql', action: 'execute-raw-query', props }]));
    };
    assert.match(await query({ password: 'wrong-0123456789' }), /"failed".*Access denied for user 'ada'/);
    const other = await PublishedComponents.prepare();
    assert.match(
      await query({ ca: other.authority.pem }),
      /"failed".*(unable to verify|signature|self.signed)/i,
    );
    await other.close();
  });
});

for (const dialect of ['sqlite', 'postgres'] as const) {
  describe(`postgresql: new-row and two actions, with a real PostgreSQL behind TLS, on ${dialect}`, {
    skip: postgresSkip(),
  }, () => {
    let published: PublishedComponents;
    let database: TestDatabase;
    let tls: { port: number; close: () => Promise<void> };
    let credentials: Record<string, unknown>;

    before(async () => {
      published = await PublishedComponents.prepare();
      database = await createTestDatabase();
      const url = new URL(database.url);
      const admin = new Client({ connectionString: database.url });
      await admin.connect();
      const user = `ada_${randomBytes(6).toString('hex')}`;
      for (const statement of [
        'CREATE TABLE orders (id int PRIMARY KEY, name text)',
        "INSERT INTO orders VALUES (1, 'first')",
        `CREATE ROLE ${user} LOGIN PASSWORD '${password}'`,
        `GRANT ALL ON orders TO ${user}`,
      ])
        await admin.query(statement);
      await admin.end();
      tls = await startPostgresTls(
        { host: url.hostname, port: Number(url.port) },
        published.authority.issue(['db.example']),
      );
      credentials = {
        host: 'db.example',
        port: 5432,
        user,
        password,
        database: url.pathname.slice(1),
        ca: published.authority.pem,
      };
      await published.start({
        dialect,
        apps: ['postgresql'],
        connectTo: [`db.example:5432:127.0.0.1:${tls.port}`],
      });
    });

    after(async () => {
      try {
        await published?.assertSealed([password]);
      } finally {
        await published?.close();
        await tls?.close();
        await dropWithRole(database, credentials);
      }
    });

    test('rows that are there and rows that a step inserts become events', async () => {
      const postgresql = await published.account('postgresql', credentials);
      const table = { postgresql, schema: 'public', table: 'orders' };
      await published.testedHealthy(postgresql);
      const source = await published.source('postgresql', 'new-row', table);
      assert.deepEqual(await rowsOf(published, source.id), [[1, 'first']]);
      const { insert_row, execute_custom_query } = exportsOf(
        await published.runSteps(
          [
            {
              app: 'postgresql',
              action: 'insert-row',
              props: { ...table, rowValues: { id: 2, name: '{{steps.trigger.event.body.name}}' } },
            },
            {
              app: 'postgresql',
              action: 'insert-row',
              namespace: 'from_text',
              // As forms give it: JSON text, with expressions in it.
              props: { ...table, rowValues: '{"id": {{1 + 2}}, "name": "third"}' },
            },
            {
              app: 'postgresql',
              action: 'insert-row',
              namespace: 'from_json',
              props: { ...table, rowValues: '[{"id": 4, "name": "{{steps.trigger.event.body.name}}"}]' },
            },
            {
              app: 'postgresql',
              action: 'execute-custom-query',
              props: {
                postgresql,
                sql: {
                  app: 'postgresql',
                  query: 'SELECT current_user AS who, name FROM orders WHERE id >= $1 ORDER BY id',
                  params: [2],
                },
              },
            },
          ],
          { name: 'second' },
        ),
      );
      assert.equal(insert_row.$summary, 'Successfully inserted 1 row');
      assert.deepEqual(
        execute_custom_query.$return_value,
        ['second', 'third', 'second'].map((name) => ({ who: credentials.user, name })),
      );
      const stream = await published.service.stream(source.id);
      await pollNow(published, source.id);
      await stream.message(3);
      assert.deepEqual(
        stream.messages.map(({ data }) => data.event).sort((a, b) => a.id - b.id),
        [
          { id: 2, name: 'second' },
          { id: 3, name: 'third' },
          { id: 4, name: 'second' },
        ],
      );
      stream.close();
    });

    test('a wrong password fails as the server says', async () => {
      const postgresql = await published.account('postgresql', {
        ...credentials,
        password: 'wrong-0123456789',
      });
      const props = { postgresql, sql: { app: 'postgresql', query: 'SELECT 1', params: [] } };
      const run = await published.runSteps([{ app: 'postgresql', action: 'execute-custom-query', props }]);
      assert.equal(run.state, 'failed');
      assert.match(JSON.stringify(run), /password authentication failed/);
    });
  });
}

/** Roles belong to the whole server, which other tests use too. */
async function dropWithRole(
  database: TestDatabase | undefined,
  credentials: Record<string, unknown> | undefined,
) {
  if (database === undefined) return;
  if (credentials !== undefined) {
    const admin = new Client({ connectionString: database.url });
    await admin.connect();
    await admin.query(`DROP OWNED BY ${credentials.user}; DROP ROLE ${credentials.user}`);
    await admin.end();
  }
  await database.drop();
}
