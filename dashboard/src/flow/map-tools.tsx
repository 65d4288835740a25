import { useState } from 'react';
import type { Project } from '#sdk';
import { Icon } from '~/parts/icon.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import type { Filter } from './graph.ts';

const kinds: readonly { id: Filter['kind']; name: string }[] = [
  { id: '', name: 'Everything' },
  { id: 'source', name: 'Sources' },
  { id: 'workflow', name: 'Workflows' },
  { id: 'webhook', name: 'Webhooks' },
];

/** What of the map is shown, and where something is on it. */
export function MapTools({
  filter,
  onFilter,
  words,
  onWords,
  found,
  onNext,
  projects,
  grouped,
  onGrouped,
}: {
  filter: Filter;
  onFilter: (filter: Filter) => void;
  words: string;
  onWords: (words: string) => void;
  /** Undefined: nothing is searched for. */
  found: readonly string[] | undefined;
  /** Goes to one of those that were found. */
  onNext: (id: string) => void;
  projects: readonly Project[];
  grouped: boolean;
  /** Undefined: it has no meaning here. */
  onGrouped: ((grouped: boolean) => void) | undefined;
}) {
  const [next, setNext] = useState(0);
  return (
    <form
      className="tools"
      onSubmit={(event) => {
        event.preventDefault();
        const id = found?.[next % Math.max(1, found.length)];
        if (id === undefined) return;
        setNext(next + 1);
        onNext(id);
      }}
    >
      <div className="search grow">
        <Icon name="search" />
        <input
          className="input"
          type="search"
          aria-label="Find on the map"
          placeholder="Find by name or id, Enter goes there"
          maxLength={200}
          value={words}
          onChange={(event) => {
            setNext(0);
            onWords(event.target.value);
          }}
        />
      </div>
      {found !== undefined && found.length > 0 && (
        <button type="submit" className="button small">
          {found.length === 1 ? 'Go to it' : `Next of ${found.length}`}
        </button>
      )}
      <label>
        Show{' '}
        <select
          className="select small"
          aria-label="What to show, with all it is connected to"
          value={filter.kind}
          onChange={(event) => onFilter({ ...filter, kind: event.target.value as Filter['kind'] })}
        >
          {kinds.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </select>
      </label>
      {projects.length > 0 && (
        <label>
          Project{' '}
          <select
            className="select small"
            value={filter.project}
            onChange={(event) => onFilter({ ...filter, project: event.target.value })}
          >
            <option value="">Any</option>
            {projects.map(({ id, name }) => (
              <option key={id} value={id}>
                {visible(shortened(name, 60))}
              </option>
            ))}
          </select>
        </label>
      )}
      <label className="tick">
        <input
          type="checkbox"
          checked={filter.failing}
          onChange={(event) => onFilter({ ...filter, failing: event.target.checked })}
        />
        Failing only
      </label>
      {onGrouped !== undefined && (
        <label
          className="tick"
          title="On large maps, things that are connected to the same others are one box"
        >
          <input type="checkbox" checked={grouped} onChange={(event) => onGrouped(event.target.checked)} />
          Group what is alike
        </label>
      )}
    </form>
  );
}
