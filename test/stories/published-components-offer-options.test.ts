import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { postgresSkip } from '../support/databases.ts';
import { PublishedComponents } from '../support/published-components.ts';
import { startApify } from '../support/service-standins/apify.ts';
import { startGitlab } from '../support/service-standins/gitlab.ts';
import { startGoogleDrive } from '../support/service-standins/google-drive.ts';
import { startSlack } from '../support/service-standins/slack.ts';
import type { ServiceStandIn } from '../support/service-standins/stand-in.ts';

/** What each service accepts, and nothing else. */
const secrets = {
  apify: 'apify_api_canary_0123456789',
  gitlab: 'glpat-canary-0123456789',
  google_drive: 'ya29.canary-0123456789',
  slack: 'xoxp-canary-0123456789',
} as const;

type App = keyof typeof secrets;

const starters: Record<App, (published: PublishedComponents) => Promise<ServiceStandIn>> = {
  apify: ({ authority }) => startApify(authority, secrets.apify),
  gitlab: ({ authority }) => startGitlab(authority, secrets.gitlab),
  google_drive: ({ authority }) => startGoogleDrive(authority, (token) => token === secrets.google_drive),
  slack: ({ authority }) => startSlack(authority, secrets.slack),
};

for (const dialect of ['sqlite', 'postgres'] as const) {
  describe(`published components offer options, on ${dialect}`, {
    skip: dialect === 'postgres' && postgresSkip(),
  }, () => {
    let published: PublishedComponents;
    const standIns = new Map<App, ServiceStandIn>();
    const apps = Object.keys(secrets) as App[];

    before(async () => {
      published = await PublishedComponents.prepare();
      for (const app of apps) standIns.set(app, await starters[app](published));
      const connectTo = [...standIns.values()].map((standIn) => standIn.connectTo);
      await published.start({ dialect, apps, connectTo });
    });

    after(async () => {
      try {
        await published?.assertSealed(Object.values(secrets));
      } finally {
        await published?.close();
        for (const standIn of standIns.values()) await standIn.close();
      }
    });

    /** Asks, and fails when the code of the component did. */
    async function ask(path: 'configure' | 'props', body: object) {
      const answer = await published.service.api('POST', `/v1/components/${path}`, body);
      assert.equal(answer.status, 200, JSON.stringify(answer.body));
      assert.deepEqual(answer.body.errors, [], JSON.stringify(answer.body));
      return answer.body;
    }

    test('gitlab: projects by page, and branches of the one that was chosen', async () => {
      const gitlab = standIns.get('gitlab');
      assert.ok(gitlab);
      const account = await published.account('gitlab', {
        base_api_url: gitlab.host,
        oauth_access_token: secrets.gitlab,
      });
      const id = await published.save('gitlab', 'actions', 'list-commits');
      const projects = { id, prop_name: 'projectId', configured_props: { gitlab: account } };
      const pages = [];
      for (const page of [0, 1, 2]) pages.push((await ask('configure', { ...projects, page })).options);
      assert.deepEqual(pages, [
        [{ label: 'ada/engine', value: 42 }],
        [{ label: 'ada/notes', value: 43 }],
        [],
      ]);
      const configured_props = { gitlab: account, projectId: { __lv: { label: 'ada/engine', value: 42 } } };
      const branches = await ask('configure', { id, prop_name: 'refName', configured_props });
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
        oauth_access_token: secrets.slack,
        oauth_uid: 'U1',
      });
      const id = await published.save('slack', 'actions', 'send-message-to-channel');
      const channels = { id, prop_name: 'conversation', configured_props: { slack: account } };
      const first = await ask('configure', channels);
      assert.deepEqual(first.options, [{ label: 'Public channel: general', value: 'C123ABC456' }]);
      assert.deepEqual(first.context, { types: ['public_channel', 'private_channel'], cursor: 'dGVhbTpD' });
      const second = await ask('configure', { ...channels, page: 1, prev_context: first.context });
      assert.deepEqual(second.options, [{ label: 'Private channel: private-talk', value: 'C900' }]);
      const hidden = async (values: object) => {
        const { dynamicProps } = await ask('props', { id, configured_props: { slack: account, ...values } });
        return dynamicProps.configurableProps.find(({ name }: { name: string }) => name === 'username')
          .hidden;
      };
      assert.deepEqual([await hidden({}), await hidden({ customizeBotSettings: true })], [true, false]);
    });

    test('google_drive: drives by the token in the context', async () => {
      const account = await published.account('google_drive', { oauth_access_token: secrets.google_drive });
      const id = await published.save('google_drive', 'actions', 'create-folder');
      const drives = { id, prop_name: 'drive', configured_props: { googleDrive: account } };
      const first = await ask('configure', drives);
      assert.deepEqual(
        first.options.map(({ label }: { label: string }) => label),
        ['My Drive', 'Team'],
      );
      const second = await ask('configure', { ...drives, page: 1, prev_context: first.context });
      assert.deepEqual([second.options, second.context], [[{ label: 'Archive', value: 'drive-2' }], {}]);
    });

    test('apify: a prop of additionalProps, and its options', async () => {
      const account = await published.account('apify', { api_token: secrets.apify });
      const id = await published.save('apify', 'sources', 'new-finished-actor-run-instant');
      const configured_props = { apify: account, actorSource: 'recently-used' };
      const { dynamicProps } = await ask('props', { id, configured_props });
      const actor = dynamicProps.configurableProps.at(-1);
      assert.deepEqual([actor.name, actor.remoteOptions], ['actorId', true]);
      const actors = {
        id,
        prop_name: 'actorId',
        configured_props,
        dynamic_props_id: dynamicProps.id,
      };
      const [option] = (await ask('configure', actors)).options;
      assert.equal(option.value, 'actor-1');
      assert.deepEqual((await ask('configure', { ...actors, page: 1 })).options, []);
    });
  });
}
