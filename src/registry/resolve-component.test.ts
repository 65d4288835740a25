import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '#lib/clock.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { LocalRegistry } from './local-registry.ts';
import { ComponentResolver } from './resolve-component.ts';

forEachStore((fixture) => {
  test('a component that no process was free to evaluate is not called invalid: 503 overloaded', async () => {
    const evaluatedFor: string[] = [];
    const resolver = new ComponentResolver({
      store: fixture.store,
      builder: {
        build: async ({ kind }) => ({
          bundle: { hash: 'b', code: '', format: 'cjs' },
          code: kind,
          codeHash: 'c',
          treeHash: 't',
          lock: '{}',
          files: [],
          warnings: [],
        }),
        evaluated: (ownerId, evaluate) => {
          evaluatedFor.push(ownerId);
          return evaluate(new AbortController().signal);
        },
      },
      runner: {
        describe: async () => ({
          status: 'cancelled',
          error: { name: 'ServiceError', message: 'no process became free for the call', stack: '' },
          logs: [],
        }),
      },
      registry: new LocalRegistry('/nowhere'),
      repositories: { use: () => assert.fail('nothing is read of a repository') },
      clock: systemClock,
    });
    await assert.rejects(
      resolver.resolve(
        { component_code: 'export default {}' },
        { ownerId: 'u_1', userId: 'u_1', readableOwners: ['u_1'] },
      ),
      { name: 'UnavailableError', code: 'overloaded' },
    );
    assert.deepEqual(evaluatedFor, ['u_1'], 'in the turn of its owner');
  });
});
