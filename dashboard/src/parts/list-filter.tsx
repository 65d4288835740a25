import { useState } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import { type HealthState, healthName, healthStates } from './health.tsx';
import { Empty } from './page.tsx';
import { visible } from './plain-text.ts';
import { SearchField } from './search-field.tsx';
import { useSettled } from './use-settled.ts';

export interface ListFilter {
  /** The path of the list without its filter. */
  path: string;
  /** The text of the search field, and the query of the list once typing has paused. */
  words: string;
  asked: string;
  /** '': any. */
  health: HealthState | '';
  isSet: boolean;
  change: (next: { words?: string; health?: HealthState | '' }) => void;
}

/** The words and the health that filter a list. Both are in the URL, so that a reload and a link show the same. */
export function useListFilter(path: string): ListFilter {
  const [, navigate] = useLocation();
  const search = new URLSearchParams(useSearch());
  const [words, setWords] = useState(search.get('q') ?? '');
  const asked = useSettled(words.trim());
  const health = healthStates.find((state) => state === search.get('health')) ?? '';
  const change = (next: { words?: string; health?: HealthState | '' }) => {
    if (next.words !== undefined) setWords(next.words);
    const wanted = new URLSearchParams(
      Object.entries({ q: (next.words ?? words).trim(), health: next.health ?? health }).filter(
        ([, value]) => value !== '',
      ),
    );
    navigate(wanted.size === 0 ? path : `${path}?${wanted}`, { replace: true });
  };
  return { path, words, asked, health, isSet: asked !== '' || health !== '', change };
}

/** The fields of the filter; without `search` only that of health. */
export function ListFilterFields({ filter, search }: { filter: ListFilter; search?: string }) {
  return (
    <div className="tools">
      {search !== undefined && (
        <SearchField label={search} value={filter.words} onChange={(words) => filter.change({ words })} />
      )}
      <label>
        Health{' '}
        <select
          className="select small"
          value={filter.health}
          onChange={({ target: { value } }) =>
            filter.change({ health: healthStates.find((state) => state === value) ?? '' })
          }
        >
          <option value="">Any</option>
          {healthStates.map((state) => (
            <option key={state} value={state}>
              {healthName(state)}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

/** Nothing in the list fits the filter. */
export function NoneFits({
  filter: { path, asked, health, change },
  things,
}: {
  filter: ListFilter;
  things: string;
}) {
  return (
    <Empty title={`No ${things} found`}>
      <p>
        {asked !== '' && (
          <>
            Nothing has “<bdi>{visible(asked)}</bdi>” in its name or id
            {health === '' ? '. ' : ` and is ${healthName(health).toLowerCase()}. `}
          </>
        )}
        {asked === '' && health !== '' && `None is ${healthName(health).toLowerCase()}. `}
        <Link href={path} onClick={() => change({ words: '', health: '' })}>
          Show all {things}
        </Link>
        , or choose another workspace under Showing.
      </p>
    </Empty>
  );
}
