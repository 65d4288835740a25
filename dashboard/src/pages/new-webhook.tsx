import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { type CreateWebhookAnswer, MillraceError, type Webhook } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { useOwner } from '~/parts/owner.tsx';
import { Empty, PageFrame } from '~/parts/page.tsx';
import { visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { SecretOnce } from '~/parts/secret-once.tsx';

/** Where events are to be sent; then the secret they are signed with, once. */
export function NewWebhookPage() {
  const { ownerId } = useOwner();
  const mayWrite = useMayWrite(ownerId);
  const [created, setCreated] = useState<{ webhook: Webhook; secret: string }>();
  return (
    <PageFrame title={created === undefined ? 'New webhook' : 'The webhook is made'}>
      {created !== undefined && (
        <>
          <SecretOnce secret={created.secret} />
          <p>
            <Link href={`/webhooks/${created.webhook.id}?tab=subscriptions`} className="button primary">
              I have kept it: choose what it is sent
            </Link>
          </p>
        </>
      )}
      {created === undefined && mayWrite === false && (
        <Empty title="You can look at this workspace, and not change it">
          <p>Ask one of its admins for the role of a member, or choose My own under Showing.</p>
        </Empty>
      )}
      {created === undefined && mayWrite === true && (
        <Create key={ownerId} ownerId={ownerId} onCreated={setCreated} />
      )}
    </PageFrame>
  );
}

function Create({
  ownerId,
  onCreated,
}: {
  ownerId: string;
  onCreated: (created: { webhook: Webhook; secret: string }) => void;
}) {
  const queries = useQueryClient();
  const [url, setUrl] = useState('');
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const create = useMutation({
    mutationFn: async () =>
      (
        await api<Data<CreateWebhookAnswer>>('POST', '/v1/webhooks', {
          body: {
            url: url.trim(),
            ...(name.trim() === '' ? {} : { name: name.trim() }),
            ...(description.trim() === '' ? {} : { description: description.trim() }),
            ...(ownerId.startsWith('o_') ? { org_id: ownerId } : {}),
          },
        })
      ).data,
    // What is no longer looked at forgets the secret.
    gcTime: 0,
    onSuccess: ({ signing_secret, ...webhook }) => {
      queries.setQueryData(['webhook', webhook.id], webhook);
      void queries.invalidateQueries({ queryKey: ['webhooks'] });
      onCreated({ webhook, secret: signing_secret });
    },
  });
  const isUrl = create.error instanceof MillraceError && create.error.details.parameter === 'url';
  return (
    <form
      className="card form"
      onSubmit={(event) => {
        event.preventDefault();
        create.mutate();
      }}
    >
      <div className="field">
        <label className="label" htmlFor="webhook-url">
          URL
        </label>
        <p className="hint">Each event is sent there as the body of a POST.</p>
        <input
          id="webhook-url"
          className="input"
          required
          inputMode="url"
          maxLength={2048}
          placeholder="https://example.com/hook"
          value={url}
          aria-invalid={isUrl || undefined}
          aria-describedby={isUrl ? 'webhook-url-problem' : undefined}
          onChange={(event) => setUrl(event.target.value)}
        />
        {isUrl && (
          <p id="webhook-url-problem" className="field-problem" role="alert">
            {visible(create.error?.message ?? '')}
          </p>
        )}
      </div>
      <div className="field">
        <label className="label" htmlFor="webhook-name">
          Name <span className="muted">(optional)</span>
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
          What it is for <span className="muted">(optional)</span>
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
      {create.error !== null && !isUrl && (
        <Problem error={create.error} what="The webhook was not created." />
      )}
      <button type="submit" className="button primary" disabled={create.isPending || url.trim() === ''}>
        {create.isPending ? 'Creating …' : 'Create webhook'}
      </button>
    </form>
  );
}
