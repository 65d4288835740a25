import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Page, SourceLog } from '#sdk';
import { api } from '~/api/client.ts';
import { formatClock } from '~/parts/format.ts';
import { Empty, Loading } from '~/parts/page.tsx';
import { visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { StackView } from '~/parts/stack-view.tsx';

const levels = ['all', 'errors', 'warnings'] as const;

/** What the code printed, and how it failed, newest first; looked at again every two seconds. */
export function SourceLogs({ sourceId, code }: { sourceId: string; code: string | undefined }) {
  const [level, setLevel] = useState<(typeof levels)[number]>('all');
  const logs = useQuery({
    queryKey: ['logs', sourceId],
    queryFn: async ({ signal }) =>
      (await api<Page<SourceLog>>('GET', `/v1/sources/${sourceId}/logs`, { signal, query: { limit: 100 } }))
        .data,
    refetchInterval: 2_000,
  });
  if (logs.data === undefined) {
    return logs.error === null ? (
      <Loading what="Loading logs" />
    ) : (
      <Problem error={logs.error} onRetry={() => void logs.refetch()} />
    );
  }
  const lines = logs.data.filter((line) => fits(line, level));
  return (
    <>
      <div className="tools">
        <label>
          Show{' '}
          <select
            className="select small"
            value={level}
            onChange={(event) => setLevel(event.target.value as typeof level)}
          >
            {levels.map((name) => (
              <option key={name} value={name}>
                {name === 'all' ? 'everything' : name === 'errors' ? 'errors only' : 'warnings and errors'}
              </option>
            ))}
          </select>
        </label>
        <span className="muted">The last 100 lines are kept, newest first.</span>
      </div>
      {logs.error !== null && <Problem error={logs.error} what="This is not up to date." />}
      {lines.length === 0 ? (
        <Empty
          title={logs.data.length === 0 ? 'Nothing was printed, and nothing failed' : 'No lines of this kind'}
        >
          <p>
            What the component prints with <code>console.log</code> appears here by itself, and so do its
            errors.
          </p>
        </Empty>
      ) : (
        <ol className="log card flush">
          {lines.map((line) => (
            <li key={`${line.id} ${line.level}`} className={`log-line ${levelClass(line)}`}>
              <time className="muted log-time" dateTime={new Date(line.ts).toISOString()}>
                {formatClock(line.ts)}
              </time>
              <span className="log-level">{visible(line.level.slice(0, 20))}</span>
              <div className="log-text">
                <pre>{visible(line.message)}</pre>
                {line.error?.stack !== undefined && (
                  <StackView stack={line.error.stack} message={line.message} code={code} />
                )}
              </div>
            </li>
          ))}
        </ol>
      )}
    </>
  );
}

function levelClass({ level }: SourceLog): string {
  return level === 'error' ? 'bad' : level === 'warn' ? 'warn' : '';
}

function fits({ level }: SourceLog, wanted: (typeof levels)[number]): boolean {
  return wanted === 'all' || level === 'error' || (wanted === 'warnings' && level === 'warn');
}
