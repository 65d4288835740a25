import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { wrapFirstGeneration } from './first-generation.ts';

interface Step {
  run(context: { steps: object; $: object }): Promise<unknown>;
}

/** Runs wrapped code as a step would; what it did. */
async function ran(code: string) {
  const wrapped = wrapFirstGeneration(code);
  assert.ok(wrapped !== undefined);
  const done: unknown[] = [];
  const $ = {
    respond: (response: unknown) => void done.push(['respond', response]),
    export: (name: string, value: unknown) => void done.push(['export', name, value]),
    flow: { exit: (reason: unknown) => void done.push(['exit', reason]) },
    send: { http: (request: unknown) => void done.push(['http', request]) },
  };
  const source = wrapped.code.replace('export default defineComponent(', 'return (');
  const step = new Function(source)() as Step;
  const result = await step.run({ steps: { trigger: { event: { n: 2 } }, before: { x: 3 } }, $ });
  return { result, done, missing: wrapped.missing };
}

describe('a code step of the first generation', () => {
  test('that is a function is called with what its parameters name, and its exports are kept', async () => {
    const code = `// a comment
      async (event, steps) => {
        this.kept = event.n;
        $respond({ status: 201 });
        $send.http({ url: "x" });
        if (event.n > 100) $end("too many");
        return steps.before.x * event.n;
      };`;
    assert.deepEqual(await ran(code), {
      result: 6,
      missing: [],
      done: [
        ['respond', { status: 201 }],
        ['http', { url: 'x' }],
        ['export', 'kept', 2],
      ],
    });
    assert.equal((await ran('async (event) => event.n')).result, 2);
    assert.equal((await ran('async (event) => event.n; // and no more')).result, 2);
    assert.equal((await ran('async function step(event, steps) { return steps.before.x }')).result, 3);
    assert.equal((await ran('async () => { return $event.n }')).result, 2);
  });

  test('that is the body of one is a function', async () => {
    const { result, done } = await ran('const twice = event.n * 2;\n$end("enough");\nreturn twice;');
    assert.deepEqual([result, done], [4, [['exit', 'enough']]]);
  });

  test('that uses what there is no more says so', async () => {
    assert.deepEqual((await ran('async (params, auths) => params.url')).missing, ['params']);
    assert.deepEqual(
      wrapFirstGeneration('async (event, steps) => { this.$checkpoint = auths.slack.token }')?.missing,
      ['$checkpoint', 'auths'],
    );
  });

  test('is told from components and other modules', () => {
    for (const code of [
      'export default defineComponent({ async run({ steps }) { return steps.a.b } })',
      'export default { run() {} }',
      'module.exports = { run() {} }',
      'import x from "x";\nexport { x as default }',
      'const a = 1;',
    ])
      assert.equal(wrapFirstGeneration(code), undefined, code);
  });
});
