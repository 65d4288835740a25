import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readFile, stat } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test } from 'node:test';
import { Client } from 'pg';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachService, Millrace, type MillraceOptions } from '../support/millrace.ts';
import { programFile } from '../support/program-file.ts';
import { createTempFolder } from '../support/temp-folder.ts';
import { patienceMs, waitFor, within } from '../support/wait-for.ts';

/** A start that is expected to fail: its exit code and its messages. */
async function failedStart(options: MillraceOptions): Promise<{ code: number; errors: string }> {
  const child = Millrace.spawn(options);
  let errors = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    errors += chunk;
  });
  child.stdout?.resume();
  try {
    const [code] = (await within(once(child, 'close'), patienceMs, 'the start to fail')) as [number];
    return { code, errors };
  } finally {
    child.kill('SIGKILL');
  }
}

const slowly = (url: string) => `
export default {
  name: 'Slowly', props: { http: '$.interface.http', db: '$.service.db' },
  async run(event) {
    const answer = await (await fetch('${url}')).text();
    this.$emit({ answer });
  },
};`;

const responding = (url: string) => `
export default {
  name: 'Responding', props: { http: { type: '$.interface.http', customResponse: true } },
  async run(event) {
    const body = await (await fetch('${url}')).text();
    this.http.respond({ status: 200, body });
    this.$emit({ body });
  },
};`;

forEachService((fixture) => {
  test('SIGTERM lets a run finish, answers what is under way, and exits with 0', async () => {
    const { service } = fixture;
    const release = Promise.withResolvers<void>();
    await using outside = await HttpReceiver.start({
      answer: async () => {
        await release.promise;
        return { body: 'finished' };
      },
    });
    const source = await service.createSource({ component_code: slowly(outside.url) });
    await fetch(source.configured_props.http.endpoint_url, { method: 'POST' });
    await outside.waitForRequest(1);
    const stream = await service.stream(source.id);
    const exited = once(service.process, 'exit');
    service.process.kill('SIGTERM');
    await within(stream.ended, patienceMs, 'the stream to end');
    release.resolve();
    const [code] = (await within(exited, patienceMs, 'the exit')) as [number];
    assert.equal(code, 0);
    await fixture.restart();
    const events = await fixture.service.events(source.id);
    assert.deepEqual(
      events.map(({ event }) => event),
      [{ answer: 'finished' }],
    );
    assert.equal(outside.requests.length, 1, 'a run that finished is not run again');
  });

  test('a run that does not finish in time is given back, a request that waits for one is answered, and both run after the next start', async () => {
    const { service } = fixture;
    let answers = false;
    await using outside = await HttpReceiver.start({
      answer: async () => {
        if (!answers) await new Promise(() => {});
        return { body: 'second time' };
      },
    });
    const queued = await service.createSource({ component_code: slowly(outside.url) });
    const waitedFor = await service.createSource({ component_code: responding(outside.url) });
    await fetch(queued.configured_props.http.endpoint_url, { method: 'POST' });
    const waiting = fetch(waitedFor.configured_props.http.endpoint_url, { method: 'POST', body: 'x' });
    await outside.waitForRequest(2);
    const exited = once(service.process, 'exit');
    service.process.kill('SIGTERM');
    await waitFor(() => service.output.includes('service.stop-requested'));
    await assert.rejects(fetch(`${service.url}/healthz`, { headers: { connection: 'close' } }));
    const answer = await waiting;
    assert.equal(answer.status, 503);
    assert.deepEqual(((await answer.json()) as { code: string }).code, 'overloaded');
    assert.ok(answer.headers.has('retry-after'));
    const [code] = (await within(exited, patienceMs, 'the exit')) as [number];
    // After 10 s it would have given up and ended with 1.
    assert.equal(code, 0);
    assert.match(service.output, /"released":2,"msg":"job.released"/);
    answers = true;
    await fixture.restart();
    for (const [source, event] of [
      [queued, { answer: 'second time' }],
      [waitedFor, { body: 'second time' }],
    ]) {
      const events = await waitFor(async () => {
        const stored = await fixture.service.events(source.id);
        return stored.length > 0 && stored;
      });
      assert.deepEqual(
        events.map(({ event: emitted }) => emitted),
        [event],
      );
    }
  });

  if (fixture.dialect === 'sqlite')
    test('a data folder that a service uses is refused to another one, and is free once that was killed', async () => {
      const { service, dataFolder } = fixture;
      const source = await service.createSource({ component_code: slowly('http://127.0.0.1:1/') });
      const { code, errors } = await failedStart({ dataFolder });
      assert.equal(code, 1);
      assert.ok(errors.includes(dataFolder), errors);
      assert.ok(!errors.includes('    at '), errors);
      assert.equal((await fetch(`${service.url}/readyz`)).status, 200);
      await fixture.restart('kill');
      assert.equal((await fetch(`${fixture.service.url}/readyz`)).status, 200);
      assert.equal((await fixture.service.api('GET', `/v1/sources/${source.id}`)).status, 200);
    });

  test('health, readiness and metrics are answered without a key', async () => {
    const { service } = fixture;
    for (const path of ['/healthz', '/readyz']) {
      const response = await fetch(service.url + path);
      assert.equal(response.status, 200, path);
      await response.text();
    }
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    assert.match(metrics, /^# TYPE millrace_http_request_seconds histogram$/m);
    assert.match(
      metrics,
      /^millrace_http_request_seconds_count\{route="\/healthz",method="GET",status="200"\} \d+$/m,
    );
    // They are public: they show how much happens, never whose it is.
    const source = await service.createSource({ component_code: slowly('http://127.0.0.1:1/') });
    const { endpoint_url } = source.configured_props.http;
    await (await fetch(endpoint_url, { method: 'POST' })).text();
    const busy = await (await fetch(`${service.url}/metrics`)).text();
    assert.match(busy, /route="\/in\/:key",method="POST",status="2xx"/);
    const owner = (await service.api('GET', '/v1/users/me')).body.data.id as string;
    for (const secret of [source.id, owner, new URL(endpoint_url).pathname, 'Slowly'])
      assert.ok(!busy.includes(secret), secret);
    assert.doesNotMatch(busy, /["/](u|o|dc|sc|proj|node)_/);
  });

  test('a store of a newer version is refused, and left as it is', async () => {
    const { service, dataFolder, databaseUrl } = fixture;
    assert.equal(await service.stop(), 0);
    await using migrations = await migrationsOf(dataFolder, databaseUrl);
    await migrations.add('9999-from-the-future');
    const before = await migrations.names();
    const { code, errors } = await failedStart({
      dataFolder,
      ...(databaseUrl === undefined ? {} : { databaseUrl }),
    });
    assert.equal(code, 1);
    assert.match(errors, /9999-from-the-future|newer/);
    assert.deepEqual(await migrations.names(), before);
    await migrations.remove('9999-from-the-future');
  });
});

interface Migrations extends AsyncDisposable {
  names(): Promise<string[]>;
  add(name: string): Promise<void>;
  remove(name: string): Promise<void>;
}

/** The migrations that a store knows, of a service that is stopped. */
async function migrationsOf(dataFolder: string, databaseUrl: string | undefined): Promise<Migrations> {
  const client = databaseUrl === undefined ? undefined : new Client({ connectionString: databaseUrl });
  const file = client === undefined ? new DatabaseSync(join(dataFolder, 'millrace.sqlite')) : undefined;
  await client?.connect();
  const query = async (statement: string): Promise<Record<string, unknown>[]> =>
    (await client?.query(statement))?.rows ?? file?.prepare(statement).all() ?? [];
  return {
    names: async () =>
      (await query('select name from schema_migrations order by name')).map(({ name }) => String(name)),
    add: async (name) => {
      const [row = {}] = await query('select * from schema_migrations limit 1');
      const columns = Object.keys(row);
      const values = columns.map((column) => (column === 'name' ? `'${name}'` : `"${column}"`));
      await query(
        `insert into schema_migrations (${columns.join(', ')}) select ${values.join(', ')} from schema_migrations limit 1`,
      );
    },
    remove: async (name) => {
      await query(`delete from schema_migrations where name = '${name}'`);
    },
    [Symbol.asyncDispose]: async () => {
      await client?.end();
      file?.close();
    },
  };
}

describe('a start', () => {
  test('by `npm start` ends with the signal that npm gets, and leaves nothing behind', async () => {
    await using folder = await createTempFolder();
    const npm = spawn('npm', ['start'], {
      cwd: join(import.meta.dirname, '..', '..'),
      env: { PATH: process.env.PATH, HOME: process.env.HOME, MILLRACE_PORT: '0', MILLRACE_DATA: folder.path },
      stdio: ['ignore', 'pipe', 'inherit'],
      // A group of its own, to end all of it should the signal not arrive.
      detached: true,
    });
    try {
      let output = '';
      npm.stdout.on('data', (chunk: Buffer) => {
        output += chunk;
      });
      await waitFor(() => output.includes('Millrace is running'), { timeoutMs: 120_000 });
      // Closed when the last process that writes there has ended.
      const closed = once(npm, 'close');
      npm.kill('SIGTERM');
      await within(closed, patienceMs, 'the service to end with npm');
      assert.match(output, /service\.stopped/);
    } finally {
      if (npm.pid !== undefined)
        try {
          process.kill(-npm.pid, 'SIGKILL');
        } catch {
          // It has ended, as it should.
        }
    }
  });

  test('on a terminal prints readable lines, and last its address and its key, each once', {
    skip: spawnSync('script', ['--version']).status === 0 ? false : 'no script of util-linux here',
  }, async () => {
    await using folder = await createTempFolder();
    const dataFolder = join(folder.path, 'data');
    // `script` gives it a terminal, and ends when it does.
    const command = `exec ${process.execPath} --disable-sigusr1 ${programFile('src/main.ts')}`;
    const terminal = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
      env: { PATH: process.env.PATH, HOME: process.env.HOME, MILLRACE_PORT: '0', MILLRACE_DATA: dataFolder },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    let output = '';
    terminal.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString().replaceAll('\r', '');
    });
    try {
      await waitFor(() => /API key.*\n\s+\S{20,}\n/.test(output), { timeoutMs: 120_000 });
      const exited = once(terminal, 'exit');
      const started = output.trim();
      // Ctrl-C.
      terminal.stdin.write('\x03');
      assert.deepEqual(await within(exited, patienceMs, 'the service to end'), [0, null]);
      assert.doesNotMatch(output, /"level"|Warning|runner\.killed/);
      assert.match(started, /^Millrace \d/);
      assert.match(started, /Data +.*\n +Store +SQLite.*\n +Sandbox +(?:kernel|seat belt): /);
      const key = (await readFile(join(dataFolder, 'api-key'), 'utf8')).trim();
      const [, address = ''] = /is running at (http:\S+)\n.*\n\n.*API key.*:\n +\S+$/.exec(started) ?? [];
      assert.ok(started.endsWith(key), started);
      for (const part of [address, key]) assert.equal(started.split(part).length, 2, part);
      assert.match(output, /\d\d:\d\d:\d\d service\.stopped\n/);
    } finally {
      terminal.kill('SIGKILL');
    }
  });

  test('closes what other users of the machine could read, says so, and makes no file that they may read', {
    skip: process.platform === 'win32' && 'no modes here',
  }, async () => {
    await using folder = await createTempFolder();
    const dataFolder = join(folder.path, 'data');
    await mkdir(dataFolder);
    await chmod(dataFolder, 0o755);
    // The usual one, which services inherit.
    const before = process.umask(0o022);
    const starting = Millrace.start({ dataFolder });
    process.umask(before);
    const service = await starting;
    try {
      assert.equal(service.output.split('data-folder.restricted').length, 2);
      const modeOf = async (path: string) => ((await stat(path)).mode & 0o777).toString(8);
      assert.equal(await modeOf(dataFolder), '700');
      for (const name of ['millrace.sqlite', 'millrace.sqlite-wal', 'lock.sqlite', 'pid'])
        assert.equal(await modeOf(join(dataFolder, name)), '600', name);
    } finally {
      await service.stop();
    }
  });

  test('gives the memory back that only the start needed, once nothing is to do', async () => {
    await using folder = await createTempFolder();
    const service = await Millrace.start({
      dataFolder: join(folder.path, 'data'),
      environment: { MILLRACE_LOG_LEVEL: 'debug' },
    });
    try {
      const released = /"heapMb":\{"before":(\d+),"after":(\d+)\},"msg":"service\.start-memory-released"/;
      const said = await waitFor(() => released.exec(service.output), { timeoutMs: 120_000 });
      assert.ok(Number(said[2]) < Number(said[1]), said[0]);
    } finally {
      await service.stop();
    }
  });

  test('on a port that is taken ends with a message that says so', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    await using folder = await createTempFolder();
    for (const name of ['MILLRACE_PORT', 'MILLRACE_SMTP_PORT']) {
      const { code, errors } = await failedStart({
        dataFolder: join(folder.path, 'data'),
        environment: { MILLRACE_PORT: '0', [name]: String((taken.address() as AddressInfo).port) },
      });
      assert.equal(code, 1);
      assert.match(errors, new RegExp(`EADDRINUSE.*\\d: choose another one with ${name}$`, 'm'));
      assert.ok(!errors.includes('    at '), 'no stack for what a person can change');
    }
    taken.close();
  });

  test('with wrong settings lists all of them by name and changes nothing', async () => {
    await using folder = await createTempFolder();
    const { code, errors } = await failedStart({
      dataFolder: join(folder.path, 'data'),
      environment: {
        MILLRACE_PORT: '99999',
        MILLRACE_SANDBOX: 'maybe',
        MILLRACE_API_KEY: 'short',
        MILLRACE_RUN_DEADLINE: 'soon',
        MILLRACE_PROT: '1',
      },
    });
    assert.equal(code, 1);
    for (const name of ['PORT', 'SANDBOX', 'API_KEY', 'RUN_DEADLINE', 'PROT'])
      assert.ok(errors.includes(`MILLRACE_${name}`), `${name} in ${errors}`);
    await assert.rejects(stat(join(folder.path, 'data')));
  });

  test('prints the API key of the first user once, and keeps it in a file that only its owner can read', async () => {
    await using folder = await createTempFolder();
    const dataFolder = join(folder.path, 'data');
    const first = await Millrace.start({ dataFolder, environment: { MILLRACE_API_KEY: '' } });
    const key = /\n\s+(\S{20,})\n/.exec(first.output.slice(first.output.indexOf('API key')))?.[1] ?? '';
    const file = /also in (\S+)\):/.exec(first.output)?.[1] ?? '';
    try {
      assert.equal((await first.api('GET', '/v1/users/me', undefined, { key })).status, 200);
      assert.equal((await stat(file)).mode & 0o777, 0o600);
      assert.equal((await readFile(file, 'utf8')).trim(), key);
    } finally {
      await first.stop();
    }
    const second = await Millrace.start({ dataFolder, environment: { MILLRACE_API_KEY: '' } });
    try {
      assert.ok(!second.output.includes(key));
      assert.equal((await second.api('GET', '/v1/users/me', undefined, { key })).status, 200);
      assert.equal((await stat(dataFolder)).mode & 0o777, 0o700, 'no other user can look into the folder');
    } finally {
      await second.stop();
    }
  });

  test('on a PostgreSQL that cannot be reached says so', async () => {
    await using folder = await createTempFolder();
    const { code, errors } = await failedStart({
      dataFolder: join(folder.path, 'data'),
      databaseUrl: 'postgres://nobody:secret-word@127.0.0.1:1/none',
    });
    assert.equal(code, 1);
    assert.match(errors, /ECONNREFUSED|reach|connect/i);
    assert.ok(!errors.includes('secret-word'), errors);
  });
});
