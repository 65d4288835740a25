import { type ReactNode, useEffect } from 'react';
import { shortened, visible } from './plain-text.ts';

/** The frame of each page: its heading, which is the title of the window too, and what can be done with all of it. */
export function PageFrame({
  title,
  actions,
  lead,
  children,
}: {
  title: string;
  actions?: ReactNode;
  lead?: ReactNode;
  children: ReactNode;
}) {
  const shown = visible(shortened(title, 200));
  useEffect(() => {
    document.title = `${shortened(shown, 80)} · Millrace`;
  }, [shown]);
  return (
    <>
      <header className="page-head">
        <div className="page-title">
          <h1>
            <bdi>{shown}</bdi>
          </h1>
          {lead}
        </div>
        {actions !== undefined && <div className="page-actions">{actions}</div>}
      </header>
      {children}
    </>
  );
}

/** Nothing is there yet: what it would be, and the next step. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Loading({ what = 'Loading' }: { what?: string }) {
  return (
    <p className="loading" role="status">
      <span className="spinner" aria-hidden="true" />
      {what} …
    </p>
  );
}
