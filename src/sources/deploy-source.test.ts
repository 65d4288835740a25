import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DeployerFixture, failed, me } from '../../test/support/deployer-fixture.ts';
import { forEachStore } from '../../test/support/stores.ts';

forEachStore((fixture) => {
  test('a hook that no process was free for is answered with 503 overloaded, and nothing is changed', async () => {
    using parts = new DeployerFixture(fixture.store);
    const { deployer } = parts;
    const component = await parts.component();
    const reference = { component_id: component.id };
    parts.answer = () => failed('cancelled', 'no process became free for the call');
    await assert.rejects(deployer.create(reference, me), { name: 'UnavailableError', code: 'overloaded' });
    const changing = await parts.component({ hasAdditionalProps: true });
    await assert.rejects(deployer.create({ component_id: changing.id }, me), { code: 'overloaded' });
    assert.deepEqual(await fixture.store.read.selectFrom('sources').select('id').execute(), []);
    parts.answer = () => failed('threw', 'no');
    await assert.rejects(deployer.create(reference, me), { name: 'CallerError', code: 'hook_failed' });
  });
});
