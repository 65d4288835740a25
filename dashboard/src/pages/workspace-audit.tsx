import { useId, useState } from 'react';
import { useMembers } from '~/api/rights.ts';
import { useUsers } from '~/api/workspace-queries.ts';
import { useOwner } from '~/parts/owner.tsx';
import { AccountUseAudit } from './account-use-audit.tsx';
import { AuditLog } from './audit-log.tsx';

/** The audit of a workspace, and what is recorded of its accounts without being a change. */
export function WorkspaceAudit({ workspaceId }: { workspaceId: string }) {
  const id = useId();
  const [isOfAccounts, setIsOfAccounts] = useState(false);
  const members = useMembers(workspaceId);
  const people = (members.data ?? []).map(({ user_id: id, username: name }) => ({ id, name }));
  return (
    <>
      <div className="tools">
        <div className="labelled">
          <label className="muted" htmlFor={id}>
            Records of
          </label>
          <select
            id={id}
            className="select small"
            value={isOfAccounts ? 'accounts' : 'changes'}
            onChange={(event) => setIsOfAccounts(event.target.value === 'accounts')}
          >
            <option value="changes">all changes</option>
            <option value="accounts">use of connected accounts</option>
          </select>
        </div>
      </div>
      {isOfAccounts ? (
        <AccountUseAudit workspaceId={workspaceId} />
      ) : (
        <AuditLog ownerId={workspaceId} people={people} />
      )}
    </>
  );
}

/** Changes of what belongs to the user who is signed in. */
export function OwnAudit() {
  const { me } = useOwner();
  return <AuditLog ownerId={me.id} people={[{ id: me.id, name: me.username }]} />;
}

/** Changes of users, of the registry and of the instance, for its admin. */
export function InstanceAudit() {
  const users = useUsers('');
  const people = (users.data?.pages ?? [])
    .flatMap(({ data }) => data)
    .map(({ id, username: name }) => ({ id, name }));
  return <AuditLog ownerId={null} people={people} />;
}
