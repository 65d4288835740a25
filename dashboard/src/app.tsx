import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { lazy, Suspense, useEffect } from 'react';
import { Route, Switch, useLocation } from 'wouter';
import { MillraceError } from '#sdk';
import { whenSignedOut } from '~/api/client.ts';
import { AccountPage } from '~/pages/account.tsx';
import { Accounts } from '~/pages/accounts.tsx';
import { AppPage } from '~/pages/app.tsx';
import { AppEditor } from '~/pages/app-editor.tsx';
import { Apps } from '~/pages/apps.tsx';
import { Connected } from '~/pages/connected.tsx';
import { DeadLetters } from '~/pages/dead-letters.tsx';
import { Home } from '~/pages/home.tsx';
import { NewAccountPage } from '~/pages/new-account.tsx';
import { NewSourcePage } from '~/pages/new-source.tsx';
import { NewWebhookPage } from '~/pages/new-webhook.tsx';
import { NotFound } from '~/pages/not-found.tsx';
import { ObjectPage } from '~/pages/object.tsx';
import { Registry } from '~/pages/registry.tsx';
import { RegistryComponentPage } from '~/pages/registry-component.tsx';
import { RunPage } from '~/pages/run.tsx';
import { SignIn } from '~/pages/sign-in.tsx';
import { SourcePage } from '~/pages/source.tsx';
import { Sources } from '~/pages/sources.tsx';
import { TemplatePage } from '~/pages/template.tsx';
import { Templates } from '~/pages/templates.tsx';
import { UseTemplatePage } from '~/pages/use-template.tsx';
import { WebhookPage } from '~/pages/webhook.tsx';
import { Webhooks } from '~/pages/webhooks.tsx';
import { WorkflowPage } from '~/pages/workflow.tsx';
import { Workflows } from '~/pages/workflows.tsx';
import { later } from '~/parts/later.tsx';
import { Loading } from '~/parts/page.tsx';
import { forgotten } from '~/parts/remember.ts';
import { Shell } from '~/parts/shell.tsx';

const WorkspacePage = later(async () => (await import('~/pages/workspace.tsx')).WorkspacePage);
const NewWorkspacePage = later(async () => (await import('~/pages/new-workspace.tsx')).NewWorkspacePage);
const InstancePage = later(async () => (await import('~/pages/instance.tsx')).InstancePage);
const ImportsPage = later(async () => (await import('~/pages/imports.tsx')).ImportsPage);
const ImportPage = later(async () => (await import('~/pages/import.tsx')).ImportPage);
const MapPage = later(async () => (await import('~/pages/map.tsx')).MapPage);
const Subscriptions = later(async () => (await import('~/pages/subscriptions.tsx')).Subscriptions);

/** The editor is large, so it is loaded at the first edit. */
const Editing = lazy(() => import('~/pages/editing.tsx'));

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // What the caller did wrong stays wrong; a service that restarts comes back.
      retry: (failures, error) =>
        failures < 3 && !(error instanceof MillraceError && error.status >= 400 && error.status < 500),
      staleTime: 2_000,
    },
  },
});

export function App() {
  return (
    <QueryClientProvider client={queries}>
      <Routes />
    </QueryClientProvider>
  );
}

/** Addresses of the pages. The service answers those below src/http/routes/dashboard-routes.ts: keep the two together. */
function Routes() {
  const [, navigate] = useLocation();
  useEffect(() => {
    const signIn = () => {
      const { pathname, search } = window.location;
      if (pathname === '/sign-in') return;
      queries.clear();
      navigate(`/sign-in?next=${encodeURIComponent(pathname + search)}`, { replace: true });
    };
    whenSignedOut(signIn);
    // Signing out in one tab clears the others too.
    return forgotten('signed-in', signIn);
  }, [navigate]);
  return (
    <Switch>
      <Route path="/sign-in" component={SignIn} />
      <Route path="/accounts/connected" component={Connected} />
      <Route>
        <Shell>
          <Switch>
            <Route path="/" component={Home} />
            <Route path="/sources" component={Sources} />
            <Route path="/sources/new" component={NewSourcePage} />
            <Route path="/sources/:id">{({ id }) => <SourcePage key={id} id={id} />}</Route>
            <Route path="/workflows" component={Workflows} />
            <Route path="/workflows/new">
              <Suspense fallback={<Loading />}>
                <Editing />
              </Suspense>
            </Route>
            <Route path="/workflows/:id/edit">
              {({ id }) => (
                <Suspense fallback={<Loading />}>
                  <Editing key={id} id={id} />
                </Suspense>
              )}
            </Route>
            <Route path="/workflows/:id">{({ id }) => <WorkflowPage key={id} id={id} />}</Route>
            <Route path="/imports" component={ImportsPage} />
            <Route path="/imports/:id" component={ImportPage} />
            <Route path="/runs/:id">{({ id }) => <RunPage key={id} id={id} />}</Route>
            <Route path="/webhooks" component={Webhooks} />
            <Route path="/webhooks/new" component={NewWebhookPage} />
            <Route path="/webhooks/:id">{({ id }) => <WebhookPage key={id} id={id} />}</Route>
            <Route path="/dead-letters" component={DeadLetters} />
            <Route path="/accounts" component={Accounts} />
            <Route path="/accounts/new" component={NewAccountPage} />
            <Route path="/accounts/:id">{({ id }) => <AccountPage key={id} id={id} />}</Route>
            <Route path="/apps" component={Apps} />
            <Route path="/apps/new">
              <AppEditor />
            </Route>
            <Route path="/apps/:slug">{({ slug }) => <AppPage key={slug} slug={slug} />}</Route>
            <Route path="/apps/:slug/edit">{({ slug }) => <AppEditor key={slug} slug={slug} />}</Route>
            <Route path="/registry" component={Registry} />
            <Route path="/registry/:key">
              {({ key }) => <RegistryComponentPage key={key} componentKey={key} />}
            </Route>
            <Route path="/templates" component={Templates} />
            <Route path="/templates/:id">{({ id }) => <TemplatePage key={id} id={id} />}</Route>
            <Route path="/templates/:id/use">{({ id }) => <UseTemplatePage key={id} id={id} />}</Route>
            <Route path="/workspace" component={WorkspacePage} />
            <Route path="/workspace/new" component={NewWorkspacePage} />
            <Route path="/instance" component={InstancePage} />
            <Route path="/subscriptions" component={Subscriptions} />
            <Route path="/map" component={MapPage} />
            <Route path="/object/*?" component={ObjectPage} />
            <Route component={NotFound} />
          </Switch>
        </Shell>
      </Route>
    </Switch>
  );
}
