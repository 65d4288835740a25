import { Type } from 'typebox';
import { type App, callerOf, IdParams, PageOf, pageParameters } from '#http/route-support.ts';
import { requireWorkspace } from '#identity/permissions.ts';
import type { Store } from '#storage/store.ts';
import { EventSummary, expandParameter, sendSummaries } from './emitter-routes.ts';

export interface OwnerEventRouteOptions {
  store: Store;
}

const querystring = Type.Object({
  ...pageParameters,
  expand: expandParameter,
  event_name: Type.Optional(
    Type.String({ maxLength: 1000, description: 'Channel: account_unhealthy or account_healthy' }),
  ),
});

/**
 * Additions: what a workspace, and a user, emits itself. They are emitters beside their sources and workflows, of which
 * these lists hold nothing.
 */
export function ownerEventRoutes(app: App, { store }: OwnerEventRouteOptions): void {
  app.get(
    '/workspaces/:id/event_summaries',
    {
      schema: {
        operationId: 'listWorkspaceEvents',
        tags: ['events', 'addition'],
        summary: 'The last events of a workspace itself (account_unhealthy, account_healthy), newest first',
        params: IdParams('o_…'),
        querystring,
        response: { 200: PageOf(EventSummary) },
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      await requireWorkspace(store.read, callerOf(request), id, 'read');
      return sendSummaries(request, reply, store, listed(id, request.query));
    },
  );

  app.get(
    '/users/me/event_summaries',
    {
      schema: {
        operationId: 'listMyEvents',
        tags: ['events', 'addition'],
        summary: 'The last events of the authenticated user, about accounts of their own, newest first',
        querystring,
        response: { 200: PageOf(EventSummary) },
      },
    },
    async (request, reply) =>
      sendSummaries(request, reply, store, listed(callerOf(request).userId, request.query)),
  );
}

function listed(emitterId: string, query: { event_name?: string; expand?: string }) {
  return { emitterId, channel: query.event_name ?? '', expand: query.expand === 'event' };
}
