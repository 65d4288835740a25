import { type ReactNode, useId, useLayoutEffect, useRef } from 'react';
import { createPortal } from 'react-dom';

/** Asks before something that cannot be undone or has many effects. Says what would happen; stays open while it happens, and when it failed. */
export function Confirm({ open, ...question }: QuestionProps & { open: boolean }) {
  return open ? createPortal(<Question {...question} />, document.body) : null;
}

interface QuestionProps {
  onClose: () => void;
  title: string;
  /** On the button, such as "Delete source". */
  action: string;
  /** Class of the button with the action; red where it removes something. */
  look?: string;
  /** On the button that leaves all as it is, where “Cancel” could mean something else. */
  otherwise?: string | undefined;
  busy: boolean;
  /** False: it cannot be confirmed as it is. */
  isReady?: boolean | undefined;
  onConfirm: () => void;
  children: ReactNode;
}

/** The browser's own dialog: while it is open nothing else can be reached, and afterwards the focus is where it was. */
function Question({
  onClose,
  title,
  action,
  look = 'button danger',
  otherwise = 'Cancel',
  busy,
  isReady = true,
  onConfirm,
  children,
}: QuestionProps) {
  const id = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      role="alertdialog"
      className="dialog"
      aria-labelledby={`${id}title`}
      aria-describedby={`${id}body`}
      onKeyDown={(event) => {
        const { key, target } = event;
        const isText = target instanceof HTMLInputElement && ['text', 'email'].includes(target.type);
        if (key === 'Enter' && isText && isReady && !busy) onConfirm();
      }}
      onCancel={(event) => {
        // What is chosen of a file cancels too, and bubbles.
        if (event.target !== event.currentTarget) return;
        event.preventDefault();
        if (!busy) onClose();
      }}
    >
      <h2 id={`${id}title`} className="dialog-title">
        {title}
      </h2>
      <div id={`${id}body`} className="dialog-body">
        {children}
      </div>
      <div className="dialog-actions">
        <button type="button" className="button" onClick={onClose} disabled={busy}>
          {otherwise}
        </button>
        <button type="button" className={look} onClick={onConfirm} disabled={busy || !isReady}>
          {busy ? 'One moment …' : action}
        </button>
      </div>
    </dialog>
  );
}
