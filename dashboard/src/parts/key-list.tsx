import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { ApiKey } from '#sdk';
import { api } from '~/api/client.ts';
import { Ago, useNow } from './ago.tsx';
import { ConfirmButton } from './confirm-button.tsx';
import { formatAgo } from './format.ts';
import { expiryState } from './key-scopes.ts';
import { shortened, visible } from './plain-text.ts';

export interface KeyPlace {
  /** The path of the list of keys in the API. */
  path: string;
  /** The key of the query that reads the list. */
  queryKey: readonly unknown[];
}

/** API keys with scopes, end and last use. */
export function KeyList({
  keys,
  place,
  label,
  presentKeyId,
  mayRevoke,
  onPresentRevoked,
}: {
  keys: readonly ApiKey[];
  place: KeyPlace;
  label: string;
  /** The key that the session began with. */
  presentKeyId?: string | undefined;
  mayRevoke: (key: ApiKey) => boolean;
  /** Called when the session has ended with its key. */
  onPresentRevoked?: () => void;
}) {
  return (
    <ul className="rows card flush" aria-label={label}>
      {keys.map((key) => (
        <li key={key.id} className="row plain">
          <span className="row-main">
            <bdi className="cut row-name">{keyName(key)}</bdi>
            <span className="wrap">
              {key.scopes === null ? 'All scopes' : key.scopes.join(', ')} <Expiry at={key.expires_at} />
              {key.id === presentKeyId && (
                <>
                  {' '}
                  <span className="state good">in use here</span>
                </>
              )}
            </span>
            <span className="muted wrap">
              <code>…{visible(key.hint)}</code> made <Ago ms={key.created_at * 1000} />,{' '}
              {key.last_used_at === null ? (
                'not used yet'
              ) : (
                <>
                  used <Ago ms={key.last_used_at * 1000} />
                </>
              )}
            </span>
          </span>
          {mayRevoke(key) && (
            <Revoke
              apiKey={key}
              place={place}
              onPresentRevoked={key.id === presentKeyId ? onPresentRevoked : undefined}
            />
          )}
        </li>
      ))}
    </ul>
  );
}

export function keyName({ name, id }: Pick<ApiKey, 'name' | 'id'>): string {
  return name === '' ? id : visible(shortened(name, 100));
}

/** When a key ends; a warning where that is near or past. */
function Expiry({ at }: { at: number | null }): ReactNode {
  const now = useNow(5_000);
  if (at === null) return <span className="muted">· never expires</span>;
  const state = expiryState(at, now);
  const title = new Date(at * 1000).toLocaleString();
  if (state === 'expired')
    return (
      <span className="state bad" title={title}>
        expired {formatAgo(at * 1000, now)}
      </span>
    );
  const text = `expires ${formatAgo(at * 1000, now)}`;
  return state === 'soon' ? (
    <span className="state warn" title={title}>
      {text}
    </span>
  ) : (
    <span className="muted" title={title}>
      · {text}
    </span>
  );
}

function Revoke({
  apiKey,
  place,
  onPresentRevoked,
}: {
  apiKey: ApiKey;
  place: KeyPlace;
  /** Undefined: the session did not begin with this key. */
  onPresentRevoked: (() => void) | undefined;
}) {
  const queries = useQueryClient();
  const revoke = useMutation({
    mutationFn: () => api<void>('DELETE', `${place.path}/${apiKey.id}`),
    onSuccess: () => {
      if (onPresentRevoked !== undefined) return onPresentRevoked();
      for (const queryKey of [place.queryKey, ['sessions']])
        void queries.invalidateQueries({ queryKey: [...queryKey] });
    },
  });
  return (
    <ConfirmButton
      name="Revoke"
      label={`Revoke ${keyName(apiKey)}`}
      look="button small"
      title="Revoke this key?"
      action="Revoke key"
      change={revoke}
      failure="The key still works."
    >
      <p>
        <strong>
          <bdi>{keyName(apiKey)}</bdi>
        </strong>{' '}
        ends at once and for good: what still uses it is refused from then on.
      </p>
      {onPresentRevoked !== undefined && (
        <p className="note">
          This is the key you are signed in with: you will be signed out, and need another one to come back.
        </p>
      )}
      {apiKey.last_used_at !== null && (
        <p>
          It was last used <Ago ms={apiKey.last_used_at * 1000} />.
        </p>
      )}
    </ConfirmButton>
  );
}
