import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { stop } from 'esbuild';
import { readHead } from './read-head.ts';

after(() => stop());

const whole = { type: 'action', key: 'a-b', name: 'N', version: '0.0.1' };

for (const [what, path, text, expected] of [
  ['a module', 'x.mjs', 'export default { type: "action", key: "a-b", name: "N", version: "0.0.1" }', whole],
  [
    'CommonJS',
    'x.js',
    "module.exports = { 'type': 'action', 'key': 'a-b', name: `N`, version: '0.0.' + '1' }",
    whole,
  ],
  [
    'TypeScript in a function, with constants',
    'x.ts',
    'const key = "a-b" as const, v: string = "0.0.1"; export default defineAction({ key, version: v, name: "N", type: "action" } satisfies X)',
    whole,
  ],
  [
    'an object by its name, exported under another',
    'x.mjs',
    'const it = { ...base, type: "action", key: "a-b", name: "N", version: "0.0.1" }; export { it as default }',
    whole,
  ],
  [
    'braces, quotes and slashes where they mean nothing',
    'x.mjs',
    `// export default { key: "no" }
    const a = b / 2, r = /["{\\]}]/g, t = \`{\${ { key: "no", n: \`}\` }.n }\`;
    export default { props: { key: { type: "string" } }, methods: { get() { return a / 1 } }, type: "action", key: "a-b",
      async run() { return { key: "no", version: "no" } }, name: "N", version: "0.0.1" }`,
    whole,
  ],
  [
    'what is computed is not known',
    'x.mjs',
    'export default { key: "a-" + b, name: n(), type: "app", app: "s" }',
    { type: 'app', app: 's' },
  ],
  ['no object', 'x.mjs', 'export const a = { key: "a-b" }', null],
] as const) {
  test(`the head of a component is read without running it: ${what}`, async () => {
    assert.deepEqual(await readHead({ path, text }), { head: expected });
  });
}

test('a text that does not parse is reported with its place', async () => {
  const { head, problem } = await readHead({ path: 'x.mjs', text: 'export default {\n  key: ,\n}' });
  assert.equal(head, null);
  assert.match(problem ?? '', /\(2:8\)$/);
});

test('slashes that look like the beginning of a pattern do not make reading slow', async () => {
  const text = `const x = [${'a.of/"[",'.repeat(100_000)}]; export default { key: "a-b", type: "action" }`;
  const began = process.cpuUsage();
  assert.deepEqual((await readHead({ path: 'x.mjs', text })).head, { key: 'a-b', type: 'action' });
  assert.ok(process.cpuUsage(began).user < 20e6, 'each of them once took a look at the whole line');
});
