import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { postgresSkip } from '../support/databases.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { type PublishedApp, PublishedComponents } from '../support/published-components.ts';
import { startGitlab } from '../support/service-standins/gitlab.ts';
import { startSlack } from '../support/service-standins/slack.ts';
import type { ServiceStandIn } from '../support/service-standins/stand-in.ts';

const secrets = { gitlab: 'glpat-canary-0123456789', slack: 'xoxp-canary-0123456789' };

for (const dialect of ['sqlite', 'postgres'] as const) {
  describe(`published actions are run by API, on ${dialect}`, {
    skip: dialect === 'postgres' && postgresSkip(),
  }, () => {
    let published: PublishedComponents;
    let gitlab: ServiceStandIn;
    let slack: ServiceStandIn;
    let receiver: HttpReceiver;

    before(async () => {
      published = await PublishedComponents.prepare();
      gitlab = await startGitlab(published.authority, secrets.gitlab);
      slack = await startSlack(published.authority, secrets.slack);
      receiver = await HttpReceiver.start({ answer: { status: 201, body: { ok: true } } });
      await published.start({
        dialect,
        apps: ['gitlab', 'slack', 'helper_functions'],
        connectTo: [gitlab.connectTo, slack.connectTo],
      });
    });

    after(async () => {
      try {
        await published?.assertSealed(Object.values(secrets));
      } finally {
        await published?.close();
        for (const part of [gitlab, slack, receiver]) await part?.close();
      }
    });

    const run = async (app: PublishedApp, name: string, configured_props: object) => {
      const id = await published.save(app, 'actions', name);
      const answer = await published.service.api('POST', '/v1/actions/run', { id, configured_props });
      assert.equal(answer.status, 200, JSON.stringify(answer.body));
      return answer.body.data;
    };

    test('helper_functions: an http_request prop, and exports', async () => {
      const sent = await run('helper_functions', 'send-http-request', {
        httpRequest: { url: `${receiver.url}/things`, params: [{ name: 'q', value: '{{1}}' }] },
      });
      assert.deepEqual(sent.os, []);
      assert.deepEqual([sent.ret.status, sent.ret.data], [201, { ok: true }]);
      const [request] = receiver.requests;
      // The method is the default of the prop.
      assert.equal(request?.method, 'POST');
      assert.equal(new URL(request?.url ?? '', receiver.url).searchParams.get('q'), '{{1}}');
      const decoded = await run('helper_functions', 'base64-decode-string', { data: 'SGVsbG8=' });
      assert.deepEqual([decoded.exports, decoded.ret], [{ data: 'Hello' }, null]);
      assert.equal(decoded.component.key, 'helper_functions-base64-decode-string');
    });

    test('gitlab-list-commits gives a summary and what it returned', async () => {
      const account = await published.account('gitlab', {
        base_api_url: gitlab.host,
        oauth_access_token: secrets.gitlab,
      });
      const listed = await run('gitlab', 'list-commits', { gitlab: account, projectId: 42, max: 1 });
      assert.deepEqual(listed.exports, { $summary: 'Retrieved 1 commit' });
      assert.equal(listed.ret[0].title, 'Replace x');
      const { body } = await published.service.api('GET', `/v1/accounts/${account.authProvisionId}/uses`);
      assert.equal(body.data.used[0].id, listed.component.id);
    });

    test('slack-send-message-to-channel posts, fails with another token, and asks to wait where nothing waits', async () => {
      const props = {
        slack: await published.account('slack', { oauth_access_token: secrets.slack, oauth_uid: 'U1' }),
        conversation: 'C123ABC456',
        text: 'Hello {{name}}',
        include_sent_via_pipedream_flag: true,
      };
      const sent = await run('slack', 'send-message-to-channel', props);
      assert.equal(sent.exports.$summary, 'Successfully sent a message to #general', JSON.stringify(sent.os));
      const posted = new URLSearchParams(slack.last('POST /api/chat.postMessage').body.toString());
      assert.match(posted.get('text') ?? '', /Hello \{\{name\}\}/);
      const other = await published.account('slack', { oauth_access_token: 'xoxp-other-0123456789' });
      const refused = await run('slack', 'send-message-to-channel', { ...props, slack: other });
      const { k, err } = refused.os.at(-1);
      assert.equal(k, 'error');
      assert.match(err.message, /invalid_auth/);
      assert.equal(refused.ret, null);
      const waits = await run('slack', 'approve-workflow', {
        slack: props.slack,
        channelType: 'Channels',
        conversation: 'C123ABC456',
        message: 'May I?',
      });
      assert.match(waits.os.at(-1).err.message, /\$\.flow\.suspend can be used in steps of workflows only/);
    });
  });
}
