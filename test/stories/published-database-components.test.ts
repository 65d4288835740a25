/**
 * Components of @pipedream/mysql and @pipedream/postgresql, unmodified, with real database servers. Of the scenarios of
 * published components that need no Internet: mysql-new-row, -new-table, -new-column, -execute-raw-query,
 * postgresql-execute-custom-query and -insert-row.
 *
 * Those of MySQL run on SQLite and those of PostgreSQL on PostgreSQL: how they are installed, bundled and run does not depend on
 * the store.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { CertificateAuthority } from '../support/certificates.ts';
import { createTestDatabase, postgresSkip, type TestDatabase } from '../support/databases.ts';
import { type MariadbServer, mariadbSkip, startMariadb } from '../support/mariadb-server.ts';
import { startPostgresTls } from '../support/postgres-tls.ts';
import { exportsOf, PublishedComponents, type PublishedStep } from '../support/published-components.ts';
import { waitFor } from '../support/wait-for.ts';

const password = `canary-${randomBytes(9).toString('base64url')}`;

/** Ids and names in the events of a source, oldest first. */
async function rowsOf(published: PublishedComponents, sourceId: string): Promise<[number, string][]> {
  const events = await published.service.events(sourceId);
  return events.map(({ event }): [number, string] => [event.id, event.name]).toReversed();
}

describe('mysql: three sources and three actions, with a real MariaDB that demands TLS', {
  skip: mariadbSkip(),
}, () => {
  let mariadb: MariadbServer;
  let published: PublishedComponents;
  const authority = new CertificateAuthority();

  before(async () => {
    mariadb = await startMariadb({
      certificate: authority.issue(['db.example']),
      statements: [
        `ALTER USER root@localhost IDENTIFIED BY '${randomBytes(18).toString('base64url')}';`,
        `CREATE USER ada IDENTIFIED BY '${password}';`,
        'CREATE DATABASE shop;',
        'GRANT ALL ON shop.* TO ada;',
        'CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(200));',
        "INSERT INTO shop.orders (name) VALUES ('first'), ('second');",
      ],
    });
    published = await PublishedComponents.prepare(authority);
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
    ca: authority.pem,
  });

  /** A step that runs a statement by the `sql` prop. */
  const query = (mysql: object, text: string, params: unknown[] = []): PublishedStep => ({
    app: 'mysql',
    action: 'execute-raw-query',
    props: { mysql, sql: { app: 'mysql', query: text, params } },
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
    // The stream is there before the row: the first poll, which comes by itself, may be late and find it.
    const stream = await published.service.stream(source.id);
    const run = await published.runSteps(
      [
        // The props that it needs in addition to the table, which its additionalProps read from the database.
        {
          app: 'mysql',
          action: 'create-row',
          props: { mysql, table: 'orders', name: '{{steps.trigger.event.body.name}}' },
        },
        query(mysql, 'SELECT name FROM orders WHERE id > ? ORDER BY id', [1]),
      ],
      { name: attack },
    );
    const { create_row, execute_raw_query } = exportsOf(run);
    assert.equal(create_row.$summary, 'Successfully added 1 row(s) to table orders');
    assert.deepEqual(execute_raw_query.$return_value, [{ name: 'second' }, { name: attack }]);
    assert.equal(execute_raw_query.$summary, 'Returned 2 rows');
    await published.pollNow(source.id);
    assert.deepEqual((await stream.message(1)).data.event, { id: 3, name: attack });
    stream.close();
  });

  test('new-row offers tables, and columns of the one that was chosen', async () => {
    const mysql = await published.account('mysql', credentials());
    const id = await published.save('mysql', 'sources', 'new-row');
    const ask = (prop_name: string, chosen: object) =>
      published.ask('configure', { id, prop_name, configured_props: { mysql, ...chosen } });
    assert.deepEqual((await ask('table', {})).stringOptions, ['orders']);
    const table = { __lv: { label: 'orders', value: 'orders' } };
    assert.deepEqual((await ask('column', { table })).stringOptions, ['id', 'name']);
  });

  test('new-table and new-column emit what is there when they begin, and then what a step makes', async () => {
    const mysql = await published.account('mysql', credentials());
    const tables = await published.source('mysql', 'new-table', { mysql });
    const columns = await published.source('mysql', 'new-column', { mysql, table: 'orders' });
    const known = (await published.service.events(tables.id)).map(({ event }) => event.TABLE_NAME);
    assert.ok(known.includes('orders'), 'of the deploy hook');
    const named = await Promise.all([tables, columns].map(({ id }) => published.service.stream(id)));
    const [ofTables, ofColumns] = named;
    assert.ok(ofTables && ofColumns);
    // What is there already comes with the first poll, which may be over.
    await waitFor(async () => (await published.service.events(columns.id)).length === 2, {
      what: 'the columns that are there',
    });
    const run = await published.runSteps([
      // The time at which a table was made has whole seconds, and new-table takes what is later than the last one it saw.
      { ...query(mysql, 'SELECT SLEEP(1.1)'), namespace: 'later' },
      query(mysql, 'CREATE TABLE invoices (id INT PRIMARY KEY)'),
      { ...query(mysql, 'ALTER TABLE orders ADD COLUMN note TEXT'), namespace: 'alter' },
    ]);
    exportsOf(run);
    for (const { id } of [tables, columns]) await published.pollNow(id);
    const last = await Promise.all(
      [ofTables, ofColumns].map(async (stream) => {
        const isNew = () =>
          stream.messages.find(({ data }) => ['invoices', 'note'].includes(data.metadata.summary));
        await stream.until(() => isNew() !== undefined, 'the new one');
        stream.close();
        return isNew()?.data.event;
      }),
    );
    assert.deepEqual([last[0].TABLE_NAME, last[1].Field], ['invoices', 'note']);
    const fields = (await published.service.events(columns.id)).map(({ event }) => event.Field);
    assert.deepEqual(fields.toSorted(), ['id', 'name', 'note'], 'each of them once');
  });

  test('a wrong password fails as the server says, and a wrong authority before anything is sent', async () => {
    const runWith = async (change: Record<string, unknown>) => {
      const mysql = await published.account('mysql', { ...credentials(), ...change });
      return JSON.stringify(await published.runSteps([query(mysql, 'SELECT 1')]));
    };
    assert.match(await runWith({ password: 'wrong-0123456789' }), /"failed".*Access denied for user 'ada'/);
    assert.match(
      await runWith({ ca: new CertificateAuthority().pem }),
      /"failed".*(unable to verify|signature|self.signed)/i,
    );
  });
});

describe('postgresql: new-row and two actions, with a real PostgreSQL behind TLS', {
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
      dialect: 'postgres',
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
    // Before the rows, as above.
    const stream = await published.service.stream(source.id);
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
    await published.pollNow(source.id);
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

  test('a hostile value in a query stays a value, with a server that is not verified', async () => {
    const { ca: _, ...rest } = credentials;
    const postgresql = await published.account('postgresql', {
      ...rest,
      ssl_verification_mode: 'skip_verification',
    });
    const attack = "'); DROP TABLE orders; --";
    const query = (namespace: string, text: string, params: unknown[]): PublishedStep => ({
      ...{ app: 'postgresql', action: 'execute-custom-query', namespace },
      props: { postgresql, sql: { app: 'postgresql', query: text, params } },
    });
    const run = await published.runSteps(
      [
        query(
          'insert',
          "INSERT INTO orders VALUES ($1, '{{steps.trigger.event.body.attack}}'), ({{50 + 1}}, $2)",
          [50, 'Bob'],
        ),
        query(
          'select',
          "SELECT * FROM orders WHERE name LIKE '%{{steps.trigger.event.body.attack}}%' OR name = $1 ORDER BY id",
          ['Bob'],
        ),
      ],
      { attack },
    );
    const { $return_value, $summary } = exportsOf(run).select;
    assert.deepEqual($return_value, [
      { id: 50, name: attack },
      { id: 51, name: 'Bob' },
    ]);
    assert.equal($summary, 'Returned 2 rows');
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
