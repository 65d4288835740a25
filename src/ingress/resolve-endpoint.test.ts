import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TriggerTable, WorkflowTable } from '#storage/tables/workflow-tables.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { EndpointDirectory } from './resolve-endpoint.ts';

const key = 'eo0123456789abc';

describe('the endpoints of workflows', () => {
  forEachStore((fixture) => {
    async function insert(
      workflow: Partial<WorkflowTable> = {},
      trigger: Partial<TriggerTable> = {},
    ): Promise<void> {
      await fixture.store.transaction(async (tx) => {
        await tx
          .insertInto('workflows')
          .values({
            ...{ id: 'p_1', owner_id: 'o_1', user_id: 'u_1', project_id: null, name: 'w', state: 'active' },
            ...{ deployment_id: 'd_1', created_at_ms: 1, updated_at_ms: 1 },
            ...workflow,
          })
          .execute();
        await tx
          .insertInto('triggers')
          .values({
            ...{ workflow_id: 'p_1', id: 'hi_1', owner_id: 'o_1', kind: 'http', position: 0, key },
            ...{
              custom_response: 1,
              auth: null,
              interval_seconds: null,
              cron: null,
              timezone: 'UTC',
              owned: 0,
            },
            ...{ schedule_changed_at_ms: 1, created_at_ms: 1, updated_at_ms: 1 },
            ...trigger,
          })
          .execute();
      });
    }

    function directory() {
      const clock = new TestClock();
      const opened: string[] = [];
      const sealer = {
        open: async (...args: string[]) => {
          opened.push(args.join(' '));
          return { type: 'static_bearer_token', token: 'the-token' };
        },
      };
      return { clock, opened, directory: new EndpointDirectory({ store: fixture.store, clock, sealer }) };
    }

    const deploy = (id: string) =>
      fixture.store.transaction((tx) => tx.updateTable('workflows').set({ deployment_id: id }).execute());

    test('are found by their key, with what a request has to know, and the token opened once', async () => {
      await insert({}, { auth: 'sealed' });
      const { directory: endpoints, opened } = directory();
      const expected = {
        ...{ kind: 'workflow', workflowId: 'p_1', ownerId: 'o_1', deploymentId: 'd_1' },
        ...{
          triggerId: 'hi_1',
          flowControl: null,
          customResponse: true,
          auth: { type: 'static_bearer_token', token: 'the-token' },
        },
      };
      assert.deepEqual(await endpoints.find(key), expected);
      assert.deepEqual(await endpoints.find(key), expected);
      assert.deepEqual(opened, ['o_1 hi_1 sealed']);
    });

    test('are forgotten immediately when another node reports that their workflow was removed', async () => {
      await insert();
      const { directory: endpoints } = directory();
      assert.equal((await endpoints.find(key))?.kind, 'workflow');
      await fixture.store.transaction((tx) => tx.deleteFrom('workflows').execute());
      endpoints.forgetSubject('p_2');
      assert.equal((await endpoints.find(key))?.kind, 'workflow', 'of another one');
      endpoints.forgetSubject('p_1');
      assert.equal(await endpoints.find(key), undefined);
    });

    test('are none when the workflow is inactive, or the key is of a mail trigger or of nothing', async () => {
      await insert({ state: 'inactive' });
      const { directory: endpoints } = directory();
      assert.equal(await endpoints.find(key), undefined);
      await fixture.store.transaction(async (tx) => {
        await tx.updateTable('workflows').set({ state: 'active' }).execute();
        await tx.updateTable('triggers').set({ kind: 'email', key: 'em0123456789abc' }).execute();
      });
      for (const wrong of ['em0123456789abc', key, `${key}0`, key.toUpperCase(), '', '__proto__', 'resume'])
        assert.equal(await endpoints.find(wrong), undefined, wrong);
    });

    test('are read again after forget, also when they were read just before the change', async () => {
      await insert();
      const { directory: endpoints } = directory();
      const deploymentOf = async () => {
        const found = await endpoints.find(key);
        return found?.kind === 'workflow' ? found.deploymentId : undefined;
      };
      const early = deploymentOf();
      // The change comes while the first look is under way: whatever it saw must not be remembered.
      endpoints.forget(key);
      await early;
      await deploy('d_2');
      assert.equal(await deploymentOf(), 'd_2');
      await deploy('d_3');
      assert.equal(await deploymentOf(), 'd_2', 'remembered');
      endpoints.forget(key);
      assert.equal(await deploymentOf(), 'd_3');
    });

    test('changed by another process are known after a second', async () => {
      if (fixture.dialect === 'sqlite') return;
      await insert();
      const { directory: endpoints, clock } = directory();
      await endpoints.find(key);
      await deploy('d_2');
      clock.step(1000);
      const found = await endpoints.find(key);
      assert.equal(found?.kind === 'workflow' && found.deploymentId, 'd_2');
    });
  });
});
