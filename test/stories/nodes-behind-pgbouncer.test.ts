import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import pg from 'pg';
import { borrowTestDatabase, postgresSkip, type TestDatabase } from '../support/databases.ts';
import { Millrace } from '../support/millrace.ts';
import { type PgBouncer, pgbouncerSkip, startPgBouncer } from '../support/pgbouncer.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';

const echo = `
export default {
  name: 'Echo', version: '0.0.1',
  props: { http: { type: '$.interface.http', customResponse: true } },
  run({ body }) { this.http.respond({ status: 200, body: { heard: body.n } }); },
};`;

describe('two nodes behind pgbouncer in transaction mode', {
  skip: postgresSkip() || pgbouncerSkip(),
}, () => {
  let database: TestDatabase;
  let pooler: PgBouncer;
  let folder: TempFolder;
  const nodes: Millrace[] = [];

  before(async () => {
    database = await borrowTestDatabase();
    pooler = await startPgBouncer(database.url, { poolSize: 5 });
    folder = await createTempFolder();
    for (const name of ['a', 'b']) nodes.push(await start(name));
  });
  after(async () => {
    for (const node of nodes) await node.stop();
    await pooler?.stop();
    await folder?.remove();
    await database?.drop();
  });

  const start = (name: string, roles = 'api,ingress,scheduler,worker') =>
    Millrace.start({
      dataFolder: `${folder.path}/${name}`,
      databaseUrl: pooler.url,
      environment: {
        MILLRACE_DATABASE_SESSION_URL: database.url,
        MILLRACE_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
        MILLRACE_ROLES: roles,
      },
    });

  test('answer requests to each other’s sources, with one session each and five connections together', async () => {
    const [one, two] = nodes as [Millrace, Millrace];
    const { body } = await one.api('POST', '/v1/sources', { component_code: echo });
    const { pathname } = new URL(body.data.configured_props.http.endpoint_url);
    const requests = Array.from({ length: 20 }, async (_, n) => {
      const node = n % 2 === 0 ? one : two;
      const answer = await fetch(`${node.url}${pathname}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ n }),
      });
      return [answer.status, await answer.json()];
    });
    const answers = await Promise.all(requests);
    assert.deepEqual(
      answers,
      Array.from({ length: 20 }, (_, n) => [200, { heard: n }]),
    );
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    const { rows } = await client.query<{ name: string; count: number }>(
      `select application_name as name, count(*)::int as count from pg_stat_activity
        where datname = current_database() and application_name like 'millrace%' group by 1`,
    );
    await client.end();
    const connections = new Map(rows.map(({ name, count }) => [name, count]));
    assert.equal(connections.get('millrace listener'), nodes.length);
    assert.ok((connections.get('millrace') ?? 0) <= 5, JSON.stringify(rows));
  });
});
