import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { CertificateAuthority } from './certificates.ts';
import { borrowTestDatabase, postgresSkip, type TestDatabase } from './databases.ts';
import { filesBelow } from './files-below.ts';
import { Millrace } from './millrace.ts';
import { downloadPackages, shareNpmCache } from './npm-package.ts';
import { type FolderServer, serveFolder } from './serve-folder.ts';
import { createTempFolder, type TempFolder } from './temp-folder.ts';
import { waitFor } from './wait-for.ts';

/** A step of a workflow: an action of a published package, or code of the test. */
export type PublishedStep =
  | { app: PublishedApp; action: string; namespace?: string; props?: Record<string, unknown> }
  | { namespace: string; code: string };

/**
 * The packages of components that others published, by app, in the versions that these tests were written against. They are
 * downloaded for a test and never committed.
 */
const packages = {
  apify: '0.4.0',
  gitlab: '0.5.6',
  google_drive: '1.4.1',
  helper_functions: '0.3.13',
  linear_app: '0.8.1',
  mysql: '2.5.0',
  notion: '1.0.6',
  postgresql: '2.2.4',
  quickbooks: '0.8.0',
  shopify: '1.0.1',
  slack: '0.10.3',
} as const;

export type PublishedApp = keyof typeof packages;

/**
 * The store that components run on. Installing, bundling and running them does not depend on the store, so each component is shown on
 * one of the two; where PostgreSQL cannot run, on SQLite.
 */
export function storeOrEmbedded(wanted: 'sqlite' | 'postgres'): 'sqlite' | 'postgres' {
  return postgresSkip() === false ? wanted : 'sqlite';
}

export interface PublishedOptions {
  dialect: 'sqlite' | 'postgres';
  apps: readonly PublishedApp[];
  /** Entries of MILLRACE_CONNECT_TO. */
  connectTo: readonly string[];
  environment?: Record<string, string>;
}

/**
 * A real service with components of published packages, unmodified, and certificates of `authority` trusted. Components are saved
 * by their URL on a server of this test and then named by their key.
 */
export class PublishedComponents {
  readonly folder: TempFolder;
  readonly authority: CertificateAuthority;
  #service: Millrace | undefined;
  #files: FolderServer | undefined;
  #database: TestDatabase | undefined;
  readonly #saved = new Set<string>();

  private constructor(folder: TempFolder, authority: CertificateAuthority) {
    this.folder = folder;
    this.authority = authority;
  }

  /** Starts nothing: stand-ins need the authority before the service starts. */
  static async prepare(authority = new CertificateAuthority()): Promise<PublishedComponents> {
    return new PublishedComponents(await createTempFolder('published'), authority);
  }

  async start({ dialect, apps, connectTo, environment }: PublishedOptions): Promise<void> {
    const { path } = this.folder;
    const extraCa = join(path, 'ca.pem');
    await writeFile(extraCa, this.authority.pem);
    const downloads = join(path, 'packages');
    await mkdir(downloads);
    await shareNpmCache(this.dataFolder);
    if (dialect === 'postgres') this.#database = await borrowTestDatabase();
    const starting = Millrace.start({
      dataFolder: this.dataFolder,
      ...(this.#database === undefined ? {} : { databaseUrl: this.#database.url }),
      environment: {
        MILLRACE_EXTRA_CA: extraCa,
        MILLRACE_CONNECT_TO: connectTo.join(','),
        ...environment,
      },
    }).then((service) => {
      this.#service = service;
    });
    const versions = apps.map((app) => [`@pipedream/${app}`, packages[app]]);
    const downloading = downloadPackages(downloads, Object.fromEntries(versions));
    const outcomes = await Promise.allSettled([starting, downloading]);
    const failure = outcomes.find(({ status }) => status === 'rejected');
    if (failure?.status === 'rejected') throw failure.reason;
    this.#files = await serveFolder(join(downloads, 'node_modules'));
  }

  get dataFolder(): string {
    return join(this.folder.path, 'data');
  }

  get service(): Millrace {
    if (this.#service === undefined) throw new Error('the service is not started');
    return this.#service;
  }

  async close(): Promise<void> {
    await this.#service?.stop();
    await this.#files?.close();
    await this.#database?.drop();
    await this.folder.remove();
  }

  /** Connects an account with static credentials by API and answers what a prop of its app is given. */
  async account(
    app: PublishedApp,
    credentials: Record<string, unknown>,
  ): Promise<{ authProvisionId: string }> {
    const { status, body } = await this.service.api('POST', '/v1/accounts', { app, credentials });
    assert.equal(status, 200, JSON.stringify(body));
    return { authProvisionId: body.data.id };
  }

  /** Waits until the service has tested the account by itself and found that it works. */
  async testedHealthy({ authProvisionId }: { authProvisionId: string }): Promise<void> {
    const account = await waitFor(
      async () => {
        const { body } = await this.service.api('GET', `/v1/accounts/${authProvisionId}`);
        return body.data.healthy === null ? undefined : body.data;
      },
      { what: `account ${authProvisionId} to be tested` },
    );
    assert.deepEqual([account.healthy, account.error], [true, null]);
  }

  /** Where the component `<sources|actions>/<name>/<name>.mjs` of an app is. */
  urlOf(app: PublishedApp, kind: 'sources' | 'actions', name: string): string {
    return `${this.#files?.url}/@pipedream/${app}/${kind}/${name}/${name}.mjs`;
  }

  /** Saves the component `<sources|actions>/<name>/<name>.mjs` of an app and answers its key, which its code says. */
  async save(app: PublishedApp, kind: 'sources' | 'actions', name: string): Promise<string> {
    const key = `${app}-${name}`;
    if (this.#saved.has(key)) return key;
    const component_url = this.urlOf(app, kind, name);
    const { status, body } = await this.service.api('POST', '/v1/components', { component_url });
    assert.equal(status, 200, `${key}: ${JSON.stringify(body)}`);
    assert.equal(body.data.key, key);
    this.#saved.add(key);
    return key;
  }

  /** Runs an action by API, outside of any workflow. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
  async runAction(app: PublishedApp, name: string, configured_props: object): Promise<any> {
    const id = await this.save(app, 'actions', name);
    const answer = await this.service.api('POST', '/v1/actions/run', { id, configured_props });
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body.data;
  }

  /** Makes a source of a component. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into sources of every shape.
  async source(app: PublishedApp, name: string, props: Record<string, unknown>): Promise<any> {
    const key = await this.save(app, 'sources', name);
    return this.service.createSource({ key, configured_props: props });
  }

  /** Runs them as the steps of one workflow, for one request, and answers the run when it has ended. */
  async runSteps(
    steps: readonly PublishedStep[],
    event: unknown = {},
    // biome-ignore lint/suspicious/noExplicitAny: tests look into runs of every shape.
  ): Promise<any> {
    const definitions = [];
    for (const step of steps) {
      if ('code' in step) {
        definitions.push(step);
        continue;
      }
      const { app, action, namespace = action.replaceAll('-', '_'), props = {} } = step;
      const component = await this.save(app, 'actions', action);
      definitions.push({ namespace, component, props });
    }
    const workflow = await this.service.createWorkflow({ steps: definitions, triggers: [{ type: 'http' }] });
    const accepted = await fetch(workflow.triggers[0].endpoint_url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(event),
    });
    assert.equal(accepted.status, 200);
    return this.service.runInState(workflow.id, 'succeeded', 'failed');
  }

  /** Switches a source off and on: its timer fires when it becomes active. */
  async pollNow(sourceId: string): Promise<void> {
    for (const active of [false, true]) {
      const { status, body } = await this.service.api('PUT', `/v1/sources/${sourceId}`, { active });
      assert.equal(status, 200, JSON.stringify(body));
    }
  }

  /** Asks for options or props of a component, and fails when its code did. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
  async ask(path: 'configure' | 'props', body: object): Promise<any> {
    const answer = await this.service.api('POST', `/v1/components/${path}`, body);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    assert.deepEqual(answer.body.errors, [], JSON.stringify(answer.body));
    return answer.body;
  }

  /** Fails when one of these texts stands in clear in what the service logged, in a file of its data folder, or in its database. */
  async assertSealed(secrets: readonly string[]): Promise<void> {
    const files = await filesBelow(this.dataFolder);
    for (const secret of secrets)
      assert.ok(!this.service.output.includes(secret), 'no secret is in a log line');
    for (const file of files) {
      const content = await readFile(file).catch(() => Buffer.alloc(0));
      for (const secret of secrets)
        assert.equal(content.indexOf(secret), -1, `${file} has no secret in clear`);
    }
    if (this.#database === undefined) return;
    for await (const { table, row } of rowsOf(this.#database.url))
      for (const secret of secrets)
        for (const text of [secret, Buffer.from(secret).toString('hex')])
          assert.ok(!row.includes(text), `${table} has no secret in clear`);
  }
}

/** Each row of a PostgreSQL database as text; bytes in it are hexadecimal. */
async function* rowsOf(databaseUrl: string): AsyncGenerator<{ table: string; row: string }> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const tables = await client.query<{ name: string }>(
      "select tablename as name from pg_tables where schemaname = 'public'",
    );
    for (const { name: table } of tables.rows) {
      const { rows } = await client.query<{ row: string }>(`select t::text as row from "${table}" t`);
      for (const { row } of rows) yield { table, row };
    }
  } finally {
    await client.end();
  }
}

/** Exports of the steps of a run that succeeded, by namespace; fails with the error of the run otherwise. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into exports of every shape.
export function exportsOf(run: any): Record<string, any> {
  assert.equal(run.state, 'succeeded', JSON.stringify(run.error ?? run.steps, null, 1));
  return Object.fromEntries(
    run.steps.map((step: { namespace: string; exports: unknown }) => [step.namespace, step.exports]),
  );
}
