import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BuiltBundle } from '#components/built-bundle.ts';
import { CallerError } from '#lib/errors.ts';
import type { DescribeOutcome } from '#runner/runner.ts';
import { type BuildWay, buildAndEvaluate } from './evaluated-component.ts';

const built: BuiltBundle = {
  ...{ code: '', codeHash: '', lock: '{"imports":{},"packages":{}}', files: [], treeHash: '' },
  bundle: { hash: '', code: '', format: 'cjs' },
};

const message = 'the package "sharp" needs a native addon, which components may not load here';

function failed(status: 'load_failed' | 'timed_out', code?: string): DescribeOutcome {
  return { status, error: { name: 'Error', message, stack: '', ...(code && { code }) }, logs: [] };
}

/** A component whose package has a native addon; `second` is the outcome of the build with a stand-in. */
function withAddon(second: (way: BuildWay) => DescribeOutcome | CallerError) {
  let outcome = failed('load_failed', 'ERR_DLOPEN_DISABLED');
  return buildAndEvaluate(
    {},
    {
      build: async (way) => {
        if (way.standIns === undefined) return built;
        const next = second(way);
        if (next instanceof CallerError) throw next;
        outcome = next;
        return built;
      },
      evaluate: async () => outcome,
    },
  );
}

test('a component with an addon whose second build takes too long is refused for that, not for its addon', async () => {
  const late = new CallerError(
    'build_timeout',
    'building the component took more than 120 seconds of CPU time',
  );
  await assert.rejects(
    withAddon(() => late),
    { code: 'build_timeout' },
  );
});

test('a component with an addon that does not end with a stand-in is refused for that', async () => {
  const { outcome } = await withAddon(() => failed('timed_out'));
  assert.equal(outcome.status, 'timed_out');
});

test('a component with an addon that cannot be built or fails with a stand-in is refused for the addon', async () => {
  for (const second of [new CallerError('package_refused', 'no'), failed('load_failed', 'ENOENT')]) {
    const { outcome } = await withAddon(() => second);
    assert.equal(outcome.status, 'load_failed');
    assert.equal(outcome.status === 'load_failed' && outcome.error.code, 'ERR_DLOPEN_DISABLED');
  }
});
