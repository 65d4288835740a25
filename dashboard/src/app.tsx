import { CSPProvider } from '@base-ui/react/csp-provider';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { lazy, Suspense, useEffect } from 'react';
import { Route, Switch, useLocation } from 'wouter';
import { ApiError, whenSignedOut } from '~/api/client.ts';
import { DeadLetters } from '~/pages/dead-letters.tsx';
import { Home } from '~/pages/home.tsx';
import { NewSourcePage } from '~/pages/new-source.tsx';
import { NewWebhookPage } from '~/pages/new-webhook.tsx';
import { NotFound } from '~/pages/not-found.tsx';
import { ObjectPage } from '~/pages/object.tsx';
import { RunPage } from '~/pages/run.tsx';
import { SignIn } from '~/pages/sign-in.tsx';
import { SourcePage } from '~/pages/source.tsx';
import { Sources } from '~/pages/sources.tsx';
import { WebhookPage } from '~/pages/webhook.tsx';
import { Webhooks } from '~/pages/webhooks.tsx';
import { WorkflowPage } from '~/pages/workflow.tsx';
import { Workflows } from '~/pages/workflows.tsx';
import { Loading } from '~/parts/page.tsx';
import { Shell } from '~/parts/shell.tsx';

const Subscriptions = lazy(async () => ({
  default: (await import('~/pages/subscriptions.tsx')).Subscriptions,
}));
const MapPage = lazy(async () => ({ default: (await import('~/pages/map.tsx')).MapPage }));

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // What the caller did wrong stays wrong; a service that restarts comes back.
      retry: (failures, error) =>
        failures < 3 && !(error instanceof ApiError && error.status >= 400 && error.status < 500),
      staleTime: 2_000,
    },
  },
});

export function App() {
  return (
    <CSPProvider disableStyleElements>
      <QueryClientProvider client={queries}>
        <Routes />
      </QueryClientProvider>
    </CSPProvider>
  );
}

/** Addresses of the pages. The service answers those below src/http/routes/dashboard-routes.ts: keep the two together. */
function Routes() {
  const [, navigate] = useLocation();
  useEffect(() => {
    whenSignedOut(() => {
      const { pathname, search } = window.location;
      if (pathname === '/sign-in') return;
      queries.clear();
      navigate(`/sign-in?next=${encodeURIComponent(pathname + search)}`, { replace: true });
    });
  }, [navigate]);
  return (
    <Switch>
      <Route path="/sign-in" component={SignIn} />
      <Route>
        <Shell>
          <Switch>
            <Route path="/" component={Home} />
            <Route path="/sources" component={Sources} />
            <Route path="/sources/new" component={NewSourcePage} />
            <Route path="/sources/:id">{({ id }) => <SourcePage key={id} id={id} />}</Route>
            <Route path="/workflows" component={Workflows} />
            <Route path="/workflows/:id">{({ id }) => <WorkflowPage key={id} id={id} />}</Route>
            <Route path="/runs/:id">{({ id }) => <RunPage key={id} id={id} />}</Route>
            <Route path="/webhooks" component={Webhooks} />
            <Route path="/webhooks/new" component={NewWebhookPage} />
            <Route path="/webhooks/:id">{({ id }) => <WebhookPage key={id} id={id} />}</Route>
            <Route path="/dead-letters" component={DeadLetters} />
            <Route path="/subscriptions">
              <Suspense fallback={<Loading />}>
                <Subscriptions />
              </Suspense>
            </Route>
            <Route path="/map">
              <Suspense fallback={<Loading />}>
                <MapPage />
              </Suspense>
            </Route>
            <Route path="/object/*?" component={ObjectPage} />
            <Route component={NotFound} />
          </Switch>
        </Shell>
      </Route>
    </Switch>
  );
}
