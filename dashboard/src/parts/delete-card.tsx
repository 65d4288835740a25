import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { useLocation } from 'wouter';
import { MillraceError } from '#sdk';
import { api } from '~/api/client.ts';
import { ConfirmButton } from './confirm-button.tsx';
import { shortened, visible } from './plain-text.ts';

/** Deletes a source or a workflow. When a deactivate hook fails it is still there, and may be deleted in spite of that. */
export function DeleteCard({
  kind,
  object,
  text,
  hookFailure,
  children,
}: {
  kind: 'source' | 'workflow';
  object: { id: string; name: string };
  text: string;
  hookFailure: string;
  /** What ends with it, as items of a list. */
  children: ReactNode;
}) {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: (options: { ignoreHookErrors: boolean }) =>
      api<void>('DELETE', `/v1/${kind}s/${object.id}`, {
        query: { ignore_hook_errors: options.ignoreHookErrors || undefined },
      }),
    onSuccess: () => {
      navigate(`/${kind}s`);
      queries.removeQueries({ queryKey: [kind, object.id] });
      void queries.invalidateQueries({ queryKey: [`${kind}s`] });
    },
  });
  const isHook = remove.error instanceof MillraceError && remove.error.code === 'hook_failed';
  return (
    <section className="card" aria-labelledby="remove">
      <h2 id="remove">Delete</h2>
      <p className="muted">{text}</p>
      <ConfirmButton
        name={`Delete ${kind}`}
        title={`Delete this ${kind}?`}
        action={isHook ? 'Delete it all the same' : `Delete ${kind}`}
        change={{
          ...remove,
          mutate: (_, options) => remove.mutate({ ignoreHookErrors: isHook }, options),
        }}
        failure={isHook ? hookFailure : 'It was not deleted.'}
      >
        <p>
          <strong>
            <bdi>{visible(shortened(object.name, 200))}</bdi>
          </strong>{' '}
          ends now, and this cannot be undone:
        </p>
        <ul>{children}</ul>
      </ConfirmButton>
    </section>
  );
}
