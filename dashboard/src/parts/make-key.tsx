import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useId, useState } from 'react';
import type { ApiKey, CreateApiKeyAnswer } from '#sdk';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { type KeyPlace, keyName } from './key-list.tsx';
import { keyScopes, type Scope } from './key-scopes.ts';
import { Problem } from './problem.tsx';
import { SecretOnce } from './secret-once.tsx';

type Expires = 'never' | '30' | '90' | 'date';

/** A form for a new API key, which is shown once. */
export function MakeKey({
  place,
  maker,
  placeholder,
}: {
  place: KeyPlace;
  /** The key of the session; a new key has none of the scopes that it lacks, and does not outlive it. */
  maker: ApiKey | undefined;
  placeholder: string;
}) {
  const id = useId();
  const queries = useQueryClient();
  const offered = maker?.scopes ?? keyScopes.map(({ scope }) => scope);
  const [name, setName] = useState('');
  const [dropped, setDropped] = useState<readonly Scope[]>([]);
  const [expires, setExpires] = useState<Expires>('never');
  const [date, setDate] = useState('');
  const [made, setMade] = useState<{ name: string; secret: string }>();
  const chosen = offered.filter((scope) => !dropped.includes(scope));
  const hasAll = chosen.length === keyScopes.length;
  const expiresAt = expiryOf(expires, date);
  const create = useMutation({
    mutationFn: async () => {
      const body = {
        name: name.trim(),
        ...(hasAll ? {} : { scopes: chosen }),
        ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
      };
      return (await api<Data<CreateApiKeyAnswer>>('POST', place.path, { body })).data;
    },
    // What is no longer looked at forgets the key.
    gcTime: 0,
    onSuccess: ({ api_key, ...key }) => {
      setMade({ name: keyName(key), secret: api_key });
      setName('');
      setDropped([]);
      setExpires('never');
      void queries.invalidateQueries({ queryKey: [...place.queryKey] });
    },
  });
  if (made !== undefined) {
    return (
      <>
        <SecretOnce secret={made.secret} name="API key" title={`The key “${made.name}”`}>
          <strong>The key is shown only once.</strong> Keep it where only the program that needs it can read
          it.
        </SecretOnce>
        <p>
          <button
            type="button"
            className="button"
            onClick={() => {
              setMade(undefined);
              create.reset();
            }}
          >
            I have kept it
          </button>
        </p>
      </>
    );
  }
  const isReady = name.trim() !== '' && chosen.length > 0 && (expires !== 'date' || expiresAt !== undefined);
  return (
    <details className="card">
      <summary>New key</summary>
      <form
        className="form"
        aria-label="New key"
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate();
        }}
      >
        <div className="field">
          <label className="label" htmlFor={`${id}name`}>
            What it is for
          </label>
          <input
            id={`${id}name`}
            className="input"
            required
            maxLength={100}
            placeholder={placeholder}
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        </div>
        <fieldset className="field">
          <legend className="label">Scopes</legend>
          <p className="hint">
            What the key may be used for, within the rights of its user. With all of them it also has the
            scopes that later versions add.
          </p>
          {keyScopes.map(({ scope, allows }) => (
            <label key={scope} className="pick">
              <input
                type="checkbox"
                checked={chosen.includes(scope)}
                disabled={!offered.includes(scope)}
                onChange={({ target }) =>
                  setDropped(target.checked ? dropped.filter((one) => one !== scope) : [...dropped, scope])
                }
              />
              <span>
                <strong>{scope}</strong> <span className="muted">{allows}</span>
              </span>
            </label>
          ))}
          {offered.length < keyScopes.length && (
            <p className="hint">The key you are signed in with has no other scopes to give.</p>
          )}
          {chosen.length === 0 && <p className="field-problem">Choose at least one scope.</p>}
        </fieldset>
        <div className="field">
          <label className="label" htmlFor={`${id}expires`}>
            Expires
          </label>
          <div className="choice-more">
            <select
              id={`${id}expires`}
              className="select small"
              value={expires}
              onChange={(event) => setExpires(event.target.value as Expires)}
            >
              <option value="never">
                {maker?.expires_at == null ? 'never' : 'with the key you are signed in with'}
              </option>
              <option value="30">in 30 days</option>
              <option value="90">in 90 days</option>
              <option value="date">on a date</option>
            </select>
            {expires === 'date' && (
              <input
                type="date"
                className="input small"
                aria-label="Last day"
                required
                min={dayOf(new Date())}
                max="9999-12-30"
                value={date}
                onChange={(event) => setDate(event.target.value)}
              />
            )}
          </div>
          {expiresAt !== undefined && (
            <p className="hint below">Refused from {new Date(expiresAt * 1000).toLocaleString()} on.</p>
          )}
        </div>
        {create.error !== null && <Problem error={create.error} what="No key was made." />}
        <button type="submit" className="button primary" disabled={create.isPending || !isReady}>
          {create.isPending ? 'Creating …' : 'Create key'}
        </button>
      </form>
    </details>
  );
}

/** Epoch seconds; undefined: the service decides, or no date was given. A date is the last day, where the browser is. */
function expiryOf(expires: Expires, date: string): number | undefined {
  if (expires === 'never') return undefined;
  if (expires !== 'date') return Math.floor(Date.now() / 1000) + Number(expires) * 86_400;
  const day = new Date(`${date}T00:00`);
  day.setDate(day.getDate() + 1);
  return Number.isNaN(day.getTime()) ? undefined : Math.floor(day.getTime() / 1000);
}

/** `2026-11-23`, where the browser is. */
function dayOf(date: Date): string {
  const two = (value: number) => String(value).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}
