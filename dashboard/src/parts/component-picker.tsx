import { useState } from 'react';
import { Link } from 'wouter';
import type { Component } from '#sdk';
import { useComponent, useRegistryComponent, useRegistrySearch } from '~/api/queries.ts';
import { plainWords } from './marks.ts';
import { MissingApps } from './missing-apps.tsx';
import { Loading } from './page.tsx';
import { shortened, visible } from './plain-text.ts';
import { Problem } from './problem.tsx';
import { useSettled } from './use-settled.ts';

/** A component of the registry by search. It is built when it is chosen; only then its props are known. */
export function ComponentPicker({
  type,
  onChosen,
  onCancel,
}: {
  type: 'source' | 'action';
  onChosen: (component: Component) => void;
  onCancel: () => void;
}) {
  const [words, setWords] = useState('');
  const [key, setKey] = useState<string>();
  const settled = useSettled(words.trim());
  const found = useRegistrySearch(settled, type);
  const [saved, setSaved] = useState<string>();
  const ofRegistry = useRegistryComponent(key);
  const ofOwner = useComponent(saved);
  const isSaved = saved !== undefined;
  const chosen = isSaved ? ofOwner : ofRegistry;
  const component = isSaved || chosen.data?.key === key ? chosen.data : undefined;
  return (
    <div className="edit-body">
      <input
        className="input"
        type="search"
        // biome-ignore lint/a11y/noAutofocus: it was opened by a button that is gone.
        autoFocus
        aria-label={type === 'action' ? 'Search for an action' : 'Search for a component of a source'}
        placeholder="Search for a component"
        value={words}
        onChange={(event) => setWords(event.target.value)}
      />
      {found.error !== null && <Problem error={found.error} onRetry={() => void found.refetch()} />}
      {found.isPending && <Loading />}
      {(isSaved || key !== undefined) && chosen.isPending && <Loading what="Building the component" />}
      {chosen.error !== null && (
        <Problem
          error={chosen.error}
          what="This component cannot be used."
          onRetry={() => void chosen.refetch()}
        />
      )}
      {component !== undefined && component.type !== type && (
        <Problem
          error={`This component is of type ${visible(component.type)}, and one of type ${type} is needed.`}
        />
      )}
      {component !== undefined && component.type === type && (
        <div className="edit-row">
          <strong>
            <bdi>{visible(shortened(component.name, 100))}</bdi>
          </strong>
          <button type="button" className="button primary" onClick={() => onChosen(component)}>
            Use version {visible(component.version)}
          </button>
        </div>
      )}
      <ul className="choices">
        {found.data?.data.map(({ key: one, name, description, app, app_details }) => (
          <li key={one}>
            <button
              type="button"
              className="choice-row as-button"
              aria-pressed={one === key}
              onClick={() => {
                setSaved(undefined);
                setKey(one);
              }}
            >
              <strong>
                <bdi>{visible(shortened(name, 100))}</bdi>
              </strong>{' '}
              <span className="muted">{visible(shortened(app_details?.name ?? app, 60))}</span>
              <span className="choice-text">{visible(shortened(plainWords(description), 200))}</span>
              <code className="muted">{visible(shortened(one, 100))}</code>
            </button>
          </li>
        ))}
      </ul>
      <MissingApps words={settled} type={type} />
      {found.data?.data.length === 0 && component === undefined && (
        <p className="muted">
          Nothing in the registry fits. More come with packages: see{' '}
          <Link href="/registry">the registry</Link>.
        </p>
      )}
      <div className="edit-row">
        {words.trim() !== '' && (
          <button type="button" className="button small" onClick={() => setSaved(words.trim())}>
            Look for a saved component with this key or id
          </button>
        )}
        <button type="button" className="button small" onClick={onCancel}>
          Cancel
        </button>
      </div>
    </div>
  );
}
