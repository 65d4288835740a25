import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { exportsOf, PublishedComponents, storeOrEmbedded } from '../support/published-components.ts';
import { quickbooksCompany } from '../support/service-standins/quickbooks.ts';
import { type GraphqlCall, shopifyGraphql } from '../support/service-standins/shopify.ts';
import type { ServiceStandIn } from '../support/service-standins/stand-in.ts';
import {
  type StandInApp,
  StandIns,
  appSecrets as secrets,
  standInApps,
} from '../support/service-standins/stand-ins.ts';

/**
 * Each app runs on one store, and each store has some of every kind: sources with endpoints and with timers, actions as steps and by
 * API, options. What is shown here, that the code of others runs with accounts, does not depend on the store.
 */
const apps: Record<'sqlite' | 'postgres', StandInApp[]> = {
  sqlite: ['apify', 'gitlab', 'notion', 'shopify'],
  postgres: ['google_drive', 'linear_app', 'quickbooks', 'slack'],
};

/** Packages of npm are installed and built on the way, one after another: on a busy machine that takes minutes. */
const appPatienceMs = 600_000;

const json = { 'content-type': 'application/json' };

test('every app with a stand-in runs on one of the stores', () => {
  assert.deepEqual([...apps.sqlite, ...apps.postgres].sort(), [...standInApps].sort());
});

for (const wanted of ['sqlite', 'postgres'] as const) {
  const dialect = storeOrEmbedded(wanted);
  describe(`components of ${apps[wanted].join(', ')} use accounts and offer options, on ${dialect}`, () => {
    let published: PublishedComponents;
    let standIns: StandIns;

    before(async () => {
      published = await PublishedComponents.prepare();
      standIns = await StandIns.start(published.authority, apps[wanted]);
      await published.start({
        dialect,
        apps: apps[wanted],
        connectTo: standIns.connectTo,
        // Linear's components accept webhooks from Linear's own addresses only: this test acts as a proxy that names such an address.
        environment: { MILLRACE_TRUSTED_PROXIES: '127.0.0.1' },
      });
    });

    after(async () => {
      try {
        await published?.assertSealed(Object.values(secrets));
      } finally {
        await published?.close();
        await standIns?.close();
      }
    });

    /** A test of one app with its stand-in, where the app runs on this store. */
    const appTest = (app: StandInApp, does: string, work: (standIn: ServiceStandIn) => Promise<void>) => {
      if (!apps[wanted].includes(app)) return;
      test(`${app}: ${does}`, { timeout: appPatienceMs }, () => work(standIns.of(app)));
    };

    const call = (url: string, body: unknown, headers: Record<string, string> = {}) =>
      fetch(url, { method: 'POST', headers: { ...json, ...headers }, body: JSON.stringify(body) });

    // Its sources: an-npm-component-runs-unmodified.
    appTest('gitlab', 'list-commits is a step', async (gitlab) => {
      const account = await published.account('gitlab', {
        base_api_url: gitlab.host,
        oauth_access_token: secrets.gitlab,
      });
      const run = await published.runSteps([
        { app: 'gitlab', action: 'list-commits', props: { gitlab: account, projectId: 42, max: 1 } },
      ]);
      const { list_commits } = exportsOf(run);
      assert.equal(list_commits.$summary, 'Retrieved 1 commit');
      assert.equal(list_commits.$return_value[0].title, 'Replace x');
      await published.testedHealthy(account);
      assert.deepEqual(gitlab.headerValues('authorization'), [`Bearer ${secrets.gitlab}`]);
    });

    appTest(
      'slack',
      'send-message-to-channel posts as the account, and fails with another one',
      async (slack) => {
        const send = (account: object) =>
          published.runSteps(
            [
              {
                app: 'slack',
                action: 'send-message-to-channel',
                props: {
                  slack: account,
                  conversation: 'C123ABC456',
                  text: 'Hello {{steps.trigger.event.body.who}}',
                  include_sent_via_pipedream_flag: false,
                },
              },
            ],
            { who: 'Ada' },
          );
        const { send_message_to_channel: sent } = exportsOf(
          await send(
            await published.account('slack', { oauth_access_token: secrets.slack, oauth_uid: 'U1' }),
          ),
        );
        assert.equal(sent.$summary, 'Successfully sent a message to #general');
        assert.equal(sent.$return_value.ts, '1503435956.000247');
        const posted = new URLSearchParams(slack.last('POST /api/chat.postMessage').body.toString());
        assert.deepEqual([posted.get('channel'), posted.get('text')], ['C123ABC456', 'Hello Ada']);
        assert.deepEqual(slack.headerValues('authorization'), [`Bearer ${secrets.slack}`]);

        const refused = await send(
          await published.account('slack', {
            oauth_access_token: 'xoxp-revoked-0123456789',
            oauth_uid: 'U1',
          }),
        );
        assert.equal(refused.state, 'failed');
        assert.match(JSON.stringify(refused), /invalid_auth/);
      },
    );

    appTest(
      'notion',
      'new-page emits what the data source has, and two actions are steps',
      async (notion) => {
        const account = await published.account('notion', { oauth_access_token: secrets.notion });
        const source = await published.source('notion', 'new-page', {
          notion: account,
          dataSourceId: 'ds-1',
        });
        const events = await published.service.events(source.id);
        assert.deepEqual(
          events.map(({ metadata, event }) => [metadata.summary, event.properties.Name.id]),
          [['Page added: Minutes', 'title']],
        );
        const run = await published.runSteps([
          { app: 'notion', action: 'retrieve-page', props: { notion: account, pageId: events[0].event.id } },
          {
            app: 'notion',
            action: 'create-comment',
            props: { notion: account, pageId: '{{steps.retrieve_page.$return_value.id}}', comment: 'Read' },
          },
        ]);
        const { retrieve_page, create_comment } = exportsOf(run);
        assert.equal(retrieve_page.$summary, 'Successfully retrieved page "Minutes"');
        assert.deepEqual(create_comment.$return_value.parent, { page_id: events[0].event.id });
        await published.testedHealthy(account);
        assert.deepEqual(notion.headerValues('authorization'), [`Bearer ${secrets.notion}`]);
        assert.equal(notion.last('POST /v1/comments').headers['notion-version'], '2025-09-03');
      },
    );

    appTest(
      'shopify',
      'new-product-created subscribes, takes a webhook and unsubscribes; create-page is a step',
      async (shopify) => {
        const account = await published.account('shopify', {
          shop_id: 'millrace-test',
          oauth_access_token: secrets.shopify,
        });
        const source = await published.source('shopify', 'new-product-created', { app: account });
        const { variables } = shopify.last(shopifyGraphql).json() as GraphqlCall;
        const { endpoint_url: url } = source.configured_props.http;
        assert.equal(variables.topic, 'PRODUCTS_CREATE');
        assert.equal((variables.webhookSubscription as { callbackUrl: string }).callbackUrl, url);
        const product = { id: 788, title: 'Lamp', createdAt: '2026-11-20T10:00:00Z' };
        const wrong = {
          'x-shopify-shop-domain': 'other.myshopify.com',
          'x-shopify-topic': 'products/create',
        };
        assert.equal((await call(url, product, wrong)).status, 401);
        const stream = await published.service.stream(source.id);
        const right = { ...wrong, 'x-shopify-shop-domain': 'millrace-test.myshopify.com' };
        assert.equal((await call(url, product, right)).status, 200);
        assert.deepEqual((await stream.message(1)).data.event, product);
        stream.close();
        const { create_page } = exportsOf(
          await published.runSteps([
            {
              app: 'shopify',
              action: 'create-page',
              props: { shopify: account, title: 'About', body: '<p>Us</p>' },
            },
          ]),
        );
        assert.equal(create_page.$summary, 'Created new page with ID gid://shopify/Page/904');
        assert.equal((await published.service.api('DELETE', `/v1/sources/${source.id}`)).status, 204);
        assert.match((shopify.last(shopifyGraphql).json() as GraphqlCall).query, /webhookSubscriptionDelete/);
        await published.testedHealthy(account);
        assert.deepEqual(shopify.headerValues('x-shopify-access-token'), [secrets.shopify]);
      },
    );

    appTest(
      'apify',
      'new-finished-actor-run-instant has a prop that its code adds, and takes a webhook; get-kvs-record is a step',
      async (apify) => {
        const account = await published.account('apify', { api_token: secrets.apify });
        const source = await published.source('apify', 'new-finished-actor-run-instant', {
          apify: account,
          actorSource: 'recently-used',
          actorId: 'actor-1',
        });
        const { endpoint_url: url } = source.configured_props.http;
        const hook = apify.last('POST /v2/webhooks').json() as Record<string, unknown>;
        assert.deepEqual([hook.requestUrl, hook.condition], [url, { actorId: 'actor-1' }]);
        const finished = {
          userId: 'u-1',
          createdAt: '2026-11-20T10:00:00.000Z',
          eventType: 'ACTOR.RUN.SUCCEEDED',
          eventData: { actorId: 'actor-1', actorRunId: 'run-1' },
        };
        const stream = await published.service.stream(source.id);
        assert.equal((await call(url, finished)).status, 200);
        const { metadata, event } = (await stream.message(1)).data;
        stream.close();
        assert.equal(metadata.summary, 'A new Actor run run-1 has finished');
        assert.deepEqual(event, finished);
        const { get_kvs_record } = exportsOf(
          await published.runSteps([
            {
              app: 'apify',
              action: 'get-kvs-record',
              props: { apify: account, keyValueStoreId: 'kvs-1', key: 'OUTPUT' },
            },
          ]),
        );
        assert.deepEqual(get_kvs_record, {
          $summary: 'Retrieved JSON record',
          $return_value: { crawled: 12 },
        });
        assert.equal((await published.service.api('DELETE', `/v1/sources/${source.id}`)).status, 204);
        assert.ok(apify.calls.includes('DELETE /v2/webhooks/YiKoxjkaS9gjGTqhF'), 'its webhook is taken back');
        await published.testedHealthy(account);
        assert.deepEqual(apify.headerValues('authorization'), [`Bearer ${secrets.apify}`]);
      },
    );

    appTest(
      'linear_app',
      'issue-created-instant gets its endpoint from additionalProps; create-issue is a step',
      async (linear) => {
        const account = await published.account('linear_app', { api_key: secrets.linear_app });
        const source = await published.source('linear_app', 'issue-created-instant', {
          linearApp: account,
          teamIds: ['team-1'],
        });
        const { endpoint_url: url } = source.configured_props.http;
        const webhook = linear.requests
          .map((request) => request.body.toString())
          .find((body) => body.includes('webhookCreate'));
        assert.ok(webhook?.includes(url) && webhook.includes('team-1'), 'its webhook leads to its endpoint');
        const [first] = await published.service.events(source.id);
        assert.equal(
          first.metadata.summary,
          'Issue created: It works',
          'what was there before, from the deploy hook',
        );
        const created = {
          action: 'create',
          createdAt: '2026-11-20T10:00:00.000Z',
          data: { id: 'issue-2', title: 'Two' },
        };
        const from = (address: string) => ({
          'linear-delivery': `delivery-of-${address}`,
          'x-forwarded-for': address,
        });
        const stream = await published.service.stream(source.id);
        assert.equal(
          (await call(url, created, from('198.51.100.1'))).status,
          200,
          'taken, and dropped by the component',
        );
        assert.equal((await call(url, created, from('35.231.147.226'))).status, 200);
        assert.equal((await stream.message(1)).data.event.id, 'issue-2');
        stream.close();
        assert.equal((await published.service.events(source.id)).length, 2);
        const { create_issue } = exportsOf(
          await published.runSteps([
            {
              app: 'linear_app',
              action: 'create-issue',
              props: { linearApp: account, teamId: 'team-1', title: 'New' },
            },
          ]),
        );
        assert.equal(create_issue.$summary, 'Created issue issue-9');
        assert.equal(create_issue.$return_value.success, true);
        assert.equal((await published.service.api('DELETE', `/v1/sources/${source.id}`)).status, 204);
        assert.ok(linear.requests.some((request) => request.body.includes('webhookDelete')));
        await published.testedHealthy(account);
        assert.deepEqual(linear.headerValues('authorization'), [secrets.linear_app]);
      },
    );

    appTest(
      'google_drive',
      'new-files-instant-polling emits files, new-files-instant keeps them for download, and two actions are steps',
      async (drive) => {
        const account = await published.account('google_drive', { oauth_access_token: secrets.google_drive });
        const source = await published.source('google_drive', 'new-files-instant-polling', {
          googleDrive: account,
          drive: 'My Drive',
        });
        const events = await published.service.events(source.id);
        assert.deepEqual(
          events.map(({ metadata, event }) => [metadata.summary, event.mimeType]),
          [['Minutes.txt', 'text/plain']],
        );
        const instant = await published.source('google_drive', 'new-files-instant', {
          ...{ googleDrive: account, drive: 'My Drive', includeLink: true },
        });
        assert.equal(instant.configured_props.timer.interval_seconds, 82_080, 'a fixed schedule');
        const [kept] = await published.service.events(instant.id);
        const { get_url: link, ...file } = kept.event.file;
        assert.deepEqual(file, { path: `${kept.event.id}/Minutes.txt`, name: 'Minutes.txt' });
        const { pathname, search } = new URL(link);
        assert.equal(await (await fetch(published.service.url + pathname + search)).text(), 'What was said');
        const { get_current_user, create_folder } = exportsOf(
          await published.runSteps([
            { app: 'google_drive', action: 'get-current-user', props: { googleDrive: account } },
            {
              app: 'google_drive',
              action: 'create-folder',
              props: {
                googleDrive: account,
                name: 'For {{steps.get_current_user.$return_value.about.user.displayName}}',
                drive: 'My Drive',
              },
            },
          ]),
        );
        assert.equal(get_current_user.$return_value.about.user.displayName, 'Ada');
        assert.match(create_folder.$summary, /^Successfully created a new folder/);
        const folder = drive.last('POST /drive/v3/files').json() as { mimeType: string };
        assert.equal(folder.mimeType, 'application/vnd.google-apps.folder');
        await published.testedHealthy(account);
        assert.deepEqual(drive.headerValues('authorization'), [`Bearer ${secrets.google_drive}`]);
      },
    );

    appTest(
      'quickbooks',
      'new-customer-created emits customers, get-customer is a step',
      async (quickbooks) => {
        const account = await published.account('quickbooks', {
          company_id: quickbooksCompany,
          oauth_access_token: secrets.quickbooks,
        });
        const source = await published.source('quickbooks', 'new-customer-created', { quickbooks: account });
        const [event] = await published.service.events(source.id);
        assert.equal(event.metadata.summary, 'New Customer: Ada Lovelace');
        assert.equal(event.event.Id, '58');
        const { get_customer } = exportsOf(
          await published.runSteps([
            {
              app: 'quickbooks',
              action: 'get-customer',
              props: { quickbooks: account, customerId: event.event.Id },
            },
          ]),
        );
        assert.equal(get_customer.summary, 'Successfully retrieved customer with ID 58');
        assert.equal(get_customer.$return_value.Customer.DisplayName, 'Ada Lovelace');
        await published.testedHealthy(account);
        assert.deepEqual(quickbooks.headerValues('authorization'), [`Bearer ${secrets.quickbooks}`]);
      },
    );

    appTest('gitlab', 'offers projects by page, and branches of the one that was chosen', async (gitlab) => {
      const account = await published.account('gitlab', {
        base_api_url: gitlab.host,
        oauth_access_token: secrets.gitlab,
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

    appTest(
      'slack',
      'offers channels by the context of the page before, and props that are shown in place',
      async () => {
        const account = await published.account('slack', {
          oauth_access_token: secrets.slack,
          oauth_uid: 'U1',
        });
        const id = await published.save('slack', 'actions', 'send-message-to-channel');
        const channels = { id, prop_name: 'conversation', configured_props: { slack: account } };
        const first = await published.ask('configure', channels);
        assert.deepEqual(first.options, [{ label: 'Public channel: general', value: 'C123ABC456' }]);
        assert.deepEqual(first.context, { types: ['public_channel', 'private_channel'], cursor: 'dGVhbTpD' });
        const second = await published.ask('configure', {
          ...channels,
          page: 1,
          prev_context: first.context,
        });
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
      },
    );

    appTest('google_drive', 'offers drives by the token in the context', async () => {
      const account = await published.account('google_drive', {
        oauth_access_token: secrets.google_drive,
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

    appTest('apify', 'offers a prop of additionalProps, and its options', async () => {
      const account = await published.account('apify', { api_token: secrets.apify });
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

    appTest('gitlab', 'list-commits by API gives a summary and what it returned', async (gitlab) => {
      const account = await published.account('gitlab', {
        base_api_url: gitlab.host,
        oauth_access_token: secrets.gitlab,
      });
      const listed = await published.runAction('gitlab', 'list-commits', {
        gitlab: account,
        projectId: 42,
        max: 1,
      });
      assert.deepEqual(listed.exports, { $summary: 'Retrieved 1 commit' });
      assert.equal(listed.ret[0].title, 'Replace x');
      const { body } = await published.service.api('GET', `/v1/accounts/${account.authProvisionId}/uses`);
      assert.equal(body.data.used[0].id, listed.component.id);
    });

    appTest(
      'slack',
      'send-message-to-channel by API posts, fails with another token, and asks to wait where nothing waits',
      async (slack) => {
        const props = {
          slack: await published.account('slack', { oauth_access_token: secrets.slack, oauth_uid: 'U1' }),
          conversation: 'C123ABC456',
          text: 'Hello {{name}}',
          include_sent_via_pipedream_flag: true,
        };
        const sent = await published.runAction('slack', 'send-message-to-channel', props);
        assert.equal(
          sent.exports.$summary,
          'Successfully sent a message to #general',
          JSON.stringify(sent.os),
        );
        const posted = new URLSearchParams(slack.last('POST /api/chat.postMessage').body.toString());
        assert.match(posted.get('text') ?? '', /Hello \{\{name\}\}/);
        const other = await published.account('slack', { oauth_access_token: 'xoxp-other-0123456789' });
        const refused = await published.runAction('slack', 'send-message-to-channel', {
          ...props,
          slack: other,
        });
        const { k, err } = refused.os.at(-1);
        assert.equal(k, 'error');
        assert.match(err.message, /invalid_auth/);
        assert.equal(refused.ret, null);
        const waits = await published.runAction('slack', 'approve-workflow', {
          slack: props.slack,
          channelType: 'Channels',
          conversation: 'C123ABC456',
          message: 'May I?',
        });
        assert.match(waits.os.at(-1).err.message, /\$\.flow\.suspend can be used in steps of workflows only/);
      },
    );
  });
}
