import type { ReactNode } from 'react';
import { Command } from './copy.tsx';

/** A secret at the only time that the API shows it: the signing secret of a webhook, unless a label names another one. */
export function SecretOnce({
  secret,
  oldUntil,
  name = 'signing secret',
  title = 'Its signing secret',
  children = (
    <>
      Keep it where your receiver finds it: <strong>it is shown now, and never again.</strong> With it the
      receiver checks that a request comes from here, by any library of Standard Webhooks.
    </>
  ),
}: {
  secret: string;
  oldUntil?: number | undefined;
  name?: string;
  title?: string;
  /** What it is for, and that it is shown once. */
  children?: ReactNode;
}) {
  return (
    <section className="card secret" aria-labelledby="secret-once">
      <h2 id="secret-once">{title}</h2>
      <p>{children}</p>
      <Command text={secret} label={`Copy the ${name}`} />
      {oldUntil !== undefined && (
        <p className="muted">
          The secret before it signs too until {new Date(oldUntil * 1000).toLocaleString()}.
        </p>
      )}
    </section>
  );
}
