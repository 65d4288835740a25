import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { RegistryPackage } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { useNow } from './ago.tsx';
import { Loading } from './page.tsx';

/** Everything that shows components is read again. */
export function useRegistryChanged(): () => void {
  const queries = useQueryClient();
  return () => {
    for (const key of ['packages', 'repositories', 'registry', 'registry component', 'apps'])
      void queries.invalidateQueries({ queryKey: [key] });
  };
}

/** Adds an npm package to the registry, which takes seconds to a minute. */
export function useAddPackage({ onAdded }: { onAdded?: () => void } = {}) {
  const changed = useRegistryChanged();
  return useMutation({
    mutationFn: async ({ name, version }: { name: string; version?: string }) =>
      (
        await api<Data<RegistryPackage>>('POST', '/v1/registry/packages', {
          body: { name, ...(version === undefined || version === '' ? {} : { version }) },
        })
      ).data,
    onSuccess: () => {
      onAdded?.();
      changed();
    },
  });
}

/** `since`: when it began, in epoch ms. */
export function AddingPackage({ since }: { since: number }) {
  const now = useNow(1_000);
  const seconds = Math.max(0, Math.round((now - since) / 1000));
  return <Loading what={`Downloading and reading it, ${seconds} s so far`} />;
}
