import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import type { ApiKey, CreateApiKeyAnswer } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { useApiKeys, useSession } from '~/api/workspace-queries.ts';
import { Ago } from '~/parts/ago.tsx';
import { Confirm } from '~/parts/confirm.tsx';
import { Loading } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { remember } from '~/parts/remember.ts';
import { SecretOnce } from '~/parts/secret-once.tsx';

/** The user's own keys, which have all rights of the user. */
export function ApiKeys() {
  const keys = useApiKeys();
  const session = useSession();
  const present = session.data?.key_id;
  return (
    <>
      <p className="muted">
        Programs, the command line and this dashboard come in with a key of yours. Each may do what you may,
        in all your workspaces, and is good until it is revoked.
      </p>
      <Create />
      {keys.error !== null && <Problem error={keys.error} onRetry={() => void keys.refetch()} />}
      {keys.isPending && <Loading what="Loading your keys" />}
      {keys.data !== undefined && (
        <ul className="rows card flush" aria-label="Your API keys">
          {keys.data.map((key) => (
            <li key={key.id} className="row plain">
              <span className="row-main">
                <bdi className="cut row-name">{nameOf(key)}</bdi>
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
              {key.id === present && <span className="state good">in use here</span>}
              {/* The last key cannot be revoked: the user could not sign in again. */}
              {keys.data.length > 1 && present !== undefined && (
                <Revoke apiKey={key} isPresent={key.id === present} />
              )}
            </li>
          ))}
        </ul>
      )}
      {keys.data?.length === 1 && (
        <p className="muted">Your last key cannot be revoked: make another one first.</p>
      )}
    </>
  );
}

function nameOf({ name, id }: ApiKey): string {
  return name === '' ? id : visible(shortened(name, 100));
}

function Create() {
  const [name, setName] = useState('');
  const queries = useQueryClient();
  const [made, setMade] = useState<{ name: string; secret: string }>();
  const create = useMutation({
    mutationFn: async () =>
      (await api<Data<CreateApiKeyAnswer>>('POST', '/v1/users/me/api_keys', { body: { name: name.trim() } }))
        .data,
    // What is no longer looked at forgets the key.
    gcTime: 0,
    onSuccess: ({ api_key, ...key }) => {
      setMade({ name: nameOf(key), secret: api_key });
      setName('');
      void queries.invalidateQueries({ queryKey: ['api keys'] });
    },
  });
  return (
    <>
      {made !== undefined && (
        <>
          <SecretOnce secret={made.secret} name="API key" title={`The key “${made.name}”`}>
            <strong>The key is shown only once.</strong> Keep it where only the program that needs it can read
            it.
          </SecretOnce>
          <p>
            <button
              type="button"
              className="button"
              onClick={() => {
                setMade(undefined);
                create.reset();
              }}
            >
              I have kept it
            </button>
          </p>
        </>
      )}
      {made === undefined && (
        <form
          className="card form"
          aria-labelledby="new-key"
          onSubmit={(event) => {
            event.preventDefault();
            create.mutate();
          }}
        >
          <h2 id="new-key">New key</h2>
          <div className="field">
            <label className="label" htmlFor="key-name">
              What it is for
            </label>
            <input
              id="key-name"
              className="input"
              required
              maxLength={100}
              placeholder="deploy from my laptop"
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
          </div>
          {create.error !== null && <Problem error={create.error} what="No key was made." />}
          <button type="submit" className="button primary" disabled={create.isPending || name.trim() === ''}>
            {create.isPending ? 'Creating …' : 'Create key'}
          </button>
        </form>
      )}
    </>
  );
}

function Revoke({ apiKey, isPresent }: { apiKey: ApiKey; isPresent: boolean }) {
  const [open, setOpen] = useState(false);
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const revoke = useMutation({
    mutationFn: () => api<void>('DELETE', `/v1/users/me/api_keys/${apiKey.id}`),
    onSuccess: () => {
      setOpen(false);
      if (!isPresent) {
        void queries.invalidateQueries({ queryKey: ['api keys'] });
        return;
      }
      // The session ended with its key, as the dialog announced.
      remember('signed-in', undefined);
      queries.clear();
      navigate('/sign-in', { replace: true });
    },
  });
  return (
    <>
      <button
        type="button"
        className="button small"
        aria-label={`Revoke ${nameOf(apiKey)}`}
        onClick={() => setOpen(true)}
      >
        Revoke
      </button>
      <Confirm
        open={open}
        onClose={() => {
          setOpen(false);
          revoke.reset();
        }}
        title="Revoke this key?"
        action="Revoke key"
        busy={revoke.isPending}
        onConfirm={() => revoke.mutate()}
      >
        <p>
          <strong>
            <bdi>{nameOf(apiKey)}</bdi>
          </strong>{' '}
          ends at once and for good: what still uses it is refused from then on.
        </p>
        {isPresent && (
          <p className="note">
            This is the key you are signed in with: you will be signed out, and need another one to come back.
          </p>
        )}
        {apiKey.last_used_at !== null && (
          <p>
            It was last used <Ago ms={apiKey.last_used_at * 1000} />.
          </p>
        )}
        {revoke.error !== null && <Problem error={revoke.error} what="The key still works." />}
      </Confirm>
    </>
  );
}
