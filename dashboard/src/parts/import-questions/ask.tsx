import type { ReactNode } from 'react';

/** A form of one question with its two ways on. */
export function Ask({
  lead,
  action,
  isReady = true,
  isPending = false,
  onSubmit,
  onSkip,
  children,
}: {
  lead: ReactNode;
  /** Undefined: the user may not do it. */
  action: string | undefined;
  isReady?: boolean;
  isPending?: boolean;
  onSubmit: () => void;
  onSkip: () => void;
  children: ReactNode;
}) {
  return (
    <form
      className="form question"
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit();
      }}
    >
      <p className="muted break">{lead}</p>
      {children}
      <div className="tools">
        {action !== undefined && (
          <button type="submit" className="button" disabled={!isReady || isPending}>
            {isPending ? 'One moment …' : action}
          </button>
        )}
        <button
          type="button"
          className={action === undefined ? 'button' : 'button quiet'}
          disabled={isPending}
          onClick={onSkip}
        >
          Skip
        </button>
      </div>
    </form>
  );
}
