import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { SignedInSession } from '#sdk';
import { api } from '~/api/client.ts';
import { useSessions } from '~/api/sign-in-queries.ts';
import { useApiKeys } from '~/api/workspace-queries.ts';
import { Ago } from '~/parts/ago.tsx';
import { ConfirmButton } from '~/parts/confirm-button.tsx';
import { keyName } from '~/parts/key-list.tsx';
import { Loading } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { ShowOlder } from '~/parts/show-older.tsx';

/** The user's sessions: which browser, from where, since when; end one, or all others. */
export function SignedInSessions() {
  const sessions = useSessions();
  const keys = useApiKeys();
  const rows = sessions.data?.pages.flatMap(({ data }) => data) ?? [];
  const total = sessions.data?.pages[0]?.page_info.total_count ?? 0;
  const others = total - (rows.some(({ current }) => current) ? 1 : 0);
  if (sessions.data === undefined) {
    return sessions.error === null ? (
      <Loading what="Loading your sessions" />
    ) : (
      <Problem error={sessions.error} onRetry={() => void sessions.refetch()} />
    );
  }
  return (
    <>
      <p className="muted">
        End a session that you do not know, then revoke the key that it began with. Last use is recorded at
        most once a minute.
      </p>
      {sessions.error !== null && !sessions.isFetchNextPageError && (
        <Problem error={sessions.error} what="This may not be up to date." />
      )}
      <ul className="rows card flush" aria-label="Sessions">
        {rows.map((session) => {
          const key = keys.data?.find(({ id }) => id === session.key_id);
          return (
            <li key={session.id} className="row plain">
              <span className="row-main">
                <bdi className="cut row-name">{browserOf(session)}</bdi>
                <span className="muted wrap">
                  {session.address !== null && (
                    <>
                      from <code>{visible(shortened(session.address, 60))}</code>,{' '}
                    </>
                  )}
                  {session.last_used_at === null ? (
                    'not used yet'
                  ) : (
                    <>
                      used <Ago ms={session.last_used_at * 1000} />
                    </>
                  )}
                </span>
                <span className="muted wrap">
                  signed in <Ago ms={session.created_at * 1000} />
                  {key !== undefined && (
                    <>
                      {' '}
                      with the key <bdi>{keyName(key)}</bdi>
                    </>
                  )}
                </span>
              </span>
              {session.current ? <span className="state good">this one</span> : <End session={session} />}
            </li>
          );
        })}
      </ul>
      <ShowOlder list={sessions} />
      {others > 0 && <EndOthers count={others} />}
    </>
  );
}

function browserOf({ user_agent }: SignedInSession): string {
  return user_agent === null ? 'Unknown browser' : visible(shortened(user_agent, 100));
}

function End({ session }: { session: SignedInSession }) {
  const queries = useQueryClient();
  const end = useMutation({
    mutationFn: () => api<void>('DELETE', `/v1/users/me/sessions/${session.id}`),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['sessions'] }),
  });
  return (
    <ConfirmButton
      name="End"
      label={`End the session of ${browserOf(session)}`}
      look="button small"
      title="End this session?"
      action="End session"
      change={end}
      failure="The session was not ended."
    >
      <p>
        <strong>
          <bdi>{browserOf(session)}</bdi>
        </strong>{' '}
        is signed out at once. With the API key or the account at the provider it can sign in again.
      </p>
    </ConfirmButton>
  );
}

function EndOthers({ count }: { count: number }) {
  const queries = useQueryClient();
  const end = useMutation({
    mutationFn: () => api<void>('DELETE', '/v1/users/me/sessions'),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['sessions'] }),
  });
  return (
    <p>
      <ConfirmButton
        name="End all other sessions"
        title="End all other sessions?"
        action="End them"
        change={end}
        failure="No session was ended."
      >
        <p>
          {count === 1 ? 'One browser is' : `${count} browsers are`} signed out at once. You stay signed in
          here. API keys keep working.
        </p>
      </ConfirmButton>
    </p>
  );
}
