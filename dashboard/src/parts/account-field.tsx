import { useQuery } from '@tanstack/react-query';
import type { Account, Page } from '#sdk';
import { api } from '~/api/client.ts';
import { shortened, visible } from './plain-text.ts';
import { Problem } from './problem.tsx';
import type { FieldProps } from './prop-field.ts';
import { commonProps } from './simple-fields.tsx';

/** A connected account of the app that the prop asks for: those of the user, and of the workspace that is shown. */
export function AccountField({ ownerId, ...props }: FieldProps & { ownerId: string }) {
  const { definition, value, onChange } = props;
  const slug = definition.app ?? '';
  const accounts = useQuery({
    queryKey: ['accounts', ownerId, slug],
    queryFn: ({ signal }) =>
      api<Page<Account>>('GET', '/v1/accounts', {
        signal,
        query: { app: slug, limit: 100, org_id: ownerId.startsWith('o_') ? ownerId : undefined },
      }),
    enabled: slug !== '',
    refetchInterval: 10_000,
  });
  const chosen = (value as { authProvisionId?: string } | undefined)?.authProvisionId ?? '';
  const list = accounts.data?.data ?? [];
  return (
    <>
      <select
        {...commonProps(props)}
        className="select"
        value={chosen}
        onChange={(event) =>
          onChange(event.target.value === '' ? undefined : { authProvisionId: event.target.value })
        }
      >
        <option value="">{accounts.isPending ? 'Loading accounts …' : 'No account'}</option>
        {chosen !== '' && !list.some(({ id }) => id === chosen) && <option value={chosen}>{chosen}</option>}
        {list.map(({ id, name, app, health }) => (
          <option key={id} value={id}>
            {visible(shortened(name === null || name === '' ? app.name : name, 80))}
            {health.state === 'failing' ? ' (failing)' : ''} · {id}
          </option>
        ))}
      </select>
      {list.length > 0 && chosen === '' && definition.optional !== true && (
        <p className="hint">Without an account, what the code does with this app fails.</p>
      )}
      {accounts.error !== null && <Problem error={accounts.error} />}
      {accounts.isSuccess && list.length === 0 && (
        <p className="hint">
          There is no account of this app yet:{' '}
          <a href={`/accounts/new?app=${encodeURIComponent(slug)}`} target="_blank" rel="noreferrer">
            connect one
          </a>{' '}
          (in another tab); it appears here by itself.
        </p>
      )}
    </>
  );
}
