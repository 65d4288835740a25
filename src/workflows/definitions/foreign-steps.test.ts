import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CallerError } from '#lib/errors.ts';
import { explainForeignCode, explainForeignComponent, foreignRuntime } from './foreign-steps.ts';

const refused = new CallerError('invalid_component_code', 'component_code: line 1: unexpected', {
  parameter: 'component_code',
});
const refusal = (explain: typeof explainForeignCode, text: string) =>
  explain(text, () => Promise.reject(refused)).then(assert.fail, (error: CallerError) => error.message);

describe('code that is refused is said to be what it is', () => {
  for (const [language, code] of [
    ['Python', 'def handler(pd: "pipedream"):\n    return {"a": 1}'],
    ['Python', 'import requests\nr = requests.get("https://example.com")\nprint(r.text)'],
    ['Python', 'from datetime import datetime\nprint(datetime.now())'],
    ['Python', '# pipedream add-package requests==2.31\nx = 1'],
    ['Bash', '#!/bin/bash\ncurl https://example.com'],
    ['Bash', 'TRIGGER=`cat $PIPEDREAM_STEPS | jq .trigger`'],
    ['Go', 'package main\n\nimport "fmt"\n\nfunc main() {}'],
  ] as const) {
    test(`${language}: ${JSON.stringify(code.slice(0, 40))}`, async () => {
      assert.match(
        await refusal(explainForeignCode, code),
        new RegExp(`^this is a ${language} step, and steps are JavaScript or TypeScript here: rewrite it as`),
      );
    });
  }

  for (const code of [
    'const axios = require("axios");\n$respond({ status: 200 });\nreturn event.body;',
    'async (event, steps) => { return event.body.name }',
    'async (params, auths) => { return auths.slack.oauth_access_token }',
    'this.n = steps.trigger.event.n',
    '$send.http({ method: "GET", url: params.url })',
  ]) {
    test(`the first generation: ${JSON.stringify(code.slice(0, 40))}`, async () => {
      const message = await refusal(explainForeignCode, code);
      assert.match(message, /^this is a code step of the first generation: put it into export default/);
      assert.match(message, /; as it is: line 1: unexpected$/);
    });
  }

  for (const code of [
    'export default defineComponent({ async run({ steps, $ }) { return steps.trigger.event +; } });',
    'module.exports = { run({ $ }) { $.respond(; } }',
    "import fs from 'node:fs';\nconsole.log($.respond)",
    'throw new Error("no")',
  ]) {
    test(`nothing of the kind: ${JSON.stringify(code.slice(0, 40))}`, async () => {
      assert.equal(await refusal(explainForeignCode, code), refused.message);
    });
  }

  test('code that is not refused is not looked at', async () => {
    assert.equal(await explainForeignCode('def f(): pass', async () => 1), 1);
    const other = new Error('the store is away');
    await assert.rejects(
      explainForeignCode('package main', () => Promise.reject(other)),
      other,
    );
  });
});

test('a component that names a step of another kind is said to be that', async () => {
  assert.match(
    await refusal(explainForeignComponent, 'pipedream/send_http@0.0.1'),
    /a step of the first generation/,
  );
  assert.match(await refusal(explainForeignComponent, './greet/entry.py'), /^this is a Python step/);
  assert.match(await refusal(explainForeignComponent, './greet/entry.js'), /give its content as code$/);
  assert.equal(await refusal(explainForeignComponent, 'greet@1.0.0'), refused.message);
});

test('a runtime names the language', () => {
  assert.match(foreignRuntime('python3.12') ?? '', /^this is a Python step/);
  assert.match(foreignRuntime('bash') ?? '', /^this is a Bash step/);
  assert.match(foreignRuntime('go1.21.5') ?? '', /^this is a Go step/);
  assert.equal(foreignRuntime('nodejs20.x'), undefined);
  assert.equal(foreignRuntime(undefined), undefined);
});
