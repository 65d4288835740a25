import { readGroupGrant } from '#config/group-grants.ts';
import { endMembership } from '#http/end-membership.ts';
import { admitPerson } from '#runner/admit-person.ts';
import { IdentityProvider } from '#single-sign-on/identity-provider.ts';
import { SingleSignOn } from '#single-sign-on/single-sign-on.ts';
import type { Domain } from './assemble-domain.ts';
import type { Platform } from './assemble-platform.ts';

/** Sign-in with the provider that the operator set up; undefined where none is. */
export function assembleSingleSignOn(
  { settings, store, clock, logger, vault, dispatcher, publicUrl, runner }: Platform,
  { accountChanges }: Pick<Domain, 'accountChanges'>,
): SingleSignOn | undefined {
  const { oidcIssuer: issuer, oidcClientId: clientId, oidcClientSecret: clientSecret } = settings;
  if (issuer === '') return undefined;
  const provider = new IdentityProvider({
    settings: { issuer, clientId, clientSecret, scopes: settings.oidcScopes },
    ...{ dispatcher, clock, logger },
  });
  return new SingleSignOn({
    ...{ store, clock, logger, provider, issuer, publicUrl },
    name: settings.oidcName,
    groupsClaim: settings.oidcGroupsClaim,
    grants: settings.oidcGroups.map(readGroupGrant),
    createUsers: settings.oidcCreateUsers,
    isOnly: settings.oidcOnly === 'on',
    lifeMs: settings.sessionHours * 3_600_000,
    cookieKey: vault.keyFor('single sign-on cookies'),
    admitPerson: () => admitPerson({ setting: settings.sandbox, stats: runner.stats() }),
    endMembership: (tx, member) => endMembership(store, tx, member, clock.now()),
    onAccountChange: accountChanges.tell,
  });
}
