import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { postgresSkip } from '../support/databases.ts';
import { PublishedComponents } from '../support/published-components.ts';
import { appSecrets, type StandInApp, StandIns } from '../support/service-standins/stand-ins.ts';

const apps: StandInApp[] = ['apify', 'gitlab', 'google_drive', 'slack'];

for (const dialect of ['sqlite', 'postgres'] as const) {
  describe(`published components offer options, on ${dialect}`, {
    skip: dialect === 'postgres' && postgresSkip(),
  }, () => {
    let published: PublishedComponents;
    let standIns: StandIns;

    before(async () => {
      published = await PublishedComponents.prepare();
      standIns = await StandIns.start(published.authority, apps);
      await published.start({ dialect, apps, connectTo: standIns.connectTo });
    });

    after(async () => {
      try {
        await published?.assertSealed(Object.values(appSecrets));
      } finally {
        await published?.close();
        await standIns?.close();
      }
    });

    test('gitlab: projects by page, and branches of the one that was chosen', async () => {
      const account = await published.account('gitlab', {
        base_api_url: standIns.of('gitlab').host,
        oauth_access_token: appSecrets.gitlab,
      });
      const id = await published.save('gitlab', 'actions', 'list-commits');
      const projects = { id, prop_name: 'projectId', configured_props: { gitlab: account } };
      const pages = [];
      for (const page of [0, 1, 2])
        pages.push((await published.ask('configure', { ...projects, page })).options);
      assert.deepEqual(pages, [
        [{ label: 'ada/engine', value: 42 }],
        [{ label: 'ada/notes', value: 43 }],
        [],
      ]);
      const configured_props = { gitlab: account, projectId: { __lv: { label: 'ada/engine', value: 42 } } };
      const branches = await published.ask('configure', { id, prop_name: 'refName', configured_props });
      assert.deepEqual(branches.stringOptions, ['main', 'next']);
      assert.deepEqual(branches.options[1], { label: 'next', value: 'next' });
      const nobody = await published.service.api('POST', '/v1/components/configure', {
        id,
        prop_name: 'projectId',
        configured_props: {},
      });
      assert.equal(nobody.status, 200);
      assert.equal(nobody.body.errors.length, 1, 'without an account its code fails, and says so');
    });

    test('slack: channels by the context of the page before, and props that are shown in place', async () => {
      const account = await published.account('slack', {
        oauth_access_token: appSecrets.slack,
        oauth_uid: 'U1',
      });
      const id = await published.save('slack', 'actions', 'send-message-to-channel');
      const channels = { id, prop_name: 'conversation', configured_props: { slack: account } };
      const first = await published.ask('configure', channels);
      assert.deepEqual(first.options, [{ label: 'Public channel: general', value: 'C123ABC456' }]);
      assert.deepEqual(first.context, { types: ['public_channel', 'private_channel'], cursor: 'dGVhbTpD' });
      const second = await published.ask('configure', { ...channels, page: 1, prev_context: first.context });
      assert.deepEqual(second.options, [{ label: 'Private channel: private-talk', value: 'C900' }]);
      const hidden = async (values: object) => {
        const { dynamicProps } = await published.ask('props', {
          id,
          configured_props: { slack: account, ...values },
        });
        return dynamicProps.configurableProps.find(({ name }: { name: string }) => name === 'username')
          .hidden;
      };
      assert.deepEqual([await hidden({}), await hidden({ customizeBotSettings: true })], [true, false]);
    });

    test('google_drive: drives by the token in the context', async () => {
      const account = await published.account('google_drive', {
        oauth_access_token: appSecrets.google_drive,
      });
      const id = await published.save('google_drive', 'actions', 'create-folder');
      const drives = { id, prop_name: 'drive', configured_props: { googleDrive: account } };
      const first = await published.ask('configure', drives);
      assert.deepEqual(
        first.options.map(({ label }: { label: string }) => label),
        ['My Drive', 'Team'],
      );
      const second = await published.ask('configure', { ...drives, page: 1, prev_context: first.context });
      assert.deepEqual([second.options, second.context], [[{ label: 'Archive', value: 'drive-2' }], {}]);
    });

    test('apify: a prop of additionalProps, and its options', async () => {
      const account = await published.account('apify', { api_token: appSecrets.apify });
      const id = await published.save('apify', 'sources', 'new-finished-actor-run-instant');
      const configured_props = { apify: account, actorSource: 'recently-used' };
      const { dynamicProps } = await published.ask('props', { id, configured_props });
      const actor = dynamicProps.configurableProps.at(-1);
      assert.deepEqual([actor.name, actor.remoteOptions], ['actorId', true]);
      const actors = {
        id,
        prop_name: 'actorId',
        configured_props,
        dynamic_props_id: dynamicProps.id,
      };
      const [option] = (await published.ask('configure', actors)).options;
      assert.equal(option.value, 'actor-1');
      assert.deepEqual((await published.ask('configure', { ...actors, page: 1 })).options, []);
    });
  });
}
