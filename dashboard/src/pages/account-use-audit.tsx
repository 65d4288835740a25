import { useState } from 'react';
import { Link } from 'wouter';
import type { AccountAuditEntry } from '#sdk';
import { useMembers } from '~/api/rights.ts';
import { useAccountUseAudit } from '~/api/workspace-queries.ts';
import { Ago } from '~/parts/ago.tsx';
import { formatNumber } from '~/parts/format.ts';
import { JsonView } from '~/parts/json-view.tsx';
import { Empty, Loading } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { VirtualList } from '~/parts/virtual-list.tsx';

/** What is recorded, in words. */
const actionWords: Readonly<Record<string, string>> = {
  created: 'made the account',
  connected: 'connected the account',
  reconnected: 'connected it again',
  read_credentials: 'read its credentials',
  updated: 'renamed or changed it',
  credentials_replaced: 'replaced its credentials',
  became_unhealthy: 'found that it does not work',
  became_healthy: 'found that it works again',
  deleted: 'deleted the account',
};

const wordsOf = (action: string) => actionWords[action] ?? visible(action);

/** What was done with the connected accounts of a workspace, newest first: also what changed nothing, such as reads of credentials. */
export function AccountUseAudit({ workspaceId }: { workspaceId: string }) {
  const [action, setAction] = useState('');
  const [userId, setUserId] = useState('');
  const [chosen, setChosen] = useState<string>();
  const members = useMembers(workspaceId);
  const audit = useAccountUseAudit(workspaceId, { action, user_id: userId });
  const rows = audit.data?.pages.flatMap(({ data }) => data) ?? [];
  const total = audit.data?.pages[0]?.page_info.total_count ?? 0;
  const detail = rows.find(({ id }) => id === chosen);
  const nameOf = (id: string | null) => {
    if (id === null) return 'the service itself';
    const member = members.data?.find(({ user_id }) => user_id === id);
    return member === undefined ? visible(id) : visible(shortened(member.username, 100));
  };
  const isFiltered = action !== '' || userId !== '';
  return (
    <>
      <p className="muted">
        Who did what with the connected accounts of this workspace, also with those that are gone. It includes
        what changes nothing: reads of credentials, and accounts that began or ceased to work.
      </p>
      <div className="tools">
        <label>
          <span className="off-screen">What was done</span>
          <select className="select small" value={action} onChange={(event) => setAction(event.target.value)}>
            <option value="">whatever was done</option>
            {Object.entries(actionWords).map(([id, words]) => (
              <option key={id} value={id}>
                {words}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span className="off-screen">Who did it</span>
          <select className="select small" value={userId} onChange={(event) => setUserId(event.target.value)}>
            <option value="">by any user</option>
            {members.data?.map(({ user_id, username }) => (
              <option key={user_id} value={user_id}>
                {visible(shortened(username, 60))}
              </option>
            ))}
          </select>
        </label>
        {audit.data !== undefined && <span className="muted">{formatNumber(total)} entries</span>}
      </div>
      {audit.error !== null && <Problem error={audit.error} onRetry={() => void audit.refetch()} />}
      {audit.isPending && <Loading what="Loading the audit log" />}
      {audit.data !== undefined && rows.length === 0 && (
        <Empty title={isFiltered ? 'Nothing of that kind' : 'Nothing is recorded yet'}>
          <p>
            {isFiltered
              ? 'Nothing that is still kept fits what you chose.'
              : 'As soon as an account is connected to this workspace, what is done with it stands here.'}
          </p>
        </Empty>
      )}
      {rows.length > 0 && (
        <div className={detail === undefined ? 'split' : 'split two'}>
          <VirtualList
            label="Use of accounts"
            rows={rows}
            total={total}
            needMore={() => {
              if (audit.hasNextPage && !audit.isFetchingNextPage) void audit.fetchNextPage();
            }}
          >
            {(entry) => (
              <button
                type="button"
                className={entry.id === chosen ? 'row chosen' : 'row'}
                aria-expanded={entry.id === chosen}
                onClick={() => setChosen(entry.id === chosen ? undefined : entry.id)}
              >
                <span className="row-main">
                  <span className="cut">
                    <bdi className="row-name">{nameOf(entry.user_id)}</bdi> {wordsOf(entry.action)}
                  </span>
                  <bdi className="muted cut">
                    {visible(shortened(entry.app.name_slug, 60))} · {visible(entry.account_id)}
                  </bdi>
                </span>
                <span className="muted row-side">
                  <Ago ms={Date.parse(entry.created_at)} />
                </span>
              </button>
            )}
          </VirtualList>
          {detail !== undefined && <Detail entry={detail} who={nameOf(detail.user_id)} />}
        </div>
      )}
    </>
  );
}

function Detail({ entry, who }: { entry: AccountAuditEntry; who: string }) {
  return (
    <section className="card detail" aria-label="Entry of the audit log">
      <dl className="props">
        <div>
          <dt>What</dt>
          <dd>{wordsOf(entry.action)}</dd>
        </div>
        <div>
          <dt>When</dt>
          <dd>{new Date(entry.created_at).toLocaleString()}</dd>
        </div>
        <div>
          <dt>Who</dt>
          <dd className="break">
            <bdi>{who}</bdi>
            {entry.key_id !== null && (
              <>
                {' '}
                with <code>{visible(entry.key_id)}</code>
              </>
            )}
          </dd>
        </div>
        <div>
          <dt>Account</dt>
          <dd className="break">
            {entry.action === 'deleted' ? (
              <code>{visible(entry.account_id)}</code>
            ) : (
              <Link href={`/accounts/${encodeURIComponent(entry.account_id)}`}>
                {visible(entry.account_id)}
              </Link>
            )}{' '}
            of <bdi>{visible(shortened(entry.app.name_slug, 60))}</bdi>
          </dd>
        </div>
      </dl>
      <h3>Details</h3>
      <JsonView value={entry.details} label="Details of the entry" />
    </section>
  );
}
