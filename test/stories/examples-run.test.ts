import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import nodemailer from 'nodemailer';
import { exampleList } from '../../dashboard/src/editing/example-list.ts';
import { runCommand } from '../support/command-line.ts';
import { freePort } from '../support/free-port.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachSharedService, Millrace } from '../support/millrace.ts';
import { PlainMailServer } from '../support/plain-mail-server.ts';
import { readProjectFile } from '../support/project-files.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';
import { setVariables } from '../support/workflow-stories.ts';

const folder = fileURLToPath(new URL('../../examples/', import.meta.url));

/** Names of the files with this ending. */
async function examples(ending: '.mjs' | '.json'): Promise<string[]> {
  const files = (await readdir(folder)).filter((file) => file.endsWith(ending) && file !== 'deploy.mjs');
  return files.map((file) => file.slice(0, -ending.length)).sort();
}

const linked = (markdown: string, ending: 'mjs' | 'json') =>
  [...markdown.matchAll(new RegExp(`/?([\\w-]+)\\.${ending}\\)`, 'g'))].map(([, name = '']) => name).sort();

test('the list of examples is the folder of examples, and the guide has those without code', async () => {
  const readme = await readFile(`${folder}README.md`, 'utf8');
  assert.deepEqual(linked(readme, 'mjs'), await examples('.mjs'));
  assert.deepEqual(linked(readme, 'json'), await examples('.json'));
  assert.deepEqual(linked(readProjectFile('docs/guides/examples.md'), 'json'), await examples('.json'));
});

test('ten examples have no code, and their README names the variables that they read', async () => {
  const names = await examples('.json');
  assert.equal(names.length, 10);
  const readme = await readFile(`${folder}README.md`, 'utf8');
  for (const name of names) {
    const text = await readFile(`${folder}${name}.json`, 'utf8');
    const { settings, steps, triggers } = JSON.parse(text) as {
      settings: { name: string };
      steps: { component?: string; code?: string }[];
      triggers: { props: { component?: string; code?: string } }[];
    };
    for (const { component, code } of [...steps, ...triggers.map(({ props }) => props)])
      assert.equal(code, undefined, `${name}: ${component}`);
    const row = readme.split('\n').find((line) => line.includes(`(${name}.json)`)) ?? '';
    const listed = [...row.matchAll(/`([A-Z_]+)`/g)].map(([, variable]) => variable);
    const read = [...text.matchAll(/process\.env\.([A-Z_]+)/g)].map(([, variable]) => variable);
    assert.deepEqual([...new Set(listed)].sort(), [...new Set(read)].sort(), name);
    const offered = exampleList.find(({ file }) => file === name);
    assert.deepEqual(
      [...(offered?.variables ?? [])].sort(),
      [...new Set(read)].sort(),
      `${name} in the dashboard`,
    );
    assert.equal(offered?.name, settings.name);
  }
});

forEachSharedService((fixture) => {
  /** Deploys as the README says; answers the workflow. */
  async function deploy(name: string) {
    const { stdout } = await promisify(execFile)(process.execPath, [`${folder}deploy.mjs`, name], {
      env: { URL: fixture.service.url, KEY: fixture.service.key },
    });
    const id = /^(p_\w+)/.exec(stdout)?.[1];
    const { body } = await fixture.service.api('GET', `/v1/workflows/${id}`);
    // It prints where to send something to try the example.
    const isAddressed = ({ id: trigger }: { id: string }) =>
      trigger.startsWith('ti_') || new RegExp(`${trigger}  \\S+`).test(stdout);
    assert.ok(body.data.triggers.every(isAddressed), stdout);
    return body.data;
  }
  const events = async (workflowId: string, channel = '') => {
    const { body } = await fixture.service.api(
      'GET',
      `/v1/workflows/${workflowId}/event_summaries?expand=event&event_name=${channel}`,
    );
    return body.data.map((row: { event: { raw_event: unknown } }) => row.event.raw_event);
  };

  test('hello-request answers', async () => {
    const workflow = await deploy('hello-request');
    const answer = await fetch(`${workflow.triggers[0].endpoint_url}?name=Ada`);
    assert.equal(await answer.text(), 'Hello, Ada!\n');
    assert.equal(await (await fetch(workflow.triggers[0].endpoint_url)).text(), 'Hello, stranger!\n');
  });

  test('approval-by-link continues when its link is followed', async () => {
    const workflow = await deploy('approval-by-link');
    const answer = await fetch(workflow.triggers[0].endpoint_url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"request": "a new chair"}',
    });
    const { approve } = (await answer.json()) as { approve: string };
    assert.equal((await fetch(approve)).status, 200);
    await fixture.service.runInState(workflow.id, 'succeeded');
    assert.deepEqual(await events(workflow.id), [{ approved: 'a new chair', from: '127.0.0.1' }]);
  });

  test('visit-counter counts, and its timer reports', async () => {
    const workflow = await deploy('visit-counter');
    const endpoint = workflow.triggers.find(
      (trigger: { endpoint_url?: string }) => trigger.endpoint_url,
    ).endpoint_url;
    for (const page of ['a', 'b']) {
      await fetch(`${endpoint}/${page}`);
      await waitFor(async () =>
        (await fixture.service.runs(workflow.id)).some((run) => run.reason === `counted /${page}`),
      );
    }
    // The first tick of an interval comes at once, before or after the visits.
    await waitFor(async () => (await events(workflow.id)).length > 0);
  });

  test('filter-an-inbox hands on orders and nothing else', async () => {
    const workflow = await deploy('filter-an-inbox');
    const inbox = workflow.triggers[0].configured_props;
    const endpoint = Object.values(inbox as Record<string, { endpoint_url?: string }>).find(
      (value) => value?.endpoint_url,
    )?.endpoint_url;
    for (const body of [{ type: 'order', items: 2 }, { type: 'spam' }, { type: 'order', items: 3 }])
      await fetch(endpoint ?? '', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
    await waitFor(async () => (await fixture.service.runs(workflow.id, '&state=succeeded')).length === 3);
    assert.deepEqual(await events(workflow.id, 'orders'), [{ items: 3 }, { items: 2 }], 'in order');
  });
});

/** What the guide tells to do with the others is done by manual-examples-run; these two need mail. */
describe('examples without code that need mail', () => {
  let temp: TempFolder;
  let mailServer: PlainMailServer;
  let receiver: HttpReceiver;
  let service: Millrace;
  let mailPort: number;
  before(async () => {
    temp = await createTempFolder('examples');
    mailServer = await PlainMailServer.start();
    receiver = await HttpReceiver.start();
    mailPort = await freePort();
    service = await Millrace.start({
      dataFolder: join(temp.path, 'data'),
      environment: {
        MILLRACE_SMTP_PORT: String(mailPort),
        MILLRACE_SMTP_URL: mailServer.url,
        MILLRACE_EMAIL_FROM: 'millrace@example.com',
      },
    });
  });
  after(async () => {
    await service?.stop();
    for (const part of [mailServer, receiver]) await part?.close();
    await temp?.remove();
  });

  /** Deploys one by the command of the README; answers what it printed. */
  async function deploy(name: string) {
    const environment = { MILLRACE_URL: service.url, MILLRACE_API_KEY: service.key };
    const command = ['workflows', 'create', '--file', `${folder}${name}.json`];
    const { code, stdout, stderr } = await runCommand({ folder: temp.path, environment }, command);
    assert.equal(code, 0, stderr);
    const [id = '', ...rest] = stdout.trim().split(/ {2,}/);
    return { id, rest, stderr };
  }

  test('news-digest mails the posts of the last day, and says first which variable is not set', async () => {
    const item = (title: string, hoursAgo: number) =>
      `<item><title>${title}</title><link>https://news.example/${title}</link>` +
      `<pubDate>${new Date(Date.now() - hoursAgo * 3_600_000).toUTCString()}</pubDate></item>`;
    receiver.answerAlways({
      headers: { 'content-type': 'application/rss+xml' },
      body: `<rss version="2.0"><channel><title>News</title><link>https://news.example</link><description>x</description>
        ${item('Fresh', 1)}${item('Stale', 48)}</channel></rss>`,
    });
    const early = await deploy('news-digest');
    assert.match(early.stderr, /reads variables that are not set: FEED_URLS\. .*millrace env set NAME=value/);
    const failed = await service.runInState(early.id, 'failed');
    assert.match(failed.error.msg, /not set: FEED_URLS/);
    await setVariables(service, { FEED_URLS: `${receiver.url}/feed.xml` });
    const { id, stderr } = await deploy('news-digest');
    assert.doesNotMatch(stderr, /not set/);
    await service.runInState(id, 'succeeded');
    const mail = await waitFor(() => mailServer.mails[0], { what: 'a mail' });
    assert.equal(mail.content.subject, 'News of the last day: 1');
    assert.match(mail.content.text ?? '', /- Fresh\n {2}https:\/\/news\.example\/Fresh/);
    assert.doesNotMatch(mail.content.text ?? '', /Stale/);
  });

  test('mail-to-chat posts what people wrote, and nothing that a program sent', async () => {
    await setVariables(service, { CHAT_URL: `${receiver.url}/chat` });
    const { id, rest } = await deploy('mail-to-chat');
    const [, to = ''] = rest;
    const transport = nodemailer.createTransport({ host: '127.0.0.1', port: mailPort, ignoreTLS: true });
    const mail = { from: 'Eve <eve@example.com>', to, subject: 'Hello' };
    await transport.sendMail({ ...mail, text: 'I am away', headers: { 'auto-submitted': 'auto-replied' } });
    assert.equal((await service.runInState(id, 'succeeded')).reason, 'Sent by a program');
    await transport.sendMail({ ...mail, text: `The mill is running.\n${'x'.repeat(500)}` });
    transport.close();
    const post = await waitFor(() => receiver.requests.find(({ url }) => url === '/chat'));
    const { text } = post.json() as { text: string };
    assert.match(text, /^eve@example\.com: Hello\nThe mill is running\./);
    assert.ok(text.length < 340 && text.endsWith('…'), text);
  });
});
