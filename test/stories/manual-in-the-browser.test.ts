import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { chromiumSkip } from '../support/chromium.ts';
import { useDashboard } from '../support/dashboard-browser.ts';

describe('the manual in a browser', { skip: chromiumSkip() }, () => {
  const browser = useDashboard();

  test('is searched without leaving the page, by keyboard too', async () => {
    const page = await browser.visit('/docs');
    await browser.screenshot(page, 'manual-first');
    await page.keyboard.press('/');
    await page.keyboard.type('verify signature');
    const results = page.locator('#found a');
    await results.first().waitFor();
    await results.filter({ hasText: 'Receive webhooks: Verify what arrives' }).waitFor();
    await browser.screenshot(page, 'manual-search');
    await page.keyboard.press('ArrowDown');
    const address = await results.first().getAttribute('href');
    await page.keyboard.press('Enter');
    await page.waitForURL(browser.service.url + address);
    await page.getByLabel('Search the manual').fill('content-type');
    await results.filter({ hasText: 'content-type' }).first().waitFor();
    await page.getByLabel('Search the manual').fill('zzz <img src=x onerror=alert(1)>');
    await page.getByText('Nothing has all of these words.').waitFor();
    await page.getByLabel('Search the manual').fill('( [ \\ * <script>');
    await page.getByText('Nothing has all of these words.').waitFor();
    await page.keyboard.press('Escape');
    await page.locator('#found').waitFor({ state: 'hidden' });
    browser.nothingWrong();
  });

  test('leads through its pages, and copies commands', async () => {
    const page = await browser.open({ permissions: ['clipboard-read', 'clipboard-write'] });
    await page.goto(`${browser.service.url}/docs/tutorial`);
    const block = page.locator('figure.code', { hasText: 'millrace deploy greeter.mjs' }).first();
    await block.hover();
    // It says so for two seconds: who looked only afterwards could miss it.
    const copied = block.getByRole('button', { name: 'Copied' }).waitFor();
    await Promise.all([copied, block.getByRole('button', { name: 'Copy', exact: true }).click()]);
    assert.equal(await page.evaluate('navigator.clipboard.readText()'), 'millrace deploy greeter.mjs');
    await browser.screenshot(page, 'manual-tutorial');
    await page.getByRole('link', { name: 'Next Write a source' }).click();
    await page.getByRole('heading', { name: 'Write a source', level: 1 }).waitFor();
    await page.getByRole('navigation', { name: 'On this page' }).getByRole('link', { name: 'Hooks' }).click();
    await page.waitForURL(/#hooks$/);
    await page.getByRole('navigation', { name: 'Contents' }).getByRole('link', { name: 'REST API' }).click();
    await page.getByRole('link', { name: 'Sources', exact: true }).click();
    await page.getByRole('heading', { name: 'Deploy a component as an event source' }).waitFor();
    await browser.screenshot(page, 'manual-api');
    browser.nothingWrong();
  });

  test('is read on a narrow screen, in the dark, on paper, and without scripts', async () => {
    const small = { viewport: { width: 360, height: 740 }, colorScheme: 'dark' } as const;
    const page = await browser.visit('/docs', small);
    for (const path of [
      '/docs',
      '/docs/guides/sources',
      '/docs/reference/settings',
      '/docs/reference/api/webhooks',
    ]) {
      await page.goto(browser.service.url + path);
      const width = await page.evaluate('document.documentElement.scrollWidth');
      assert.ok(Number(width) <= 360, `${path} is ${width} pixels wide`);
      await browser.screenshot(page, `manual-narrow${path.replaceAll('/', '-')}`);
    }
    await page.getByRole('link', { name: 'Contents', exact: true }).click();
    await page
      .getByRole('navigation', { name: 'Contents' })
      .getByRole('link', { name: 'Five minutes' })
      .click();
    await page.locator('summary').click();
    await page.locator('details').getByRole('link', { name: 'A webhook' }).click();
    await page.waitForURL(/tutorial#a-webhook$/);
    const plain = await browser.open({ javaScriptEnabled: false, colorScheme: 'dark' });
    await plain.goto(`${browser.service.url}/docs/guides/workflows`);
    assert.equal(await plain.getByLabel('Search the manual').isVisible(), false, 'it would find nothing');
    await browser.screenshot(plain, 'manual-dark');
    await plain.emulateMedia({ media: 'print', colorScheme: 'light' });
    assert.equal(await plain.getByRole('navigation', { name: 'Contents' }).isVisible(), false);
    await browser.screenshot(plain, 'manual-print');
    browser.nothingWrong();
  });

  test('helps a reader who comes to a wrong address', async () => {
    const page = await browser.visit('/docs/guides/webhook');
    await page.getByRole('heading', { name: 'There is no such page' }).waitFor();
    await browser.screenshot(page, 'manual-missing');
    await page.getByRole('link', { name: 'Receive webhooks' }).first().click();
    await page.getByRole('heading', { name: 'Receive webhooks', level: 1 }).waitFor();
    browser.forgetComplaints();
  });

  test('is reached from the dashboard', async () => {
    const page = await browser.signedIn('/');
    await page.getByRole('link', { name: 'Docs' }).click();
    await page.getByRole('heading', { name: 'The manual', level: 1 }).waitFor();
    await page.getByRole('link', { name: 'Dashboard', exact: true }).click();
    await page.getByRole('heading', { level: 1 }).waitFor();
    browser.nothingWrong();
  });
});
