import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import type { App } from '#sdk';
import { useApp } from '~/api/account-queries.ts';
import { orgOf } from '~/api/app-queries.ts';
import { api } from '~/api/client.ts';
import type { Data } from '~/api/queries.ts';
import { useMayAdminister } from '~/api/rights.ts';
import {
  type AppDraft,
  emptyApp,
  type FieldDraft,
  fieldsIn,
  parsedDraft,
  textAt,
  withKind,
  withValue,
} from '~/parts/app-draft.ts';
import { useOwner } from '~/parts/owner.tsx';
import { Empty, Loading, PageFrame } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';

/** Adds a custom app to the catalogue, perhaps as a copy of another one, or changes one. */
export function AppEditor({ slug }: { slug?: string }) {
  const { ownerId } = useOwner();
  const from = slug ?? new URLSearchParams(useSearch()).get('from') ?? '';
  const app = useApp(from, ownerId);
  const owner = slug === undefined ? ownerId : (app.data?.owner_id ?? null);
  const mayAdminister = useMayAdminister(owner);
  const title = slug === undefined ? 'New app' : `Change ${app.data?.name ?? slug}`;
  if (from !== '' && app.data === undefined) {
    return (
      <PageFrame title={title}>
        {app.error === null ? <Loading /> : <Problem error={app.error} onRetry={() => void app.refetch()} />}
      </PageFrame>
    );
  }
  if (mayAdminister === undefined) {
    return (
      <PageFrame title={title}>
        <Loading />
      </PageFrame>
    );
  }
  if (!mayAdminister || owner === null) {
    return (
      <PageFrame title={title}>
        <Empty title="This app is not yours to change">
          <p>
            {owner === null
              ? 'It comes with the service.'
              : 'Apps of a workspace are added and changed by its admins; your own you add under Showing: My own.'}{' '}
            <Link href="/apps">All apps</Link>
          </p>
        </Empty>
      </PageFrame>
    );
  }
  const first =
    app.data === undefined
      ? emptyApp
      : { ...app.data.definition, ...(slug === undefined ? { slug: '' } : {}) };
  return (
    <PageFrame
      title={title}
      lead={
        owner.startsWith('o_') && <p className="muted">For all members of the workspace that is shown.</p>
      }
    >
      <Editor key={`${from} ${owner}`} first={first} ownerId={owner} slug={slug} />
    </PageFrame>
  );
}

function Editor({ first, ownerId, slug }: { first: AppDraft; ownerId: string; slug: string | undefined }) {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const [draft, setDraft] = useState(first);
  const [text, setText] = useState(() => JSON.stringify(first, null, 2));
  const isJson = parsedDraft(text) !== undefined;
  const change = (next: AppDraft) => {
    setDraft(next);
    setText(JSON.stringify(next, null, 2));
  };
  const save = useMutation({
    mutationFn: async () => {
      const body = { ...draft, ...orgOf(ownerId) };
      return (
        await (slug === undefined
          ? api<Data<App>>('POST', '/v1/apps', { body })
          : api<Data<App>>('PUT', `/v1/apps/${slug}`, { body }))
      ).data;
    },
    onSuccess: (saved) => {
      for (const key of ['apps', 'app', 'oauth client']) void queries.invalidateQueries({ queryKey: [key] });
      queries.setQueryData(['app', ownerId, saved.name_slug], saved);
      navigate(`/apps/${saved.name_slug}`);
    },
  });
  const input = { draft, onChange: change };
  const kind = textAt(draft, ['auth_type']);
  return (
    <form
      className="card form"
      onSubmit={(event) => {
        event.preventDefault();
        if (isJson) save.mutate();
      }}
    >
      <fieldset className="bare" disabled={!isJson}>
        {slug === undefined && (
          <TextAt
            {...input}
            path={['slug']}
            label="Slug"
            hint="What components say as their app: lower-case letters, digits, _ and -. It stays."
            required
          />
        )}
        <TextAt {...input} path={['name']} label="Name" required />
        <TextAt {...input} path={['description']} label="Description" />
        <div className="field">
          <label className="label" htmlFor="app-kind">
            How accounts are connected
          </label>
          <select
            id="app-kind"
            className="select"
            value={kind}
            onChange={(event) => change(withKind(draft, event.target.value))}
          >
            <option value="keys">with keys that the user enters</option>
            <option value="oauth">with OAuth, in a window of the provider</option>
            <option value="none">not at all: it has no accounts</option>
          </select>
        </div>
        {kind === 'oauth' && (
          <>
            <TextAt {...input} path={['oauth', 'authorization_url']} label="Authorization URL" />
            <TextAt {...input} path={['oauth', 'token_url']} label="Token URL" />
            <TextAt
              {...input}
              path={['oauth', 'scopes']}
              label="Scopes"
              hint="With spaces between them."
              list
            />
          </>
        )}
        {kind !== 'none' && (
          <>
            <Fields draft={draft} onChange={change} />
            <TextAt
              {...input}
              path={['test_request', 'url']}
              label="URL of a test request"
              hint="A GET that changes nothing, by which accounts are tested. {{api_key}} stands for a field."
            />
            <TextAt
              {...input}
              path={['test_request', 'headers', 'authorization']}
              label="Authorization header of it"
              hint={
                kind === 'oauth' ? 'Such as Bearer {{oauth_access_token}}.' : 'Such as Bearer {{api_key}}.'
              }
            />
          </>
        )}
      </fieldset>
      <details open={!isJson || undefined}>
        <summary>All of it as JSON, with what the fields above do not have</summary>
        <textarea
          className="input code"
          aria-label="Definition as JSON"
          rows={16}
          spellCheck={false}
          value={text}
          aria-invalid={!isJson || undefined}
          onChange={(event) => {
            setText(event.target.value);
            const parsed = parsedDraft(event.target.value);
            if (parsed !== undefined) setDraft(parsed);
          }}
        />
        {!isJson && <p className="field-problem">This is no JSON object yet.</p>}
      </details>
      {save.error !== null && <Problem error={save.error} what="It was not saved." />}
      <button type="submit" className="button primary" disabled={!isJson || save.isPending}>
        {save.isPending ? 'Saving …' : slug === undefined ? 'Create app' : 'Save'}
      </button>
    </form>
  );
}

function TextAt({
  draft,
  onChange,
  path,
  label,
  hint,
  required = false,
  list = false,
}: {
  draft: AppDraft;
  onChange: (draft: AppDraft) => void;
  path: readonly string[];
  label: string;
  hint?: string;
  required?: boolean;
  /** Texts with spaces between them. */
  list?: boolean;
}) {
  const id = `app-${path.join('-')}`;
  const [typed, setTyped] = useState<string>();
  const value = textAt(draft, path);
  const change = (text: string) => {
    setTyped(text);
    const words = text.split(/\s+/).filter((word) => word !== '');
    onChange(withValue(draft, path, list ? words : text === '' && !required ? undefined : text));
  };
  return (
    <div className="field">
      <label className="label" htmlFor={id}>
        {label}
        {!required && <span className="muted"> (optional)</span>}
      </label>
      {hint !== undefined && (
        <p className="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      <input
        id={id}
        className="input"
        autoComplete="off"
        spellCheck={false}
        required={required}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        // A list keeps the spaces that are typed.
        value={list && typed?.trim() === value ? typed : value}
        onChange={(event) => change(event.target.value)}
      />
    </div>
  );
}

function Fields({ draft, onChange }: { draft: AppDraft; onChange: (draft: AppDraft) => void }) {
  const fields = fieldsIn(draft);
  const put = (next: FieldDraft[]) =>
    onChange(withValue(draft, ['custom_fields'], next.length === 0 ? undefined : next));
  return (
    <fieldset className="field-list">
      <legend className="label">What is filled in</legend>
      {fields.map((field, index) => (
        <FieldRow
          // biome-ignore lint/suspicious/noArrayIndexKey: fields have no other identity, and their order does not change.
          key={index}
          field={field}
          number={index + 1}
          onChange={(next) => put(fields.map((one, at) => (at === index ? next : one)))}
          onRemove={() => put(fields.filter((_, at) => at !== index))}
        />
      ))}
      <button
        type="button"
        className="button small"
        onClick={() => put([...fields, { name: fields.length === 0 ? 'api_key' : '' }])}
      >
        Add a field
      </button>
    </fieldset>
  );
}

function FieldRow({
  field,
  number,
  onChange,
  onRemove,
}: {
  field: FieldDraft;
  number: number;
  onChange: (field: FieldDraft) => void;
  onRemove: () => void;
}) {
  const id = useId();
  const name = typeof field.name === 'string' ? field.name : '';
  const isSecret = field.secret ?? /key|token|secret|password/i.test(name);
  return (
    <div className="tools field-row">
      <input
        className="input small"
        aria-label={`Name of field ${number}`}
        placeholder="name, such as api_key"
        required
        value={name}
        onChange={(event) => onChange({ ...field, name: event.target.value })}
      />
      <input
        className="input small grow"
        aria-label={`Label of field ${number}`}
        placeholder="label, for people"
        value={typeof field.label === 'string' ? field.label : ''}
        onChange={(event) => onChange({ ...field, label: event.target.value })}
      />
      <label className="check" htmlFor={`${id}-secret`}>
        <input
          id={`${id}-secret`}
          type="checkbox"
          checked={isSecret}
          onChange={(event) => onChange({ ...field, secret: event.target.checked })}
        />
        Secret
      </label>
      <label className="check" htmlFor={`${id}-optional`}>
        <input
          id={`${id}-optional`}
          type="checkbox"
          checked={field.optional === true}
          onChange={(event) => onChange({ ...field, optional: event.target.checked })}
        />
        Optional
      </label>
      <button type="button" className="button quiet small" onClick={onRemove}>
        Remove <span className="off-screen">field {visible(shortened(name, 60)) || number}</span>
      </button>
    </div>
  );
}
