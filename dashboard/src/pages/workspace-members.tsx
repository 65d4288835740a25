import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { type Member, MillraceError, type OwnWorkspace } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { useIsInstanceAdmin, useMembers } from '~/api/rights.ts';
import { Ago } from '~/parts/ago.tsx';
import { Confirm } from '~/parts/confirm.tsx';
import { ConfirmButton } from '~/parts/confirm-button.tsx';
import { useOwner } from '~/parts/owner.tsx';
import { Loading } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';

type Role = Member['role'];

/** Roles in a workspace, with what each adds. */
export const roles: readonly { role: Role; may: string }[] = [
  { role: 'viewer', may: 'reads everything' },
  { role: 'member', may: 'also makes and changes things' },
  { role: 'admin', may: 'also members, service accounts, settings and the audit' },
];

export function WorkspaceMembers({ workspace }: { workspace: OwnWorkspace }) {
  const { me } = useOwner();
  const members = useMembers(workspace.id);
  if (members.data === undefined) {
    return members.error === null ? (
      <Loading what="Loading members" />
    ) : (
      <Problem error={members.error} onRetry={() => void members.refetch()} />
    );
  }
  const isAdmin = members.data.some(({ user_id, role }) => user_id === me.id && role === 'admin');
  // A service account does not count: a workspace needs a person.
  const admins = members.data.filter(({ role, kind }) => role === 'admin' && kind === 'person').length;
  // Service accounts have a tab of their own; the last admin stays.
  const isChangeable = ({ role, kind }: Member) => kind === 'person' && !(role === 'admin' && admins === 1);
  return (
    <>
      {members.error !== null && <Problem error={members.error} what="This may not be up to date." />}
      <ul className="rows many card flush" aria-label="Members">
        {members.data.map((member) => (
          <li key={member.user_id} className="row plain">
            <span className="row-main">
              <bdi className="cut row-name">
                {visible(shortened(member.username, 100))}
                {member.user_id === me.id && ' (you)'}
              </bdi>
              <bdi className="muted cut">
                {/* The address of a service account is made up. */}
                {member.kind === 'service' ? 'service account' : visible(shortened(member.email, 200))}
              </bdi>
            </span>
            <span className="muted row-side">
              since <Ago ms={member.created_at * 1000} />
            </span>
            <RoleOf
              member={member}
              workspace={workspace}
              isSelf={member.user_id === me.id}
              mayChange={isAdmin && isChangeable(member)}
            />
            {(isAdmin || member.user_id === me.id) && isChangeable(member) && (
              <Remove member={member} workspace={workspace} isSelf={member.user_id === me.id} />
            )}
          </li>
        ))}
      </ul>
      {admins === 1 && isAdmin && (
        <p className="muted">
          You are the only admin. Make another member admin before you leave or change your role.
        </p>
      )}
      {isAdmin ? (
        <Add workspaceId={workspace.id} members={members.data} />
      ) : (
        <p className="muted">Members are added and changed by the admins of the workspace.</p>
      )}
    </>
  );
}

function usePutMember(workspaceId: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (body: { user_id?: string; email?: string; role: Role }) =>
      (await api<Data<Member>>('POST', `/v1/workspaces/${workspaceId}/members`, { body })).data,
    onSuccess: () => queries.invalidateQueries({ queryKey: ['members', workspaceId] }),
  });
}

function RoleOf({
  member,
  workspace,
  isSelf,
  mayChange,
}: {
  member: Member;
  workspace: OwnWorkspace;
  isSelf: boolean;
  mayChange: boolean;
}) {
  const [asked, setAsked] = useState<Role>();
  const put = usePutMember(workspace.id);
  if (!mayChange) return <span className="state off">{member.role}</span>;
  const close = () => {
    setAsked(undefined);
    put.reset();
  };
  const change = (role: Role) =>
    put.mutate(
      { user_id: member.user_id, role },
      { onSuccess: () => setAsked(undefined), onError: () => setAsked(role) },
    );
  return (
    <>
      <select
        className="select small"
        aria-label={`Role of ${visible(shortened(member.username, 60))}`}
        value={put.isPending ? put.variables.role : member.role}
        disabled={put.isPending}
        onChange={(event) => {
          const role = event.target.value as Role;
          // A user who gives up their own rights cannot take them back.
          if (isSelf) setAsked(role);
          else change(role);
        }}
      >
        {roles.map(({ role }) => (
          <option key={role} value={role}>
            {role}
          </option>
        ))}
      </select>
      <Confirm
        open={asked !== undefined}
        onClose={close}
        title={isSelf ? 'Give up the role of an admin?' : 'The role was not changed'}
        action={isSelf ? `Become ${asked ?? ''}` : 'Try again'}
        busy={put.isPending}
        onConfirm={() => asked !== undefined && change(asked)}
      >
        {isSelf && <p>You cannot change it back yourself: another admin would have to.</p>}
        {put.error !== null && <Problem error={put.error} />}
      </Confirm>
    </>
  );
}

function Remove({ member, workspace, isSelf }: { member: Member; workspace: OwnWorkspace; isSelf: boolean }) {
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () => api<void>('DELETE', `/v1/workspaces/${workspace.id}/members/${member.user_id}`),
    onSuccess: async () => {
      // A user who left sees their own objects again, and nothing of the workspace.
      if (isSelf) await queries.invalidateQueries({ queryKey: ['me'] });
      void queries.invalidateQueries({ queryKey: ['members', workspace.id] });
    },
  });
  const name = visible(shortened(member.username, 100));
  const what = visible(shortened(workspace.name, 100));
  return (
    <ConfirmButton
      name={isSelf ? 'Leave' : 'Remove'}
      label={isSelf ? 'Leave the workspace' : `Remove ${name}`}
      look="button small"
      title={isSelf ? 'Leave the workspace?' : 'Remove this member?'}
      change={remove}
      failure="Nothing was changed."
    >
      <p>
        <strong>
          <bdi>{isSelf ? 'You' : name}</bdi>
        </strong>{' '}
        no longer {isSelf ? 'see' : 'sees'} anything of <bdi>{what}</bdi>. What {isSelf ? 'you' : 'they'} made
        there stays. {isSelf ? 'Your' : 'Their'} personal accounts are taken out of its sources and workflows,
        which fail until they are given another; accounts connected for the workspace stay.
      </p>
    </ConfirmButton>
  );
}

function Add({ workspaceId, members }: { workspaceId: string; members: readonly Member[] }) {
  const [who, setWho] = useState('');
  const [role, setRole] = useState<Role>('member');
  const isInstanceAdmin = useIsInstanceAdmin();
  const put = usePutMember(workspaceId);
  // Until it is changed again.
  const added = members.find(
    ({ user_id, role: now }) => user_id === put.data?.user_id && now === put.data.role,
  );
  const isUnknown = put.error instanceof MillraceError && put.error.status === 404;
  return (
    <form
      className="card form"
      aria-labelledby="add-member"
      onSubmit={(event) => {
        event.preventDefault();
        const named = who.trim();
        put.mutate(
          { ...(named.includes('@') ? { email: named } : { user_id: named }), role },
          { onSuccess: () => setWho('') },
        );
      }}
    >
      <h2 id="add-member">Add a member</h2>
      <div className="field">
        <label className="label" htmlFor="who">
          E-mail address or user id
        </label>
        <p className="hint">
          A user of this service.{' '}
          {isInstanceAdmin && (
            <>
              Create new users under <Link href="/instance?tab=users">Instance, Users</Link> first.
            </>
          )}
        </p>
        <input
          id="who"
          className="input"
          required
          maxLength={254}
          autoComplete="off"
          spellCheck={false}
          placeholder="ann@example.com"
          value={who}
          aria-invalid={isUnknown || undefined}
          aria-describedby={isUnknown ? 'who-problem' : undefined}
          onChange={(event) => setWho(event.target.value)}
        />
        {isUnknown && (
          <p id="who-problem" className="field-problem" role="alert">
            There is no such user.{' '}
            {isInstanceAdmin ? (
              <>
                Create the user under <Link href="/instance?tab=users">Instance, Users</Link>, then add them
                here.
              </>
            ) : (
              'Ask the admin of this instance to create the user, under Instance, Users.'
            )}
          </p>
        )}
      </div>
      <fieldset className="field">
        <legend className="label">Role</legend>
        {roles.map((one) => (
          <label key={one.role} className="pick">
            <input
              type="radio"
              name="role"
              value={one.role}
              checked={role === one.role}
              onChange={() => setRole(one.role)}
            />
            <span>
              {one.role} <span className="muted">{one.may}</span>
            </span>
          </label>
        ))}
      </fieldset>
      {put.error !== null && !isUnknown && <Problem error={put.error} what="The member was not added." />}
      {added !== undefined && who === '' && (
        <p className="good" role="status">
          <bdi>{visible(shortened(added.username, 100))}</bdi> is {added.role} now.
        </p>
      )}
      <button type="submit" className="button primary" disabled={put.isPending || who.trim() === ''}>
        {put.isPending ? 'Adding …' : 'Add'}
      </button>
    </form>
  );
}
