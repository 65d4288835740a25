import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { stop } from 'esbuild';
import { createTempFolder } from '../../../test/support/temp-folder.ts';
import { BuildFailure } from './build-run.ts';
import { bundle } from './bundle-component.ts';
import { ProvidedTexts } from './provided-texts.ts';

after(() => stop());

test('a pattern in a package, which esbuild expands itself, loads nothing outside the build folder, also without permission flags', async () => {
  await using temp = await createTempFolder('bundle');
  const folder = join(temp.path, 'build');
  await mkdir(join(folder, 'node_modules/tool'), { recursive: true });
  await writeFile(join(temp.path, 'secret.json'), '{"k":"TOP-SECRET"}');
  await writeFile(
    join(folder, 'node_modules/tool/index.js'),
    'module.exports = (n) => require("../../../" + n + ".json")',
  );
  const outcome = await bundle(
    {
      type: 'bundle',
      entry: { path: 'component_code', text: 'import t from "tool"; export default t', loader: 'js' },
      folder,
      aliases: {},
      form: 'inline',
      provided: {},
      providedFolder: join(temp.path, 'provided'),
      projectModules: join(temp.path, 'project'),
      bundleBytesMax: 1_000_000,
    },
    async () => null,
    new ProvidedTexts(),
  ).catch((error: unknown) => error);
  assert.ok(outcome instanceof BuildFailure, JSON.stringify(outcome));
  assert.equal(outcome.problem.code, 'invalid_component_code');
  assert.match(outcome.message, /leaves the folder of the component/);
  assert.doesNotMatch(JSON.stringify(outcome.problem), /TOP-SECRET/);
});

test('a package that does not declare what it imports is named, with what to do about it', async () => {
  await using temp = await createTempFolder('bundle');
  await mkdir(join(temp.path, 'node_modules/@of/actions'), { recursive: true });
  await writeFile(
    join(temp.path, 'node_modules/@of/actions/index.mjs'),
    'import x from "mailer/lib"; export default x;',
  );
  const outcome = await bundle(
    {
      type: 'bundle',
      entry: {
        path: 'component_code',
        text: 'export { default } from "@of/actions/index.mjs"',
        loader: 'js',
      },
      folder: temp.path,
      aliases: {},
      form: 'inline',
      provided: {},
      providedFolder: join(temp.path, 'provided'),
      projectModules: join(temp.path, 'project'),
      bundleBytesMax: 1_000_000,
    },
    async () => null,
    new ProvidedTexts(),
  ).catch((error: unknown) => error);
  assert.ok(outcome instanceof BuildFailure, JSON.stringify(outcome));
  assert.equal(
    outcome.message.replace(/ \(.*\)$/, ''),
    'could not resolve "mailer/lib", which the package "@of/actions" does not declare: import "mailer" in the component too',
  );
});
