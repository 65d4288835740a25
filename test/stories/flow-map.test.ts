import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEmittingSource, createListeningWebhook } from '../support/emitting-source.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachSharedService } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

forEachSharedService((fixture) => {
  test('the flow map shows what goes from a source to its webhook, to its owner only', async () => {
    const { service } = fixture;
    const receiver = await HttpReceiver.start();
    try {
      const source = await createEmittingSource(service);
      const webhook = await createListeningWebhook(service, { url: receiver.url, emitterId: source.id });
      await source.emit([1, 2, 3]);
      const edgeOf = async () => {
        const { status, body } = await service.api('GET', '/v1/users/me/flow');
        assert.equal(status, 200);
        return { flow: body.data, edge: body.data.edges[0] };
      };
      const { flow, edge } = await waitFor(
        async () => {
          const found = await edgeOf();
          return found.edge?.deliveries.per_minute === 3 ? found : undefined;
        },
        { what: 'three deliveries on the edge' },
      );
      assert.deepEqual(
        [edge.id, edge.emitter_id, edge.listener_id, edge.event_name],
        [webhook.subscription_id, source.id, webhook.id, ''],
      );
      assert.deepEqual(
        flow.nodes.map(({ id, kind, state }: Record<string, string>) => [id, kind, state]).sort(),
        [
          [source.id, 'source', 'active'],
          [webhook.id, 'webhook', 'active'],
        ].sort(),
      );
      assert.deepEqual([flow.truncated, flow.totals.sources, flow.totals.webhooks], [false, 1, 1]);
      const { key } = await service.createUser('other');
      const theirs = await service.api('GET', `/v1/users/me/flow?focus=${source.id}`, undefined, { key });
      assert.deepEqual([theirs.body.data.nodes, theirs.body.data.edges], [[], []]);
      const { body: me } = await service.api('GET', '/v1/users/me');
      const workspace = me.data.orgs[0].id;
      const ours = await service.api('GET', `/v1/workspaces/${workspace}/flow`);
      assert.deepEqual([ours.status, ours.body.data.nodes], [200, []]);
      const foreign = await service.api('GET', `/v1/workspaces/${workspace}/flow`, undefined, { key });
      assert.equal(foreign.status, 404);
    } finally {
      await receiver.close();
    }
  });
});
