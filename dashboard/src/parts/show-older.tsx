import { Problem } from './problem.tsx';

/** The end of a list that is read a page at a time: a button for the next page, while there is one. */
export function ShowOlder({
  list,
}: {
  list: {
    hasNextPage: boolean;
    isFetchingNextPage: boolean;
    isFetchNextPageError: boolean;
    error: Error | null;
    fetchNextPage: () => Promise<unknown>;
  };
}) {
  if (!list.hasNextPage) return null;
  return (
    <>
      {list.isFetchNextPageError && <Problem error={list.error} what="Older ones were not loaded." />}
      <p>
        <button
          type="button"
          className="button"
          disabled={list.isFetchingNextPage}
          onClick={() => void list.fetchNextPage()}
        >
          {list.isFetchingNextPage ? 'Loading …' : 'Show older'}
        </button>
      </p>
    </>
  );
}
