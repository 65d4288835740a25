import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, test } from 'node:test';
import { must } from '#lib/assert.ts';
import { runCommand } from '../support/command-line.ts';
import { endWithProcess } from '../support/end-with-process.ts';
import { forEachService, type ServiceClient, testApiKey } from '../support/millrace.ts';
import { programFile } from '../support/program-file.ts';
import { S3Server } from '../support/s3-server.ts';
import { createTempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const storage = await S3Server.start();
after(() => storage[Symbol.asyncDispose]());

/** Answers with where its body was set aside. */
const telling = {
  namespace: 'one',
  code: `export default defineComponent({ async run({ steps, $ }) {
    await $.respond({ status: 200, body: steps.trigger.event.body }); } });`,
};

/** To callers without a key. */
const saidToStrangers = 'the content of files cannot be read or stored; the log of the service says why';

async function endpointOf(by: ServiceClient, owned: Record<string, string> = {}): Promise<string> {
  const { triggers } = await by.createWorkflow({
    ...owned,
    triggers: [{ type: 'http', props: { custom_response: true } }],
    steps: [telling],
  });
  return triggers[0].endpoint_url;
}

async function upload(url: string, body: string) {
  const answer = await fetch(url, { method: 'POST', headers: { 'x-pd-upload-body': '1' }, body });
  return {
    status: answer.status,
    retryAfter: answer.headers.get('retry-after'),
    // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
    body: (await answer.json()) as any,
  };
}

/** What `millrace verify` says about files. */
async function verified(service: ServiceClient): Promise<{ state: string; detail: string }> {
  await using folder = await createTempFolder('verify');
  const environment = { MILLRACE_URL: service.url, MILLRACE_API_KEY: testApiKey };
  const { stdout } = await runCommand({ folder: folder.path, environment }, ['verify', '--json']);
  const checks = JSON.parse(stdout) as { name: string; state: string; detail: string }[];
  return must(
    checks.find(({ name }) => name === 'files'),
    'the check of files',
  );
}

forEachService(
  (fixture) => {
    const bucketOf = async () => (await fixture.service.api('GET', '/readyz')).body.file_bucket;
    // The next store is another instance, which the bucket does not belong to.
    after(() => storage.objects.clear());
    const works = () =>
      waitFor(async () => (await bucketOf()).state === 'ok', { what: 'the bucket to work' });

    test('a body that was acknowledged is in the bucket, and is read from there after a kill', async () => {
      await works();
      const endpoint = await endpointOf(fixture.service);
      const content = 'large '.repeat(400_000);
      const { status, body } = await upload(endpoint, content);
      assert.equal(status, 200, JSON.stringify(body));
      assert.equal(storage.chunkKeys().length, 3);
      await fixture.restart('kill');
      const { pathname, search } = new URL(body.raw_body_url);
      const answer = await fetch(`${fixture.service.url}${pathname}${search}`, {
        headers: { range: 'bytes=6-' },
      });
      assert.equal(answer.status, 206);
      assert.equal(await answer.text(), content.slice(6));
      // Content that is gone is an error that says so, and no download that breaks off.
      storage.objects.delete(must(storage.chunkKeys()[0], 'a chunk'));
      const broken = await fetch(`${fixture.service.url}${pathname}${search}`);
      const said = (await broken.json()) as { code: string; error: string };
      assert.deepEqual([broken.status, said.code], [503, 'files_unavailable']);
      assert.equal(said.error, saidToStrangers);
      const reason = /the content of the file file_\w+ is not in the bucket/;
      await waitFor(() => reason.test(fixture.service.output), { what: 'the reason in the log' });
    });

    test('while the bucket is away uploads are refused and say why, the rest works, and the admin is told', async () => {
      const { service } = fixture;
      await works();
      const endpoint = await endpointOf(service);
      const before = storage.chunkKeys();
      storage.fault = () => ({ status: 403, body: '<Error><Code>AccessDenied</Code></Error>' });
      const refused = await upload(endpoint, 'x');
      assert.deepEqual(
        [refused.status, refused.body.code, refused.retryAfter],
        [503, 'files_unavailable', '5'],
      );
      // Where the bucket is, is nothing for those who may call the endpoint.
      assert.equal(refused.body.error, saidToStrangers);
      assert.deepEqual(storage.chunkKeys(), before);
      // A small body needs no file.
      assert.equal((await fetch(endpoint, { method: 'POST', body: 'small' })).status, 200);
      const ready = await bucketOf();
      assert.deepEqual([ready.bucket, ready.state], ['the-bucket/millrace/', 'failing']);
      assert.match(
        ready.reason,
        /^the bucket the-bucket for files, at 127\.0\.0\.1:\d+, answers PUT with 403 AccessDenied$/,
      );
      assert.ok(Math.abs(ready.since - Date.now() / 1000) < 120);
      assert.equal((await fetch(`${service.url}/readyz`)).status, 200);
      assert.deepEqual(await (await fetch(`${service.url}/readyz`)).json(), { status: 'ready' });
      assert.deepEqual((await service.api('GET', '/v1/instance')).body.data.file_bucket, ready);
      const failing = await verified(service);
      assert.equal(failing.state, 'failed');
      assert.match(
        failing.detail,
        /^fails since 20\d\d-.*: the bucket the-bucket for files, .* 403 AccessDenied$/,
      );
      storage.fault = () => undefined;
      await waitFor(async () => (await upload(endpoint, 'x')).status === 200, {
        what: 'uploads to work again',
      });
      const detail = (await verified(service)).detail;
      assert.match(detail, /^bucket the-bucket\/millrace\/: written, read and removed since 20\d\d-/);
    });

    test('a workspace that is deleted takes its objects along, and nothing of others', async () => {
      const { service } = fixture;
      await works();
      const { id, orgname } = (await service.api('POST', '/v1/workspaces', { name: 'Doomed' })).body.data;
      const own = await endpointOf(service);
      const doomed = await endpointOf(service, { org_id: id });
      for (const url of [own, doomed]) assert.equal((await upload(url, 'x')).status, 200);
      const of = (keys: string[]) => keys.filter((key) => key.startsWith(`millrace/${id}/`)).length;
      assert.equal(of(storage.chunkKeys()), 1);
      const others = storage.chunkKeys().length - 1;
      storage.fault = () => ({ status: 403, body: '<Error><Code>AccessDenied</Code></Error>' });
      const deletion = await service.api('DELETE', `/v1/workspaces/${id}`, { orgname });
      assert.equal(deletion.status, 202, JSON.stringify(deletion.body));
      const found = async () =>
        (await service.api('GET', `/v1/deletions/${deletion.body.data.id}`)).body.data;
      const problem = await waitFor(async () => (await found()).problem, { what: 'the reason why it waits' });
      assert.match(
        problem,
        /^the bucket the-bucket for files, at 127\.0\.0\.1:\d+, answers .* 403 AccessDenied$/,
      );
      const listed = (await service.api('GET', '/v1/deletions')).body.data;
      assert.match(
        listed.find(({ id }: { id: string }) => id === deletion.body.data.id).problem,
        /AccessDenied/,
      );
      storage.fault = () => undefined;
      const done = await waitFor(async () => ((await found()).state === 'done' ? found() : undefined), {
        what: 'the deletion to be done',
      });
      assert.equal(done.problem, null);
      assert.deepEqual([of(storage.chunkKeys()), storage.chunkKeys().length], [0, others]);
    });

    test('a backup says which content it does not have', async () => {
      await works();
      await using folder = await createTempFolder('backup');
      const child = spawn(process.execPath, [programFile('src/admin.ts'), 'backup', join(folder.path, 'b')], {
        env: {
          PATH: process.env.PATH,
          HOME: folder.path,
          MILLRACE_DATA: fixture.dataFolder,
          MILLRACE_BACKUP_PASSPHRASE: 'a passphrase that is long enough',
          ...(fixture.databaseUrl === undefined ? {} : { MILLRACE_DATABASE_URL: fixture.databaseUrl }),
          ...storage.environment,
        },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      endWithProcess(child);
      const [said] = await Promise.all([text(must(child.stdout, 'standard output')), once(child, 'close')]);
      assert.match(said, /^Not in it: the content of \d+ files \(.* [KM]B\) in the bucket the-bucket, /m);
    });

    test('neither the keys of the bucket nor keys of its objects are in the log', async () => {
      const { service } = fixture;
      assert.ok(!service.output.includes(must(storage.environment.MILLRACE_S3_SECRET_KEY, 'the secret')));
      assert.doesNotMatch(service.output, /\/file_\w+\/\d/);
      assert.match(service.output, /files\.bucket-failed/);
    });
  },
  { environment: { ...storage.environment, MILLRACE_LOG_FORMAT: 'json' } },
);
