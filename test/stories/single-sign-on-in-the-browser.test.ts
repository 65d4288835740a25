import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { chromiumSkip } from '../support/chromium.ts';
import { useDashboard } from '../support/dashboard-browser.ts';
import { freePort } from '../support/free-port.ts';
import { OAuthProvider } from '../support/oauth-provider.ts';

const port = await freePort();
const providerPort = await freePort();
const serviceUrl = `http://127.0.0.1:${port}`;

describe('single sign-on in the dashboard', { skip: chromiumSkip() }, () => {
  const dashboard = useDashboard({
    ownService: () => ({
      MILLRACE_PORT: String(port),
      MILLRACE_OIDC_ISSUER: `http://127.0.0.1:${providerPort}`,
      MILLRACE_OIDC_CLIENT_ID: 'millrace',
      MILLRACE_OIDC_CLIENT_SECRET: 'client-secret-0123456789',
      MILLRACE_OIDC_NAME: 'Acme <b>Login</b>',
      MILLRACE_OIDC_CREATE_USERS: 'on',
    }),
  });
  let provider: OAuthProvider;
  before(async () => {
    provider = await OAuthProvider.start([`${serviceUrl}/oidc/callback`], {
      port: providerPort,
      postLogoutRedirectUris: [`${serviceUrl}/sign-in`],
      client: { id: 'millrace', secret: 'client-secret-0123456789' },
    });
    provider.people.set('ada', {
      preferred_username: 'ada',
      email: 'ada@acme.example',
      email_verified: true,
    });
  });
  after(() => provider?.close());

  test('a user signs in with the provider and lands where the link led, sees the linked account, and signs out there too', async () => {
    const page = await dashboard.open();
    await page.goto(`${serviceUrl}/webhooks`);
    const button = page.getByRole('button', { name: 'Continue with Acme <b>Login</b>' });
    await button.waitFor();
    await page.getByText('Or use an API key:').waitFor();
    await dashboard.screenshot(page, 'sign-in-with-provider');
    dashboard.nothingWrong();
    await button.click();
    await page.getByRole('heading', { name: 'Webhooks', level: 1 }).waitFor();
    assert.equal(page.url(), `${serviceUrl}/webhooks`);
    // The way led over the provider, and over nothing else.
    dashboard.forgetComplaints();
    await page.goto(`${serviceUrl}/workspace?tab=sign-in`);
    await page.getByRole('list', { name: 'Linked accounts' }).getByText('ada@acme.example').waitFor();
    await page.getByRole('button', { name: 'Unlink ada@acme.example' }).click();
    await page.getByRole('button', { name: 'Unlink account' }).click();
    await page.getByText('The account is still linked.').waitFor();
    await page.getByText('this is your only way to sign in').waitFor();
    await dashboard.screenshot(page, 'sign-in-of-a-user');
    dashboard.forgetComplaints();
    await page.goto(`${serviceUrl}/`);
    await page.getByRole('button', { name: 'ada', exact: true }).click();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL((url) => url.origin === provider.url);
    await page.goto(`${serviceUrl}/`);
    await button.waitFor();
    assert.equal(await page.getByText('Your session has ended').count(), 0);
    dashboard.forgetComplaints();
  });

  test('an admin links an account, and sees how the provider is; a user whom the provider refuses gets a page that says so', async () => {
    const page = await dashboard.signedIn('/workspace?tab=sign-in');
    provider.decision = { login: 'root' };
    await page.getByRole('button', { name: 'Link account of Acme <b>Login</b>' }).click();
    await page.getByRole('list', { name: 'Linked accounts' }).getByText('root').waitFor();
    dashboard.forgetComplaints();
    await page.goto(`${serviceUrl}/instance`);
    await page.getByText(`${serviceUrl}/oidc/callback`).waitFor();
    await page.getByText(`http://127.0.0.1:${providerPort}`).waitFor();
    await dashboard.screenshot(page, 'instance-with-provider');
    dashboard.nothingWrong();
    // The provider refuses this user: a page says so, with the way back.
    provider.decision = 'deny';
    const other = await dashboard.open();
    await other.goto(`${serviceUrl}/sign-in`);
    await other.getByRole('button', { name: /^Continue with Acme/ }).click();
    await other.getByRole('heading', { name: 'You are not signed in' }).waitFor();
    await other.getByText('You did not agree at Acme <b>Login</b>').waitFor();
    await dashboard.screenshot(other, 'sign-in-refused');
    dashboard.forgetComplaints();
    await other.getByRole('link', { name: 'Sign-in page' }).click();
    await other.getByRole('button', { name: /^Continue with Acme/ }).waitFor();
    dashboard.forgetComplaints();
  });
});
