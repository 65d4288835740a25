import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ConfigurableProp, Source } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { ActivityCard } from '~/parts/activity-card.tsx';
import { DeleteCard } from '~/parts/delete-card.tsx';
import { End } from '~/parts/delivery-detail.tsx';
import { EndedSubscriptions } from '~/parts/ended-subscriptions.tsx';
import { FlowQueue } from '~/parts/flow-queue.tsx';
import { JsonView } from '~/parts/json-view.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { type FlowChange, SourceFlowControl } from './source-flow-control.tsx';

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
      {source.flow_control !== null && <FlowQueue id={source.id} />}
      {mayWrite ? (
        <>
          <Rename source={source} />
          <Runs source={source} />
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
    mutationFn: async (change: FlowChange & { name?: string; active?: boolean }) =>
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

function Runs({ source }: { source: Source }) {
  return <SourceFlowControl source={source} change={useChange(source)} />;
}

function Activity({ source }: { source: Source }) {
  const change = useChange(source);
  return (
    <ActivityCard
      active={source.active}
      meaning={{
        active:
          'An inactive source keeps its events, endpoint URL and subscriptions, but does not run: timers stop, and requests to the endpoint are refused.',
        inactive:
          'The source does not run. When you activate it, its timers restart and its endpoint accepts requests.',
      }}
      change={change}
      onChange={(active) => change.mutate({ active })}
    />
  );
}

function Remove({ source }: { source: Source }) {
  return (
    <DeleteCard
      kind="source"
      object={source}
      text="Deletes the source with its events, endpoint URL and state. This cannot be undone."
      hookFailure="Its deactivate hook failed, so it is still there."
    >
      <li>Its events and logs are deleted.</li>
      <li>Its address, if it has one, is gone for good: senders get 404, and a new source gets another.</li>
      <li>Its deactivate hook runs, so that what it made at an app is taken back.</li>
      <li>
        <EndedSubscriptions
          id={source.id}
          ownerId={source.owner_id}
          none="It has no subscribers."
          nameOf={({ emitter_id, listener_id }) => `${emitter_id} → ${listener_id}`}
        />
      </li>
    </DeleteCard>
  );
}
