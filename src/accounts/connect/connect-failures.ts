import type { Account } from '#accounts/account-store.ts';
import type { AppDefinition } from '#accounts/apps/app-definition.ts';
import type { GrantError } from '#accounts/oauth/grant.ts';
import { plainText } from '#accounts/oauth/token-refusal.ts';
import type { ConnectFailure } from './connect-flow.ts';

export const notAllowed: ConnectFailure = {
  code: 'not_allowed',
  message:
    'The user who made this link may no longer connect this account. Ask for a new link from a user who may.',
};

export const accountMissing: ConnectFailure = {
  code: 'account_missing',
  message: 'The account that was to be connected again was deleted meanwhile. Connect a new one instead.',
};

export function appMissing(slug: string): ConnectFailure {
  return {
    code: 'app_missing',
    message: `The app ${slug} is no longer in the catalogue. Add it again, and ask for a new link.`,
  };
}

export function otherAccount(account: Account): ConnectFailure {
  return {
    code: 'other_account',
    message:
      `You signed in at ${account.app_name} as another user than before, so nothing was changed. ` +
      `Sign out at ${account.app_name}, ask for a new link and sign in as before; or connect this one as a new account.`,
  };
}

export function clientMissing(app: AppDefinition): ConnectFailure {
  return {
    code: 'oauth_client_missing',
    message: `The OAuth client for ${app.name} was deleted. It has to be set again before an account can be connected.`,
  };
}

export function refusalFailure(
  app: AppDefinition,
  { code, description }: { code: string; description: string },
): ConnectFailure {
  if (code === 'access_denied') {
    const message = `Access was not granted at ${app.name}, so nothing was connected. Ask for a new link to try again.`;
    return { code: 'access_denied', message };
  }
  const said = plainText([code, description].filter((text) => text !== '').join(': '), 300);
  return { code: 'provider_refused', message: `${app.name} refused: ${said}` };
}

export function grantFailure(error: GrantError): ConnectFailure {
  return error.reach === 'moment'
    ? { code: 'provider_unavailable', message: `${error.message}. Try again with a new link.` }
    : { code: 'provider_refused', message: `${error.message}.` };
}
