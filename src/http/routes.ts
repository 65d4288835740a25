import type { App } from './route-support.ts';
import { type AccountAuditRouteDeps, accountAuditRoutes } from './routes/account-audit-routes.ts';
import { type AccountHealthRouteDeps, accountHealthRoutes } from './routes/account-health-routes.ts';
import { type AccountRouteDeps, accountRoutes } from './routes/account-routes.ts';
import { type ActionRouteDeps, actionRoutes } from './routes/action-routes.ts';
import { type ApiClientRouteDeps, apiClientRoutes } from './routes/api-client-routes.ts';
import { type AppRouteDeps, appRoutes } from './routes/app-routes.ts';
import { type ApphookRouteDeps, apphookRoutes } from './routes/apphook-routes.ts';
import { type ComponentRouteDeps, componentRoutes } from './routes/component-routes.ts';
import { type ConfigureRouteDeps, configureRoutes } from './routes/configure-routes.ts';
import { type ConnectRouteDeps, connectPageRoutes, connectRoutes } from './routes/connect-routes.ts';
import { type DashboardRouteDeps, dashboardRoutes } from './routes/dashboard-routes.ts';
import { type DataStoreRouteDeps, dataStoreRoutes } from './routes/data-store-routes.ts';
import { type DeliveryRouteDeps, deliveryRoutes } from './routes/delivery-routes.ts';
import { type EmitterRouteDeps, emitterRoutes } from './routes/emitter-routes.ts';
import { type EventRouteDeps, eventRoutes, eventStreamRoutes } from './routes/event-routes.ts';
import { type FileRouteDeps, fileRoutes } from './routes/file-routes.ts';
import { type FlowRouteDeps, flowRoutes } from './routes/flow-routes.ts';
import { type HealthRouteParts, healthRoutes } from './routes/health-routes.ts';
import { type InstanceRouteDeps, instanceRoutes } from './routes/instance-routes.ts';
import { type OAuthClientRouteDeps, oauthClientRoutes } from './routes/oauth-client-routes.ts';
import { type OAuthTokenRouteDeps, oauthTokenRoutes } from './routes/oauth-token-routes.ts';
import { type OAuth1RouteDeps, oauth1Routes } from './routes/oauth1-routes.ts';
import { type OverviewRouteDeps, overviewRoutes } from './routes/overview-routes.ts';
import { type OwnerEventRouteDeps, ownerEventRoutes } from './routes/owner-event-routes.ts';
import { type ProjectRouteDeps, projectRoutes } from './routes/project-routes.ts';
import { type QuotaRouteDeps, quotaRoutes } from './routes/quota-routes.ts';
import { type RegistryRouteDeps, registryRoutes } from './routes/registry-routes.ts';
import { type ReplayRouteDeps, replayRoutes } from './routes/replay-routes.ts';
import { type RunRouteDeps, runRoutes } from './routes/run-routes.ts';
import { type SessionRouteDeps, sessionRoutes } from './routes/session-routes.ts';
import { type SourceRouteDeps, sourceRoutes } from './routes/source-routes.ts';
import { type SourceTimerDeps, sourceTimerRoutes } from './routes/source-timer-routes.ts';
import { type SubscriptionRouteDeps, subscriptionRoutes } from './routes/subscription-routes.ts';
import { type TemplateRouteDeps, templateRoutes } from './routes/template-routes.ts';
import { type UserRouteParts, userRoutes } from './routes/user-routes.ts';
import { type WebhookRouteDeps, webhookRoutes } from './routes/webhook-routes.ts';
import { type WorkflowRouteDeps, workflowRoutes } from './routes/workflow-routes.ts';
import { type WorkflowStreamDeps, workflowStreamRoutes } from './routes/workflow-stream-routes.ts';
import { type WorkflowTickDeps, workflowTickRoutes } from './routes/workflow-tick-routes.ts';
import { type WorkspaceRouteParts, workspaceRoutes } from './routes/workspace-routes.ts';

/** What the routes need; each file says what it needs itself. */
export type RouteParts = HealthRouteParts &
  UserRouteParts &
  WorkspaceRouteParts &
  ApiClientRouteDeps &
  OAuthTokenRouteDeps &
  OAuthClientRouteDeps &
  ConnectRouteDeps &
  QuotaRouteDeps &
  DataStoreRouteDeps &
  WorkflowStreamDeps &
  WorkflowTickDeps &
  AppRouteDeps &
  ApphookRouteDeps &
  ComponentRouteDeps &
  ConfigureRouteDeps &
  ActionRouteDeps &
  RegistryRouteDeps &
  SourceRouteDeps &
  SourceTimerDeps &
  WorkflowRouteDeps &
  TemplateRouteDeps &
  EmitterRouteDeps &
  EventRouteDeps &
  SubscriptionRouteDeps &
  ReplayRouteDeps &
  WebhookRouteDeps &
  RunRouteDeps &
  DeliveryRouteDeps &
  FileRouteDeps &
  OAuth1RouteDeps &
  AccountAuditRouteDeps &
  AccountHealthRouteDeps &
  OwnerEventRouteDeps &
  OverviewRouteDeps &
  InstanceRouteDeps &
  ProjectRouteDeps &
  FlowRouteDeps &
  SessionRouteDeps &
  DashboardRouteDeps &
  AccountRouteDeps & { settings: { /** '' when none was set. */ publicUrl: string } };

interface RoutesOfPart {
  prefix: string;
  register: (app: App, parts: RouteParts) => void | Promise<void>;
}

/** What also a process without the role `api` answers: its own health, and what user code next to it asks for. */
export const routesOfEveryRole: readonly RoutesOfPart[] = [
  { prefix: '', register: healthRoutes },
  { prefix: '', register: fileRoutes },
  { prefix: '', register: oauth1Routes },
];

/** Table of contents 2: every part of the API and the file that answers it. */
export const routes: readonly RoutesOfPart[] = [
  ...routesOfEveryRole,
  { prefix: '/v1/users', register: userRoutes },
  { prefix: '/v1/workspaces', register: workspaceRoutes },
  { prefix: '/v1', register: apiClientRoutes },
  { prefix: '/v1/oauth', register: oauthTokenRoutes },
  { prefix: '/v1', register: sessionRoutes },
  { prefix: '/v1', register: quotaRoutes },
  { prefix: '/v1', register: overviewRoutes },
  { prefix: '/v1', register: instanceRoutes },
  { prefix: '/v1', register: projectRoutes },
  { prefix: '/v1', register: flowRoutes },
  { prefix: '/v1', register: dataStoreRoutes },
  { prefix: '/v1', register: appRoutes },
  { prefix: '/v1', register: apphookRoutes },
  { prefix: '/v1', register: accountRoutes },
  { prefix: '/v1', register: connectRoutes },
  { prefix: '', register: connectPageRoutes },
  { prefix: '/v1', register: oauthClientRoutes },
  { prefix: '/v1', register: accountAuditRoutes },
  { prefix: '/v1', register: accountHealthRoutes },
  { prefix: '/v1', register: subscriptionRoutes },
  { prefix: '/v1', register: replayRoutes },
  { prefix: '/v1', register: webhookRoutes },
  { prefix: '/v1', register: deliveryRoutes },
  { prefix: '/v1', register: runRoutes },
  { prefix: '/v1', register: componentRoutes },
  { prefix: '/v1', register: configureRoutes },
  { prefix: '/v1', register: actionRoutes },
  { prefix: '/v1', register: registryRoutes },
  { prefix: '/v1', register: sourceRoutes },
  { prefix: '/v1', register: sourceTimerRoutes },
  { prefix: '/v1', register: workflowRoutes },
  { prefix: '/v1', register: workflowTickRoutes },
  { prefix: '/v1', register: templateRoutes },
  { prefix: '/v1', register: emitterRoutes },
  { prefix: '/v1', register: eventRoutes },
  { prefix: '/v1', register: ownerEventRoutes },
  // The streams have two addresses: the specified one, without a version, and one beside the other routes.
  { prefix: '', register: eventStreamRoutes },
  { prefix: '', register: workflowStreamRoutes },
  { prefix: '/v1', register: eventStreamRoutes },
  { prefix: '', register: dashboardRoutes },
];
