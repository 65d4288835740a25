import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { Identity } from '#sdk';
import { api } from '~/api/client.ts';
import { goToProvider, useIdentities, useSignInMethods } from '~/api/sign-in-queries.ts';
import { Ago } from '~/parts/ago.tsx';
import { ConfirmButton } from '~/parts/confirm-button.tsx';
import { DeleteOwner } from '~/parts/delete-owner.tsx';
import { useOwner } from '~/parts/owner.tsx';
import { Loading } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { SignedInSessions } from './signed-in-sessions.tsx';

/** How the user signs in, and where they are signed in. */
export function SignInTab() {
  const { me } = useOwner();
  return (
    <>
      <h2>How you sign in</h2>
      <SignInMethods />
      <h2 className="form-part">Where you are signed in</h2>
      <SignedInSessions />
      <h2 className="form-part">Danger zone</h2>
      <p className="muted">
        What you made in workspaces stays there.{' '}
        <a href="/docs/guides/people#delete-a-user">What goes, and when</a>
      </p>
      <DeleteOwner
        what="user"
        path="/v1/users/me"
        field="username"
        name={me.username}
        text="You, what is yours personally, and workspaces in which you are the only person go."
        onDeleted={() => window.location.assign('/')}
      />
    </>
  );
}

/** The user's accounts at the provider of single sign-on: link one, see it, unlink it. */
function SignInMethods() {
  const methods = useSignInMethods();
  const identities = useIdentities();
  const link = useMutation({
    mutationFn: () => goToProvider('/v1/users/me/identities', '/workspace?tab=sign-in'),
  });
  const provider = methods.data?.single_sign_on ?? undefined;
  if (methods.data === undefined || identities.data === undefined) {
    const error = methods.error ?? identities.error;
    return error === null ? <Loading /> : <Problem error={error} onRetry={() => void identities.refetch()} />;
  }
  if (provider === undefined) {
    return (
      <p className="muted">
        You sign in with an API key. With <a href="/docs/guides/single-sign-on">single sign-on</a>, which the
        operator sets up, you can also sign in with an account of your organization.
      </p>
    );
  }
  const name = visible(shortened(provider.name, 60));
  return (
    <>
      <p className="muted">
        Link your account of {name} to sign in with it as this user. Roles that its groups give are set at
        each sign-in.
      </p>
      {identities.data.length > 0 && (
        <ul className="rows card flush" aria-label="Linked accounts">
          {identities.data.map((identity) => (
            <li key={identity.id} className="row plain">
              <span className="row-main">
                <bdi className="cut row-name">{nameOf(identity)}</bdi>
                <span className="muted wrap">
                  <code className="break">{visible(shortened(identity.issuer, 200))}</code>, linked{' '}
                  <Ago ms={identity.created_at * 1000} />,{' '}
                  {identity.signed_in_at === null ? (
                    'not used yet'
                  ) : (
                    <>
                      used <Ago ms={identity.signed_in_at * 1000} />
                    </>
                  )}
                </span>
              </span>
              <Unlink identity={identity} />
            </li>
          ))}
        </ul>
      )}
      {link.error !== null && <Problem error={link.error} what="No account was linked." />}
      {identities.data.length === 0 && (
        <p>
          <button
            type="button"
            className="button primary"
            disabled={link.isPending}
            onClick={() => link.mutate()}
          >
            Link account of {name}
          </button>
        </p>
      )}
    </>
  );
}

function nameOf({ email, subject }: Identity): string {
  return visible(shortened(email ?? subject, 100));
}

function Unlink({ identity }: { identity: Identity }) {
  const queries = useQueryClient();
  const unlink = useMutation({
    mutationFn: () => api<void>('DELETE', `/v1/users/me/identities/${identity.id}`),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['identities'] }),
  });
  return (
    <ConfirmButton
      name="Unlink"
      label={`Unlink ${nameOf(identity)}`}
      look="button small"
      title="Unlink this account?"
      action="Unlink account"
      change={unlink}
      failure="The account is still linked."
    >
      <p>
        Sessions that began with it end, this one too if it did, and the roles that its groups gave are taken
        away. Your API keys stay.
      </p>
    </ConfirmButton>
  );
}
