import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import type { Component, Source } from '#sdk';
import { api } from '~/api/client.ts';
import { type Data, useRegistryComponent, useRegistrySearch } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { type CodeContext, nothingBefore } from '~/editing/code-context.ts';
import { codeProblemOf } from '~/editing/code-problem.ts';
import { CodeEditor } from '~/parts/code-editor.tsx';
import { MarkedWords } from '~/parts/marked-text.tsx';
import { plainWords } from '~/parts/marks.ts';
import { useOwner } from '~/parts/owner.tsx';
import { Empty, Loading, PageFrame } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { PropForm } from '~/parts/prop-form.tsx';
import { propProblems, usePropDraft } from '~/parts/use-prop-draft.ts';
import { useSettled } from '~/parts/use-settled.ts';

const example = `export default {
  name: 'Clock',
  version: '0.0.1',
  type: 'source',
  props: { timer: { type: '$.interface.timer', default: { intervalSeconds: 60 } } },
  async run() {
    this.$emit({ now: new Date().toISOString() });
  },
};
`;

const sourceContext: CodeContext = { kind: 'source', steps: nothingBefore };

/** Choose a component, or write one; then a form of its props. */
export function NewSourcePage() {
  const { ownerId } = useOwner();
  const mayWrite = useMayWrite(ownerId);
  const key = new URLSearchParams(useSearch()).get('key') ?? undefined;
  const found = useRegistryComponent(key);
  const [saved, setSaved] = useState<Component>();
  const component = saved ?? (key === undefined ? undefined : found.data);
  if (mayWrite === false) {
    return (
      <PageFrame title="New source">
        <Empty title="You can look at this workspace, and not change it">
          <p>Ask one of its admins for the role of a member, or choose My own under Showing.</p>
        </Empty>
      </PageFrame>
    );
  }
  return (
    <PageFrame title="New source">
      {component === undefined && key === undefined && <Choose onSaved={setSaved} />}
      {component === undefined && key !== undefined && found.error === null && (
        <Loading what="Building the component" />
      )}
      {component === undefined && key !== undefined && found.error !== null && (
        <Problem
          error={found.error}
          what="This component cannot be used."
          onRetry={() => void found.refetch()}
        />
      )}
      {component !== undefined && (
        <Configure
          key={component.id}
          component={component}
          registryKey={saved === undefined ? key : undefined}
          ownerId={ownerId}
        />
      )}
      {component !== undefined && (
        <p>
          <Link href="/sources/new" onClick={() => setSaved(undefined)}>
            Choose another component
          </Link>
        </p>
      )}
    </PageFrame>
  );
}

function Choose({ onSaved }: { onSaved: (component: Component) => void }) {
  const [words, setWords] = useState('');
  const found = useRegistrySearch(useSettled(words.trim()), 'source');
  return (
    <div className="columns">
      <section className="card" aria-labelledby="from-registry">
        <h2 id="from-registry">From the registry</h2>
        <input
          className="input"
          type="search"
          aria-label="Search for a component"
          placeholder="Search for a component"
          value={words}
          onChange={(event) => setWords(event.target.value)}
        />
        {found.error !== null && <Problem error={found.error} onRetry={() => void found.refetch()} />}
        {found.isPending && <Loading />}
        <ul className="choices">
          {found.data?.data.map(({ key, name, description, app_details, app }) => (
            <li key={key}>
              <Link href={`/sources/new?key=${encodeURIComponent(key)}`} className="choice-row">
                <strong>
                  <bdi>{visible(shortened(name, 100))}</bdi>
                </strong>{' '}
                <span className="muted">{visible(shortened(app_details?.name ?? app, 60))}</span>
                <span className="choice-text">{visible(shortened(plainWords(description), 200))}</span>
                <code className="muted">{visible(shortened(key, 100))}</code>
              </Link>
            </li>
          ))}
        </ul>
        {found.data?.data.length === 0 && <p className="muted">Nothing in the registry fits.</p>}
        <p className="hint">
          More come with packages: see <Link href="/registry">the registry</Link>.
        </p>
      </section>
      <OwnCode onSaved={onSaved} />
    </div>
  );
}

function OwnCode({ onSaved }: { onSaved: (component: Component) => void }) {
  const { ownerId } = useOwner();
  const [code, setCode] = useState(example);
  const save = useMutation({
    mutationFn: async (text: string) =>
      (
        await api<Data<Component>>('POST', '/v1/components', {
          body: { component_code: text, ...(ownerId.startsWith('o_') ? { org_id: ownerId } : {}) },
        })
      ).data,
    onSuccess: onSaved,
  });
  const told = save.variables === code ? save.error : null;
  const places = useMemo(() => [codeProblemOf(told)].filter((place) => place !== undefined), [told]);
  return (
    <section className="card" aria-labelledby="own-code">
      <h2 id="own-code">From your own code</h2>
      <CodeEditor
        label="Code of the component"
        value={code}
        onChange={setCode}
        problems={places}
        context={sourceContext}
      />
      {save.error !== null && places.length === 0 && (
        <Problem error={save.error} what="The component cannot be used." />
      )}
      <button
        type="button"
        className="button"
        onClick={() => save.mutate(code)}
        disabled={save.isPending || code.trim() === ''}
      >
        {save.isPending ? 'Building …' : 'Use this code'}
      </button>
    </section>
  );
}

function Configure({
  component,
  registryKey,
  ownerId,
}: {
  component: Component;
  registryKey: string | undefined;
  ownerId: string;
}) {
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const [name, setName] = useState('');
  const draft = usePropDraft(
    { id: registryKey ?? component.id, definitions: component.configurable_props },
    ownerId,
    {},
  );
  const create = useMutation({
    mutationFn: async () =>
      (
        await api<Data<Source>>('POST', '/v1/sources', {
          body: {
            ...(registryKey === undefined ? { component_id: component.id } : { key: registryKey }),
            ...(name.trim() === '' ? {} : { name: name.trim() }),
            configured_props: draft.given,
            ...(ownerId.startsWith('o_') ? { org_id: ownerId } : {}),
          },
        })
      ).data,
    onSuccess: (source) => {
      queries.setQueryData(['source', source.id], source);
      void queries.invalidateQueries({ queryKey: ['sources'] });
      navigate(`/sources/${source.id}`);
    },
  });
  const problems = propProblems(create.error);
  if (component.type !== 'source') {
    return (
      <Problem error={`This component is of type ${component.type}; a source needs one of type source.`} />
    );
  }
  return (
    <form
      className="card form"
      onSubmit={(event) => {
        event.preventDefault();
        create.mutate();
      }}
    >
      <h2>
        <bdi>{visible(shortened(component.name, 200))}</bdi>
      </h2>
      {component.description !== undefined && (
        <p className="muted pre-line">
          <MarkedWords text={component.description} max={2_000} />
        </p>
      )}
      <div className="field">
        <label className="label" htmlFor="source-name">
          Name <span className="muted">(optional)</span>
        </label>
        <input
          id="source-name"
          className="input"
          maxLength={200}
          value={name}
          onChange={(event) => setName(event.target.value)}
          placeholder="As the component says"
        />
      </div>
      <PropForm
        definitions={draft.definitions}
        context={{ componentId: registryKey ?? component.id, ownerId, values: draft.values }}
        onChange={draft.change}
        problems={problems}
      />
      {draft.isReloading && <Loading what="Asking the component which fields follow" />}
      {draft.reloadProblem !== undefined && (
        <Problem error={draft.reloadProblem} what="The component could not say which fields follow." />
      )}
      {create.error !== null && problems.size === 0 && (
        <Problem error={create.error} what="The source was not created." />
      )}
      <button type="submit" className="button primary" disabled={create.isPending || draft.isReloading}>
        {create.isPending ? 'Creating …' : 'Create source'}
      </button>
      {create.isPending && (
        <p className="hint" role="status">
          Its code is built and its hooks run; this can take a while.
        </p>
      )}
    </form>
  );
}
