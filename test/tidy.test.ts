import assert from 'node:assert/strict';
import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { projectFiles, projectRoot, readCode, readProjectFile } from './support/project-files.ts';
import { lineOf } from './support/source-text.ts';

/** What no file may contain; written in two halves, so that this one does not. */
const unwanted: { what: string; pattern: RegExp }[] = [
  { what: 'a path of one machine', pattern: new RegExp(`/${'work'}/|\\.\\./${'shared'}\\b|/${'root'}/`) },
  {
    what: 'a package registry of someone else',
    pattern: new RegExp(`${'registry'}\\.(?:npmjs|yarnpkg|npmmirror)`),
  },
  { what: 'the number of an issue', pattern: new RegExp(`\\b${'issue'}s? ?#\\d+`, 'i') },
  { what: 'the marks of a merge', pattern: /^(?:<{7}|>{7}|\|{7}) /m },
  {
    what: 'who or what typed it',
    pattern: new RegExp(`\\b(?:${'co-authored'}-by|generated ${'with'}|session${'_'}id)\\b`, 'i'),
  },
];

const bytesMax = 1_000_000;
const files = projectFiles();
const isText = (file: string): boolean =>
  /\.(ts|mjs|cjs|js|json|md|sh|yml|yaml|html|css|txt)$|^[^.]+$|^\.[a-z/]+$/.test(file);

test('no file mentions a machine, a foreign registry, or how it came to be', () => {
  const problems: string[] = [];
  for (const file of files.filter(isText)) {
    const text = readProjectFile(file);
    for (const { what, pattern } of unwanted) {
      const match = pattern.exec(text);
      if (match !== null) problems.push(`${file}:${lineOf(text, match.index)}: ${what}: ${match[0]}`);
    }
  }
  assert.equal(problems.length, 0, problems.join('\n'));
});

test('no file is large enough to be there by mistake', () => {
  const large = files.filter((file) => statSync(join(projectRoot, file)).size > bytesMax);
  assert.deepEqual(large, []);
});

test('no test is singled out', () => {
  const only = files
    .filter((file) => file.endsWith('.test.ts'))
    .filter((file) => /\b(?:test|it|describe)\.only\(|\bonly: true\b/.test(readCode(file)));
  assert.deepEqual(only, []);
});

test('every link between our pages leads somewhere, and every npm script they name exists', () => {
  const { scripts } = JSON.parse(readProjectFile('package.json')) as { scripts: Record<string, string> };
  const problems: string[] = [];
  for (const file of files.filter((name) => name.endsWith('.md'))) {
    const text = readProjectFile(file);
    for (const [, link = ''] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:|^#/.test(link)) continue;
      if (!existsSync(join(projectRoot, dirname(file), link.replace(/#.*$/, ''))))
        problems.push(`${file}: ${link}`);
    }
    for (const [, script = ''] of text.matchAll(/\bnpm run ([a-z:-]+)/g)) {
      if (!(script in scripts)) problems.push(`${file}: npm run ${script}`);
    }
  }
  assert.deepEqual(problems, []);
});
