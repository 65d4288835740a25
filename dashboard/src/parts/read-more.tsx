import type { ReactNode } from 'react';

/** A link to the manual: `page` is the path below /docs, such as `guides/sources`. */
export function ReadMore({ page, children }: { page: string; children: ReactNode }) {
  return (
    <p className="muted">
      In the manual: <a href={`/docs/${page}`}>{children}</a>
    </p>
  );
}
