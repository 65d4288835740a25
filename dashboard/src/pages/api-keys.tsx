import { useQueryClient } from '@tanstack/react-query';
import { useLocation } from 'wouter';
import { useIdentities } from '~/api/sign-in-queries.ts';
import { useApiKeys, useSession } from '~/api/workspace-queries.ts';
import { KeyList } from '~/parts/key-list.tsx';
import { expiryState } from '~/parts/key-scopes.ts';
import { MakeKey } from '~/parts/make-key.tsx';
import { Loading } from '~/parts/page.tsx';
import { Problem } from '~/parts/problem.tsx';
import { remember } from '~/parts/remember.ts';

const place = { path: '/v1/users/me/api_keys', queryKey: ['api keys'] };

/** The user's own keys. */
export function ApiKeys() {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const keys = useApiKeys();
  const session = useSession();
  const identities = useIdentities();
  const present = session.data?.key_id;
  const usable = (keys.data ?? []).filter(
    ({ expires_at }) => expiryState(expires_at, Date.now()) !== 'expired',
  );
  // Without another way to sign in, the user would be locked out.
  const onlyWayIn = usable.length === 1 && (identities.data ?? []).length === 0 ? usable[0]?.id : undefined;
  return (
    <>
      <p className="muted">
        Programs, the command line and this dashboard come in with a key of yours. It never gives more than
        you may do in your workspaces; scopes and an end make it less.
      </p>
      {keys.data !== undefined && (
        <MakeKey
          place={place}
          maker={keys.data.find(({ id }) => id === present)}
          placeholder="deploy from my laptop"
        />
      )}
      {keys.error !== null && <Problem error={keys.error} onRetry={() => void keys.refetch()} />}
      {keys.isPending && <Loading what="Loading your keys" />}
      {keys.data !== undefined && keys.data.length > 0 && (
        <KeyList
          keys={keys.data}
          place={place}
          label="Your API keys"
          presentKeyId={present}
          mayRevoke={({ id }) => id !== onlyWayIn && present !== undefined}
          onPresentRevoked={() => {
            // The session ended with its key, as the dialog announced.
            remember('signed-in', undefined);
            queries.clear();
            navigate('/sign-in', { replace: true });
          }}
        />
      )}
      {onlyWayIn !== undefined && (
        <p className="muted">Your last key cannot be revoked: make another one first.</p>
      )}
    </>
  );
}
