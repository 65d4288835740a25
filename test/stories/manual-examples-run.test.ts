import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { blocksOf, commandsOf, outputPattern } from '../support/manual-blocks.ts';
import { ManualSession } from '../support/manual-session.ts';
import { Millrace, testApiKey } from '../support/millrace.ts';
import { startNpmRegistry } from '../support/npm-registry.ts';
import { projectFiles, projectRoot, readProjectFile } from '../support/project-files.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';

/** Pages on which every block is a file, a command, its output, or marked as not run. Each page is tested on its own. */
const pages = projectFiles().filter(
  (file) =>
    /^docs\/guides\/.*\.md$/.test(file) ||
    ['README.md', 'docs/tutorial.md', 'docs/components.md', 'docs/apps.md', 'docs/reference/api.md'].includes(
      file,
    ),
);

/** Generated: an example with curl, and one with the client, of each operation. */
const reference = projectFiles().filter((file) => /^docs\/reference\/api\/.*\.md$/.test(file));

/** What cannot be done in a test: services of the machine, other hosts, other proxies. Grows only with a reason. */
const notRunMax = 15;

/** In place of what is published: the same names, and components that say what the manual shows. */
const published = (version: string) => ({
  name: '@pipedream/slack',
  version,
  files: {
    'slack.app.mjs': 'export default { type: "app", app: "slack", propDefinitions: {}, methods: {} };',
    'actions/send-message/send-message.mjs': `import slack from "../../slack.app.mjs";
      export default { key: "slack-send-message", name: "Send Message", version: "${version === '0.10.3' ? '0.0.19' : '0.0.20'}", type: "action",
        description: "Sends a message", props: { slack, text: { type: "string" } }, run() { return this.text; } };`,
    'sources/new-message/new-message.mjs': `import slack from "../../slack.app.mjs";
      export default { key: "slack-new-message-in-channels", name: "New Message In Channels", version: "0.0.1", type: "source",
        description: "Emits each message", props: { slack, http: "$.interface.http" }, run({ body }) { this.$emit(body); } };`,
  },
});

let service: Millrace;

describe('the manual', () => {
  let folder: TempFolder;
  let registry: Awaited<ReturnType<typeof startNpmRegistry>>;

  before(async () => {
    folder = await createTempFolder('manual');
    registry = await startNpmRegistry(() => [published('0.10.3'), published('0.11.0')]);
    service = await Millrace.start({
      dataFolder: join(folder.path, 'data'),
      environment: { MILLRACE_NPM_REGISTRY: registry.url },
    });
  });
  after(async () => {
    await service?.stop();
    await registry?.close();
    await folder?.remove();
  });

  test('has few blocks that are not run', () => {
    const notRun = pages.flatMap((page) =>
      blocksOf(page, readProjectFile(page)).filter(({ marks }) => marks.has('not-run')),
    );
    assert.ok(notRun.length <= notRunMax, `${notRun.length}: ${notRun.map(({ place }) => place).join(', ')}`);
  });

  test('has an example with curl for each operation, which the service understands', async () => {
    const examples = referenceBlocks('sh');
    assert.ok(examples.length > 140, `${examples.length} examples`);
    // None of these can exist: the names in them belong to no owner.
    const misunderstood = [
      'unknown_path',
      'method_not_allowed',
      'unknown_parameter',
      'invalid_json',
      'missing_parameter',
    ];
    const requests = await requestsOf(examples.map(({ text }) => text));
    assert.equal(requests.length, examples.length);
    for (const [at, { url, method, headers, body }] of requests.entries()) {
      const response = await fetch(url, { method, headers, ...(body === undefined ? {} : { body }) });
      const answer = await response.text();
      const { place } = examples[at] ?? {};
      assert.ok(response.status < 500, `${place}: ${response.status} ${answer}`);
      if (response.status >= 400)
        assert.ok(!misunderstood.includes(JSON.parse(answer).code), `${place}: ${answer}`);
    }
  });

  for (const page of pages) {
    const blocks = blocksOf(page, readProjectFile(page)).filter(({ marks }) => !marks.has('not-run'));
    if (blocks.length === 0) continue;
    test(`${page}: what it says to do works, and prints what it says`, async () => {
      const place = join(folder.path, page.replaceAll('/', '-'));
      await mkdir(place);
      const session = await ManualSession.start(place, service);
      try {
        for (const block of blocks) {
          await session.follow(block).catch((error: unknown) => {
            throw new Error(`${block.place}: ${(error as Error).message}`, { cause: error });
          });
        }
      } finally {
        await session.end();
        await removeVariables();
      }
    });
  }
});

/** The next page lists its own. */
async function removeVariables(): Promise<void> {
  const { body } = await service.api('GET', '/v1/variables?limit=100');
  for (const { name } of body.data) await service.api('DELETE', `/v1/variables/${name}`);
}

test('every example with the client in the reference is what its types say', async () => {
  const folder = await createTempFolder('manual-types');
  try {
    const examples = referenceBlocks('ts').map(
      ({ text }, at) => `export async function example${at}(client: Millrace) {\n${text}\n}`,
    );
    assert.ok(examples.length > 100, `${examples.length} examples`);
    const client = pathToFileURL(join(projectRoot, 'sdk', 'src', 'millrace.ts')).pathname;
    const file = join(folder.path, 'examples.ts');
    await writeFile(file, `import type { Millrace } from '${client}';\n${examples.join('\n')}\n`);
    const options =
      '--noEmit --ignoreConfig --strict --target es2024 --lib es2024,dom,dom.iterable,dom.asynciterable --module nodenext --allowImportingTsExtensions --skipLibCheck --types';
    const tsc = join(projectRoot, 'node_modules', 'typescript', 'bin', 'tsc');
    await promisify(execFile)(process.execPath, [tsc, ...options.split(' '), '', file]).catch(
      (error: { stdout: string }) => assert.fail(error.stdout),
    );
  } finally {
    await folder.remove();
  }
});

/** What a shell hands to curl for each example; options are those that the examples have. */
async function requestsOf(examples: readonly string[]) {
  const script = examples
    .map((text) => text.replaceAll('_…', '_none').replaceAll('…', 'none'))
    .map((text) => `${text}\nprintf '\\0'`)
    .join('\n');
  const { stdout } = await promisify(execFile)('bash', ['-c', `curl() { printf '%s\\0' "$@"; }\n${script}`], {
    env: { URL: service.url, KEY: testApiKey },
  });
  return stdout
    .split('\0\0')
    .slice(0, -1)
    .map((given) => {
      const words = given.split('\0');
      const request = {
        url: '',
        method: 'GET',
        headers: {} as Record<string, string>,
        body: undefined as string | undefined,
      };
      for (let word = words.shift(); word !== undefined; word = words.shift()) {
        if (word === '-X') request.method = words.shift() ?? '';
        else if (word === '-d') request.body = words.shift();
        else if (word === '-H') {
          const [name = '', value = ''] = (words.shift() ?? '').split(': ');
          request.headers[name] = value;
        } else if (word !== '-N') request.url = word;
      }
      return request;
    });
}

function referenceBlocks(language: string) {
  return reference
    .flatMap((page) => blocksOf(page, readProjectFile(page)))
    .filter((block) => block.language === language);
}

test('blocks, commands and outputs are read as users read them', () => {
  const page = 'text\n\n```sh until=a\nx\n```\n\n1. item\n\n   ```text output\n   y\n     z\n   ```\n';
  const [first, second] = blocksOf('p.md', page);
  assert.deepEqual([first?.place, first?.text, first?.marks.get('until')], ['p.md:3', 'x', 'a']);
  assert.deepEqual([second?.text, second?.marks.has('output')], ['y\n  z', true]);
  assert.deepEqual(commandsOf("a \\\n  b\ncat > f <<'X'\n'\nX\nc 'd\ne'\n# no\nf"), [
    'a \\\n  b',
    "cat > f <<'X'\n'\nX",
    "c 'd\ne'",
    'f',
  ]);
  const pattern = outputPattern('dc_…  inbox\n…\nend');
  assert.match('dc_1   inbox\nmore\nmore\nend\n', pattern);
  assert.match('dc_1 inbox\nend', pattern);
  assert.doesNotMatch('dc_1 outbox\nend', pattern);
  assert.doesNotMatch('dc_1 inbox\nend\nmore', pattern);
});
