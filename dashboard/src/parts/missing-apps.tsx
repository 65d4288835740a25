import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { type App, MillraceError, type Page } from '#sdk';
import { api } from '~/api/client.ts';
import { useIsInstanceAdmin } from '~/api/rights.ts';
import { AddingPackage, useAddPackage } from './add-package.tsx';
import { shortened, visible } from './plain-text.ts';
import { Problem } from './problem.tsx';

/** The number of apps that are offered at once. */
const offeredMax = 2;
/** Fewer letters name too many apps. */
const lettersMin = 3;

/** Apps that are named by the words and have no components of the type yet, with the npm package that brings them. */
export function MissingApps({ words, type }: { words: string; type: 'source' | 'action' }) {
  const isAsked = words.length >= lettersMin;
  const named = useApps(words, {}, isAsked);
  const present = useApps(words, type === 'action' ? { has_actions: '1' } : { has_triggers: '1' }, isAsked);
  if (!isAsked || named.data === undefined || present.data === undefined) return null;
  const there = new Set(present.data.data.map(({ name_slug }) => name_slug));
  const wanted = words.toLowerCase();
  const missing = named.data.data.filter(
    ({ name, name_slug }) =>
      !there.has(name_slug) && (name.toLowerCase().includes(wanted) || name_slug.includes(wanted)),
  );
  return (
    <>
      {missing.slice(0, offeredMax).map((app) => (
        <MissingApp key={app.name_slug} app={app} type={type} />
      ))}
    </>
  );
}

function useApps(words: string, flags: Record<string, string>, enabled: boolean) {
  return useQuery({
    enabled,
    queryKey: ['apps', 'named', words, flags],
    queryFn: ({ signal }) =>
      api<Page<App>>('GET', '/v1/apps', { signal, query: { q: words, limit: 100, ...flags } }),
    placeholderData: keepPreviousData,
    staleTime: 60_000,
  });
}

function isUnknownPackage(error: Error): boolean {
  return error instanceof MillraceError && error.code === 'package_not_found';
}

function MissingApp({ app, type }: { app: App; type: 'source' | 'action' }) {
  const isAdmin = useIsInstanceAdmin();
  const add = useAddPackage();
  const name = `@pipedream/${app.name_slug}`;
  const what = type === 'action' ? 'actions' : 'sources';
  return (
    <section className="note" aria-label={`Components of ${app.name}`}>
      <p>
        <strong>{visible(shortened(app.name, 100))}</strong> has no {what} here yet. An npm package may have
        them: <code>{visible(name)}</code>, if there is one of this name.
      </p>
      {isAdmin ? (
        <button
          type="button"
          className="button small"
          disabled={add.isPending || add.isSuccess}
          onClick={() => add.mutate({ name })}
        >
          Add the package
        </button>
      ) : (
        <p className="muted">Ask the admin of the instance to add it.</p>
      )}
      {add.isPending && <AddingPackage since={add.submittedAt} />}
      {add.error !== null &&
        (isUnknownPackage(add.error) ? (
          <p role="alert">
            Npm has no package of this name. Search npm for <code>pipedream {visible(app.name_slug)}</code>,
            and add what you find on the page <Link href="/registry?tab=packages">Packages</Link>.
          </p>
        ) : (
          <Problem error={add.error} what="It was not added." />
        ))}
      {add.isSuccess && !add.data.keys.some(Boolean) && (
        <p role="status">The package is there, and has no components that can be used.</p>
      )}
    </section>
  );
}
