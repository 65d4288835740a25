import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { Webhook } from 'standardwebhooks';
import { clientVersion } from '../sdk/src/version.ts';
import { chromiumSkip, openChromium } from './support/chromium.ts';
import { HttpReceiver } from './support/http-receiver.ts';
import { useSharedService } from './support/millrace.ts';
import { projectRoot, readProjectFile } from './support/project-files.ts';
import { createTempFolder, type TempFolder } from './support/temp-folder.ts';

const run = promisify(execFile);
const tsc = join(projectRoot, 'node_modules', 'typescript', 'bin', 'tsc');

/** Compressed size of nothing but the webhook verification, and of all of the client, minified. Bytes. */
const verificationBytesMax = 2_500;
const clientBytesMax = 15_000;

const emitter = `export default { name: 'Emitter', props: { http: '$.interface.http' },
  run({ body }) { this.$emit(body); } };`;

/** Uses the client as a program anywhere would; answers what it saw. Also sent to the browser, as text. */
const program = `
async function use({ Millrace, MillraceError, verifyWebhook }, { url, apiKey, sourceId, endpoint, webhook }) {
  const client = new Millrace({ url, apiKey });
  const { id } = await client.users.me();
  const error = await client.sources.get('dc_none').catch((thrown) => thrown);
  const names = [];
  for await (const app of client.apps.list({ limit: 50 })) names.push(app.slug);
  let isThere = false;
  const emit = async () => {
    while (!isThere) {
      await fetch(endpoint, { method: 'POST', body: '{"n":1}', headers: { 'content-type': 'application/json' } });
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  };
  const emitting = emit();
  let event;
  for await (const message of client.events.streamOfSource(sourceId)) {
    event = message.data.event;
    isThere = true;
    break;
  }
  await emitting;
  const verified = await verifyWebhook(webhook);
  return {
    user: id.slice(0, 2), apps: names.length > 50, event, verified: verified.event,
    error: [error instanceof MillraceError, error.status, error.code],
  };
}`;
const expected = {
  user: 'u_',
  apps: true,
  event: { n: 1 },
  verified: { n: 2 },
  error: [true, 404, 'not_found'],
};

describe('the client as it is published', () => {
  let folder: TempFolder;
  /** As npm would install it. */
  let packageFolder: string;
  const fixture = useSharedService();
  let inputs: Record<string, unknown>;

  before(async () => {
    folder = await createTempFolder('client-build');
    packageFolder = join(folder.path, 'node_modules', '@millrace', 'client');
    await mkdir(packageFolder, { recursive: true });
    await run(process.execPath, [tsc, '-p', 'sdk/tsconfig.json', '--outDir', join(packageFolder, 'dist')], {
      cwd: projectRoot,
    }).catch((error) => assert.fail(`${error.stdout}${error.stderr}`));
    for (const file of ['package.json', 'README.md'])
      await cp(join(projectRoot, 'sdk', file), join(packageFolder, file));
    const { service } = fixture;
    const source = await service.createSource({ component_code: emitter });
    const endpoint: string = source.configured_props.http.endpoint_url;
    const secret = `whsec_${Buffer.from('a secret for this test alone').toString('base64')}`;
    const signedAt = new Date();
    const headers = {
      'webhook-id': 'dlv_1',
      'webhook-timestamp': String(Math.floor(signedAt.getTime() / 1000)),
      'webhook-signature': new Webhook(secret).sign('dlv_1', signedAt, '{"n":2}'),
    };
    inputs = {
      url: service.url,
      apiKey: service.key,
      sourceId: source.id,
      endpoint,
      webhook: { secret, headers, body: '{"n":2}' },
    };
  });
  after(async () => {
    await folder?.remove();
  });

  async function files(extension: string): Promise<string[]> {
    const all = await readdir(join(packageFolder, 'dist'), { recursive: true });
    return all.filter((file) => file.endsWith(extension)).map((file) => join(packageFolder, 'dist', file));
  }

  test('has what its package.json promises, and the version of the service', async () => {
    const manifest = JSON.parse(readProjectFile('sdk/package.json')) as Record<string, unknown> & {
      exports: Record<string, Record<string, string>>;
    };
    const { version } = JSON.parse(readProjectFile('package.json')) as { version: string };
    assert.deepEqual([manifest.version, clientVersion], [version, version]);
    for (const field of ['dependencies', 'peerDependencies', 'optionalDependencies', 'scripts'])
      assert.equal(manifest[field], undefined, field);
    for (const target of Object.values(manifest.exports).flatMap((one) => Object.values(one)))
      assert.ok((await readFile(join(packageFolder, target), 'utf8')).length > 0, target);
    assert.equal((await files('.js')).length, (await files('.d.ts')).length);
  });

  test('needs nothing but Web standards: no module of Node, no package, no global of Node', async () => {
    for (const file of await files('.js')) {
      const text = await readFile(file, 'utf8');
      const code = text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/^\s*\/\/.*$/gm, '');
      assert.doesNotMatch(
        code,
        /['"]node:|\brequire\(|\bprocess\.|\bBuffer\b|\bglobal\b|\bsetImmediate\b|__dirname/,
        file,
      );
      for (const [, specifier = ''] of code.matchAll(/\bfrom\s+['"]([^'"]+)['"]|\bimport\(/g))
        assert.match(specifier, /^\.\.?\/.*\.js$/, file);
    }
  });

  test('runs in a plain Node script', async () => {
    const script = `import * as client from '@millrace/client';
      import { verifyWebhook } from '@millrace/client/webhooks';
      ${program}
      if (verifyWebhook !== client.verifyWebhook) throw new Error('two of them');
      console.log(JSON.stringify(await use(client, JSON.parse(process.argv[2]))));`;
    const file = join(folder.path, 'script.mjs');
    await writeFile(file, script);
    const { stdout } = await run(process.execPath, [file, JSON.stringify(inputs)]);
    assert.deepEqual(JSON.parse(stdout), expected);
  });

  test('has types that a strict program sees, in the ways TypeScript has to find them', async () => {
    await writeFile(
      join(folder.path, 'typed.ts'),
      `import { Millrace, type Source, MillraceError, type StreamMessage, type StreamedEvent } from '@millrace/client';
      import { verifyWebhook } from '@millrace/client/webhooks';
      export async function use(client: Millrace): Promise<string[]> {
        const sources: Source[] = await client.sources.list({ limit: 5 }).take(5);
        const source = await client.sources.create({ key: 'x', name: 'y' });
        // @ts-expect-error a field that there is not
        await client.sources.create({ nam: 'y' });
        // @ts-expect-error an id is a text
        await client.sources.get(5);
        for await (const message of client.events.streamOfSource<{ n: number }>(source.id)) {
          const typed: StreamMessage<StreamedEvent<{ n: number }>> = message;
          if (typed.type === 'event') return [typed.data.event.n.toFixed(), typed.data.metadata.emitter_id];
        }
        const { event } = await verifyWebhook<{ n: number }>({ secret: 'x', headers: {}, body: '' });
        const code: string = new MillraceError({} as never).code;
        return [...sources.map(({ name }) => name), event.n.toFixed(), code];
      }`,
    );
    const strict = '--noEmit --strict --exactOptionalPropertyTypes --target es2022 --lib es2022,dom'.split(
      ' ',
    );
    for (const [module, resolution] of [
      ['nodenext', 'nodenext'],
      ['esnext', 'bundler'],
    ]) {
      const options = [
        ...strict,
        '--module',
        module ?? '',
        '--moduleResolution',
        resolution ?? '',
        '--types',
        '',
      ];
      await run(process.execPath, [tsc, ...options, join(folder.path, 'typed.ts')], {
        cwd: folder.path,
      }).catch((error) => assert.fail(`${resolution}: ${error.stdout}${error.stderr}`));
    }
  });

  test('is small in a bundle for browsers, and only what is used is in it', async () => {
    const bundled = async (contents: string) => {
      const { outputFiles } = await build({
        stdin: { contents, resolveDir: folder.path },
        ...{ bundle: true, minify: true, format: 'esm', platform: 'browser', write: false },
      });
      const text = outputFiles[0]?.text ?? '';
      const stream = new Blob([text]).stream().pipeThrough(new CompressionStream('gzip'));
      return { text, bytes: (await new Response(stream).arrayBuffer()).byteLength };
    };
    const verification = await bundled(`export { verifyWebhook } from '@millrace/client';`);
    assert.doesNotMatch(verification.text, /event_summaries|event-stream/);
    assert.ok(verification.bytes < verificationBytesMax, `${verification.bytes} bytes`);
    const whole = await bundled(`export * from '@millrace/client';`);
    assert.ok(whole.bytes < clientBytesMax, `${whole.bytes} bytes`);
  });

  test('runs in a browser', { skip: chromiumSkip() }, async () => {
    // A page may ask only its own origin: everything of the service is passed on.
    await using server = await HttpReceiver.start();
    server.answerAlways(async ({ method, url, headers, body }, response) => {
      if (url === '/result') return {};
      if (url === '/') return { headers: { 'content-type': 'text/html' }, body: page };
      if (url.startsWith('/client/')) {
        const text = await readFile(join(packageFolder, 'dist', url.slice('/client/'.length)), 'utf8');
        return { headers: { 'content-type': 'text/javascript' }, body: text };
      }
      const { authorization = '', 'content-type': type = 'text/plain' } = headers;
      const gone = new AbortController();
      response.on('close', () => gone.abort());
      const answer = await fetch(fixture.service.url + url, {
        method,
        signal: gone.signal,
        headers: { authorization, 'content-type': type },
        ...(body.length > 0 ? { body: new Uint8Array(body) } : {}),
      });
      response.writeHead(answer.status, {
        'content-type': answer.headers.get('content-type') ?? 'text/plain',
      });
      try {
        for await (const chunk of answer.body ?? []) response.write(chunk);
      } catch {
        // The page is gone, and its stream with it.
      }
      response.end();
      return undefined;
    });
    const { pathname } = new URL(String(inputs.endpoint));
    const ours = { ...inputs, url: server.url, endpoint: pathname };
    const page = `<!doctype html><script type="module">
      import * as client from '/client/millrace.js';
      ${program}
      const tell = (result) => fetch('/result', { method: 'POST', body: JSON.stringify(result) });
      use(client, ${JSON.stringify(ours)}).then(tell, (error) => tell({ failed: String(error) }));
    </script>`;
    const browser = await openChromium();
    after(() => browser.close());
    await (await browser.newPage()).goto(server.url);
    for (let n = 1; ; n += 1) {
      const request = await server.waitForRequest(n, 60_000);
      if (request.url !== '/result') continue;
      assert.deepEqual(request.json(), expected);
      const agents = server.requests
        .filter(({ url }) => url.startsWith('/v1/'))
        .map((one) => one.headers['user-agent']);
      assert.ok(agents.every((agent) => agent?.startsWith('Mozilla/')));
      break;
    }
  });
});
