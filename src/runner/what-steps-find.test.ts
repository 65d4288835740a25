import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { AddressPolicy } from '#egress/address-policy.ts';
import { CallerError } from '#lib/errors.ts';
import { FakeFiles } from '../../test/support/fake-files.ts';
import { type RunnerFixture, resultOf, startRunnerFixture } from '../../test/support/runner-fixture.ts';
import type { CallOutcome } from './call-outcome.ts';
import type { HostCall, HostCallAnswer, StepCall } from './runner.ts';

const stepCall = (steps: object = { trigger: { event: {} } }, scratch = 'r_1'): StepCall => ({
  kind: 'step',
  steps: JSON.stringify(steps),
  context: '{"id":"r_1"}',
  resumeUrl: 'https://x.example/resume',
  cancelUrl: 'https://x.example/cancel',
  scratch,
});

function returned(outcome: CallOutcome): unknown {
  assert.equal(outcome.status, 'finished', JSON.stringify(outcome.error));
  return JSON.parse(outcome.step?.exports ?? '{}').$return_value;
}

describe('what a step finds under this and $', () => {
  let fixture: RunnerFixture;
  let modules = 0;
  const files = new FakeFiles();
  const held = new Map<string, string>();

  const onHostCall = async ({ kind, header, body }: HostCall): Promise<HostCallAnswer> => {
    if (kind === 'file') return files.hostCall(kind, header, body);
    assert.equal(kind, 'data_store');
    if (header.store !== 'ds_mine') throw new CallerError('not_found', 'there is no such data store');
    const key = String(header.key);
    if (header.op === 'set') held.set(key, body.toString());
    else if (header.op === 'get')
      return { header: { found: held.has(key) }, body: Buffer.from(held.get(key) ?? '') };
    else if (header.op === 'entries') {
      const entries = [...held].map(([name, value]): unknown => [name, JSON.parse(value)]);
      return { header: {}, body: Buffer.from(JSON.stringify(entries)) };
    }
    return { header: {} };
  };

  before(async () => {
    fixture = await startRunnerFixture({
      policy: new AddressPolicy({ allow: ['local'], deny: () => [] }),
    });
  });
  after(() => fixture.close());

  /** Runs a step whose component has `props` and whose `run({ steps, $ })` is `body`, in one process for all steps. */
  const step = (props: string, body: string, values: object = {}, call: StepCall = stepCall()) =>
    fixture.call(
      `const fs = require('fs'); module.exports = { props: ${props}, async run({ steps, $ }) { ${body} } };`,
      {
        call,
        ...{ deploymentId: 'd_steps', module: `c_${++modules}` },
        props: values as Record<string, unknown>,
      },
      { onHostCall },
    );

  test('a data store keeps values for the next step', async () => {
    const props = `{ data: 'data_store' }`;
    const mine = { data: { id: 'ds_mine' } };
    const written = await step(
      props,
      `await this.data.set('a', { n: 1 }, { ttl: 60 }); return this.data.get('b');`,
      mine,
    );
    assert.equal(returned(written), undefined);
    const read = await step(
      props,
      `const all = []; for await (const entry of this.data) all.push(entry); return [await this.data.get('a'), all];`,
      mine,
    );
    assert.deepEqual(returned(read), [{ n: 1 }, [['a', { n: 1 }]]]);
    const foreign = await step(props, `return this.data.get('a');`, { data: { id: 'ds_other' } });
    assert.equal(foreign.error?.message, 'there is no such data store');
    // The service knows which store is the default. This service has none.
    const none = await step(props, `return this.data.get('a');`);
    assert.equal(none.error?.message, 'there is no such data store');
  });

  test('$.files holds large files, which can be copied to and from /tmp', async () => {
    const body = `
      fs.writeFileSync('/tmp/in', Buffer.alloc(3_000_000, 'ab'));
      const file = await $.files.open('out/large.bin').fromFile('/tmp/in', 'a/b');
      await $.files.openDescriptor(JSON.parse(JSON.stringify(file))).toFile('/tmp/again');
      const names = [];
      for await (const entry of $.files.dir('out')) names.push([entry.name, entry.size]);
      return { file, same: fs.readFileSync('/tmp/in').equals(fs.readFileSync('/tmp/again')), names };`;
    assert.deepEqual(returned(await step('{}', body)), {
      file: { path: 'out/large.bin', name: 'large.bin' },
      same: true,
      names: [['large.bin', 3_000_000]],
    });
    assert.equal(files.folder('files').get('out/large.bin')?.body.length, 3_000_000);
    const missing = await step('{}', `return $.files.open('nothing').toBuffer();`);
    assert.deepEqual(
      [missing.error?.code, missing.error?.message],
      ['ENOENT', '$.files: there is no file nothing'],
    );
  });

  test('a dir prop with sync copies its stash into the /tmp of the run, and back', async () => {
    files.put('stash_9', 'in/a.txt', 'from the stash');
    const outcome = await step(
      `{ dir: { type: 'dir', accessMode: 'read-write', sync: true } }`,
      `fs.writeFileSync('/tmp/made.txt', 'made'); return [fs.readFileSync('/tmp/in/a.txt', 'utf8'), await this.dir.open('in/a.txt').toEncodedString()];`,
      { dir: { id: 'stash_9' } },
      stepCall({ trigger: {} }, 'r_sync'),
    );
    assert.deepEqual(returned(outcome), ['from the stash', 'from the stash']);
    assert.deepEqual([...files.folder('stash_9').keys()].sort(), ['in/a.txt', 'made.txt']);
    assert.equal(String(files.folder('stash_9').get('made.txt')?.body), 'made');
  });

  test('an http_request makes its request with evaluated expressions', async () => {
    const server = createServer((request, response) => {
      const isMissing = request.url === '/missing';
      response.writeHead(isMissing ? 404 : 200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ url: request.url, token: request.headers.authorization }));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    try {
      const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const props = `{ httpRequest: { type: 'http_request', default: { method: 'POST' } } }`;
      const steps = { trigger: { event: { id: 7 } } };
      const config = {
        url: `${origin}/things/{{steps.trigger.event.id}}`,
        auth: { type: 'bearer', token: 't' },
      };
      const body = 'return await this.httpRequest.execute();';
      const whole = returned(await step(props, body, { httpRequest: config }, stepCall(steps))) as object;
      assert.deepEqual(Object.keys(whole), ['status', 'statusText', 'headers', 'data']);
      assert.deepEqual((whole as { data: unknown }).data, { url: '/things/7', token: 'Bearer t' });
      const failed = await step(props, body, { httpRequest: { url: `${origin}/missing` } });
      assert.deepEqual(
        [failed.error?.message, failed.error?.code],
        ['Request failed with status code 404', 'ERR_BAD_REQUEST'],
      );
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });

  test('a query gets values as params, never as SQL', async () => {
    const name = "x'; DROP TABLE users; --";
    const outcome = await step(
      `{ sql: { type: 'sql', auth: { app: 'postgresql' } } }`,
      `return [this.sql.query, this.sql.params];`,
      { sql: { app: 'postgresql', query: "SELECT * FROM users WHERE name = '{{steps.a.name}}'" } },
      stepCall({ trigger: {}, a: { name } }),
    );
    assert.deepEqual(returned(outcome), ['SELECT * FROM users WHERE name = $1', [name]]);
  });

  test('a source has data stores and files too, and synchronizes a dir around its run', async () => {
    files.put('stash_source', 'in.txt', 'from the stash');
    const source = `const fs = require('fs'); module.exports = {
      props: { data: 'data_store', dir: { type: 'dir', accessMode: 'write' }, mirror: { type: 'dir', sync: true } },
      async run() {
        await this.data.set('seen', fs.readFileSync('/tmp/in.txt', 'utf8'));
        fs.writeFileSync('/tmp/out.txt', 'from the run');
        const file = await this.dir.open('kept.txt').fromReadableStream(require('stream').Readable.from(['kept']), 'text/plain', 4);
        return [await this.data.get('seen'), file.toJSON().path];
      } };`;
    const props = { data: 'ds_mine', mirror: { id: 'stash_source' } };
    const outcome = await fixture.call(source, { props }, { onHostCall });
    assert.deepEqual(resultOf(outcome), ['from the stash', 'kept.txt']);
    assert.equal(String(files.folder('files').get('kept.txt')?.body), 'kept');
    assert.equal(String(files.folder('stash_source').get('out.txt')?.body), 'from the run');
    const alone = await fixture.call(source, { props: { data: 'ds_mine' } });
    assert.match(alone.error?.message ?? '', /in\.txt/, 'a dir without a value is not mirrored');
  });
});
