import { useQuery } from '@tanstack/react-query';
import { useParams } from 'wouter';
import { api } from '~/api/client.ts';
import { Command } from '~/parts/copy.tsx';
import { JsonView } from '~/parts/json-view.tsx';
import { Loading, PageFrame } from '~/parts/page.tsx';
import { Problem } from '~/parts/problem.tsx';

/** What may be looked at: paths of the API, without steps upwards. */
const readable = /^v1\/[\w\-$*~/]+$/;

/** The API's answer about one object, for objects without a page of their own: /object/v1/runs/… */
export function ObjectPage() {
  const { '*': path = '' } = useParams<{ '*'?: string }>();
  const isReadable = readable.test(path);
  const answer = useQuery({
    queryKey: ['object', path],
    queryFn: ({ signal }) => api<unknown>('GET', `/${path}`, { signal }),
    enabled: isReadable,
  });
  return (
    <PageFrame title={`/${path}`} lead={<p className="muted">What the API answers, as it is.</p>}>
      {!isReadable && <Problem error="This is no path of the API: expected /object/v1/…" />}
      {isReadable && answer.isPending && <Loading />}
      {answer.error !== null && <Problem error={answer.error} onRetry={() => void answer.refetch()} />}
      {answer.data !== undefined && <JsonView value={answer.data} label={`Answer of /${path}`} />}
      {isReadable && (
        <>
          <h2>From a terminal</h2>
          <Command text={`curl ${window.location.origin}/${path} -H "Authorization: Bearer $KEY"`} />
        </>
      )}
    </PageFrame>
  );
}
