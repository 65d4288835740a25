import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { Loading, PageFrame } from './page.tsx';
import { Problem } from './problem.tsx';

/** The page of one object: shows its loading or error until it is there, and an error when it cannot be reloaded. */
export function LoadedPage<T>({
  query,
  title,
  list,
  children,
}: {
  query: Pick<UseQueryResult<T>, 'data' | 'error' | 'refetch'>;
  /** The title while nothing is loaded: `Source dc_…`. */
  title: string;
  /** Where all of its kind are. */
  list: { href: string; name: string };
  children: (data: T) => ReactNode;
}) {
  const { data, error } = query;
  if (data === undefined) {
    return (
      <PageFrame title={title}>
        {error === null ? (
          <Loading />
        ) : (
          <>
            <Problem error={error} onRetry={() => void query.refetch()} />
            <p>
              <Link href={list.href}>{list.name}</Link>
            </p>
          </>
        )}
      </PageFrame>
    );
  }
  return (
    <>
      {error !== null && <Problem error={error} what="This may not be up to date." />}
      {children(data)}
    </>
  );
}
