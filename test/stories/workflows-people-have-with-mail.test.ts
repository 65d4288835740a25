/** The other workflows in the shape that they have when they come from elsewhere: those that send mail, or start by a mail or a timer. */
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import nodemailer from 'nodemailer';
import { freePort } from '../support/free-port.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachService, type ServiceClient, type TestUser } from '../support/millrace.ts';
import { PlainMailServer } from '../support/plain-mail-server.ts';
import { waitFor } from '../support/wait-for.ts';
import { endpointOf, exportsOf, postJson, setVariables } from '../support/workflow-stories.ts';

/** Where the service takes mails, and where it sends them. */
const mailPort = await freePort();
const mailServer = await PlainMailServer.start();
after(() => mailServer.close());

/** A feed with these entries, each published a minute after the one before. */
function feedOf(name: string, titles: readonly string[]): string {
  const items = titles.map(
    (title, n) =>
      `<item><title>${title}</title><link>https://${name}.example/${n}</link><guid>${name}-${n}</guid>` +
      `<pubDate>${new Date(Date.UTC(2026, 10, 20, 8, n)).toUTCString()}</pubDate></item>`,
  );
  return `<?xml version="1.0"?><rss version="2.0"><channel><title>${name}</title><link>https://${name}.example</link>
    <description>news</description>${items.join('')}</channel></rss>`;
}

forEachService(
  (fixture) => {
    let world: HttpReceiver;
    let user: TestUser;
    let service: ServiceClient;
    before(async () => {
      world = await HttpReceiver.start();
      user = await fixture.service.createUser('mover');
      service = fixture.service.as(user);
      await setVariables(service, { WORLD_URL: world.url, FEEDS: `${world.url}/a.xml,${world.url}/b.xml` });
      await setVariables(service, { CHAT_HOOK: `${world.url}/hooks/T0-secret` }, true);
    });
    after(() => world.close());
    afterEach(() => {
      world.requests.splice(0);
      mailServer.mails.splice(0);
      world.answerAlways({});
    });
    const mailArrives = () => waitFor(() => mailServer.mails[0], { what: 'a mail' });

    test('a digest of feeds on a timer: merged, what is new by a data store, a filter, and a mail to its author', async () => {
      world.answerAlways(({ url }) => ({
        headers: { 'content-type': 'application/rss+xml' },
        body: url === '/a.xml' ? feedOf('a', ['First', 'Third']) : feedOf('b', ['Second']),
      }));
      const store = await service.api('POST', '/v1/data_stores', { name: 'seen' });
      const workflow = await service.createWorkflow({
        settings: { name: 'Morning digest', timeout_seconds: 45 },
        triggers: [{ type: 'timer', props: { interval_seconds: 86_400 } }],
        steps: [
          {
            namespace: 'merge_rss_feeds',
            component: 'rss-merge-rss-feeds',
            props: { urls: '{{process.env.FEEDS.split(",").map((url) => url.trim())}}', merge: true },
          },
          {
            namespace: 'only_new',
            props: { seen: { storeId: store.body.data.id } },
            code: `export default defineComponent({
              props: { seen: { type: 'data_store' } },
              async run({ steps, $ }) {
                const fresh = [];
                for (const item of steps.merge_rss_feeds.$return_value) {
                  if (await this.seen.has(item.guid)) continue;
                  await this.seen.set(item.guid, Date.now());
                  fresh.push({ title: item.title, link: item.link });
                }
                $.export('count', fresh.length);
                return fresh;
              },
            });`,
          },
          {
            namespace: 'filter_continue_on_condition',
            component: 'filter-continue-based-on-condition',
            props: {
              messageOnEnd:
                'nothing new since {{new Date(steps.trigger.event.timestamp * 1000).getFullYear()}}',
              initialValue: '{{steps.only_new.count}}',
              condition: { __lv: { label: '[Number] ≥', value: 'GREATER_THAN_EQUALS' } },
              secondValue: '1',
            },
          },
          {
            namespace: 'send_email_to_self',
            component: 'email-send-email-to-self',
            props: {
              subject: `{{steps.only_new.count}} new {{
                steps.only_new.count === 1 ? 'post' : 'posts'
              }}`,
              text: `{{steps.only_new.$return_value
                .map((post) => \`- \${post.title} (\${post.link})\`)
                .join('\\n')}}`,
              html: null,
            },
          },
        ],
      });
      const mail = await mailArrives();
      assert.deepEqual([mail.to, mail.content.subject], [[user.email], '3 new posts']);
      assert.deepEqual(mail.content.text?.trim().split('\n'), [
        '- Third (https://a.example/1)',
        '- First (https://a.example/0)',
        '- Second (https://b.example/0)',
      ]);
      await service.runInState(workflow.id, 'succeeded');
      // An interval ticks when the workflow becomes active.
      for (const active of [false, true])
        await service.api('PUT', `/v1/workflows/${workflow.id}`, { active });
      const second = await waitFor(async () => {
        const runs = await service.runs(workflow.id, '&state=succeeded');
        return runs.length === 2 && runs[0];
      });
      assert.equal(second.reason, `nothing new since ${new Date().getUTCFullYear()}`);
      assert.equal(mailServer.mails.length, 1);
    });

    test('a report on working days, or when it is asked for: days counted back, a limit, a chat, and an event for others', async () => {
      world.answerAlways((request) =>
        request.method === 'GET' ? { body: { orders: [{ total: 70 }, { total: 55.5 }] } } : { body: 'ok' },
      );
      await setVariables(service, { REPORT_DAYS: '7' });
      const workflow = await service.createWorkflow({
        settings: { name: 'Weekly report' },
        triggers: [
          { type: 'timer', props: { cron: '0 8 * * 1-5', timezone: 'Europe/Lisbon' } },
          { type: 'http', props: {} },
        ],
        steps: [
          {
            namespace: 'orders',
            component: 'http-get-request',
            props: {
              httpRequest: {
                auth: { type: 'none' },
                headers: [],
                params: [
                  {
                    name: 'since',
                    value: `{{new Date(Date.now() - 24 * 3600 * 1000 * Number(process.env.REPORT_DAYS))
                      .toISOString()
                      .slice(0, 10)}}`,
                  },
                ],
                method: 'GET',
                url: `{{\`\${process.env.WORLD_URL}/orders\`}}`,
              },
            },
          },
          {
            namespace: 'total',
            component: 'list-aggregate',
            props: { items: '{{steps.orders.$return_value.orders}}', operation: 'sum', field: 'total' },
          },
          {
            namespace: 'enough',
            component: 'filter-continue-based-on-condition',
            props: {
              initialValue: '{{steps.total.$return_value}}',
              condition: 'GREATER_THAN_EQUALS',
              secondValue: 100,
            },
          },
          {
            namespace: 'chat',
            component: 'http-custom-request',
            props: {
              httpRequest: {
                method: 'POST',
                url: '{{process.env.CHAT_HOOK}}',
                headers: [{ name: 'Content-Type', value: 'application/json' }],
                body: {
                  type: 'raw',
                  contentType: 'application/json',
                  raw: '{"text": "{{process.env.REPORT_DAYS}} days: {{steps.total.$return_value.toFixed(2)}}", "icon_emoji": null}',
                },
              },
            },
          },
          {
            namespace: 'tell_others',
            code: `export default defineComponent({
              async run({ steps, $ }) {
                $.send.emit({ total: steps.total.$return_value }, 'reports');
                return steps.trigger.context.source_type;
              },
            });`,
          },
        ],
      });
      await postJson(endpointOf(workflow), {});
      const asked = await world.waitForRequest();
      const since = new Date(Date.now() - 7 * 86_400_000).toISOString().slice(0, 10);
      assert.equal(asked.url, `/orders?since=${since}`);
      const told = await world.waitForRequest(2);
      assert.equal(told.url, '/hooks/T0-secret');
      assert.deepEqual(told.json(), { text: '7 days: 125.50', icon_emoji: null });
      const run = await service.runInState(workflow.id, 'succeeded');
      assert.equal(exportsOf(run).total?.$return_value, 125.5);
      assert.doesNotMatch(JSON.stringify(run), /T0-secret/);
      const emitted = await service.api(
        'GET',
        `/v1/workflows/${workflow.id}/event_summaries?expand=event&event_name=reports`,
      );
      assert.deepEqual(emitted.body.data[0]?.event.raw_event, { total: 125.5 });
    });

    test('a mail becomes a ticket: its subject decides, its text is cut, and its sender is answered by its author', async () => {
      world.answerAlways({ status: 201, body: { key: 'MILL-7' } });
      const workflow = await service.createWorkflow({
        settings: { name: 'Mail to ticket' },
        triggers: [{ type: 'email', props: {} }],
        steps: [
          {
            namespace: 'only_bugs',
            component: 'filter-continue-based-on-condition',
            props: {
              initialValue: '{{steps.trigger.event.headers.subject}}',
              condition: 'CONTAINS',
              secondValue: 'bug',
              caseSensitive: false,
            },
          },
          {
            namespace: 'shorten',
            component: 'text-truncate',
            props: { input: '{{steps.trigger.event.body.text.trim()}}', length: 20 },
          },
          {
            namespace: 'ticket',
            component: 'http-custom-request',
            props: {
              httpRequest: {
                auth: {
                  type: 'basic',
                  username: '{{process.env.TRACKER_USER ?? "anonymous"}}',
                  password: '',
                },
                body: {
                  type: 'fields',
                  contentType: 'application/x-www-form-urlencoded',
                  fields: [
                    {
                      name: 'title',
                      value: '{{steps.trigger.event.headers.subject.replace(/^(re|fwd?): */i, "")}}',
                    },
                    { name: 'body', value: '{{steps.shorten.$return_value}}' },
                    { name: 'reporter', value: '{{steps.trigger.event.headers.from.value[0].address}}' },
                  ],
                },
                method: 'POST',
                url: '{{process.env.WORLD_URL}}/tickets',
              },
            },
          },
          {
            namespace: 'tell_me',
            component: 'email-send-email-to-self',
            props: {
              subject: '{{steps.ticket.$return_value.key}}: {{steps.trigger.event.headers.subject}}',
              html: '<p>See <a href="{{process.env.WORLD_URL}}/tickets/{{steps.ticket.$return_value.key}}">the ticket</a></p>',
            },
          },
        ],
      });
      const transport = nodemailer.createTransport({ host: '127.0.0.1', port: mailPort, ignoreTLS: true });
      const to = workflow.triggers[0].email_address;
      const from = 'Eve <eve@example.com>';
      await transport.sendMail({ from, to, subject: 'Lunch', text: 'At noon?' });
      const ended = await service.runInState(workflow.id, 'succeeded');
      assert.equal(ended.reason, 'Ended: the condition CONTAINS is not met');
      await transport.sendMail({
        from,
        to,
        subject: 'Re: A Bug',
        text: 'The wheel turns the wrong way round.',
      });
      transport.close();
      const ticket = await world.waitForRequest();
      assert.equal(ticket.headers.authorization, `Basic ${Buffer.from('anonymous:').toString('base64')}`);
      assert.deepEqual(Object.fromEntries(new URLSearchParams(ticket.body.toString())), {
        title: 'A Bug',
        body: 'The wheel turns the…',
        reporter: 'eve@example.com',
      });
      const mail = await mailArrives();
      assert.deepEqual([mail.to, mail.content.subject], [[user.email], 'MILL-7: Re: A Bug']);
      assert.match(String(mail.content.html), /\/tickets\/MILL-7">the ticket/);
    });
  },
  {
    environment: {
      MILLRACE_SMTP_PORT: String(mailPort),
      MILLRACE_SMTP_URL: mailServer.url,
      MILLRACE_EMAIL_FROM: 'millrace@example.com',
    },
    inTurns: true,
  },
);
