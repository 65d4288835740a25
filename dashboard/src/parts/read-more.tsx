import type { ReactNode } from 'react';

/** Where the manual says more: `page` is its address below /docs, such as `guides/sources`. */
export function ReadMore({ page, children }: { page: string; children: ReactNode }) {
  return (
    <p className="muted">
      In the manual: <a href={`/docs/${page}`}>{children}</a>
    </p>
  );
}
