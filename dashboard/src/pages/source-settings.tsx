import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { type ConfigurableProp, MillraceError, type Source } from '#sdk';
import { api } from '~/api/client.ts';
import { type Data, useSubscriptions } from '~/api/queries.ts';
import { Confirm } from '~/parts/confirm.tsx';
import { End } from '~/parts/delivery-detail.tsx';
import { JsonView } from '~/parts/json-view.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';

/** The settings of a source, and the actions that the user may take. */
export function SourceSettings({
  source,
  definitions,
  mayWrite,
}: {
  source: Source;
  definitions: readonly ConfigurableProp[] | undefined;
  mayWrite: boolean;
}) {
  return (
    <>
      <section className="card" aria-labelledby="props">
        <h2 id="props">Configured props</h2>
        <Props source={source} definitions={definitions ?? []} />
      </section>
      {mayWrite ? (
        <>
          <Rename source={source} />
          <Activity source={source} />
          <Remove source={source} />
        </>
      ) : (
        <p className="muted">
          You can look at this source; changing it takes the role of a member in its workspace.
        </p>
      )}
    </>
  );
}

function Props({ source, definitions }: { source: Source; definitions: readonly ConfigurableProp[] }) {
  const entries = Object.entries(source.configured_props);
  if (entries.length === 0) return <p className="muted">It has none.</p>;
  return (
    <dl className="props">
      {entries.map(([name, value]) => {
        const definition = definitions.find((one) => one.name === name);
        return (
          <div key={name}>
            <dt>
              <bdi>{visible(shortened(definition?.label ?? name, 100))}</bdi>{' '}
              <code className="muted">
                {visible(shortened(name, 60))}
                {definition === undefined ? '' : `: ${definition.type}`}
              </code>
            </dt>
            <dd>
              {definition?.secret === true ? (
                <span className="muted">{String(value)} (secret, kept sealed)</span>
              ) : definition?.type === 'app' ? (
                <AccountOf value={value} />
              ) : (
                <JsonView value={value} label={`Value of ${name}`} />
              )}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}

function AccountOf({ value }: { value: unknown }) {
  const id = (value as { authProvisionId?: unknown } | null)?.authProvisionId;
  return typeof id === 'string' ? <End id={id} /> : <JsonView value={value} label="Account" />;
}

function useChange(source: Source) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (change: { name?: string; active?: boolean }) =>
      (
        await api<Data<Source>>('PUT', `/v1/sources/${source.id}`, {
          // Left out, `active` would mean true.
          body: { active: source.active, ...change },
        })
      ).data,
    onSuccess: (changed) => {
      queries.setQueryData(['source', source.id], changed);
      void queries.invalidateQueries({ queryKey: ['sources'] });
    },
  });
}

function Rename({ source }: { source: Source }) {
  const [name, setName] = useState(source.name);
  const change = useChange(source);
  const isNew = name.trim() !== '' && name.trim() !== source.name;
  return (
    <form
      className="card form"
      onSubmit={(event) => {
        event.preventDefault();
        if (isNew) change.mutate({ name: name.trim() });
      }}
    >
      <h2>Name</h2>
      <div className="field inline">
        <input
          className="input"
          aria-label="Name of the source"
          value={name}
          maxLength={200}
          onChange={(event) => setName(event.target.value)}
        />
        <button type="submit" className="button" disabled={!isNew || change.isPending}>
          {change.isPending ? 'Saving …' : 'Save'}
        </button>
      </div>
      {change.isSuccess && !isNew && (
        <p className="good" role="status">
          Saved.
        </p>
      )}
      {change.error !== null && <Problem error={change.error} />}
    </form>
  );
}

function Activity({ source }: { source: Source }) {
  const change = useChange(source);
  return (
    <section className="card" aria-labelledby="activity">
      <h2 id="activity">{source.active ? 'Active' : 'Inactive'}</h2>
      <p className="muted">
        {source.active
          ? 'An inactive source keeps its events, endpoint URL and subscriptions, but does not run: timers stop, and requests to the endpoint are refused.'
          : 'The source does not run. When you activate it, its timers restart and its endpoint accepts requests.'}
      </p>
      {change.error !== null && <Problem error={change.error} />}
      <button
        type="button"
        className="button"
        disabled={change.isPending}
        onClick={() => change.mutate({ active: !source.active })}
      >
        {change.isPending ? 'One moment …' : source.active ? 'Deactivate' : 'Activate'}
      </button>
    </section>
  );
}

function Remove({ source }: { source: Source }) {
  const [open, setOpen] = useState(false);
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const subscriptions = useSubscriptions(open ? source.owner_id : undefined);
  const linked = subscriptions.data?.filter(
    ({ emitter_id, listener_id }) => emitter_id === source.id || listener_id === source.id,
  );
  const remove = useMutation({
    mutationFn: (options: { ignoreHookErrors: boolean }) =>
      api<void>('DELETE', `/v1/sources/${source.id}`, {
        query: { ignore_hook_errors: options.ignoreHookErrors || undefined },
      }),
    onSuccess: () => {
      navigate('/sources');
      queries.removeQueries({ queryKey: ['source', source.id] });
      void queries.invalidateQueries({ queryKey: ['sources'] });
    },
  });
  const isHook = remove.error instanceof MillraceError && remove.error.code === 'hook_failed';
  return (
    <section className="card" aria-labelledby="remove">
      <h2 id="remove">Delete</h2>
      <p className="muted">
        Deletes the source with its events, endpoint URL and state. This cannot be undone.
      </p>
      <button type="button" className="button danger" onClick={() => setOpen(true)}>
        Delete source
      </button>
      <Confirm
        open={open}
        onClose={() => {
          setOpen(false);
          remove.reset();
        }}
        title="Delete this source?"
        action={isHook ? 'Delete it all the same' : 'Delete source'}
        busy={remove.isPending}
        onConfirm={() => remove.mutate({ ignoreHookErrors: isHook })}
      >
        <p>
          <strong>
            <bdi>{visible(shortened(source.name, 200))}</bdi>
          </strong>{' '}
          ends now, and this cannot be undone:
        </p>
        <ul>
          <li>Its events and logs are deleted.</li>
          <li>
            Its address, if it has one, is gone for good: senders get 404, and a new source gets another.
          </li>
          <li>Its deactivate hook runs, so that what it made at an app is taken back.</li>
          <li>
            {linked === undefined
              ? 'Its subscriptions end.'
              : linked.length === 0
                ? 'It has no subscribers.'
                : `${linked.length} ${linked.length === 1 ? 'subscription ends' : 'subscriptions end'}: ${linked
                    .slice(0, 5)
                    .map(({ emitter_id, listener_id }) => `${emitter_id} → ${listener_id}`)
                    .join(', ')}${linked.length > 5 ? ' …' : ''}.`}
          </li>
        </ul>
        {remove.error !== null && (
          <Problem
            error={remove.error}
            what={isHook ? 'Its deactivate hook failed, so it is still there.' : 'It was not deleted.'}
          />
        )}
      </Confirm>
    </section>
  );
}
