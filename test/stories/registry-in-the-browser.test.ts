import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { chromiumSkip } from '../support/chromium.ts';
import { useDashboard } from '../support/dashboard-browser.ts';
import { GitRepository, gitSkip } from '../support/git-repository.ts';
import { startNpmRegistry } from '../support/npm-registry.ts';
import type { ServiceClient } from '../support/service-client.ts';

const tick = `import app from "../../demo.app.mjs";
export default { key: "demo-tick", name: "Tick <img src=x onerror=alert(1)> \\u202eomeD", version: "0.1.0", type: "source",
  description: "Ticks. [See the docs](javascript:alert(1)) and **mind** \`this\`, [the guide](https://docs.example/guide?a=1&b=2) <a href='javascript:alert(2)'>x</a>",
  props: { app, http: "$.interface.http",
    word: { type: "string", label: "Word <b>", description: "What it says, see [words](https://docs.example/words)", default: "tick" },
    many: { type: "string[]", optional: true } },
  run() { this.$emit({ says: this.word }); } };`;
const greet =
  'export default { key: "demo-greet", name: "Greet", description: "Greets", version: "0.0.1", type: "action", props: { who: { type: "string" } },\n' +
  '  run() { return "hello " + this.who; } };';

describe('the registry in the dashboard', { skip: chromiumSkip() }, () => {
  let service: ServiceClient;
  let npm: Awaited<ReturnType<typeof startNpmRegistry>>;

  before(async () => {
    npm = await startNpmRegistry(() => [
      {
        name: '@demo/components',
        version: '1.0.0',
        files: {
          'demo.app.mjs': 'export default { type: "app", app: "demo", propDefinitions: {}, methods: {} };',
          'sources/tick/tick.mjs': tick,
          'actions/greet/greet.mjs': greet,
          'actions/broken/broken.mjs': 'export default { key: "demo-broken", ',
        },
      },
      {
        name: '@pipedream/openai',
        version: '1.2.0',
        files: {
          'actions/ask/ask.mjs':
            'export default { key: "openai-ask", name: "Ask a model", description: "Asks", version: "0.0.1", type: "action",\n' +
            '  props: { openai: { type: "app", app: "openai" } }, run() { return "answer"; } };',
        },
      },
    ]);
  });
  const dashboard = useDashboard({ ownService: () => ({ MILLRACE_NPM_REGISTRY: npm.url }) });
  before(() => {
    service = dashboard.service;
  });
  after(() => npm?.close());

  async function done(method: string, path: string, body?: unknown) {
    const answer = await service.api(method, path, body);
    assert.ok(answer.status < 300, JSON.stringify(answer.body));
    return answer.body?.data;
  }

  test('a package is added by the admin, and says which components came with it and which files did not', async () => {
    const page = await dashboard.signedIn('/registry');
    await page.getByText(/^\d+ components$/).waitFor();
    await page.getByLabel('Search for a component').fill('qqzz');
    await page.getByText('No component fits').waitFor();
    await page.getByRole('link', { name: 'Packages' }).click();
    await page.getByText('No packages yet').waitFor();
    await page.getByLabel('Name of the package').fill('@demo/nothing');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByText('It was not added.').waitFor();
    dashboard.forgetComplaints();
    await page.getByLabel('Name of the package').fill('@demo/components');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page
      .getByText('@demo/components 1.0.0 is there, with 2 components; files that were left out: 1.')
      .waitFor();
    const card = page.getByRole('region', { name: '@demo/components 1.0.0' });
    await card.getByText('Files that were left out, and why').click();
    await card.getByText('actions/broken/broken.mjs').waitFor();
    await card.getByText('Components', { exact: true }).click();
    await dashboard.screenshot(page, 'registry-packages');
    await card.getByRole('link', { name: 'demo-tick' }).click();
    await page
      .getByRole('heading', { name: 'Tick <img src=x onerror=alert(1)> ⟨U+202E⟩omeD', level: 1 })
      .waitFor();
    dashboard.nothingWrong();
  });

  test('a Git repository is added by the admin, updated and removed, and says why it fails', {
    skip: gitSkip(),
  }, async () => {
    await using repository = await GitRepository.create();
    const path = 'actions/wave/wave.mjs';
    const wave = (version: string) =>
      `export default { key: "git-wave", name: "Wave", version: "${version}", type: "action", run() { return "${version}"; } };`;
    await repository.commit({ [path]: wave('0.0.1') });
    const second = await repository.commit({
      [path]: wave('0.0.2'),
      'actions/broken/broken.mjs': 'export {',
    });
    const page = await dashboard.signedIn('/registry');
    await page.getByRole('tab', { name: 'Git repositories' }).click();
    await page.getByText('No Git repositories yet').waitFor();
    await page.getByLabel('URL of the repository').fill('git@example.com:a/b.git');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByText('The repository was not added.').waitFor();
    dashboard.forgetComplaints();
    await page.getByLabel('URL of the repository').fill(repository.path);
    await page.getByLabel('Branch, tag or commit').fill('main');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    const card = page.getByRole('region', { name: `${repository.path} main` });
    await card.getByText('Ready', { exact: true }).waitFor();
    await card.getByText('2 versions in 2 commits').waitFor();
    await card.getByText('Files that were left out, and why').click();
    await card.getByText('actions/broken/broken.mjs').waitFor();
    await dashboard.screenshot(page, 'registry-repositories');
    await page.goto(`${service.url}/registry/git-wave`);
    await page.getByText(`from ${repository.path} at ${second.slice(0, 12)}`).waitFor();
    await page.goBack();

    await repository.git('branch', '-m', 'main', 'trunk');
    await card.getByRole('button', { name: 'Update' }).click();
    await card.getByText('Failing', { exact: true }).waitFor();
    await card.getByText('the repository has no branch, tag or commit "main"').waitFor();
    await dashboard.screenshot(page, 'registry-repository-fails');
    await card.getByRole('button', { name: 'Remove' }).click();
    await page.getByRole('button', { name: 'Remove repository' }).click();
    await page.getByText('No Git repositories yet').waitFor();
    dashboard.nothingWrong();
  });

  test('a component is found by words, type and app, shows its props as text, and becomes a source', async () => {
    const page = await dashboard.signedIn('/registry');
    await page.getByLabel('Only of this app').fill('demo');
    await page.getByText('2 components').waitFor();
    await page.getByLabel('Type', { exact: true }).selectOption('source');
    await page.getByText('1 component', { exact: true }).waitFor();
    await page.reload();
    await page.getByText('1 component', { exact: true }).waitFor();
    await dashboard.screenshot(page, 'registry');
    await page.getByRole('link', { name: /demo-tick/ }).click();
    await page.getByText('See the docs (javascript:alert(1)) and mind this').waitFor();
    const guide = page.getByRole('link', { name: 'the guide' });
    assert.equal(await guide.getAttribute('href'), 'https://docs.example/guide?a=1&b=2');
    assert.equal(await guide.getAttribute('target'), '_blank');
    assert.match((await guide.getAttribute('rel')) ?? '', /\bnoopener\b/);
    await page.locator('p', { hasText: "<a href='javascript:alert(2)'>x</a>" }).waitFor();
    assert.equal(await page.locator('a[href^="javascript"]').count(), 0);
    await page.getByText('Word <b>', { exact: true }).waitFor();
    await page.getByText('Default: tick').waitFor();
    await page.getByText('from @demo/components 1.0.0').waitFor();
    await page.getByText('Code', { exact: true }).click();
    await page.getByText('this.$emit({ says: this.word })').waitFor();
    await dashboard.screenshot(page, 'registry-component');
    const account = await done('POST', '/v1/accounts', { app: 'demo', name: 'demo', credentials: {} });
    await page.getByRole('link', { name: 'Create a source' }).click();
    await page.locator(`#prop-app option[value="${account.id}"]`).waitFor({ state: 'attached' });
    await page.locator('#prop-app').selectOption(account.id);
    await page.getByRole('link', { name: 'words' }).waitFor();
    await dashboard.screenshot(page, 'new-source-links');
    await page.getByRole('button', { name: 'Create source' }).click();
    await page.waitForURL(/\/sources\/dc_/);
    dashboard.nothingWrong();
  });

  test('an action becomes the first step of a workflow', async () => {
    const page = await dashboard.signedIn('/registry/demo-greet');
    await page.getByText('who', { exact: true }).waitFor();
    assert.equal(await page.getByRole('link', { name: 'Create a source' }).count(), 0);
    await page.getByRole('link', { name: 'Use in a workflow' }).click();
    await page.getByText('Its first step is Greet.').waitFor();
    await page.getByRole('button', { name: /An HTTP request/ }).click();
    await page.locator('[id$="prop-who"]').fill('Ada');
    await page.getByRole('button', { name: 'Create workflow' }).click();
    await page.waitForURL(/\/workflows\/p_/);
    const made = await done('GET', `/v1/workflows/${page.url().split('/').at(-1)}`);
    assert.deepEqual(
      [made.steps[0].component_key, JSON.parse(made.steps[0].configured_props_json)],
      ['demo-greet', { who: 'Ada' }],
    );
    dashboard.nothingWrong();
  });

  test('who is no admin has no packages, and viewers nothing to create, on a narrow dark screen', async () => {
    const { orgs } = await done('GET', '/v1/users/me');
    const user = await service.createUser('vera');
    await done('POST', `/v1/workspaces/${orgs[0].id}/members`, { user_id: user.id, role: 'viewer' });
    const small = { viewport: { width: 360, height: 740 }, colorScheme: 'dark' } as const;
    const page = await dashboard.signedIn('/registry', small, user.key);
    await page.getByRole('button', { name: 'Menu' }).click();
    await page.getByLabel('Showing').selectOption(orgs[0].id);
    await page.getByRole('button', { name: 'Menu' }).click();
    for (const path of [
      '/registry',
      '/registry?tab=packages',
      '/registry/demo-tick',
      '/registry/demo-greet',
    ]) {
      await page.goto(service.url + path);
      if (path.includes('demo')) await page.getByRole('heading', { name: 'Props' }).waitFor();
      else await page.getByText(/^\d+ components$/).waitFor();
      assert.equal(await page.getByRole('tab').count(), 0, path);
      assert.equal(await page.getByRole('link', { name: /Create a source|Use in/ }).count(), 0, path);
      const tooWide = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth');
      assert.ok(Number(tooWide) <= 0, `${path} is ${tooWide} px too wide`);
      await dashboard.screenshot(page, `registry-narrow${path.replaceAll(/\W+/g, '-')}`);
    }
    dashboard.nothingWrong();
  });

  test('a package is removed, and its components with it', async () => {
    const page = await dashboard.signedIn('/registry?tab=packages');
    await page
      .getByRole('region', { name: '@demo/components 1.0.0' })
      .getByRole('button', { name: 'Remove' })
      .click();
    const dialog = page.getByRole('alertdialog');
    await dialog.getByText('Sources and workflows that use them run on.').waitFor();
    await dialog.getByRole('button', { name: 'Remove package' }).click();
    await page.getByText('No packages yet').waitFor();
    dashboard.nothingWrong();
    await page.goto(`${service.url}/registry/demo-tick`);
    await page.getByText('This component cannot be used.').waitFor();
    dashboard.forgetComplaints();
  });

  test('an app without components is offered with its package where a step is chosen, and added there by the admin', async () => {
    const { id } = await done('POST', '/v1/workflows', { settings: { name: 'asks' }, steps: [] });
    const page = await dashboard.signedIn(`/workflows/${id}/edit`);
    await page.getByRole('button', { name: 'Add a component' }).click();
    const search = page.getByLabel('Search for an action');
    await search.fill('openai');
    const offer = page.getByRole('region', { name: 'Components of OpenAI' });
    await offer.getByText('@pipedream/openai').waitFor();
    await dashboard.screenshot(page, 'picker-offers-package');
    await offer.getByRole('button', { name: 'Add the package' }).click();
    await page.getByRole('button', { name: /Ask a model/ }).click();
    await page.getByText('openai-ask').first().waitFor();
    assert.equal(await offer.count(), 0);
    dashboard.nothingWrong();
  });
});
