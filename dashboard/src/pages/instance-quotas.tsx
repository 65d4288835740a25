import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation, useSearch } from 'wouter';
import type { Quota } from '#sdk';
import { api } from '~/api/client.ts';
import { type Data, useMe } from '~/api/queries.ts';
import { useQuota, useUsers } from '~/api/workspace-queries.ts';
import { formatDuration, formatNumber } from '~/parts/format.ts';
import { Loading } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';

/** The daily quotas of one user or workspace, which the URL names. */
export function InstanceQuotas() {
  const asked = new URLSearchParams(useSearch()).get('owner') ?? '';
  const [, navigate] = useLocation();
  const [id, setId] = useState(isOwnerId(asked) ? '' : asked);
  const owner = useNamedOwner(asked);
  const quota = useQuota(owner.id ?? '');
  return (
    <>
      <p className="muted">
        What holds for everybody are the settings MILLRACE_QUOTA_…; here other numbers are given to one user
        or workspace.
      </p>
      <form
        className="tools narrow"
        onSubmit={(event) => {
          event.preventDefault();
          navigate(`/instance?tab=quotas&owner=${encodeURIComponent(id.trim())}`, { replace: true });
        }}
      >
        <label className="grow">
          <span className="label">User or workspace</span>
          <input
            className="input"
            required
            spellCheck={false}
            maxLength={100}
            placeholder="name or id"
            value={id}
            onChange={(event) => setId(event.target.value)}
          />
        </label>
        <button type="submit" className="button low" disabled={id.trim() === ''}>
          Show
        </button>
      </form>
      {asked !== '' && (owner.isPending || (owner.id !== undefined && quota.isPending)) && <Loading />}
      {asked !== '' && !owner.isPending && owner.id === undefined && (
        <p role="status">
          No user, and no workspace of yours, has this name. Other workspaces need their id (o_…).
        </p>
      )}
      {quota.error !== null && <Problem error={quota.error} onRetry={() => void quota.refetch()} />}
      {quota.data !== undefined && (
        <Change key={quota.data.owner_id} quota={quota.data} name={owner.name ?? quota.data.owner_id} />
      )}
    </>
  );
}

/** A user or workspace by id, name, or e-mail address. Of workspaces that the admin is not in only the id is known. */
function useNamedOwner(text: string): {
  id: string | undefined;
  name: string | undefined;
  isPending: boolean;
} {
  const me = useMe();
  const users = useUsers(text);
  const wanted = text.toLowerCase();
  const workspace = me.data?.orgs?.find(
    ({ id, name, orgname }) => id === text || [name, orgname].some((one) => one.toLowerCase() === wanted),
  );
  const user = users.data?.pages[0]?.data.find(
    ({ id, username, email }) => id === text || [username, email].some((one) => one.toLowerCase() === wanted),
  );
  return {
    id: user?.id ?? workspace?.id ?? (isOwnerId(text) ? text : undefined),
    name: user?.username ?? workspace?.name,
    isPending: users.isPending || users.isPlaceholderData || me.isPending,
  };
}

function isOwnerId(text: string): boolean {
  return /^[uo]_\w+$/.test(text);
}

const numbers = [
  { id: 'invocations', name: 'Invocations a day', show: formatNumber },
  {
    id: 'compute_ms',
    name: 'Run time a day, in hours',
    show: (ms: number) => (ms === 0 ? '0 s' : formatDuration(ms)),
  },
  { id: 'credits', name: 'Credits a day', show: formatNumber },
] as const;

const hourMs = 3_600_000;

type Draft = Record<(typeof numbers)[number]['id'] | 'enforced', string>;

function draftOf({ own }: Quota): Draft {
  const text = (value: number | null) => (value === null ? '' : String(value));
  return {
    invocations: text(own.invocations),
    compute_ms: text(own.compute_ms === null ? null : own.compute_ms / hourMs),
    credits: text(own.credits),
    enforced: own.enforced === null ? '' : String(own.enforced),
  };
}

function Change({ quota, name }: { quota: Quota; name: string }) {
  const queries = useQueryClient();
  const [draft, setDraft] = useState(() => draftOf(quota));
  const change = useMutation({
    mutationFn: async () => {
      const number = (text: string) => (text.trim() === '' ? null : Number(text));
      const body = {
        invocations: number(draft.invocations),
        compute_ms: draft.compute_ms.trim() === '' ? null : Math.round(Number(draft.compute_ms) * hourMs),
        credits: number(draft.credits),
        enforced: draft.enforced === '' ? null : draft.enforced === 'true',
      };
      return (await api<Data<Quota>>('PUT', `/v1/quotas/${quota.owner_id}`, { body })).data;
    },
    onSuccess: (changed) => {
      queries.setQueryData(['quota', quota.owner_id], changed);
      setDraft(draftOf(changed));
      void queries.invalidateQueries({ queryKey: ['me'] });
    },
  });
  const isNew = JSON.stringify(draft) !== JSON.stringify(draftOf(quota));
  const isGood = numbers.every(
    ({ id }) =>
      draft[id].trim() === '' ||
      (id === 'compute_ms' ? /^\d{1,9}(\.\d{1,7})?$/ : /^\d{1,15}$/).test(draft[id].trim()),
  );
  return (
    <form
      className="card form"
      aria-labelledby="quota-of"
      onSubmit={(event) => {
        event.preventDefault();
        change.mutate();
      }}
    >
      <h2 id="quota-of" className="break">
        {visible(shortened(name, 200))}
      </h2>
      <p className="muted">
        On the {quota.plan} plan. What goes beyond a quota is{' '}
        {quota.enforced ? 'refused until 00:00 UTC' : 'only reported'}.
      </p>
      {numbers.map(({ id, name, show }) => (
        <div key={id} className="field">
          <label className="label" htmlFor={`quota-${id}`}>
            {name}
          </label>
          <p className="hint">
            Used today: {show(quota.used[id])} of {show(quota[id])}
          </p>
          <input
            id={`quota-${id}`}
            className="input"
            inputMode={id === 'compute_ms' ? 'decimal' : 'numeric'}
            pattern={id === 'compute_ms' ? '[0-9]{1,9}([.][0-9]{1,7})?' : '[0-9]{1,15}'}
            placeholder="as the setting says"
            value={draft[id]}
            onChange={(event) => setDraft({ ...draft, [id]: event.target.value })}
          />
        </div>
      ))}
      <div className="field">
        <label className="label" htmlFor="quota-enforced">
          What goes beyond
        </label>
        <select
          id="quota-enforced"
          className="select"
          value={draft.enforced}
          onChange={(event) => setDraft({ ...draft, enforced: event.target.value })}
        >
          <option value="">as the setting says</option>
          <option value="true">is refused</option>
          <option value="false">is only reported</option>
        </select>
      </div>
      {change.error !== null && <Problem error={change.error} what="Nothing was changed." />}
      {change.isSuccess && !isNew && (
        <p className="good" role="status">
          Saved.
        </p>
      )}
      <button type="submit" className="button" disabled={!isNew || !isGood || change.isPending}>
        {change.isPending ? 'Saving …' : 'Save'}
      </button>
    </form>
  );
}
