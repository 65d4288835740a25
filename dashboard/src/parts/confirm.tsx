import { AlertDialog } from '@base-ui/react/alert-dialog';
import type { ReactNode } from 'react';

/** Asks before something that cannot be undone. Says what would happen; stays open while it happens, and when it failed. */
export function Confirm({
  open,
  onClose,
  title,
  action,
  otherwise = 'Cancel',
  busy,
  onConfirm,
  children,
}: {
  open: boolean;
  onClose: () => void;
  title: string;
  /** On the button, such as "Delete source". */
  action: string;
  /** On the button that leaves all as it is, where “Cancel” could mean something else. */
  otherwise?: string;
  busy: boolean;
  onConfirm: () => void;
  children: ReactNode;
}) {
  return (
    <AlertDialog.Root
      open={open}
      onOpenChange={(next) => {
        if (!next && !busy) onClose();
      }}
    >
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className="backdrop" />
        <AlertDialog.Popup className="dialog">
          <AlertDialog.Title className="dialog-title">{title}</AlertDialog.Title>
          <AlertDialog.Description render={<div />} className="dialog-body">
            {children}
          </AlertDialog.Description>
          <div className="dialog-actions">
            <AlertDialog.Close className="button" disabled={busy}>
              {otherwise}
            </AlertDialog.Close>
            <button type="button" className="button danger" onClick={onConfirm} disabled={busy}>
              {busy ? 'One moment …' : action}
            </button>
          </div>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}
