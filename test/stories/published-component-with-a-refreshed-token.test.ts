import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { freePort } from '../support/guarded-process.ts';
import { OAuthProvider } from '../support/oauth-provider.ts';
import { exportsOf, PublishedComponents, storeOrEmbedded } from '../support/published-components.ts';
import { quickbooksCompany, startQuickbooks } from '../support/service-standins/quickbooks.ts';
import { bearerOf, type ServiceStandIn } from '../support/service-standins/stand-in.ts';
import { TestBrowser } from '../support/test-browser.ts';
import { waitFor } from '../support/wait-for.ts';

/** Short enough to wait for its end. The provider takes a token for some seconds more: a slow run is no failure. */
const tokenSeconds = 3;

describe('quickbooks-get-customer with an account that a user connected', () => {
  let published: PublishedComponents;
  let provider: OAuthProvider;
  let quickbooks: ServiceStandIn;

  /** The provider itself says whether a token is one of its own. */
  const isValid = async (token: string) =>
    (await fetch(`${provider.url}/me`, { headers: { authorization: `Bearer ${token}` } })).ok;

  before(async () => {
    published = await PublishedComponents.prepare();
    quickbooks = await startQuickbooks(published.authority, isValid);
    // The provider has to know the address of the service, and the service the provider, before either starts.
    const port = await freePort();
    provider = await OAuthProvider.start([`http://127.0.0.1:${port}/connect/callback`], {
      accessTokenSeconds: tokenSeconds,
    });
    // The catalogue's own quickbooks leads to Intuit; the operator's takes its place.
    const apps = join(published.folder.path, 'apps');
    await mkdir(apps);
    const app = provider.app('quickbooks', {
      custom_fields: [{ name: 'company_id', label: 'Company ID', secret: false }],
    });
    await writeFile(join(apps, 'quickbooks.json'), JSON.stringify(app));
    await published.start({
      dialect: storeOrEmbedded('postgres'),
      apps: ['quickbooks'],
      connectTo: [quickbooks.connectTo],
      environment: { MILLRACE_PORT: String(port), MILLRACE_APPS: apps },
    });
  });

  after(async () => {
    await published?.close();
    await quickbooks?.close();
    await provider?.close();
  });

  test('a token that has ended is refreshed before the next run, which uses the new one', async () => {
    const { service } = published;
    const client = { client_id: provider.clientId, client_secret: provider.clientSecret };
    assert.equal((await service.api('PUT', '/v1/apps/quickbooks/oauth_client', client)).status, 200);
    await published.save('quickbooks', 'actions', 'get-customer');

    const link = await service.api('POST', '/v1/accounts/connect', {
      app: 'quickbooks',
      fields: { company_id: quickbooksCompany },
    });
    assert.equal(link.status, 200, JSON.stringify(link.body));
    const visit = await new TestBrowser().visit(link.body.data.connect_url);
    assert.match(visit.text, /is connected/);
    const [account] = (await service.api('GET', '/v1/accounts?app=quickbooks')).body.data;

    const getCustomer = async () => {
      const props = { quickbooks: { authProvisionId: account.id }, customerId: '58' };
      const run = await published.runSteps([{ app: 'quickbooks', action: 'get-customer', props }]);
      const { get_customer } = exportsOf(run);
      assert.equal(get_customer.$return_value.Customer.DisplayName, 'Ada Lovelace');
      return bearerOf(quickbooks.last(`GET /v3/company/${quickbooksCompany}/customer/58`));
    };
    const first = await getCustomer();
    const endedMs = Date.now() + tokenSeconds * 1000;
    await waitFor(() => Date.now() >= endedMs, { what: 'the first token to end' });
    const second = await getCustomer();
    assert.notEqual(second, first);
    assert.ok(await isValid(second));
    assert.ok(provider.granted.includes('refresh_token'));
    assert.deepEqual(provider.refused, []);
    assert.equal(quickbooks.requests.length, 2, 'neither was refused and tried again');
    await published.assertSealed([first, second, provider.clientSecret]);
  });
});
