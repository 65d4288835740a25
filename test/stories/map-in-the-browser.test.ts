import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { chromiumSkip } from '../support/chromium.ts';
import { useDashboard } from '../support/dashboard-browser.ts';
import { createEmittingSource, createListeningWebhook } from '../support/emitting-source.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import type { ServiceClient } from '../support/service-client.ts';
import { waitFor } from '../support/wait-for.ts';

const hostileName = '<img src=x onerror=alert(1)> \u202eevil\u001b[31m';

describe('the flow map in the dashboard', { skip: chromiumSkip() }, () => {
  const dashboard = useDashboard();
  let service: ServiceClient;
  let receiver: HttpReceiver;

  before(async () => {
    service = dashboard.service;
    receiver = await HttpReceiver.start();
  });
  after(() => receiver?.close());

  const created = async (path: string, body: object, key?: string) => {
    const answer = await service.api('POST', path, body, key === undefined ? {} : { key });
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body.data;
  };
  const box = (page: Page, id: string) => page.locator(`[data-box="${id}"]`);

  test('events that flow from a source to a webhook and a workflow are seen on the way, hostile names as text', async () => {
    const page = await dashboard.signedIn('/map');
    await page.getByText('Nothing flows yet').waitFor();
    const source = await createEmittingSource(service);
    await service.api('PUT', `/v1/sources/${source.id}`, { name: hostileName });
    const webhook = await createListeningWebhook(service, { url: receiver.url, emitterId: source.id });
    const workflow = await service.createWorkflow({
      settings: { name: 'answers' },
      triggers: [{ type: 'http' }],
      steps: [{ namespace: 'code', code: 'export default defineComponent({ run() { return 1; } });' }],
    });
    await created('/v1/subscriptions', { emitter_id: source.id, listener_id: workflow.id });
    await box(page, source.id).waitFor();
    await page
      .getByRole('button', { name: /^Source <img src=x onerror=alert\(1\)> ⟨U\+202E⟩evil/ })
      .waitFor();
    await source.emit([1, 2, 3, 4]);
    for (const { id } of [webhook, workflow])
      await page.locator(`[data-line="${source.id} → ${id}"] .map-rate`, { hasText: '4/min' }).waitFor();
    await dashboard.screenshot(page, 'map-three');
    const motion = `getComputedStyle(document.querySelector('.map-line.busy .map-way')).animationName`;
    assert.equal(await page.evaluate(motion), 'none', 'who wants no motion has none');
    await page.emulateMedia({ reducedMotion: 'no-preference' });
    assert.equal(await page.evaluate(motion), 'map-flow');
    await page.emulateMedia({ reducedMotion: 'reduce' });
    await box(page, workflow.id).click();
    const panel = page.getByRole('complementary', { name: 'Workflow answers' });
    await panel.getByText('Started by HTTP request').waitFor();
    await panel.getByRole('region', { name: 'Last runs' }).getByRole('link').first().waitFor();
    await panel.getByRole('button', { name: /^<img/ }).click();
    const line = page.getByRole('complementary', { name: /→ answers/ });
    await line.getByRole('list', { name: 'Last deliveries' }).getByText('delivered').first().waitFor();
    await dashboard.screenshot(page, 'map-line');
    await page.getByRole('button', { name: 'Show as a list' }).click();
    await page.getByRole('row', { name: /HTTP request.*answers/ }).waitFor();
    // The rate is that of the last minute, which the first four may have left on a busy machine.
    await source.emit([5, 6, 7, 8]);
    await page.getByRole('row', { name: /<img src=x.*events.*answers.*[48]\/min.*none/ }).waitFor();
    await dashboard.screenshot(page, 'map-list');
    dashboard.nothingWrong();
  });

  test('a failing receiver turns its line red, and leads to the dead letter', async () => {
    const source = await createEmittingSource(service);
    receiver.answerAlways({ status: 410 });
    const webhook = await createListeningWebhook(service, {
      url: `${receiver.url}/gone`,
      emitterId: source.id,
    });
    const page = await dashboard.signedIn(`/webhooks/${webhook.id}`);
    await page.getByRole('link', { name: 'See in the map' }).click();
    const panelOf = (name: RegExp) => page.getByRole('complementary', { name });
    await panelOf(/^Webhook /).waitFor();
    const line = page.locator(`[data-line="${source.id} → ${webhook.id}"]`);
    await line.waitFor({ state: 'attached' });
    assert.doesNotMatch((await line.getAttribute('class')) ?? '', /bad/);
    await source.emit([{ order: 1 }]);
    await page.locator(`[data-line="${source.id} → ${webhook.id}"].bad`).waitFor({ state: 'attached' });
    await page.locator(`[data-box="${webhook.id}"].bad`).waitFor();
    await panelOf(/^Webhook /)
      .getByText('the receiver answered 410 Gone')
      .waitFor();
    const red = await page.evaluate(
      `getComputedStyle(document.querySelector('.map-line.bad .map-way')).stroke`,
    );
    const plain = await page.evaluate(`getComputedStyle(document.documentElement).getPropertyValue('--bad')`);
    assert.equal(red, rgbOf(String(plain)));
    await panelOf(/^Webhook /)
      .getByRole('button', { name: /^emitting/ })
      .click();
    const panel = panelOf(/→/);
    await panel.getByText('1 dead letter').first().waitFor();
    await panel
      .getByRole('button', { name: /the receiver answered that it is gone/ })
      .first()
      .click();
    await panel.getByRole('region', { name: /^Delivery dlv_/ }).waitFor();
    await dashboard.screenshot(page, 'map-failing');
    await panel.getByRole('link', { name: /^Its dead letters/ }).click();
    await page.waitForURL(new RegExp(`/webhooks/${webhook.id}`));
    await page.getByRole('button', { name: /the receiver answered that it is gone/ }).waitFor();
    await page.goto(`${service.url}/map`);
    await page.getByLabel('Failing only').check();
    await box(page, webhook.id).waitFor();
    assert.equal(await page.getByRole('button', { name: /^Workflow answers/ }).count(), 0);
    dashboard.nothingWrong();
  });

  test('a map of 300 things is drawn in bounded time, grouped, searched, gone through by keyboard, and stays as it is', async (t) => {
    const { body: me } = await service.api('GET', '/v1/users/me');
    const workspace = me.data.orgs[0].id;
    await many(300, 10, async (n) => {
      if (n < 60) {
        await created('/v1/sources', {
          ...{ key: 'http-new-requests-payload-only', name: `inbox ${n}`, org_id: workspace },
        });
      } else
        await created('/v1/webhooks', {
          ...{ url: `${receiver.url}/${n}`, name: `hook ${n}`, org_id: workspace },
        });
    });
    const { body: list } = await service.api('GET', `/v1/workspaces/${workspace}/flow`);
    const of = (kind: string): string[] =>
      list.data.nodes
        .filter((node: { kind: string }) => node.kind === kind)
        .map(({ id }: { id: string }) => id);
    const [sources, webhooks] = [of('source'), of('webhook')];
    assert.equal(sources.length + webhooks.length, 300);
    await many(600, 10, async (n) => {
      await created('/v1/subscriptions', {
        emitter_id: sources[n % 60],
        listener_id: webhooks[(n * 7 + Math.floor(n / 60) * 13) % 240],
      });
    });
    const page = await dashboard.signedIn('/');
    const cpuMs = await cpuOfPage(page);
    await page.getByLabel('Showing').selectOption(workspace);
    await page.getByRole('link', { name: 'See all of it on the flow map' }).click();
    const startMs = performance.now();
    await page.locator('.map-box').first().waitFor();
    t.diagnostic(`it was drawn after ${Math.round(performance.now() - startMs)} ms`);
    const drawnMs = await cpuMs();
    assert.ok(drawnMs < 5_000, `it took ${Math.round(drawnMs)} ms of CPU time to draw it`);
    await page.getByLabel('Group what is alike').uncheck();
    await waitFor(async () => (await page.locator('.map-box').count()) === 300, { what: '300 boxes' });
    await dashboard.screenshot(page, 'map-300');
    const placesOf = () =>
      page.evaluate(
        `JSON.stringify([...document.querySelectorAll('.map-box')].map((box) => [box.dataset.box, box.getAttribute('transform')]))`,
      );
    const before = await placesOf();
    const elements = await page.locator('.map *').count();
    assert.ok(elements < 10 * 900, `${elements} elements for 300 boxes and 600 lines`);
    const beforeMs = await cpuMs();
    const zoomed = await page.evaluate(`(async () => {
      const map = document.querySelector('.map');
      let changes = 0;
      const observer = new MutationObserver((records) => { changes += records.length; });
      observer.observe(map, { subtree: true, childList: true, attributes: true, characterData: true });
      const startMs = performance.now();
      for (let turn = 0; turn < 20; turn += 1) {
        const deltaY = turn % 2 === 0 ? -120 : 90;
        map.dispatchEvent(new WheelEvent('wheel', { deltaY, clientX: 700, clientY: 500, cancelable: true }));
        await new Promise((resolve) => requestAnimationFrame(resolve));
      }
      return { changes, eachMs: (performance.now() - startMs) / 20 };
    })()`);
    const { changes, eachMs } = zoomed as { changes: number; eachMs: number };
    t.diagnostic(`while it is zoomed, a picture of the map takes ${Math.round(eachMs)} ms`);
    assert.ok(
      changes > 0 && changes <= 40,
      `20 turns of the wheel change ${changes} things, not the place of the whole`,
    );
    const eachCpuMs = ((await cpuMs()) - beforeMs) / 20;
    assert.ok(eachCpuMs < 500, `while it is zoomed, a picture of the map takes ${eachCpuMs} ms of CPU time`);
    await page.getByLabel('Find on the map').fill('inbox 17');
    const found = page.getByRole('button', { name: /^Source inbox 17,/ });
    await page.keyboard.press('Enter');
    await page.getByRole('complementary', { name: 'Source inbox 17' }).waitFor();
    const label = `document.activeElement.getAttribute('aria-label')`;
    assert.equal(await page.evaluate(label), await found.getAttribute('aria-label'));
    assert.equal(await found.getAttribute('aria-pressed'), 'true');
    await dashboard.screenshot(page, 'map-found');
    await page.keyboard.press('ArrowRight');
    assert.match(String(await page.evaluate(label)), /^Webhook hook /);
    await page.keyboard.press('Enter');
    await page.getByRole('complementary', { name: /^Webhook hook/ }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('complementary').waitFor({ state: 'detached' });
    await page.waitForResponse((response) => response.url().includes('/flow'));
    assert.equal(await placesOf(), before, 'what comes in moves no box');
    dashboard.nothingWrong();
  });

  test('a subscription is made by name, explained, found, and ended after its consequences were shown', async () => {
    const source = await createEmittingSource(service);
    const webhook = await created('/v1/webhooks', { url: `${receiver.url}/later`, name: 'late <b>hook</b>' });
    const page = await dashboard.signedIn('/subscriptions');
    const { body: me } = await service.api('GET', '/v1/users/me');
    await page.getByLabel('Showing').selectOption(me.data.id);
    await page.getByLabel('Find a source or workflow by its name').fill(source.id);
    await page.locator(`#emitter option[value="${source.id}"]`).waitFor({ state: 'attached' });
    await page.getByLabel('Whose events').selectOption(source.id);
    await page.getByLabel('Which').selectOption({ label: 'Its errors' });
    await page.getByText('Each failure is an event too').waitFor();
    await page.getByLabel('Find a webhook, workflow or source by its name').fill('late <b>');
    await page.locator(`#listener option[value="${webhook.id}"]`).waitFor({ state: 'attached' });
    await page.getByLabel('Who gets them').selectOption(webhook.id);
    await page.getByRole('button', { name: 'Subscribe' }).click();
    await page.getByText('Subscribed.').waitFor();
    await page.getByLabel('Find subscriptions').fill(webhook.id);
    const row = page.getByRole('list', { name: 'Subscriptions' }).getByRole('listitem');
    await row.getByText('late <b>hook</b>').waitFor();
    await row.getByText('errors').waitFor();
    await row.getByText(`made by ${dashboard.username}`).waitFor();
    await dashboard.screenshot(page, 'subscriptions');
    await row.getByRole('button', { name: /^End/ }).click();
    const dialog = page.getByRole('alertdialog');
    await dialog.getByText('Nothing is queued for it now.').waitFor();
    await dialog.getByRole('button', { name: 'End subscription' }).click();
    await page.getByText('None is called so').waitFor();
    await page.getByRole('tab', { name: 'Automatic' }).click();
    await page.getByText('No automatic subscriptions').waitFor();
    await page.getByLabel('Who gets them').selectOption(webhook.id);
    await page.getByRole('button', { name: 'Subscribe' }).click();
    const automatic = page.getByRole('list', { name: 'Automatic subscriptions' });
    await automatic.getByText('late <b>hook</b>').waitFor();
    await dashboard.screenshot(page, 'subscriptions-automatic');
    const later = await createEmittingSource(service);
    const { body: made } = await service.api('GET', '/v1/users/me/subscriptions');
    const own = made.data.filter((one: { emitter_id: string }) => one.emitter_id === later.id);
    assert.deepEqual(
      own.map((one: Record<string, string>) => [one.event_name, one.listener_id]),
      [['$errors', webhook.id]],
    );
    await automatic.getByRole('button', { name: /^End/ }).click();
    await dialog.getByRole('button', { name: 'End automatic subscription' }).click();
    await page.getByText('No automatic subscriptions').waitFor();
    dashboard.nothingWrong();
  });

  test('a viewer of a narrow dark screen has the list, can look at the map, and finds no button that fails', async () => {
    const { body: me } = await service.api('GET', '/v1/users/me');
    const workspace = me.data.orgs[0].id;
    const user = await service.createUser('vera');
    await created(`/v1/workspaces/${workspace}/members`, { user_id: user.id, role: 'viewer' });
    const small = { viewport: { width: 360, height: 740 }, colorScheme: 'dark' } as const;
    const page = await dashboard.signedIn(`/map?owner=${workspace}`, small, user.key);
    await page.getByRole('row', { name: /inbox/ }).first().waitFor();
    await dashboard.screenshot(page, 'map-narrow-list');
    const fits = async (where: string) => {
      const tooWide = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth');
      assert.ok(Number(tooWide) <= 0, `${where} is ${tooWide} px too wide`);
    };
    await fits('the list');
    await page.getByRole('button', { name: 'Show as a map' }).click();
    await page.locator('.map-box').first().waitFor();
    await fits('the map');
    await dashboard.screenshot(page, 'map-narrow');
    const writes = page.getByRole('button', { name: /Subscribe|End|Delete|Redeliver|Send it again/ });
    assert.equal(await writes.count(), 0);
    await page.goto(`${service.url}/subscriptions`);
    await page.getByRole('heading', { name: 'Subscriptions', level: 1 }).waitFor();
    assert.equal(await writes.count(), 0);
    await page.getByRole('list', { name: 'Subscriptions' }).getByText('made by').first().waitFor();
    await fits('the subscriptions');
    await dashboard.screenshot(page, 'subscriptions-narrow');
    dashboard.nothingWrong();
  });
});

/** CPU time that a page has taken to run, lay out and paint; how busy the machine is makes little difference to it. */
async function cpuOfPage(page: Page): Promise<() => Promise<number>> {
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  return async () => {
    const { metrics } = await session.send('Performance.getMetrics');
    return (metrics.find(({ name }) => name === 'TaskDuration')?.value ?? Number.NaN) * 1000;
  };
}

function rgbOf(hex: string): string {
  const parts = /#(..)(..)(..)/.exec(hex)?.slice(1) ?? [];
  return `rgb(${parts.map((part) => Number.parseInt(part, 16)).join(', ')})`;
}

/** Does it `count` times, some at a time. */
async function many(count: number, atATime: number, work: (n: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < count) {
      next += 1;
      await work(next - 1);
    }
  };
  await Promise.all(Array.from({ length: atATime }, lane));
}
