import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import type { DisabledUser, UserSummary } from '#sdk';
import { api } from '~/api/client.ts';
import { useOwnerNames } from '~/api/owner-names.ts';
import type { Data } from '~/api/queries.ts';
import { useSession } from '~/api/workspace-queries.ts';
import { Ago } from '~/parts/ago.tsx';
import { ConfirmButton } from '~/parts/confirm-button.tsx';
import { DeleteOwner } from '~/parts/delete-owner.tsx';
import { oneLine, shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';

const nameOf = ({ username }: UserSummary) => visible(shortened(username, 100));

/** One user of the instance, and whether they may come in; for its admin. */
export function UserDetail({ user }: { user: UserSummary }) {
  const session = useSession();
  const queries = useQueryClient();
  const ownerName = useOwnerNames(undefined);
  const workspaceName = user.workspace_id === null ? undefined : ownerName(user.workspace_id);
  const [disabled, setDisabled] = useState<DisabledUser>();
  const isDisabled = user.disabled_at !== null;
  const isSelf = user.id === session.data?.user_id;
  return (
    <section className="card detail" aria-label={`User ${nameOf(user)}`}>
      <h2 className="break">
        <bdi>{nameOf(user)}</bdi> {isDisabled && <span className="state bad">disabled</span>}
      </h2>
      <dl className="props">
        {user.kind === 'person' ? (
          <div>
            <dt>E-mail</dt>
            <dd className="break">
              <bdi>{visible(shortened(user.email, 254))}</bdi>
            </dd>
          </div>
        ) : (
          <div>
            <dt>Service account of</dt>
            <dd className="break">
              {workspaceName === undefined ? (
                <code>{user.workspace_id}</code>
              ) : (
                <bdi>{visible(shortened(workspaceName, 100))}</bdi>
              )}
            </dd>
          </div>
        )}
        <div>
          <dt>Id</dt>
          <dd className="break">
            <code>{user.id}</code>
          </dd>
        </div>
        <div>
          <dt>Since</dt>
          <dd>
            <Ago ms={user.created_at * 1000} />
          </dd>
        </div>
        {user.disabled_at !== null && (
          <div>
            <dt>Disabled</dt>
            <dd className="break">
              <Ago ms={user.disabled_at * 1000} />
              {user.disabled_reason !== null && (
                <>
                  : <bdi>{oneLine(user.disabled_reason, 500)}</bdi>
                </>
              )}
            </dd>
          </div>
        )}
      </dl>
      {isDisabled && disabled !== undefined && <StillRunning of={disabled} />}
      <p className="buttons">
        {user.kind === 'person' && (
          <Link
            href={`/instance?tab=quotas&owner=${encodeURIComponent(user.id)}`}
            className="button"
            aria-label={`Quotas of ${visible(shortened(user.username, 60))}`}
          >
            Quotas
          </Link>
        )}
        {user.kind === 'person' && <ChangeEmail user={user} />}
        {isDisabled ? <Enable user={user} /> : !isSelf && <Disable user={user} onDisabled={setDisabled} />}
        {user.kind === 'person' && !isSelf && (
          <DeleteOwner
            what="user"
            path={`/v1/users/${user.id}`}
            field="username"
            name={user.username}
            text="What is theirs goes, with workspaces in which they are the only person. What they made in other workspaces stays."
            onDeleted={() => void queries.invalidateQueries({ queryKey: ['users'] })}
          />
        )}
      </p>
      {isSelf && (
        <p className="muted below">This is you: another admin of the instance can disable or delete you.</p>
      )}
    </section>
  );
}

/** Personal sources and workflows of the user that continue, and why those that should pause did not. */
function StillRunning({ of: { still_running, not_paused } }: { of: DisabledUser }) {
  const running = [
    ...still_running.sources.map((id) => ({ id, href: `/sources/${id}` })),
    ...still_running.workflows.map((id) => ({ id, href: `/workflows/${id}` })),
  ];
  if (running.length === 0) return <p className="note">Nothing of theirs is running.</p>;
  return (
    <div className="note">
      <p>These personal sources and workflows of theirs are still running:</p>
      <ul aria-label="Still running">
        {running.map(({ id, href }) => {
          const reason = not_paused.find((one) => one.id === id)?.reason;
          return (
            <li key={id} className="break">
              <Link href={href}>{id}</Link>
              {reason !== undefined && (
                <>
                  : <bdi>{oneLine(reason, 500)}</bdi>
                </>
              )}
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function Disable({ user, onDisabled }: { user: UserSummary; onDisabled: (user: DisabledUser) => void }) {
  const queries = useQueryClient();
  const [reason, setReason] = useState('');
  const [pause, setPause] = useState(false);
  const disable = useMutation({
    mutationFn: async () =>
      (
        await api<Data<DisabledUser>>('POST', `/v1/users/${user.id}/disable`, {
          body: { pause, ...(reason.trim() === '' ? {} : { reason: reason.trim() }) },
        })
      ).data,
    onSuccess: async (disabled) => {
      onDisabled(disabled);
      await queries.invalidateQueries({ queryKey: ['users'] });
    },
  });
  return (
    <ConfirmButton
      name="Disable user"
      title="Disable this user?"
      action="Disable user"
      change={disable}
      failure="The user was not disabled."
    >
      <p>
        API keys of{' '}
        <strong>
          <bdi>{nameOf(user)}</bdi>
        </strong>{' '}
        are refused, and their sessions and streams end at once. Enable the user later, and the same keys work
        again.
      </p>
      <div>
        <label className="label" htmlFor="disable-reason">
          Reason (optional)
        </label>
        <p className="hint" id="disable-reason-hint">
          For admins of the instance; the user does not see it.
        </p>
        <input
          id="disable-reason"
          className="input"
          aria-describedby="disable-reason-hint"
          maxLength={500}
          autoComplete="off"
          placeholder="left the company"
          value={reason}
          onChange={(event) => setReason(event.target.value)}
        />
      </div>
      {user.kind === 'person' && (
        <label className="confirm-option">
          <input type="checkbox" checked={pause} onChange={(event) => setPause(event.target.checked)} />{' '}
          <span>
            Pause their deployments{' '}
            <span className="muted">
              Deactivates the sources and workflows that belong to the user personally. What belongs to a
              workspace continues.
            </span>
          </span>
        </label>
      )}
    </ConfirmButton>
  );
}

function ChangeEmail({ user }: { user: UserSummary }) {
  const queries = useQueryClient();
  const [email, setEmail] = useState('');
  const change = useMutation({
    mutationFn: () => api<void>('PUT', `/v1/users/${user.id}`, { body: { email: email.trim() } }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['users'] }),
  });
  return (
    <ConfirmButton
      name="Change e-mail"
      look="button"
      actionLook="button primary"
      isReady={email.trim() !== ''}
      title="Change the e-mail address?"
      action="Change e-mail"
      change={change}
      failure="The address was not changed."
    >
      <p>
        Mail that workflows of{' '}
        <strong>
          <bdi>{nameOf(user)}</bdi>
        </strong>{' '}
        send goes to the new address.
      </p>
      <div>
        <label className="label" htmlFor="new-email">
          New address
        </label>
        <input
          id="new-email"
          className="input"
          type="email"
          maxLength={254}
          autoComplete="off"
          value={email}
          onChange={(event) => setEmail(event.target.value)}
        />
      </div>
    </ConfirmButton>
  );
}

function Enable({ user }: { user: UserSummary }) {
  const queries = useQueryClient();
  const enable = useMutation({
    mutationFn: () => api<void>('POST', `/v1/users/${user.id}/enable`),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['users'] }),
  });
  return (
    <>
      <button type="button" className="button" disabled={enable.isPending} onClick={() => enable.mutate()}>
        {enable.isPending ? 'Enabling …' : 'Enable user'}
      </button>
      {enable.error !== null && <Problem error={enable.error} what="The user is still disabled." />}
    </>
  );
}
