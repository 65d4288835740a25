/** The npm package, as a user has it who has no clone: made, packed, installed by npm, and run. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir, readFile, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { Millrace } from '../support/millrace.ts';
import { startNpmRegistry } from '../support/npm-registry.ts';
import { npm, packageFolder, packService } from '../support/packed-service.ts';
import { projectRoot } from '../support/project-files.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

/** Bytes of the installed package with all that npm installs for it, but for Node itself. */
const installedBytesMax = 60_000_000;

/** Making the package and an install that writes 260 MB take minutes on a machine that is busy. */
const patienceMs = 900_000;

const greeter = `
import { axios } from '@pipedream/platform';
import greet from 'greet-loudly@1.0.0';
export default {
  props: { http: { type: '$.interface.http', customResponse: true } },
  async run({ query }) {
    this.http.respond({ status: 200, body: greet(query.name) });
    this.$emit({ name: query.name, axios: typeof axios });
  },
};`;

describe('the npm package', { timeout: patienceMs }, () => {
  let folder: TempFolder;
  let installed: string;
  let program: string;

  before(
    async () => {
      folder = await createTempFolder('package');
      const tarball = await packService(folder.path);
      const prefix = join(folder.path, 'prefix');
      await npm(['install', '--global', '--prefix', prefix, tarball]);
      installed = join(prefix, 'lib', 'node_modules', 'millrace');
      program = join(prefix, 'bin', 'millrace');
    },
    { timeout: patienceMs },
  );
  after(() => folder.remove());

  test('holds no TypeScript, no tests, no maps and no path of the machine that made it', async () => {
    const problems: string[] = [];
    const made = await packageFolder();
    for (const entry of await readdir(made, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const path = join(entry.parentPath, entry.name).slice(made.length + 1);
      if (/\.tsx?$|\.map$|\.test\.|(^|\/)node_modules\//.test(path)) problems.push(path);
      const text = await readFile(join(made, path), 'latin1');
      for (const place of [projectRoot, projectRoot.replace(/\/$/, ''), join(homedir(), '.')])
        if (place !== '/' && place.length > 5 && text.includes(place))
          problems.push(`${path} names ${place}`);
      if (/\n\/\/# sourceMappingURL=\S+\s*$/.test(text)) problems.push(`${path} names a source map`);
      const code = /[^\n]{0,40}[\u0080-\u00ff]/.exec(/^lib\/[^/]*\.mjs$/.test(path) ? text : '');
      // V8 would keep all of its text with two bytes for each character, 4 MB for as long as the service runs.
      if (code !== null)
        problems.push(`${path} is not ASCII (write \\u2026 in a regular expression): ${code[0]}`);
    }
    assert.deepEqual(problems, []);
  });

  test('is installed without what only development needs, in less than 60 MB beside Node', async () => {
    const bytes = { node: 0, rest: 0 };
    for (const entry of await readdir(installed, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const path = join(entry.parentPath, entry.name);
      const isNode = /\/node_modules\/node-(bin-)?(linux|darwin|win)-/.test(path);
      bytes[isNode ? 'node' : 'rest'] += (await stat(path)).size;
    }
    assert.ok(bytes.rest < installedBytesMax, `${bytes.rest} bytes`);
    assert.ok(bytes.node > 50_000_000, 'it comes with the Node that it runs on');
    const packages = await readdir(join(installed, 'node_modules'));
    for (const name of ['typescript', 'vite', 'react', '@npmcli', 'pg', 'playwright-core'])
      assert.ok(!packages.includes(name), `${name} is installed`);
  });

  test('starts, builds and runs components, serves dashboard and manual, and stops', async () => {
    const registry = await startNpmRegistry(() => [
      {
        name: 'greet-loudly',
        version: '1.0.0',
        files: { 'index.js': "module.exports = (name) => 'HELLO ' + name;" },
      },
    ]);
    const service = await Millrace.start({
      dataFolder: join(folder.path, 'data'),
      program: [program],
      environment: { MILLRACE_NPM_REGISTRY: registry.url },
    });
    try {
      const source = await service.createSource({ component_code: greeter });
      const answer = await fetch(`${source.configured_props.http.endpoint_url}?name=Ada`);
      assert.equal(await answer.text(), 'HELLO Ada');
      const [event] = await waitFor(async () => {
        const events = await service.events(source.id);
        return events.length > 0 && events;
      });
      assert.deepEqual(event.event, { name: 'Ada', axios: 'function' });

      // A component of the registry that comes with it, which imports packages of the service.
      const workflow = await service.createWorkflow({
        triggers: [{ type: 'http', props: { custom_response: true } }],
        steps: [
          {
            namespace: 'text',
            component: 'formatting-convert-html-to-markdown',
            props: { input: '<h1>Made</h1>' },
          },
          {
            namespace: 'answer',
            component: 'http-return-http-response',
            props: { resStatusCode: 200, resBody: '{{steps.text.$return_value}}' },
          },
        ],
      });
      const converted = await fetch(workflow.triggers[0].endpoint_url);
      assert.match(await converted.text(), /^# Made|^Made\n=+/);

      const page = await waitFor(async () => {
        const text = await (await fetch(service.url, { headers: { accept: 'text/html' } })).text();
        return /<script type="module"[^>]* src="([^"]+)"/.exec(text)?.[1];
      });
      const statuses = await Promise.all(
        [page, '/docs/tutorial', '/docs/changelog', '/docs/api', '/docs/api/static/swagger-ui.css'].map(
          async (path) => [path, (await fetch(new URL(path, service.url))).status],
        ),
      );
      assert.deepEqual(
        statuses.filter(([, status]) => status !== 200),
        [],
      );
      assert.equal(await service.stop(), 0);
    } finally {
      await service.kill();
      await registry.close();
    }
  });

  test('has the command line, which finds the data of its user from any folder', async () => {
    const run = promisify(execFile);
    const environment = {
      PATH: process.env.PATH,
      HOME: folder.path,
      XDG_DATA_HOME: join(folder.path, 'share'),
    };
    const { stdout: version } = await run(program, ['--version'], { env: environment, cwd: '/' });
    assert.match(version, /^\d+\.\d+\.\d+\n$/);
    const failed = run(program, ['user', 'list'], { env: environment, cwd: '/' });
    await assert.rejects(failed, (error: { stderr: string }) =>
      error.stderr.includes(`there is no data folder ${join(folder.path, 'share', 'millrace')}`),
    );
    const help = await run(program, ['help'], { env: environment, cwd: '/' });
    assert.match(help.stdout, /^ {2}start /m);
  });
});
