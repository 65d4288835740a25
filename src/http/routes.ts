import type { App } from './route-support.ts';
import { type AccountRouteDeps, accountRoutes } from './routes/account-routes.ts';
import { type ComponentRouteDeps, componentRoutes } from './routes/component-routes.ts';
import { type DeliveryRouteDeps, deliveryRoutes } from './routes/delivery-routes.ts';
import { type EventRouteDeps, eventRoutes, eventStreamRoutes } from './routes/event-routes.ts';
import { type HealthRouteParts, healthRoutes } from './routes/health-routes.ts';
import { type ReplayRouteDeps, replayRoutes } from './routes/replay-routes.ts';
import { type SourceRouteDeps, sourceRoutes } from './routes/source-routes.ts';
import { type SubscriptionRouteDeps, subscriptionRoutes } from './routes/subscription-routes.ts';
import { type UserRouteParts, userRoutes } from './routes/user-routes.ts';
import { type WebhookRouteDeps, webhookRoutes } from './routes/webhook-routes.ts';
import { type WorkspaceRouteParts, workspaceRoutes } from './routes/workspace-routes.ts';

/** What the routes need; each file says what it needs itself. */
export type RouteParts = HealthRouteParts &
  UserRouteParts &
  WorkspaceRouteParts &
  ComponentRouteDeps &
  SourceRouteDeps &
  EventRouteDeps &
  SubscriptionRouteDeps &
  ReplayRouteDeps &
  WebhookRouteDeps &
  DeliveryRouteDeps &
  AccountRouteDeps & { settings: { /** '' when none was set. */ publicUrl: string } };

interface RoutesOfPart {
  prefix: string;
  register: (app: App, parts: RouteParts) => void | Promise<void>;
}

/** What also a process without the role `api` answers. */
export const routesOfEveryRole: readonly RoutesOfPart[] = [{ prefix: '', register: healthRoutes }];

/** Table of contents 2: every part of the API and the file that answers it. */
export const routes: readonly RoutesOfPart[] = [
  ...routesOfEveryRole,
  { prefix: '/v1/users', register: userRoutes },
  { prefix: '/v1/workspaces', register: workspaceRoutes },
  { prefix: '/v1', register: accountRoutes },
  { prefix: '/v1', register: subscriptionRoutes },
  { prefix: '/v1', register: replayRoutes },
  { prefix: '/v1', register: webhookRoutes },
  { prefix: '/v1', register: deliveryRoutes },
  { prefix: '/v1', register: componentRoutes },
  { prefix: '/v1', register: sourceRoutes },
  { prefix: '/v1', register: eventRoutes },
  // The streams have two addresses: the specified one, without a version, and one beside the other routes.
  { prefix: '', register: eventStreamRoutes },
  { prefix: '/v1', register: eventStreamRoutes },
];
