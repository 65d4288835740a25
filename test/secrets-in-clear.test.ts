import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { evaluateValue } from '#runner/sandbox/expressions.ts';
import { maskProps, unmaskProps } from '../cli/clear-secrets.ts';
import { moveSecrets } from '../src/imports/move-secrets.ts';
import { canary, secretCases } from './support/clear-secrets.ts';
import { readProjectFile } from './support/project-files.ts';

const scope = { steps: { trigger: { event: {} } }, event: {}, onUnset: () => {} };
const importedBy = (props: Record<string, unknown>) =>
  moveSecrets(props, { workflowId: 'p_One111', namespace: 'call' });
const exported = (props: Record<string, unknown>) => {
  const secrets: [string, string][] = [];
  const unsure: string[] = [];
  const masked = maskProps(props, {
    onSecret: (path, value) => secrets.push([path, value]),
    onUnsure: (path) => unsure.push(path),
  });
  return { masked, secrets, unsure };
};

function evaluated(value: unknown, variables: Readonly<Record<string, string>>): unknown {
  const before = { ...process.env };
  Object.assign(process.env, variables);
  try {
    return evaluateValue(value, 'prop', scope);
  } finally {
    for (const name of Object.keys(variables)) delete process.env[name];
    Object.assign(process.env, before);
  }
}

describe('secrets in clear', () => {
  for (const { name, props, secrets, unsure = [] } of secretCases) {
    test(`${name}: the importer moves and the export masks the same`, () => {
      const moved = importedBy(props);
      const { masked, ...found } = exported(props);
      for (const secret of secrets)
        for (const left of [moved.props, masked, moved.moved.map(({ place, name }) => [place, name])])
          assert.ok(!JSON.stringify(left).includes(secret), `${secret} is in ${JSON.stringify(left)}`);
      assert.deepEqual(
        moved.moved.map(({ value }) => value),
        found.secrets.map(([, value]) => value),
      );
      assert.deepEqual([moved.unsure, found.unsure], [unsure.map((path) => `call.${path}`), unsure]);
      assert.equal(moved.moved.length > 0, secrets.length > 0);
      if (secrets.length === 0) assert.deepEqual([moved.props, masked], [props, props]);
      // Each has a variable of its own.
      assert.equal(new Set(moved.moved.map((one) => one.name)).size, moved.moved.length);
    });

    test(`${name}: what the step gets is the same with the variables, and with what was unmasked`, () => {
      const moved = importedBy(props);
      const variables = Object.fromEntries(moved.moved.map((one) => [one.name, one.value]));
      if (unsure.length === 0) assert.deepEqual(evaluated(moved.props, variables), evaluated(props, {}));
      const { masked } = exported(props);
      assert.deepEqual(
        unmaskProps(masked, props, 'call', (place) => assert.fail(place)),
        props,
      );
    });
  }

  test('are found by one text of rules, on both sides', async () => {
    for (const file of ['find-secrets.ts', 'secret-forms.ts', 'text-parts.ts'])
      assert.equal(readProjectFile(`cli/${file}`), readProjectFile(`src/imports/${file}`), file);
  });

  test('that are names themselves are in no place', () => {
    const name = canary.github;
    const { moved, unsure } = importedBy({
      headers: { [name]: 'Bearer abc' },
      list: [{ name, value: canary.slack }],
      [name]: { token: canary.plain },
    });
    assert.deepEqual(
      moved.map(({ value }) => value),
      ['Bearer abc', name, canary.slack],
    );
    assert.deepEqual(unsure, ['call.2.token']);
    assert.doesNotMatch(JSON.stringify(moved.map((one) => [one.place, one.name])), /ghp_/i);
  });

  test('are found in time in long texts that look like expressions, JSON or secrets', () => {
    const began = performance.now();
    for (const part of [
      '{{ ( { }} ',
      "{{'",
      '"{{`${',
      '[',
      '{"a":',
      'xoxb-1234567890 ',
      '{"',
      '\\"',
      '?key=',
      'Bearer ',
      '1234567890:',
    ])
      importedBy({
        method: 'POST',
        url: 'https://a.example',
        body: { raw: part.repeat(200_000 / part.length) },
      });
    assert.ok(performance.now() - began < 20_000, `${performance.now() - began} ms`);
  });
});
