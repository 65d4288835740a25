import assert from 'node:assert/strict';
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { openChromium } from './chromium.ts';
import { Millrace, testApiKey } from './millrace.ts';
import { createTempFolder, type TempFolder } from './temp-folder.ts';

/** It runs in the browser, whose types tests do not have. */
const paste = new Function(
  'element',
  'text',
  `const data = new DataTransfer();
  data.setData('text/plain', text);
  element.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));`,
) as (element: unknown, text: string) => void;

/** Puts code into an editor in place of what is there, as somebody pastes it: typed, it would be completed and indented. */
export async function pasteCode(page: Page, editor: string | RegExp, code: string): Promise<void> {
  const field = page.getByRole('textbox', { name: editor });
  await field.click();
  await page.keyboard.press('ControlOrMeta+a');
  await field.evaluate(paste, code);
}

/** The dashboard of a service of its own, in a real browser that notes what no page of ours may do. */
export class DashboardBrowser {
  readonly service: Millrace;
  readonly #folder: TempFolder;
  readonly #browser: Browser;
  readonly #contexts: BrowserContext[] = [];
  readonly #complaints: string[] = [];

  static async start(name: string, environment: Record<string, string> = {}): Promise<DashboardBrowser> {
    const folder = await createTempFolder(name);
    const service = await Millrace.start({ dataFolder: `${folder.path}/data`, environment });
    return new DashboardBrowser(folder, service, await openChromium());
  }

  private constructor(folder: TempFolder, service: Millrace, browser: Browser) {
    this.#folder = folder;
    this.service = service;
    this.#browser = browser;
  }

  /** The data folder of the service. */
  get dataFolder(): string {
    return `${this.#folder.path}/data`;
  }

  /** An empty page of somebody who is not signed in. */
  async open(options: BrowserContextOptions = {}): Promise<Page> {
    const context = await this.#browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
    this.#contexts.push(context);
    context.setDefaultTimeout(30_000);
    const page = await context.newPage();
    page.on('console', (message) => {
      // Of who asks without a session, the browser makes an error by itself.
      if (message.type() === 'error' && !message.text().includes('401'))
        this.#complaints.push(message.text());
    });
    page.on('pageerror', (error) => this.#complaints.push(error.message));
    page.on('dialog', (dialog) => {
      this.#complaints.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on('request', (request) => {
      if (!request.url().startsWith(this.service.url)) this.#complaints.push(`request to ${request.url()}`);
    });
    return page;
  }

  async signIn(page: Page, key = testApiKey): Promise<void> {
    await page.getByLabel('API key').fill(key);
    await page.getByRole('button', { name: 'Sign in' }).click();
  }

  async signedIn(path: string, options: BrowserContextOptions = {}, key = testApiKey): Promise<Page> {
    const page = await this.open(options);
    await page.goto(this.service.url + path);
    await this.signIn(page, key);
    await page.locator('#main').waitFor();
    return page;
  }

  /** No error on a console, no dialog of injected script, no request that left the machine; each is told once. */
  nothingWrong(): void {
    assert.deepEqual(this.#complaints.splice(0), []);
  }

  /** What a test has caused on purpose. */
  forgetComplaints(): void {
    this.#complaints.length = 0;
  }

  /** Kept where MILLRACE_TEST_SCREENSHOTS names a folder, for somebody who looks at them. */
  async screenshot(page: Page, name: string): Promise<void> {
    const into = process.env.MILLRACE_TEST_SCREENSHOTS;
    if (into !== undefined) await page.screenshot({ path: `${into}/${name}.png`, fullPage: true });
  }

  async close(): Promise<void> {
    for (const context of this.#contexts) await context.close();
    await this.#browser.close();
    await this.service.stop();
    await this.#folder.remove();
  }
}
