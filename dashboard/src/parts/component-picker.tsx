import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import type { Component } from '#sdk';
import { componentQuery, registryComponentQuery, useRegistrySearch } from '~/api/queries.ts';
import { plainWords } from './marks.ts';
import { MissingApps } from './missing-apps.tsx';
import { Loading } from './page.tsx';
import { shortened, visible } from './plain-text.ts';
import { Problem } from './problem.tsx';
import { useInView } from './use-in-view.ts';
import { useSettled } from './use-settled.ts';

interface Choice {
  /** The key of a component of the registry, or what may name a saved one. */
  name: string;
  isSaved: boolean;
}

/** A component of the registry by search. It is built when it is chosen; only then its props are known, and it is used. */
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
  const queries = useQueryClient();
  const settled = useSettled(words.trim());
  const found = useRegistrySearch(settled, type);
  const choice = useMutation({
    mutationFn: async ({ name, isSaved }: Choice) => {
      const component = isSaved
        ? await queries.fetchQuery(componentQuery(name))
        : await queries.fetchQuery(registryComponentQuery(name));
      if (component.type === type) return component;
      throw new Error(
        `This component is of type ${visible(component.type)}, and one of type ${type} is needed.`,
      );
    },
  });
  // Only what was chosen last is used, and nothing once the picker is gone.
  const choose = (chosen: Choice) => choice.mutate(chosen, { onSuccess: onChosen });
  const picker = useInView<HTMLDivElement>(found.data !== undefined);
  return (
    <div className="edit-body" ref={picker}>
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
      {choice.isPending && <Loading what="Building the component" />}
      {choice.error !== null && choice.variables !== undefined && (
        <Problem
          error={choice.error}
          what="This component cannot be used."
          onRetry={() => choose(choice.variables)}
        />
      )}
      <ul className="choices">
        {found.data?.data.map(({ key: one, name, description, app, app_details }) => (
          <li key={one}>
            <button
              type="button"
              className="choice-row as-button"
              aria-pressed={choice.variables?.isSaved === false && one === choice.variables.name}
              onClick={() => choose({ name: one, isSaved: false })}
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
      {found.data?.data.length === 0 && (
        <p className="muted">
          Nothing in the registry fits. More come with packages: see{' '}
          <Link href="/registry">the registry</Link>.
        </p>
      )}
      <div className="edit-row">
        {words.trim() !== '' && (
          <button
            type="button"
            className="button small"
            onClick={() => choose({ name: words.trim(), isSaved: true })}
          >
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
