import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import type { RotateWebhookSecretAnswer, Webhook } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { ConfirmButton } from '~/parts/confirm-button.tsx';
import { EndedSubscriptions } from '~/parts/ended-subscriptions.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { SecretOnce } from '~/parts/secret-once.tsx';

/** The actions on a webhook that the user may take. */
export function WebhookSettings({ webhook, mayWrite }: { webhook: Webhook; mayWrite: boolean }) {
  if (!mayWrite) {
    return (
      <p className="muted">
        You can look at this webhook; changing it takes the role of a member in its workspace.
      </p>
    );
  }
  return (
    <>
      <Change webhook={webhook} />
      <Secret webhook={webhook} />
      {webhook.state === 'active' && <Pause webhook={webhook} />}
      <Remove webhook={webhook} />
    </>
  );
}

function useChange(webhook: Webhook, method: 'PUT' | 'POST', path: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (body?: { url: string; name: string | null; description: string | null }) =>
      (await api<Data<Webhook>>(method, `/v1/webhooks/${webhook.id}${path}`, { body })).data,
    onSuccess: (changed) => {
      queries.setQueryData(['webhook', webhook.id], changed);
      void queries.invalidateQueries({ queryKey: ['webhooks'] });
    },
  });
}

function Change({ webhook }: { webhook: Webhook }) {
  const [url, setUrl] = useState(webhook.url);
  const [name, setName] = useState(webhook.name ?? '');
  const [description, setDescription] = useState(webhook.description ?? '');
  const change = useChange(webhook, 'PUT', '');
  const isNew =
    url.trim() !== webhook.url ||
    name.trim() !== (webhook.name ?? '') ||
    description.trim() !== (webhook.description ?? '');
  return (
    <form
      className="card form"
      onSubmit={(event) => {
        event.preventDefault();
        const body = {
          url: url.trim(),
          name: name.trim() === '' ? null : name.trim(),
          description: description.trim() === '' ? null : description.trim(),
        };
        // The service stores URLs as the standard spells them.
        change.mutate(body, { onSuccess: (changed) => setUrl(changed.url) });
      }}
    >
      <h2>Where to, and what for</h2>
      <div className="field">
        <label className="label" htmlFor="webhook-url">
          URL
        </label>
        <input
          id="webhook-url"
          className="input"
          required
          inputMode="url"
          maxLength={2048}
          value={url}
          onChange={(event) => setUrl(event.target.value)}
        />
      </div>
      <div className="field">
        <label className="label" htmlFor="webhook-name">
          Name
        </label>
        <input
          id="webhook-name"
          className="input"
          maxLength={200}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
      </div>
      <div className="field">
        <label className="label" htmlFor="webhook-description">
          What it is for
        </label>
        <textarea
          id="webhook-description"
          className="input"
          rows={3}
          maxLength={2000}
          value={description}
          onChange={(event) => setDescription(event.target.value)}
        />
      </div>
      {change.error !== null && <Problem error={change.error} what="Nothing was changed." />}
      {change.isSuccess && !isNew && (
        <p className="good" role="status">
          Saved.
        </p>
      )}
      <button type="submit" className="button" disabled={!isNew || url.trim() === '' || change.isPending}>
        {change.isPending ? 'Saving …' : 'Save'}
      </button>
    </form>
  );
}

function Secret({ webhook }: { webhook: Webhook }) {
  const [shown, setShown] =
    useState<Pick<RotateWebhookSecretAnswer, 'signing_secret' | 'old_secret_valid_until'>>();
  const queries = useQueryClient();
  const rotate = useMutation({
    mutationFn: async () =>
      (await api<Data<RotateWebhookSecretAnswer>>('POST', `/v1/webhooks/${webhook.id}/rotate_secret`)).data,
    // What is no longer looked at forgets the secret.
    gcTime: 0,
    onSuccess: ({ signing_secret, old_secret_valid_until, ...changed }) => {
      setShown({ signing_secret, old_secret_valid_until });
      queries.setQueryData(['webhook', webhook.id], changed);
    },
  });
  return (
    <>
      {shown !== undefined && (
        <SecretOnce secret={shown.signing_secret} oldUntil={shown.old_secret_valid_until} />
      )}
      <section className="card" aria-labelledby="secret">
        <h2 id="secret">Signing secret</h2>
        <p className="muted">
          It was shown when the webhook was made, and cannot be shown again. A new one is shown once; the one
          before it signs too for 24 hours, so that the receiver has time to change.
        </p>
        <ConfirmButton
          name="New secret"
          look="button"
          title="Give it a new signing secret?"
          change={rotate}
          failure="The secret is still the same."
        >
          <p>
            The present secret ends in 24 hours. If it was itself new less than a day ago, the one before it
            ends at once.
          </p>
        </ConfirmButton>
      </section>
    </>
  );
}

function Pause({ webhook }: { webhook: Webhook }) {
  const pause = useChange(webhook, 'POST', '/pause');
  return (
    <section className="card" aria-labelledby="pause">
      <h2 id="pause">Pause</h2>
      <p className="muted">
        Nothing is sent; what comes is held, for 30 days at most, until the webhook is resumed.
      </p>
      {pause.error !== null && <Problem error={pause.error} />}
      <button
        type="button"
        className="button"
        disabled={pause.isPending}
        onClick={() => pause.mutate(undefined)}
      >
        {pause.isPending ? 'One moment …' : 'Pause'}
      </button>
    </section>
  );
}

function Remove({ webhook }: { webhook: Webhook }) {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () => api<void>('DELETE', `/v1/webhooks/${webhook.id}`),
    onSuccess: () => {
      navigate('/webhooks');
      queries.removeQueries({ queryKey: ['webhook', webhook.id] });
      for (const key of ['webhooks', 'subscriptions', 'overview'])
        void queries.invalidateQueries({ queryKey: [key] });
    },
  });
  return (
    <section className="card" aria-labelledby="remove">
      <h2 id="remove">Delete</h2>
      <p className="muted">
        Deletes the webhook with its subscriptions and delivery records. This cannot be undone.
      </p>
      <ConfirmButton
        name="Delete webhook"
        title="Delete this webhook?"
        change={remove}
        failure="It was not deleted."
      >
        <p>
          <strong>
            <bdi>{visible(shortened(webhook.name ?? webhook.url, 200))}</bdi>
          </strong>{' '}
          ends now, and this cannot be undone:
        </p>
        <ul>
          <li>Its queued deliveries are cancelled.</li>
          <li>Its dead letters can no longer be redelivered.</li>
          <li>
            <EndedSubscriptions
              id={webhook.id}
              ownerId={webhook.owner_id}
              nameOf={({ emitter_id }) => emitter_id}
            />
          </li>
        </ul>
      </ConfirmButton>
    </section>
  );
}
