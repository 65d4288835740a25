import { type ComponentType, lazy, Suspense } from 'react';
import { Loading, PageFrame } from './page.tsx';

/** A page that is loaded when it is opened first. */
export function later(load: () => Promise<ComponentType>): ComponentType {
  const Page = lazy(async () => {
    try {
      return { default: await load() };
    } catch {
      return { default: NotLoaded };
    }
  });
  return function Later() {
    return (
      <Suspense fallback={<Loading />}>
        <Page />
      </Suspense>
    );
  };
}

/** The service is unavailable, or another version of it runs, which has other files. */
function NotLoaded() {
  return (
    <PageFrame title="This page could not be loaded">
      <p>The service does not answer, or was updated since you opened the dashboard.</p>
      <p>
        <button type="button" className="button" onClick={() => window.location.reload()}>
          Load it again
        </button>
      </p>
    </PageFrame>
  );
}
