import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '~/api/client.ts';
import { ConfirmButton } from './confirm-button.tsx';
import { shortened, visible } from './plain-text.ts';

/** Deletes a workspace or a user, once its name was typed. */
export function DeleteOwner({
  what,
  path,
  field,
  name,
  text,
  onDeleted,
}: {
  what: string;
  path: string;
  field: 'orgname' | 'username';
  name: string;
  /** What goes. */
  text: string;
  onDeleted: () => void;
}) {
  const [typed, setTyped] = useState('');
  const remove = useMutation({
    mutationFn: () => api<void>('DELETE', path, { body: { [field]: typed } }),
    onSuccess: onDeleted,
  });
  return (
    <ConfirmButton
      name={`Delete ${what}`}
      title={`Delete this ${what}?`}
      isReady={typed === name}
      change={remove}
      failure="It was not deleted."
    >
      <p>{text} It cannot be undone.</p>
      <label className="label" htmlFor="delete-name">
        Type <bdi>{visible(shortened(name, 100))}</bdi> to confirm
      </label>
      <input
        id="delete-name"
        className="input"
        autoComplete="off"
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
      />
    </ConfirmButton>
  );
}
