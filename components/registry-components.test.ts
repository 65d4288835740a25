import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { projectFiles, readCode, readProjectFile } from '../test/support/project-files.ts';
import { importedSpecifiers } from '../test/support/source-text.ts';

/** Every component of the registry, by its path `<app>/<kind>s/<name>.ts`. */
const paths = globSync('*/{sources,actions}/*.ts', { cwd: import.meta.dirname }).filter(
  (path) => !path.endsWith('.test.ts'),
);

test('the registry has the components that are promised', () => {
  const keys = paths.map((path) => path.replace(/^(.*)\/(?:sources|actions)\/(.*)\.ts$/, '$1-$2')).sort();
  assert.deepEqual(keys, [
    'crypto-generate-uuid',
    'crypto-hash',
    'crypto-hmac',
    'csv-create',
    'csv-parse',
    'data_stores-add-update-multiple-records',
    'data_stores-add-update-record',
    'data_stores-append-to-record',
    'data_stores-count-records',
    'data_stores-delete-all-records',
    'data_stores-delete-single-record',
    'data_stores-get-all-records',
    'data_stores-get-difference',
    'data_stores-get-record-or-create',
    'data_stores-has-key-or-create',
    'data_stores-increment-value',
    'data_stores-list-keys',
    'data_stores-list-records',
    'data_stores-search-keys',
    'data_stores-update-ttl',
    'delay-suspend-workflow',
    'delay-until',
    'delay-workflow-delay',
    'email-send-email-to-self',
    'encoding-base64-decode',
    'encoding-base64-encode',
    'encoding-compress',
    'encoding-decompress',
    'filter-continue-based-on-condition',
    'filter-end-based-on-condition',
    'formatting-add-subtract-time',
    'formatting-compare-dates',
    'formatting-convert-html-to-markdown',
    'formatting-convert-html-to-text',
    'formatting-convert-json-to-string',
    'formatting-convert-markdown-to-html',
    'formatting-date-time-format',
    'formatting-extract-by-regular-expression',
    'formatting-extract-email-address',
    'formatting-extract-number',
    'formatting-extract-phone-number',
    'formatting-extract-url',
    'formatting-format-currency',
    'formatting-format-number',
    'formatting-parse-json',
    'formatting-replace-text',
    'formatting-set-default-value',
    'formatting-split-text',
    'formatting-transform-case',
    'formatting-trim-whitespace',
    'formatting-url-decode',
    'formatting-url-encode',
    'http-custom-request',
    'http-delete-request',
    'http-get-request',
    'http-new-requests',
    'http-new-requests-payload-only',
    'http-post-request',
    'http-put-request',
    'http-return-http-response',
    'json-transform',
    'json-validate',
    'list-aggregate',
    'list-filter',
    'list-remove-duplicates',
    'list-sort',
    'list-split-into-batches',
    'number-generate-random',
    'number-parse',
    'number-round',
    'rss-merge-rss-feeds',
    'rss-new-item-in-feed',
    'schedule-cron-schedule',
    'schedule-custom-interval',
    'smtp-send-email',
    'text-render-template',
    'text-truncate',
    'xml-create',
    'xml-parse',
  ]);
});

test('every package that a component imports is a dependency of the service, which an npm registry is not asked for', () => {
  const { dependencies } = JSON.parse(readProjectFile('package.json')) as { dependencies: object };
  const missing = projectFiles()
    .filter((file) => file.startsWith('components/') && file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .flatMap((file) => importedSpecifiers(readCode(file)).map((specifier) => ({ file, specifier })))
    .filter(({ specifier }) => !specifier.startsWith('.') && !isBuiltin(specifier))
    .filter(
      ({ specifier }) => !Object.hasOwn(dependencies, /^(?:@[^/]+\/)?[^/]+/.exec(specifier)?.[0] ?? ''),
    );
  assert.deepEqual(missing, []);
});

for (const path of paths.filter((path) => path.includes('/actions/'))) {
  test(`${path} has an example, and a label and a description for each prop`, async () => {
    const { default: action } = await import(join(import.meta.dirname, path));
    assert.match(action.description, /Example: /);
    for (const [name, prop] of Object.entries<Record<string, unknown>>(action.props)) {
      const [app, inherited = ''] = (prop.propDefinition ?? []) as [
        { propDefinitions: Record<string, object> }?,
        string?,
      ];
      const whole: Record<string, unknown> = { ...app?.propDefinitions[inherited], ...prop };
      if (whole.type === 'app') continue;
      for (const text of ['label', 'description'])
        assert.equal(typeof whole[text], 'string', `${name}.${text}`);
    }
  });
}

for (const path of paths) {
  test(`${path} has a key that is its path, and name, version, description and type`, async () => {
    const { default: component } = await import(join(import.meta.dirname, path));
    const [app, kind, file] = path.split('/');
    assert.equal(component.key, `${app}-${file?.replace(/\.ts$/, '')}`);
    assert.equal(`${component.type}s`, kind);
    assert.match(component.version, /^\d+\.\d+\.\d+$/);
    for (const field of ['name', 'description']) assert.ok(component[field].length > 3, field);
    assert.equal(typeof component.run, 'function');
  });

  test(`${path} has props with labels and descriptions, and an example if it is an action`, async () => {
    const { default: component } = await import(join(import.meta.dirname, path));
    if (component.type !== 'action') return;
    assert.match(component.description, /\bExample: ./);
    assert.doesNotMatch(
      component.description,
      /https?:\/\/(?!example\.)|\]\(|\.$/,
      'no links, and no full stop at the end',
    );
    for (const [name, prop] of Object.entries<Record<string, string>>(component.props)) {
      if (prop.type === 'app') continue;
      for (const field of ['type', 'label', 'description']) assert.ok(prop[field], `${name} has no ${field}`);
    }
  });
}
