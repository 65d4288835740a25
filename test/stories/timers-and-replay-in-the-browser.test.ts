import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, test } from 'node:test';
import { chromiumSkip } from '../support/chromium.ts';
import { useDashboard } from '../support/dashboard-browser.ts';
import { createEmittingSource, createListeningWebhook } from '../support/emitting-source.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import type { ServiceClient } from '../support/service-client.ts';
import { waitFor } from '../support/wait-for.ts';

const timed = `export default {
  name: 'Timed', type: 'source', version: '0.0.1', props: { timer: '$.interface.timer' }, run() {},
};`;

describe('timers and replay in the dashboard', { skip: chromiumSkip() }, () => {
  const dashboard = useDashboard();
  let service: ServiceClient;
  let receiver: HttpReceiver;

  before(async () => {
    service = dashboard.service;
    receiver = await HttpReceiver.start();
  });
  after(() => receiver?.close());

  test('the ledger shows of each planned run when it ran, how late, and what was done about missed ones', async () => {
    const source = await service.createSource({
      name: 'every hour',
      component_code: timed,
      configured_props: { timer: { intervalSeconds: 3600 } },
    });
    await waitFor(
      async () =>
        (await service.api('GET', `/v1/sources/${source.id}/ticks`)).body.data[0]?.run?.state === 'succeeded',
    );
    writeTicks(dashboard.dataFolder, source.id, Date.now() - 3_600_000);
    const page = await dashboard.signedIn(`/sources/${source.id}`);
    await page.getByRole('tab', { name: 'Timers' }).click();
    const planned = page.getByRole('region', { name: 'Timer timer' });
    await planned.getByText('Every 1 h').waitFor();
    await planned.getByText(/Next run in (5\d|60) min/).waitFor();
    assert.equal(await planned.getByRole('listitem').count(), 4);
    const ledger = page.getByRole('list', { name: 'Outcome of each planned run' });
    await ledger.getByRole('listitem').nth(4).waitFor();
    const rows = await ledger.getByRole('listitem').allTextContents();
    assert.equal(rows.length, 5);
    // On a busy machine it may be two seconds late.
    assert.match(rows[0] ?? '', /succeeded.*started at .*, (?:in time|.* after its time)/);
    assert.match(
      rows[1] ?? '',
      /missed10 planned runs until .*: nothing ran at its time; the late run stands for it/,
    );
    assert.match(rows[2] ?? '', /failed.*started at .*, 10 min after its time: TypeError: x/);
    assert.match(rows[3] ?? '', /skipped.*<b>not finished<\/b> ⟨U\+202E⟩/);
    assert.match(rows[4] ?? '', /skipped.*the quota of its owner was used up/);
    await dashboard.screenshot(page, 'source-timers');
    await service.api('PUT', `/v1/sources/${source.id}`, { active: false });
    await page.reload();
    await page.getByText('This source is inactive, so no run is planned').waitFor();
    const other = await createEmittingSource(service);
    await page.goto(`${service.url}/sources/${other.id}`);
    await page.getByRole('tab', { name: 'Replay' }).waitFor();
    assert.equal(await page.getByRole('tab', { name: 'Timers' }).count(), 0, 'it has no timer');
    dashboard.nothingWrong();
  });

  test('one event is sent again from its detail, to its subscribers, after the consequences were shown', async () => {
    const source = await createEmittingSource(service);
    const webhook = await createListeningWebhook(service, {
      url: `${receiver.url}/one`,
      emitterId: source.id,
    });
    await source.emit([{ n: 'first <b>' }, { n: 'second' }, { n: 'third' }]);
    const requests = () => receiver.requests.filter(({ url }) => url === '/one');
    await waitFor(() => requests().length === 3, { what: 'the events to arrive' });
    const page = await dashboard.signedIn(`/sources/${source.id}`);
    await page.getByRole('button', { name: /"n":"second"/ }).click();
    await page.getByRole('link', { name: 'Send again …' }).click();
    await page.getByText('1 of 3 events chosen').waitFor();
    assert.ok(await page.getByRole('checkbox', { name: /"n":"second"/ }).isChecked());
    assert.ok(await page.getByRole('checkbox', { name: new RegExp(webhook.id) }).isChecked());
    await page.getByText('No events of this source were sent again yet').waitFor();
    await page.getByRole('button', { name: 'Send 1 event to 1 listener …' }).click();
    const dialog = page.getByRole('alertdialog');
    await dialog.getByText('1 delivery, the oldest event first').waitFor();
    await dialog.getByText(webhook.id).waitFor();
    await dashboard.screenshot(page, 'source-replay-confirm');
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    assert.equal(requests().length, 3, 'nothing was sent without consent');
    await page.getByRole('button', { name: 'Send 1 event to 1 listener …' }).click();
    await dialog.getByRole('button', { name: 'Send again' }).click();
    const replays = page.getByRole('list', { name: 'Replays, newest first' });
    await replays.getByText('1 of 1 event sent').waitFor();
    await replays.getByText('finished', { exact: true }).waitFor();
    assert.deepEqual(JSON.parse(String(requests()[3]?.body)).n, 'second');
    await dashboard.screenshot(page, 'source-replay');
    dashboard.nothingWrong();
  });

  test('chosen events go to several, also to one who is not subscribed; a slow replay shows how far it is and is cancelled', async () => {
    const source = await createEmittingSource(service);
    await createListeningWebhook(service, { url: `${receiver.url}/two`, emitterId: source.id });
    const { body: other } = await service.api('POST', '/v1/webhooks', {
      url: `${receiver.url}/three`,
      name: 'not subscribed <i>',
    });
    await source.emit(Array.from({ length: 30 }, (_, n) => ({ n })));
    const sent = (path: string) =>
      receiver.requests
        .filter((request) => request.url === path)
        .map(({ body }) => JSON.parse(String(body)).n);
    await waitFor(() => sent('/two').length === 30, { what: 'the events to arrive' });
    const page = await dashboard.signedIn(`/sources/${source.id}?tab=replay`);
    for (const n of [3, 4, 20]) await page.getByRole('checkbox', { name: `{"n":${n}}` }).check();
    await page
      .getByLabel('Listener without a subscription')
      .selectOption({ label: `Webhook: not subscribed <i> (${other.data.id})` });
    await page.getByRole('button', { name: 'Send 3 events to 2 listeners …' }).click();
    const dialog = page.getByRole('alertdialog');
    await dialog.getByText('6 deliveries, the oldest event first').waitFor();
    await dialog.getByRole('button', { name: 'Send again' }).click();
    // Two stretches to each of two.
    const replays = page.getByRole('list', { name: 'Replays, newest first' });
    await waitFor(async () => (await replays.getByText('finished', { exact: true }).count()) === 4, {
      what: 'four replays to finish',
    });
    assert.deepEqual(sent('/three').sort(), [20, 3, 4]);
    assert.deepEqual(sent('/two').slice(30).sort(), [20, 3, 4]);

    await page.getByRole('button', { name: 'All', exact: true }).click();
    await page.getByLabel('Events per second, at most').fill('1');
    await page.getByRole('checkbox', { name: new RegExp(other.data.id) }).uncheck();
    await page.getByRole('button', { name: 'Send 30 events to 1 listener …' }).click();
    await dialog.getByText('30 deliveries, the oldest event first, within 30 s at the soonest').waitFor();
    await dialog.getByRole('button', { name: 'Send again' }).click();
    await replays.getByRole('progressbar').waitFor();
    await replays.getByText(/^[1-9]\d? of 30 events sent/).waitFor();
    await dashboard.screenshot(page, 'source-replay-under-way');
    await replays.getByRole('button', { name: 'Cancel' }).click();
    await replays.getByText('replay cancelled').waitFor();
    assert.ok(sent('/two').length < 63);

    // A range of time that has none of them, and one that has all.
    await page.getByLabel('until').fill('2020-01-01T00:00:00');
    await page.getByText('0 of 30 events chosen').waitFor();
    await page.getByLabel('until').fill('2090-01-01T00:00:00');
    await page.getByText('30 of 30 events chosen').waitFor();
    dashboard.nothingWrong();
  });

  test('what a listener did not take is shown; a viewer sees replays and timers without buttons, narrow and dark', async () => {
    const { body: me } = await service.api('GET', '/v1/users/me');
    const workspace = me.data.orgs[0].id;
    const source = await createEmittingSource(service, { workspace });
    receiver.answerAlways({ status: 410 });
    await createListeningWebhook(service, { url: `${receiver.url}/four`, emitterId: source.id, workspace });
    await source.emit([{ long: 'x'.repeat(400) }]);
    await waitFor(() => receiver.requests.some(({ url }) => url === '/four'));
    const page = await dashboard.signedIn(`/sources/${source.id}?tab=replay`);
    await page.getByRole('button', { name: 'All', exact: true }).click();
    await page.getByRole('button', { name: 'Send 1 event to 1 listener …' }).click();
    await page.getByRole('alertdialog').getByRole('button', { name: 'Send again' }).click();
    await page.getByText('finished, not all arrived').waitFor();
    await page.getByText('0 of 1 event sent, 1 not delivered').waitFor();

    const clock = await service.api('POST', `/v1/sources?org_id=${workspace}`, {
      component_code: timed,
      configured_props: { timer: { cron: '*/5 * * * *', timezone: 'Asia/Kathmandu' } },
    });
    writeTicks(dashboard.dataFolder, clock.body.data.id, Date.now() - 3_600_000);
    const user = await service.createUser('vera');
    await service.api('POST', `/v1/workspaces/${workspace}/members`, {
      user_id: user.id,
      role: 'viewer',
    });
    const small = { viewport: { width: 360, height: 740 }, colorScheme: 'dark' } as const;
    const narrow = await dashboard.signedIn(`/sources/${source.id}?tab=replay`, small, user.key);
    await narrow.getByText('0 of 1 event sent, 1 not delivered').waitFor();
    const fits = async (what: string) => {
      assert.equal(await narrow.getByRole('button', { name: /Send|Cancel|All|None/ }).count(), 0, what);
      const tooWide = await narrow.evaluate('document.documentElement.scrollWidth - window.innerWidth');
      assert.ok(Number(tooWide) <= 0, `${what} is ${tooWide} px too wide`);
    };
    await fits('replay');
    await dashboard.screenshot(narrow, 'source-replay-narrow');
    await narrow.getByRole('tab', { name: 'Events' }).click();
    await narrow.getByRole('button', { name: /"long"/ }).click();
    assert.equal(await narrow.getByRole('link', { name: 'Send again …' }).count(), 0);
    await narrow.goto(`${service.url}/sources/${clock.body.data.id}?tab=timers`);
    await narrow.getByText('*/5 * * * *').waitFor();
    await narrow.getByText('the late run stands for it').waitFor();
    await fits('timers');
    await dashboard.screenshot(narrow, 'source-timers-narrow');
    // A user who may write sees the whole form on the same screen.
    const writer = await dashboard.signedIn(`/sources/${source.id}?tab=replay`, small);
    await writer.getByText('0 of 1 events chosen').waitFor();
    const tooWide = await writer.evaluate('document.documentElement.scrollWidth - window.innerWidth');
    await dashboard.screenshot(writer, 'source-replay-form-narrow');
    assert.ok(Number(tooWide) <= 0, `the form is ${tooWide} px too wide`);
    dashboard.nothingWrong();
  });
});

/** What a service that was slow, full or down would have left in the ledger of a source. */
function writeTicks(dataFolder: string, sourceId: string, atMs: number): void {
  const database = new DatabaseSync(`${dataFolder}/millrace.sqlite`, { timeout: 60_000 });
  const { owner_id: ownerId } = database
    .prepare('select owner_id from sources where id = ?')
    .get(sourceId) as {
    owner_id: string;
  };
  const insert = database.prepare(
    `insert into ticks (subject_id, timer_id, owner_id, planned_at_ms, recorded_at_ms, outcome, reason, ticks)
      values (?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const row = (planned: number, recorded: number, outcome: string, reason: string, ticks: number) =>
    insert.run(
      sourceId,
      `${sourceId}:timer`,
      ownerId,
      atMs + planned,
      atMs + recorded,
      outcome,
      reason,
      ticks,
    );
  row(-20_000, -20_000, 'skipped', 'quota_exceeded', 1);
  row(-10_000, -10_000, 'skipped', '<b>not finished</b> \u202e', 1);
  row(0, 600_000, 'late', '600000 ms after its time', 1);
  // Of this tick alone: on a busy machine others of the service are late too.
  const fail = database.prepare(
    `update ticks set run_state = 'failed', run_error = 'TypeError: x'
      where subject_id = ? and planned_at_ms = ?`,
  );
  fail.run(sourceId, atMs);
  row(1, 600_000, 'missed', 'nothing ran at its time; the late run stands for it', 10);
  database.close();
}
