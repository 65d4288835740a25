import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { reportError } from './error-report.ts';
import { mapStack, rememberBundle } from './source-map.ts';

const name = '/component/index.cjs';
const stack = `Error: a\n    at run (${name}:2:1)\n    at async /component/index.cjs:2:3\n    at node:internal/x:1:1`;

function bundleWith(map: unknown, code = 'a();\nb();\n'): string {
  const text = typeof map === 'string' ? map : JSON.stringify(map);
  return `${code}//# sourceMappingURL=data:application/json;base64,${Buffer.from(text).toString('base64')}\n`;
}

/** Line 2 is line 5 of component.ts. Line 1 has no source. */
const good = { version: 3, sources: ['component.ts'], names: [], mappings: ';AAIA' };

describe('lines of a stack', () => {
  test('are those of the source where the map of the bundle has them', () => {
    rememberBundle(name, bundleWith(good));
    assert.equal(
      mapStack(stack),
      'Error: a\n    at run (component.ts:5:1)\n    at async component.ts:5:1\n    at node:internal/x:1:1',
    );
    // A line without a mapping after a mapped one is not mapped like that one.
    assert.equal(mapStack(`    at x (${name}:3:1)`), `    at x (${name}:3:1)`);
    assert.equal(mapStack(`    at x (${name}:1:1)`), `    at x (${name}:1:1)`);
  });

  test('are mapped in the causes of an error too', () => {
    rememberBundle(name, bundleWith(good));
    const cause = Object.assign(new Error('deep'), { stack: `Error: deep\n    at a (${name}:2:1)` });
    const report = reportError(Object.assign(new Error('a', { cause }), { stack }));
    assert.match(report.stack, /at run \(component\.ts:5:1\)/);
    assert.match(report.stack, /Caused by: Error: deep\n {4}at a \(component\.ts:5:1\)/);
  });

  test('stay unchanged when there is no map, or a forged one', () => {
    const hostile: unknown[] = [
      '',
      'null',
      '[]',
      '{"version":3',
      { version: 3 },
      { version: 3, sources: 7, mappings: ';AAIA' },
      { version: 3, sources: ['x'], mappings: 42 },
      { version: 3, sources: [], names: [], mappings: ';AAIA' },
      { version: 3, sources: [null], names: [], mappings: ';AAIA' },
      { version: 3, sections: [{ offset: null, map: null }] },
    ];
    for (const map of hostile) {
      rememberBundle(name, bundleWith(map));
      assert.equal(mapStack(stack), stack, JSON.stringify(map).slice(0, 80));
    }
    rememberBundle(name, 'a();\nb();');
    assert.equal(mapStack(stack), stack);
    rememberBundle(name, '');
    assert.equal(mapStack(stack), stack);
  });

  test('are never lost or multiplied by the contents of a map', () => {
    for (const mappings of [
      `;${'!'.repeat(1000)}`,
      ';gggggggggggggggggggggggA',
      ';DDDD',
      ';AAgggggEA',
      ';'.repeat(100_000),
    ]) {
      rememberBundle(name, bundleWith({ version: 3, sources: ['x'], names: [], mappings }));
      assert.equal(mapStack(stack).split('\n').length, 4, mappings.slice(0, 20));
    }
  });

  test('are limited in length whatever names a map has', () => {
    rememberBundle(name, bundleWith({ ...good, sources: ['s'.repeat(1_000_000)] }));
    assert.ok(mapStack(stack).length < 2000);
  });
});
