import { type ReactNode, useState } from 'react';
import { Confirm } from './confirm.tsx';
import { Problem } from './problem.tsx';

/** What a mutation without variables has. */
interface Change {
  mutate: (variables: undefined, options: { onSuccess: () => void }) => void;
  reset: () => void;
  isPending: boolean;
  error: Error | null;
}

/** A button for what cannot be undone: a dialog asks first, stays open while it happens, and says why it failed. */
export function ConfirmButton({
  name,
  label,
  look = 'button danger',
  disabled = false,
  title,
  action = name,
  actionLook,
  otherwise,
  isReady,
  change,
  failure,
  children,
}: {
  name: string;
  /** For screen readers, where `name` alone could be about several things. */
  label?: string;
  look?: string;
  disabled?: boolean;
  title: string;
  /** On the button of the dialog. */
  action?: string;
  /** Class of this button; absent: that of what cannot be undone. */
  actionLook?: string;
  otherwise?: string;
  isReady?: boolean;
  change: Change;
  /** What it means that the change failed. */
  failure?: string;
  children: ReactNode;
}) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button
        type="button"
        className={look}
        aria-label={label}
        disabled={disabled}
        onClick={() => setOpen(true)}
      >
        {name}
      </button>
      <Confirm
        open={open}
        onClose={() => {
          setOpen(false);
          change.reset();
        }}
        title={title}
        action={action}
        {...(actionLook === undefined ? {} : { look: actionLook })}
        otherwise={otherwise}
        isReady={isReady}
        busy={change.isPending}
        onConfirm={() => change.mutate(undefined, { onSuccess: () => setOpen(false) })}
      >
        {children}
        {change.error !== null && <Problem error={change.error} what={failure} />}
      </Confirm>
    </>
  );
}
