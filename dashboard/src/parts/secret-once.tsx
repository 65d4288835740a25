import { Command } from './copy.tsx';

/** The signing secret of a webhook, in the one moment in which the API shows it. */
export function SecretOnce({ secret, oldUntil }: { secret: string; oldUntil?: number | undefined }) {
  return (
    <section className="card secret" aria-labelledby="secret-once">
      <h2 id="secret-once">Its signing secret</h2>
      <p>
        Keep it where your receiver finds it: <strong>it is shown now, and never again.</strong> With it the
        receiver checks that a request comes from here, by any library of Standard Webhooks.
      </p>
      <Command text={secret} label="Copy the signing secret" />
      {oldUntil !== undefined && (
        <p className="muted">
          The secret before it signs too until {new Date(oldUntil * 1000).toLocaleString()}.
        </p>
      )}
    </section>
  );
}
