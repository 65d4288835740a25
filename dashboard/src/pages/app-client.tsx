import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { type App, type AppOAuthClient, MillraceError } from '#sdk';
import { orgOf, useAccountsOfClient, useOAuthClient } from '~/api/app-queries.ts';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { useMayAdminister } from '~/api/rights.ts';
import { Ago } from '~/parts/ago.tsx';
import { Confirm } from '~/parts/confirm.tsx';
import { Command } from '~/parts/copy.tsx';
import { formatNumber } from '~/parts/format.ts';
import { MarkedText } from '~/parts/marked-text.tsx';
import { Loading } from '~/parts/page.tsx';
import { oneLine, shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';

/** The client id and secret that the owner has at the provider: one for each app, set by an admin. */
export function AppClient({ app, ownerId }: { app: App; ownerId: string }) {
  const client = useOAuthClient(app.name_slug, ownerId);
  const mayAdminister = useMayAdminister(ownerId) === true;
  if (client.data === undefined) {
    return client.error === null ? (
      <Loading />
    ) : (
      <Problem error={client.error} onRetry={() => void client.refetch()} />
    );
  }
  const { id, registration, redirect_uri, client_id, has_secret, updated_at, scopes, default_scopes } =
    client.data;
  return (
    <>
      <section className="card endpoint" aria-labelledby="client">
        <h2 id="client">{id === null ? 'There is none yet' : 'It is set'}</h2>
        {id === null ? (
          <p>
            An OAuth client is how the provider knows who asks.{' '}
            {mayAdminister
              ? 'Register one there, and enter it below.'
              : 'An admin of this workspace can set one.'}
          </p>
        ) : (
          <p className="muted facts">
            <span className="break">
              Client id <code>{visible(shortened(client_id ?? '', 300))}</code>
            </span>
            <span>{has_secret ? 'its secret is kept, and never shown' : 'without a secret'}</span>
            {updated_at !== null && (
              <span>
                set <Ago ms={Date.parse(updated_at)} />
              </span>
            )}
            <span className="break">
              scopes {oneLine((scopes ?? default_scopes).join(' ') || 'none', 500)}
            </span>
          </p>
        )}
        {registration !== null && (
          <details open={id === null}>
            <summary>How to register it</summary>
            <p className="break muted">{visible(shortened(registration.url, 500))}</p>
            <MarkedText text={registration.text} max={4_000} />
          </details>
        )}
        <p className="muted">Its redirect URI, exactly:</p>
        <Command text={redirect_uri} label="Copy the redirect URI" />
      </section>
      {mayAdminister && (
        <ClientForm key={client.data.updated_at} app={app} ownerId={ownerId} client={client.data} />
      )}
      {mayAdminister && id !== null && <RemoveClient id={id} slug={app.name_slug} ownerId={ownerId} />}
    </>
  );
}

function ClientForm({ app, ownerId, client }: { app: App; ownerId: string; client: AppOAuthClient }) {
  const queries = useQueryClient();
  const [clientId, setClientId] = useState(client.client_id ?? '');
  const [secret, setSecret] = useState('');
  const [scopes, setScopes] = useState(client.scopes?.join(' ') ?? '');
  const isNew = client.id === null;
  const save = useMutation({
    mutationFn: async () => {
      const asked = scopes.split(/\s+/).filter((scope) => scope !== '');
      const body = {
        client_id: clientId.trim(),
        ...(secret === '' ? {} : { client_secret: secret }),
        scopes: asked.length === 0 ? null : asked,
        ...orgOf(ownerId),
      };
      return (await api<Data<AppOAuthClient>>('PUT', `/v1/apps/${app.name_slug}/oauth_client`, { body }))
        .data;
    },
    // It holds the secret that was typed.
    gcTime: 0,
    onSuccess: (saved) => {
      queries.setQueryData(['oauth client', ownerId, app.name_slug], saved);
      void queries.invalidateQueries({ queryKey: ['accounts'] });
    },
  });
  const wrong = save.error instanceof MillraceError ? save.error.details.parameter : undefined;
  return (
    <form
      className="card form"
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate();
      }}
    >
      <h2>{isNew ? 'Enter it' : 'Change it'}</h2>
      <div className="field">
        <label className="label" htmlFor="client-id">
          Client id
        </label>
        <input
          id="client-id"
          className="input"
          required
          autoComplete="off"
          spellCheck={false}
          aria-invalid={wrong === 'client_id' || undefined}
          value={clientId}
          onChange={(event) => setClientId(event.target.value)}
        />
      </div>
      <div className="field">
        <label className="label" htmlFor="client-secret">
          Client secret{!isNew && <span className="muted"> (empty: as it is)</span>}
        </label>
        <p className="hint" id="client-secret-hint">
          It is sealed, and never shown again. Another client id needs its own; a public client has none.
        </p>
        <input
          id="client-secret"
          className="input"
          type="password"
          autoComplete="new-password"
          aria-describedby="client-secret-hint"
          aria-invalid={wrong === 'client_secret' || undefined}
          value={secret}
          onChange={(event) => setSecret(event.target.value)}
        />
      </div>
      <div className="field">
        <label className="label" htmlFor="client-scopes">
          Scopes <span className="muted">(optional, with spaces between)</span>
        </label>
        <input
          id="client-scopes"
          className="input"
          autoComplete="off"
          spellCheck={false}
          placeholder={oneLine(client.default_scopes.join(' '), 300)}
          value={scopes}
          onChange={(event) => setScopes(event.target.value)}
        />
      </div>
      {save.error !== null && <Problem error={save.error} what="It was not saved." />}
      {!isNew && (
        <p className="hint">Accounts that were connected with it are refreshed with what is saved here.</p>
      )}
      <button type="submit" className="button primary" disabled={save.isPending}>
        {save.isPending ? 'Saving …' : 'Save the client'}
      </button>
    </form>
  );
}

function RemoveClient({ id, slug, ownerId }: { id: string; slug: string; ownerId: string }) {
  const [open, setOpen] = useState(false);
  const queries = useQueryClient();
  const used = useAccountsOfClient(open ? id : undefined);
  const count = used.data ?? 0;
  const remove = useMutation({
    mutationFn: () =>
      api<void>('DELETE', `/v1/apps/${slug}/oauth_client`, {
        query: { force: count > 0 || undefined, org_id: ownerId },
      }),
    onSuccess: () => {
      setOpen(false);
      void queries.invalidateQueries({ queryKey: ['oauth client'] });
    },
    onError: () => void used.refetch(),
  });
  return (
    <section className="card" aria-labelledby="remove-client">
      <h2 id="remove-client">Delete the client</h2>
      <p className="muted">Here; at the provider it stays until you delete it there.</p>
      <button type="button" className="button danger" onClick={() => setOpen(true)}>
        Delete the client
      </button>
      <Confirm
        open={open}
        onClose={() => {
          setOpen(false);
          remove.reset();
        }}
        title="Delete this OAuth client?"
        action={count > 0 ? 'Delete it all the same' : 'Delete the client'}
        busy={remove.isPending || used.isPending}
        onConfirm={() => remove.mutate()}
      >
        <p>
          {used.isPending
            ? 'Looking for accounts that use it …'
            : count === 0
              ? 'No account uses it.'
              : `${formatNumber(count)} ${count === 1 ? 'account was' : 'accounts were'} connected with it and cannot be refreshed: ${count === 1 ? 'it works' : 'they work'} until the current token expires.`}
        </p>
        {remove.error !== null && <Problem error={remove.error} what="It was not deleted." />}
      </Confirm>
    </section>
  );
}
