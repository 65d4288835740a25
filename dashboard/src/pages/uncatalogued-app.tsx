import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import type { Account } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { useMayAdminister } from '~/api/rights.ts';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';

interface FieldRow {
  key: number;
  name: string;
  value: string;
}

/** Connects an account of an app that is not in the catalogue: the user names its fields, as components read them. */
export function UncataloguedApp({ slug, ownerId }: { slug: string; ownerId: string }) {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const mayAdminister = useMayAdminister(ownerId);
  const [rows, setRows] = useState<readonly FieldRow[]>([{ key: 0, name: '', value: '' }]);
  const create = useMutation({
    mutationFn: async () => {
      const named = rows.filter(({ name }) => name.trim() !== '');
      const credentials = Object.fromEntries(named.map(({ name, value }) => [name.trim(), value]));
      const owner = ownerId.startsWith('o_') ? { org_id: ownerId } : {};
      return (
        await api<Data<Account>>('POST', '/v1/accounts', { body: { app: slug, credentials, ...owner } })
      ).data;
    },
    // It holds what was typed.
    gcTime: 0,
    onSuccess: ({ id }) => {
      void queries.invalidateQueries({ queryKey: ['accounts'] });
      navigate(`/accounts/${id}`);
    },
  });
  const change = (key: number, changed: Partial<FieldRow>) =>
    setRows(rows.map((row) => (row.key === key ? { ...row, ...changed } : row)));
  const name = visible(shortened(slug, 100));
  return (
    <form
      className="card form"
      onSubmit={(event) => {
        event.preventDefault();
        create.mutate();
      }}
    >
      <h2>
        <bdi>{name}</bdi>
      </h2>
      <p>
        This app is not in the catalogue. Its account works all the same: give the fields that the component
        reads from <code>$auth</code>, such as <code>api_key</code>. A component that only has methods for
        others needs none.
      </p>
      {rows.map(({ key, name: field, value }, index) => (
        <div className="field" key={key}>
          <label className="label" htmlFor={`field-name-${key}`}>
            Field {index + 1} <span className="muted">(optional)</span>
          </label>
          <input
            id={`field-name-${key}`}
            className="input code"
            maxLength={200}
            autoComplete="off"
            spellCheck={false}
            placeholder="api_key"
            value={field}
            onChange={(event) => change(key, { name: event.target.value })}
          />
          <input
            type="password"
            className="input"
            aria-label={`Value of field ${index + 1}`}
            autoComplete="new-password"
            placeholder="Value"
            value={value}
            onChange={(event) => change(key, { value: event.target.value })}
          />
        </div>
      ))}
      {create.error !== null && <Problem error={create.error} what="The account was not connected." />}
      <p className="buttons">
        <button type="submit" className="button primary" disabled={create.isPending}>
          {create.isPending ? 'Connecting …' : 'Connect'}
        </button>
        <button
          type="button"
          className="button"
          onClick={() => setRows([...rows, { key: (rows.at(-1)?.key ?? 0) + 1, name: '', value: '' }])}
        >
          Add field
        </button>
      </p>
      {mayAdminister === true && (
        <p className="hint below">
          To test its accounts and to get a form for them, <Link href="/apps/new">add the app</Link>.
        </p>
      )}
    </form>
  );
}
