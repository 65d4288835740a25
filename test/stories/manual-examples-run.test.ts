import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { blocksOf, commandsOf, outputPattern } from '../support/manual-blocks.ts';
import { halfOfPages, manualPages, testPages, useManualService } from '../support/manual-pages.ts';
import { testApiKey } from '../support/millrace.ts';
import { projectFiles, projectRoot, readProjectFile } from '../support/project-files.ts';
import { createTempFolder } from '../support/temp-folder.ts';

/** Generated: an example with curl, and one with the client, of each operation. */
const reference = projectFiles().filter((file) => /^docs\/reference\/api\/.*\.md$/.test(file));

/** What cannot be done in a test: services of the machine, other hosts, other proxies. Grows only with a reason: ways to install are tried by drills. */
const notRunMax = 43;

describe('the manual', () => {
  const manual = useManualService();

  test('has few blocks that are not run', () => {
    const notRun = manualPages.flatMap((page) =>
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
    const requests = await requestsOf(
      manual.service.url,
      examples.map(({ text }) => text),
    );
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

  testPages(halfOfPages(0), manual);
});

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
async function requestsOf(serviceUrl: string, examples: readonly string[]) {
  const script = examples
    .map((text) => text.replaceAll('_…', '_none').replaceAll('…', 'none'))
    .map((text) => `${text}\nprintf '\\0'`)
    .join('\n');
  const { stdout } = await promisify(execFile)('bash', ['-c', `curl() { printf '%s\\0' "$@"; }\n${script}`], {
    env: { URL: serviceUrl, KEY: testApiKey },
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
