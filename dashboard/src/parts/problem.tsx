import { MillraceConnectionError, MillraceError } from '#sdk';
import { Icon } from './icon.tsx';
import { visible } from './plain-text.ts';

/** What went wrong, what to do about it, and a way to do it. */
export function Problem({
  error,
  what,
  onRetry,
}: {
  error: unknown;
  what?: string | undefined;
  onRetry?: () => void;
}) {
  const told = error instanceof Error ? error.message : String(error);
  const hint = hintFor(error);
  return (
    <div className="problem" role="alert">
      <Icon name="warning" />
      <div>
        {what !== undefined && <strong>{what}</strong>}
        <p className="pre-line">{visible(told)}</p>
        {hint !== undefined && <p className="muted">{hint}</p>}
        {error instanceof MillraceError && /^[a-z0-9_]+$/.test(error.code) && (
          <p className="muted">
            What it means: <a href={`/docs/reference/errors#code-${error.code}`}>{error.code}</a>
          </p>
        )}
        {error instanceof MillraceError && error.requestId !== undefined && error.status >= 500 && (
          <p className="muted">
            Request <code>{error.requestId}</code> in the log of the service.
          </p>
        )}
        {onRetry !== undefined && (
          <button type="button" className="button small" onClick={onRetry}>
            Try again
          </button>
        )}
      </div>
    </div>
  );
}

function hintFor(error: unknown): string | undefined {
  if (error instanceof MillraceConnectionError)
    return 'It is tried again by itself as soon as the service is back.';
  if (!(error instanceof MillraceError)) return undefined;
  if (error.code === 'forbidden') return 'Ask an admin of the workspace for the role of a member.';
  if (error.code === 'not_found') return 'It was removed, or belongs to a workspace that you are not in.';
  if (error.code === 'hook_failed') return 'The code of the component failed; nothing was changed.';
  if (error.status === 409)
    return 'Something else changed it at the same time. Look at it again, then repeat.';
  if (error.status === 429) return 'Too much at once: wait a moment.';
  if (error.status >= 500) return 'This is a fault of the service, not of what you did.';
  return undefined;
}
