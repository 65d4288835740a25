import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { chromiumSkip } from '../support/chromium.ts';
import { pasteCode, useDashboard } from '../support/dashboard-browser.ts';
import { type ServiceClient, testApiKey } from '../support/service-client.ts';

/** Everything that the pages may ever load, compressed as it is sent. */
const bundleBytesMax = 400 * 1024;
/** The part of it that the first page loads. */
const firstBytesMax = 200 * 1024;

/** Looks at every page in Chromium: what is missing here is missing for a user. */
describe('the dashboard', { skip: chromiumSkip() }, () => {
  const dashboard = useDashboard();
  let service: ServiceClient;

  before(async () => {
    service = dashboard.service;
  });

  test('from the first start to the first live event, with nothing but what the pages say', async (t) => {
    const fromMs = performance.now();
    const page = await dashboard.open();
    // The first page of a version says that it is being prepared, and opens by itself.
    await page.goto(service.url);
    await page.getByText('Where is my key?').waitFor();
    await dashboard.signIn(page);
    await page.getByText('Nothing listens yet').waitFor();
    await page.getByRole('link', { name: 'Create a workflow' }).waitFor();
    await page.getByRole('link', { name: 'Create your first source' }).click();
    await page.getByRole('link', { name: /New Requests \(Payload Only\)/ }).click();
    await page.getByLabel('Name').fill('inbox');
    await page.getByRole('button', { name: 'Create source' }).click();
    await page.getByText('Live', { exact: true }).waitFor();
    const address = (await page.locator('.endpoint code.break').textContent()) ?? '';
    await fetch(address, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"hello":"world"}',
    });
    await page.getByRole('button', { name: /"hello":"world"/ }).click();
    await page.getByRole('region', { name: 'What was emitted' }).getByText('"world"').waitFor();
    t.diagnostic(`from opening the page to the first event: ${Math.round(performance.now() - fromMs)} ms`);
    dashboard.nothingWrong();
  });

  test('a wrong key is distinguished from other trouble, and signs no user in', async () => {
    const page = await dashboard.open();
    await page.goto(service.url);
    await dashboard.signIn(page, 'no-such-key-0123456789');
    await page.getByText('This is no API key of this service').waitFor();
    await page.reload();
    await page.getByLabel('API key').waitFor();
    dashboard.nothingWrong();
  });

  test('a session that ended asks to sign in again, and leads back to where one was', async () => {
    const { body } = await service.api('POST', '/v1/users/me/api_keys', { name: 'for a while' });
    const page = await dashboard.open();
    await page.goto(`${service.url}/sources?q=inbox`);
    await dashboard.signIn(page, body.data.api_key);
    await page.getByRole('heading', { name: 'Sources' }).waitFor();
    await service.api('DELETE', `/v1/users/me/api_keys/${body.data.id}`);
    await page.reload();
    await page.getByText('Your session has ended').waitFor();
    await dashboard.signIn(page);
    await page.getByRole('heading', { name: 'Sources' }).waitFor();
    assert.match(page.url(), /\/sources\?q=inbox$/);
    dashboard.nothingWrong();
  });

  test('signing out ends the session in the service, and scripts never see its cookie', async () => {
    const page = await dashboard.signedIn('/');
    assert.equal(await page.evaluate('document.cookie'), '');
    const [cookie] = await page.context().cookies(`${service.url}/v1/`);
    assert.ok(cookie?.httpOnly === true && cookie.sameSite === 'Strict' && cookie.path === '/v1');
    await page.getByRole('button', { name: dashboard.username }).click();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('API key').waitFor();
    const again = await fetch(`${service.url}/v1/users/me`, {
      headers: { cookie: `${cookie.name}=${cookie.value}`, 'x-millrace-csrf': '1' },
    });
    assert.equal(again.status, 401);
    await page.goto(service.url);
    await page.getByLabel('API key').waitFor();
    assert.equal(await page.getByText('Your session has ended').count(), 0);
    dashboard.nothingWrong();
  });

  test('hostile content is text: markup, script, long names, direction marks and escape sequences', async () => {
    const name = `<img src=x onerror=alert(1)>\u202e${'n'.repeat(150)}`;
    const source = await service.createSource({
      name,
      component_code: `export default {
        name: '<script>alert(1)</script>', version: '0.0.1', type: 'source', props: { http: '$.interface.http' },
        run({ body }) {
          console.log('\\u001b[31mred \\u202e<b>bold</b>');
          this.$emit({ '<img src=x onerror=alert(2)>': body, long: 'x'.repeat(10000), mark: '\\u202egnp.exe' }, { summary: '<script>alert(3)</script>' });
          if (body.bad) throw new Error('<script>alert(4)</script>');
        },
      }`,
    });
    const page = await dashboard.signedIn(`/sources/${source.id}`);
    await page.getByText('Live', { exact: true }).waitFor();
    await fetch(source.configured_props.http.endpoint_url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ bad: true, html: '</script><iframe src="https://evil.example"></iframe>' }),
    });
    await page.getByRole('button', { name: /<script>alert\(3\)<\/script>/ }).click();
    const shown = page.getByRole('region', { name: 'What was emitted' });
    await shown.getByText('⟨U+202E⟩gnp.exe').waitFor();
    await shown.getByText('"<img src=x onerror=alert(2)>"').waitFor();
    assert.equal(await page.locator('img:not([src="/favicon.svg"]), iframe, main script').count(), 0);
    await page.getByRole('tab', { name: 'Logs and errors' }).click();
    await page.getByText('\\x1b[31mred ⟨U+202E⟩<b>bold</b>').waitFor();
    await page.getByText('Error: <script>alert(4)</script>').first().waitFor();
    // Where it failed, as it stands in the code.
    await page.locator('.excerpt-line.here', { hasText: 'throw new Error' }).waitFor();
    await page.getByRole('link', { name: 'Home' }).click();
    await page.getByRole('link', { name: /^Source <img src=x onerror/ }).waitFor();
    await page.getByRole('link', { name: 'Sources' }).click();
    await page.getByText('<img src=x onerror=alert(1)>⟨U+202E⟩').waitFor();
    dashboard.nothingWrong();
  });

  test('a stream can be paused, continues with what came meanwhile, and is narrowed by its text', async () => {
    const source = await service.createSource({ name: 'stream', key: 'http-new-requests-payload-only' });
    const send = (n: number) =>
      fetch(source.configured_props.http.endpoint_url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ n: `number ${n}` }),
      });
    const page = await dashboard.signedIn(`/sources/${source.id}`);
    await page.getByText('Live', { exact: true }).waitFor();
    await send(1);
    await page.getByRole('button', { name: /number 1/ }).waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await send(2);
    await page.getByRole('button', { name: 'Continue (1 new)' }).waitFor();
    assert.equal(await page.getByRole('button', { name: /number 2/ }).count(), 0);
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByRole('button', { name: /number 2/ }).waitFor();
    await page.getByLabel('Only events with this text').fill('NUMBER 1');
    await page.getByRole('button', { name: /number 2/ }).waitFor({ state: 'detached' });
    await page.getByText('1 of 2 events shown').waitFor();
    dashboard.nothingWrong();
  });

  test('a source is renamed, deactivated, and deleted after its consequences were shown', async () => {
    const source = await service.createSource({
      name: 'to be changed',
      component_code: `export default { name: 'secretive', version: '0.0.1', type: 'source',
        props: { token: { type: 'string', secret: true }, timer: { type: '$.interface.timer' } }, run() {} }`,
      configured_props: { token: 'very-secret-value', timer: { intervalSeconds: 3600 } },
    });
    const page = await dashboard.signedIn(`/sources/${source.id}?tab=settings`);
    await page.getByText('(secret, kept sealed)').waitFor();
    assert.ok(!(await page.content()).includes('very-secret-value'));
    await page.getByLabel('Name of the source').fill('changed');
    await page.getByRole('button', { name: 'Save', exact: true }).first().click();
    await page.getByRole('heading', { name: 'changed', level: 1, exact: true }).waitFor();
    await page.getByRole('button', { name: 'Deactivate' }).click();
    await page.getByRole('button', { name: 'Activate', exact: true }).waitFor();
    const { body } = await service.api('GET', `/v1/sources/${source.id}`);
    assert.deepEqual([body.data.name, body.data.active], ['changed', false]);
    await page.getByRole('button', { name: 'Delete source' }).click();
    const dialog = page.getByRole('alertdialog');
    await dialog.getByText('It has no subscribers.').waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Delete source' }).click();
    await dialog.getByRole('button', { name: 'Delete source' }).click();
    await page.waitForURL(`${service.url}/sources`);
    assert.equal((await service.api('GET', `/v1/sources/${source.id}`)).status, 404);
    dashboard.nothingWrong();
  });

  test('a form has a field for every type of prop, with choices that the code gives and fields that follow', async () => {
    const code = `export default {
      name: 'every field', version: '0.0.1', type: 'source',
      props: {
        text: { type: 'string', label: 'Some text' },
        count: { type: 'integer', label: 'How many', min: 1, max: 5 },
        yes: { type: 'boolean', label: 'Really', optional: true },
        list: { type: 'string[]', label: 'Some lines', optional: true },
        data: { type: 'object', label: 'Some data', optional: true },
        city: { type: 'string', label: 'City', options: ({ page }) => page > 0 ? [] : [{ label: 'Bern', value: 'be' }, { label: 'Rome', value: 'ro' }] },
        kind: { type: 'string', label: 'Kind', options: ['plain', 'special'], reloadProps: true },
        timer: { type: '$.interface.timer', label: 'How often' },
        db: '$.service.db',
      },
      additionalProps() { return this.kind === 'special' ? { extra: { type: 'string', label: 'What is special' } } : {}; },
      run() {},
    }`;
    const page = await dashboard.signedIn('/sources/new');
    await pasteCode(page, /^Code of the component/, code);
    await page.getByRole('button', { name: 'Use this code' }).click();
    await page.getByLabel('Some text').fill('hello');
    await page.getByLabel('How many').fill('3');
    await page.getByLabel('Really').selectOption({ label: 'Yes' });
    await page.getByLabel('Some lines').fill('one\ntwo');
    await page.getByLabel('Some data').fill('{"a": 1}');
    await page.getByLabel('City').focus();
    await page.getByLabel('City').selectOption({ label: 'Rome' });
    await page.getByLabel('Kind', { exact: true }).selectOption({ label: 'special' });
    await page.getByLabel('What is special').fill('this');
    await page.getByRole('spinbutton', { name: 'How often' }).fill('2');
    await page.getByLabel('Unit').selectOption('hours');
    await page.getByRole('button', { name: 'Create source' }).click();
    await page.getByText('Live', { exact: true }).waitFor();
    const { body } = await service.api(
      'GET',
      new URL(page.url()).pathname.replace('/sources/', '/v1/sources/'),
    );
    assert.deepEqual(body.data.configured_props, {
      ...{ text: 'hello', count: 3, yes: true, list: ['one', 'two'], data: { a: 1 }, city: 'ro' },
      ...{ kind: 'special', extra: 'this', timer: { cron: null, interval_seconds: 7200 } },
    });
    dashboard.nothingWrong();
  });

  test('what is wrong with a value stands under its field', async () => {
    const page = await dashboard.signedIn('/sources/new?key=rss-new-item-in-feed');
    await page.getByLabel('Feed URL').waitFor();
    await page.getByRole('button', { name: 'Create source' }).click();
    const problem = page.locator('#prop-url-problem');
    await problem.waitFor();
    assert.equal(await page.getByLabel('Feed URL').getAttribute('aria-invalid'), 'true');
    dashboard.forgetComplaints();
  });

  test('a viewer of a workspace sees its sources, and no buttons that fail', async () => {
    const { body: me } = await service.api('GET', '/v1/users/me');
    const workspace = me.data.orgs[0].id;
    const source = await service.createSource({
      name: 'of the workspace',
      key: 'http-new-requests-payload-only',
      org_id: workspace,
    });
    const user = await service.createUser('vera');
    await service.api('POST', `/v1/workspaces/${workspace}/members`, {
      user_id: user.id,
      role: 'viewer',
    });
    const page = await dashboard.open();
    await page.goto(service.url);
    await dashboard.signIn(page, user.key);
    await page.getByLabel('Showing').selectOption(workspace);
    await page.getByRole('link', { name: 'Sources' }).click();
    await page.getByText('of the workspace').waitFor();
    assert.equal(await page.getByRole('link', { name: 'New source' }).count(), 0);
    await page.goto(`${service.url}/sources/${source.id}?tab=settings`);
    await page.getByText('changing it takes the role of a member').waitFor();
    assert.equal(await page.getByRole('button', { name: /Delete|Save|Deactivate/ }).count(), 0);
    dashboard.nothingWrong();
  });

  test('a narrow screen shows all of it without scrolling sideways, and works by keyboard', async () => {
    const page = await dashboard.signedIn('/', { viewport: { width: 360, height: 740 } });
    const { body } = await service.api('GET', '/v1/users/me/sources?limit=100');
    const [source] = body.data;
    const paths = [
      '/',
      '/sources',
      '/sources/new',
      `/sources/${source.id}`,
      `/sources/${source.id}?tab=settings`,
    ];
    for (const path of paths) {
      await page.goto(service.url + path);
      await page.getByRole('heading', { level: 1 }).waitFor();
      const tooWide = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth');
      assert.ok(Number(tooWide) <= 0, `${path} is ${tooWide} px too wide`);
    }
    await page.getByRole('button', { name: 'Menu' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: 'Home' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Home' }).waitFor();
    dashboard.nothingWrong();
  });

  test('places are lists with names, tabs are walked by arrows, and a dialog keeps the focus and gives it back', async () => {
    // The admin of the instance, who sees all places.
    const admin = service.as({ key: testApiKey });
    const source = await admin.createSource({ name: 'by keys', key: 'http-new-requests-payload-only' });
    const page = await dashboard.signedIn(`/sources/${source.id}`, {}, testApiKey);
    const navigation = page.getByRole('navigation', { name: 'Main' });
    for (const [name, first, count] of [
      ['Overview', 'Home', 2],
      ['Events', 'Sources', 4],
      ['Building blocks', 'Accounts', 4],
      ['Administration', 'Workspace', 3],
    ] as const) {
      const links = navigation.getByRole('list', { name }).getByRole('link');
      await links.nth(count - 1).waitFor();
      assert.equal(await links.count(), count, name);
      assert.equal(await links.first().textContent(), first);
    }
    assert.equal(await navigation.locator('[aria-current=page]').textContent(), 'Sources');
    const focused = () => page.evaluate('document.activeElement.textContent');
    await page.getByRole('tab', { name: 'Events', selected: true }).focus();
    await page.keyboard.press('ArrowLeft');
    assert.equal(await focused(), 'Settings');
    await page.keyboard.press('Home');
    assert.equal(await focused(), 'Events');
    await page.keyboard.press('End');
    await page.keyboard.press('Enter');
    await page.getByRole('tabpanel', { name: 'Settings' }).waitFor();
    const opener = page.getByRole('button', { name: 'Delete source' });
    await opener.focus();
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('alertdialog', { name: 'Delete this source?' });
    await dialog.waitFor();
    assert.equal(await focused(), 'Cancel');
    await page.locator('a.place').first().evaluate('(link) => link.focus()');
    assert.notEqual(await focused(), 'Home', 'what is behind a dialog cannot be reached');
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    assert.equal(await focused(), 'Delete source');
    const who = page.getByRole('button', { name: 'admin' });
    await who.focus();
    await page.keyboard.press('Enter');
    await page.getByText('Signed in as').waitFor();
    await page.keyboard.press('Escape');
    await page.getByText('Signed in as').waitFor({ state: 'detached' });
    assert.equal(await focused(), 'admin');
    await admin.api('DELETE', `/v1/sources/${source.id}`);
    dashboard.nothingWrong();
  });

  test('all that is loaded is small, is kept by the browser, and is painted at once', async (t) => {
    const page = await dashboard.open({ colorScheme: 'dark' });
    const sizes = new Map<string, number>();
    page.on('response', async (response) => {
      const length = response.headers()['content-length'];
      if (length !== undefined) sizes.set(response.url(), Number(length));
    });
    await page.goto(service.url);
    await page.getByLabel('API key').waitFor();
    // The browser notes the paint when the picture is on the screen, which is later.
    await page.waitForFunction("performance.getEntriesByName('first-contentful-paint').length > 0");
    const paintMs = Number(
      await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN"),
    );
    const bytes = [...sizes.values()].reduce((sum, size) => sum + size, 0);
    t.diagnostic(
      `first paint after ${Math.round(paintMs)} ms; ${Math.round(bytes / 1024)} KB loaded, compressed`,
    );
    assert.ok(bytes > 50_000 && bytes < firstBytesMax, `${bytes} bytes`);
    const all = await allFiles(service.url);
    const sum = [...all.values()].reduce((total, size) => total + size, 0);
    t.diagnostic(`${all.size} files, ${Math.round(sum / 1024)} KB together`);
    assert.ok(
      [...all.keys()].some((name) => name.includes('code-mirror')),
      'what is loaded late is counted',
    );
    assert.ok(sum > bytes && sum < bundleBytesMax, `${sum} bytes`);
    assert.ok(paintMs > 0, 'something was painted');
    await page.evaluate("localStorage.setItem('millrace.theme', 'light')");
    await page.reload();
    await page.getByLabel('API key').waitFor();
    assert.equal(await page.evaluate('document.documentElement.dataset.theme'), 'light');
    dashboard.nothingWrong();
  });

  test('an unknown address is a page that leads Home', async () => {
    const page = await dashboard.signedIn('/');
    await page.goto(`${dashboard.service.url}/no-such-page`);
    await page.getByRole('heading', { name: 'Page not found' }).waitFor();
    await page.getByText('/no-such-page').waitFor();
    await dashboard.screenshot(page, 'page-not-found');
    // Chromium reports each answer of 404.
    dashboard.forgetComplaints();
    await page.getByRole('link', { name: 'Home' }).click();
    await page.getByRole('heading', { name: 'Home', level: 1 }).waitFor();
    dashboard.nothingWrong();
  });
});

/** Compressed bytes of each file that the pages name, or a file that they name, and so on. */
async function allFiles(origin: string): Promise<Map<string, number>> {
  const sizes = new Map<string, number>();
  const waiting = [''];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (sizes.has(path)) continue;
    const answer = await fetch(`${origin}/${path}`, { headers: { accept: '*/*', 'accept-encoding': 'br' } });
    assert.equal(answer.status, 200, path);
    sizes.set(path, Number(answer.headers.get('content-length')));
    for (const [name] of (await answer.text()).matchAll(/[a-z][a-z-]*-[\w-]{8}\.(?:js|css)\b/g))
      waiting.push(`assets/${name}`);
  }
  return sizes;
}
