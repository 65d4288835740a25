import type { ReactNode } from 'react';

/** A number of a page in large type, with its name above and what it counts below. */
export function Figure({
  name,
  value,
  isBad = false,
  children,
}: {
  name: ReactNode;
  value: string;
  isBad?: boolean;
  children: ReactNode;
}) {
  return (
    <div className={isBad ? 'figure bad' : 'figure'}>
      <dt>{name}</dt>
      <dd className="figure-value">{value}</dd>
      <dd className="muted">{children}</dd>
    </div>
  );
}
