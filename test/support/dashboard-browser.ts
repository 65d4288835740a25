import assert from 'node:assert/strict';
import { after, afterEach, before, type TestContext } from 'node:test';
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { openChromium } from './chromium.ts';
import { Millrace, ServiceClient, testApiKey } from './millrace.ts';
import { sharedService } from './shared-services.ts';
import { createTempFolder } from './temp-folder.ts';
import { waitFor } from './wait-for.ts';

/** It runs in the browser, whose types tests do not have. */
const paste = new Function(
  'element',
  'text',
  `const data = new DataTransfer();
  data.setData('text/plain', text);
  element.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));`,
) as (element: unknown, text: string) => void;

/** Puts code into an editor in place of what is there, as a user pastes it: typed code would be completed and indented. */
export async function pasteCode(page: Page, editor: string | RegExp, code: string): Promise<void> {
  const field = page.getByRole('textbox', { name: editor });
  await field.click();
  await page.keyboard.press('ControlOrMeta+a');
  await field.evaluate(paste, code);
}

/** How a page is shown, where it is not shown as on a desk in daylight. */
export type Screen = Pick<BrowserContextOptions, 'viewport' | 'colorScheme'>;

/** Twice what an idle machine needs for the slowest step would fail on a busy one. */
const patienceMs = 60_000;
/** The first test of a run waits for the pages to be built, which takes minutes on a machine that is busy. */
const buildPatienceMs = 600_000;
/** Time limit for a page that a failed test left: it may hang. */
const lookMs = 5_000;
const shownMax = 3_000;
const desk = { viewport: { width: 1280, height: 860 }, colorScheme: 'light' } as const;
/** Animations paint sixty pictures a second, which a test without a screen pays with its processor. */
const still = { reducedMotion: 'reduce' } as const;
/** Events that tests listen to on pages that are used again. */
const pageEvents = ['console', 'dialog', 'pageerror', 'popup', 'request', 'response'] as const;

/** Removes all that pages keep in the browser, except the session. */
const forgetChoices = `
  const signedIn = localStorage.getItem('millrace.signed-in');
  sessionStorage.clear();
  localStorage.clear();
  if (signedIn !== null) localStorage.setItem('millrace.signed-in', signedIn);
`;

/** The service whose dashboard is looked at. */
interface Place {
  readonly service: ServiceClient;
  readonly username: string;
  readonly dataFolder: string;
  release(): Promise<void>;
}

export interface DashboardOptions {
  /**
   * Settings of a service of the file's own, on an empty instance whose admin the tests are. Left out: the service that all test files
   * share, where the tests are a user of their own with a workspace `Main`.
   */
  ownService?: () => Record<string, string>;
}

/** For a suite: a dashboard that is there inside its tests and hooks, and is put in order after each test. */
export function useDashboard(options: DashboardOptions = {}): DashboardBrowser {
  const dashboard = new DashboardBrowser(options);
  before(() => dashboard.start(), { timeout: buildPatienceMs });
  afterEach(async (context) => {
    // The context of hooks too, though its type says otherwise.
    const test = context as TestContext;
    if (!test.passed) await dashboard.tellWhatIsShown(test);
    await dashboard.tidy();
  });
  after(() => dashboard.close());
  return dashboard;
}

/** The dashboard of a service, in a real browser that notes what no page of ours may do. */
export class DashboardBrowser {
  readonly #options: DashboardOptions;
  #place: Place | undefined;
  #browser: Browser | undefined;
  /** Pages that `signedIn` has given to the test that runs, and those that it can give. */
  readonly #given: Page[] = [];
  readonly #spare: Page[] = [];
  readonly #signedInAs = new WeakMap<Page, string>();
  readonly #contexts: BrowserContext[] = [];
  readonly #complaints: string[] = [];

  constructor(options: DashboardOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { ownService } = this.#options;
    this.#place = ownService === undefined ? await placeOnSharedService() : await ownPlace(ownService());
    await untilBuilt(this.#place.service.url);
    this.#browser = await openChromium();
  }

  get service(): ServiceClient {
    return opened(this.#place).service;
  }

  /** The name of the user that the tests are. */
  get username(): string {
    return opened(this.#place).username;
  }

  /** The data folder of the service. */
  get dataFolder(): string {
    return opened(this.#place).dataFolder;
  }

  /** An empty page of a user who is not signed in, in a browser that has nothing of other pages. */
  async open(options: BrowserContextOptions = {}): Promise<Page> {
    const context = await opened(this.#browser).newContext({ ...desk, ...still, ...options });
    this.#contexts.push(context);
    return this.#pageOf(context);
  }

  async signIn(page: Page, key = this.service.key): Promise<void> {
    this.#signedInAs.set(page, key);
    await page.getByLabel('API key').fill(key);
    await page.getByRole('button', { name: 'Sign in' }).click();
  }

  /**
   * A page of a user who is signed in. It may be one that an earlier test had: what that test kept in the browser is gone, but the
   * browser has the files of the dashboard already, and the session, where it is the same user.
   */
  async signedIn(path: string, screen: Screen = {}, key = this.service.key): Promise<Page> {
    const page = await this.#take(screen);
    if (this.#signedInAs.get(page) !== key) await page.context().clearCookies();
    await page.goto(this.service.url + path);
    const signIn = page.locator('.sign-in');
    const main = page.locator('#main');
    await main.or(signIn).waitFor();
    if (await signIn.isVisible()) await this.signIn(page, key);
    await main.waitFor();
    return page;
  }

  /** The same without signing in, for public pages. */
  async visit(path: string, screen: Screen = {}): Promise<Page> {
    const page = await this.#take(screen);
    await page.goto(this.service.url + path);
    return page;
  }

  /** No error on a console, no dialog of injected script, no request that left the machine; each is reported once. */
  nothingWrong(): void {
    assert.deepEqual(this.#complaints.splice(0), []);
  }

  /** What a test has caused on purpose. */
  forgetComplaints(): void {
    this.#complaints.length = 0;
  }

  /** Kept where MILLRACE_TEST_SCREENSHOTS names a folder, for a developer to look at. */
  async screenshot(page: Page, name: string): Promise<void> {
    const into = process.env.MILLRACE_TEST_SCREENSHOTS;
    if (into !== undefined) await page.screenshot({ path: `${into}/${name}.png`, fullPage: true });
  }

  /** Prints what the pages of a failed test show, which is most often the cause. */
  async tellWhatIsShown(test: TestContext): Promise<void> {
    const pages = [...this.#given, ...this.#contexts.flatMap((context) => context.pages())];
    for (const page of pages) {
      const text = await page
        .locator('body')
        .innerText({ timeout: lookMs })
        .catch((error: Error) => error.message);
      test.diagnostic(`${page.url()} shows:\n${text.slice(0, shownMax)}`);
    }
    if (this.#complaints.length > 0) test.diagnostic(`complaints: ${this.#complaints.join('; ')}`);
  }

  /** Ends what the test that ended has opened: none of its pages asks the service for news afterwards. */
  async tidy(): Promise<void> {
    for (const context of this.#contexts.splice(0)) await context.close();
    for (const page of this.#given.splice(0)) {
      const context = page.context();
      for (const other of context.pages()) if (other !== page) await other.close();
      if (page.isClosed()) {
        await context.close();
        continue;
      }
      for (const event of pageEvents) page.removeAllListeners(event);
      await page.unrouteAll({ behavior: 'ignoreErrors' });
      // An empty page of the same origin, so that nothing of the pages runs while their storage is emptied.
      const empty = `${this.service.url}/empty`;
      await page.route(empty, (route) => route.fulfill({ contentType: 'text/html', body: '' }));
      await page.goto(empty);
      await page.evaluate(forgetChoices);
      await page.unroute(empty);
      this.#watch(page);
      this.#spare.push(page);
    }
  }

  async close(): Promise<void> {
    await this.#browser?.close();
    await this.#place?.release();
  }

  async #take(screen: Screen): Promise<Page> {
    const { viewport, colorScheme } = { ...desk, ...screen };
    const page =
      this.#spare.pop() ??
      (await this.#pageOf(await opened(this.#browser).newContext({ ...desk, ...still })));
    this.#given.push(page);
    await page.setViewportSize(viewport ?? desk.viewport);
    await page.emulateMedia({ media: null, colorScheme, ...still });
    return page;
  }

  async #pageOf(context: BrowserContext): Promise<Page> {
    context.setDefaultTimeout(patienceMs);
    const page = await context.newPage();
    this.#watch(page);
    return page;
  }

  #watch(page: Page): void {
    page.on('console', (message) => {
      // The browser logs an error for each request without a session.
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
  }
}

async function ownPlace(environment: Record<string, string>): Promise<Place> {
  const folder = await createTempFolder('dashboard');
  const dataFolder = `${folder.path}/data`;
  const service = await Millrace.start({ dataFolder, environment });
  return {
    service,
    username: 'admin',
    dataFolder,
    async release() {
      await service.stop();
      await folder.remove();
    },
  };
}

async function placeOnSharedService(): Promise<Place> {
  const shared = await sharedService('sqlite');
  const admin = new ServiceClient(shared.url, { key: testApiKey, adminKey: testApiKey });
  const user = await admin.createUser('owner');
  const service = admin.as(user);
  await service.api('POST', '/v1/workspaces', { name: 'Main' });
  return {
    service,
    username: user.username,
    dataFolder: shared.dataFolder,
    async release() {
      // Timers of this suite would continue for as long as the others run.
      await service.deleteEverything();
      await shared.release();
    },
  };
}

async function untilBuilt(url: string): Promise<void> {
  await waitFor(
    async () => {
      const response = await fetch(url, { headers: { accept: 'text/html' } });
      return /<script type="module"[^>]* src="/.test(await response.text());
    },
    { timeoutMs: buildPatienceMs, what: 'the dashboard to be built' },
  );
}

function opened<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('the dashboard is only there inside tests and hooks');
  return value;
}
