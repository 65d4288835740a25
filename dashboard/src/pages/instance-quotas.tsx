import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import type { Quota } from '#sdk';
import { api } from '~/api/client.ts';
import { type Data, useMe } from '~/api/queries.ts';
import { useQuota, useUsers } from '~/api/workspace-queries.ts';
import { formatNumber, formatRunTime } from '~/parts/format.ts';
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
        The <Link href="/instance?tab=settings">settings</Link> MILLRACE_QUOTA_… apply to all owners. Set
        other numbers for one user or workspace here.
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
      {asked === '' && <Owners />}
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

/** All users, and the workspaces that the admin is in: owners whose names are known. */
function Owners() {
  const me = useMe();
  const users = useUsers('');
  const rows = [
    ...(me.data?.orgs ?? []).map(({ id, name }) => ({ id, name, kind: 'workspace' })),
    ...(users.data?.pages.flatMap(({ data }) => data) ?? []).map(({ id, username, kind }) => ({
      ...{ id, name: username, kind: kind === 'service' ? 'service account' : 'user' },
    })),
  ];
  return (
    <>
      {users.error !== null && <Problem error={users.error} onRetry={() => void users.refetch()} />}
      {users.isPending && <Loading what="Loading users" />}
      {rows.length > 0 && (
        <ul className="choices" aria-label="Users and your workspaces">
          {rows.map(({ id, name, kind }) => (
            <li key={id}>
              <Link href={`/instance?tab=quotas&owner=${encodeURIComponent(id)}`} className="choice-row">
                <bdi>{visible(shortened(name, 100))}</bdi> <span className="muted">{kind}</span>
              </Link>
            </li>
          ))}
        </ul>
      )}
      {users.hasNextPage && (
        <button
          type="button"
          className="button small"
          disabled={users.isFetchingNextPage}
          onClick={() => void users.fetchNextPage()}
        >
          Show more users
        </button>
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

const hourMs = 3_600_000;
const wholeNumber = /^\d{1,15}$/;

interface Amount {
  name: string;
  /** What is wrong with a text that is not empty. */
  problem: (text: string) => string | undefined;
  inputMode: 'numeric' | 'decimal';
}

const wholeAmount = { problem: wholeProblem, inputMode: 'numeric' } as const;

const quotas = [
  { id: 'invocations', name: 'Invocations a day', show: formatNumber, ...wholeAmount },
  {
    id: 'compute_ms',
    name: 'Run time a day, in hours',
    show: formatRunTime,
    problem: (text: string) =>
      /^\d{1,9}(\.\d{1,7})?$/.test(text) ? undefined : 'Expected a number of hours, such as 1.5.',
    inputMode: 'decimal',
  },
  { id: 'credits', name: 'Credits a day', show: formatNumber, ...wholeAmount },
] as const satisfies readonly (Amount & { id: keyof Quota['used']; show: (value: number) => string })[];

/** Quotas of what an owner has and does; 0: no limit. They apply whether quotas are enforced or not. */
const ownerLimits = [
  { id: 'sources', name: 'Sources', used: 'Now' },
  { id: 'workflows', name: 'Active workflows', used: 'Now' },
  { id: 'events', name: 'Events a day', used: 'Today' },
  { id: 'deliveries', name: 'Deliveries a day', used: 'Today' },
  { id: 'stored_mb', name: 'Stored events, runs and files, in MB', used: 'Now' },
  { id: 'streams', name: 'Open streams on each node', used: 'Now, on the node that answers' },
  { id: 'builds', name: 'Builds at the same time on each node', used: 'Now, on the node that answers' },
  { id: 'workspaces', name: 'Workspaces that the user creates', used: 'Now' },
] as const satisfies readonly { id: keyof Quota['used'] & keyof Quota['own']; name: string; used: string }[];

const ownerAmounts = ownerLimits.map((limit) => ({ ...limit, ...wholeAmount }));

/** Bounds as the API has them. */
const limits = [
  {
    id: 'processes_max',
    name: 'Busy processes on each node',
    hint: 'Leave empty for the share: at least a quarter of the processes of the node, and three quarters while no other owner is active.',
    problem: (text: string) => wholeProblem(text, 1, 1_000_000),
    inputMode: 'numeric',
  },
  {
    id: 'memory_mb_max',
    name: 'Memory on each node, in MB',
    hint: 'Leave empty for the share: at least a quarter of the memory for user code, and all of it while no other owner is active.',
    problem: (text: string) => wholeProblem(text, 64, 1_000_000),
    inputMode: 'numeric',
  },
] as const satisfies readonly (Amount & { id: keyof Quota['own']; hint: string })[];

const amounts = [...quotas, ...ownerAmounts, ...limits];

function wholeProblem(text: string, min = 0, max = Number.MAX_SAFE_INTEGER): string | undefined {
  if (wholeNumber.test(text) && Number(text) >= min && Number(text) <= max) return undefined;
  return max === Number.MAX_SAFE_INTEGER
    ? 'Expected a whole number.'
    : `Expected a whole number from ${min} to ${max.toLocaleString('en')}.`;
}

type Draft = Record<(typeof amounts)[number]['id'] | 'enforced', string>;

function draftOf({ own }: Quota): Draft {
  const text = (value: number | null) => (value === null ? '' : String(value));
  return {
    invocations: text(own.invocations),
    compute_ms: text(own.compute_ms === null ? null : own.compute_ms / hourMs),
    credits: text(own.credits),
    enforced: own.enforced === null ? '' : String(own.enforced),
    sources: text(own.sources),
    workflows: text(own.workflows),
    events: text(own.events),
    deliveries: text(own.deliveries),
    stored_mb: text(own.stored_mb),
    streams: text(own.streams),
    builds: text(own.builds),
    workspaces: text(own.workspaces),
    processes_max: text(own.processes_max),
    memory_mb_max: text(own.memory_mb_max),
  };
}

function Change({ quota, name }: { quota: Quota; name: string }) {
  const queries = useQueryClient();
  const isUser = quota.owner_id.startsWith('u_');
  const [draft, setDraft] = useState(() => draftOf(quota));
  const change = useMutation({
    mutationFn: async () => {
      const number = (text: string) => (text.trim() === '' ? null : Number(text));
      const body = {
        invocations: number(draft.invocations),
        compute_ms: draft.compute_ms.trim() === '' ? null : Math.round(Number(draft.compute_ms) * hourMs),
        credits: number(draft.credits),
        enforced: draft.enforced === '' ? null : draft.enforced === 'true',
        sources: number(draft.sources),
        workflows: number(draft.workflows),
        events: number(draft.events),
        deliveries: number(draft.deliveries),
        stored_mb: number(draft.stored_mb),
        streams: number(draft.streams),
        builds: number(draft.builds),
        ...(isUser && { workspaces: number(draft.workspaces) }),
        processes_max: number(draft.processes_max),
        memory_mb_max: number(draft.memory_mb_max),
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
  const problemOf = ({ id, problem }: (typeof amounts)[number]) => {
    const text = draft[id].trim();
    return text === '' ? undefined : problem(text);
  };
  const isGood = amounts.every((amount) => problemOf(amount) === undefined);
  const field = (amount: (typeof amounts)[number], hint: string, placeholder: string) => (
    <AmountField
      key={amount.id}
      {...amount}
      {...{ hint, placeholder }}
      value={draft[amount.id]}
      problem={problemOf(amount)}
      onChange={(value) => setDraft({ ...draft, [amount.id]: value })}
    />
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
      {quotas.map((daily) =>
        field(
          daily,
          `Used today: ${daily.show(quota.used[daily.id])} of ${daily.show(quota[daily.id])}`,
          'as the setting says',
        ),
      )}
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
      <h3 className="form-part">Limits of what it has and does</h3>
      <p className="muted">
        0 is no limit. A limit applies as soon as it is set, whether quotas are enforced or not.{' '}
        <a href="/docs/how-it-works/quotas#limits-of-owners">What happens at each limit</a>
      </p>
      {ownerAmounts
        .filter(({ id }) => id !== 'workspaces' || isUser)
        .map((amount) =>
          field(
            amount,
            `${amount.used}: ${formatNumber(quota.used[amount.id])} of ${quota[amount.id] === 0 ? 'any number' : formatNumber(quota[amount.id])}`,
            'as the setting says',
          ),
        )}
      <h3 className="form-part">Limits of processes</h3>
      <p className="muted">
        A limit applies where it is less than the{' '}
        <a href="/docs/how-it-works/processes#shares-of-owners">share of the owner</a>. A run beyond it waits
        for 30 seconds and then fails, whether quotas are enforced or not.
      </p>
      {limits.map((limit) => field(limit, limit.hint, 'no limit but the share'))}
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

function AmountField({
  id,
  name,
  hint,
  inputMode,
  placeholder,
  value,
  problem,
  onChange,
}: {
  id: string;
  name: string;
  hint: string;
  inputMode: 'numeric' | 'decimal';
  placeholder: string;
  value: string;
  problem: string | undefined;
  onChange: (value: string) => void;
}) {
  const field = `quota-${id}`;
  return (
    <div className="field">
      <label className="label" htmlFor={field}>
        {name}
      </label>
      <p id={`${field}-hint`} className="hint">
        {hint}
      </p>
      <input
        id={field}
        className="input"
        inputMode={inputMode}
        autoComplete="off"
        placeholder={placeholder}
        value={value}
        aria-invalid={problem !== undefined || undefined}
        aria-describedby={problem === undefined ? `${field}-hint` : `${field}-hint ${field}-problem`}
        onChange={(event) => onChange(event.target.value)}
      />
      {problem !== undefined && (
        <p id={`${field}-problem`} className="field-problem" role="alert">
          {problem}
        </p>
      )}
    </div>
  );
}
