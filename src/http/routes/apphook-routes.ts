import { Type } from 'typebox';
import type { AppCatalogue } from '#accounts/apps/app-catalogue.ts';
import { type App, callerOf, DataOf, ownerForCreate } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import type { AppEvents } from '#ingress/push-app-event.ts';
import type { Logger } from '#lib/logger.ts';
import { listensToApp } from '#sources/apphook-store.ts';
import { appCharactersMax, eventNameCharactersMax } from '#sources/apphooks.ts';
import type { Store } from '#storage/store.ts';

/** Names that one event is pushed under: what happened, and where. */
const eventNamesMax = 10;

const EventName = Type.String({ minLength: 1, maxLength: eventNameCharactersMax, pattern: '^[^\\u0000]+$' });

export interface ApphookRouteOptions {
  store: Store;
  logger: Logger;
  catalogue: AppCatalogue;
  appEvents: Pick<AppEvents, 'push'>;
}

/** Events of apps, for sources with an `$.interface.apphook` prop; an addition. */
export function apphookRoutes(app: App, options: ApphookRouteOptions): void {
  const { store, logger, catalogue, appEvents } = options;

  /** The slug of an app that is in the catalogue, or that sources of the owner listen to. Throws CallerError `not_found`. */
  async function slugOf(slugOrId: string, ownerId: string): Promise<string> {
    const entry = await catalogue.findEntry(slugOrId, [ownerId]);
    if (entry !== undefined) return entry.app.slug;
    if (await listensToApp(store.read, ownerId, slugOrId)) return slugOrId;
    return (await catalogue.requireEntry(slugOrId, [ownerId], 'app')).app.slug;
  }

  app.post(
    '/apphooks',
    {
      schema: {
        operationId: 'pushAppEvent',
        tags: ['sources', 'addition'],
        summary: 'Push an event of an app to the active sources that listen to it (as a member)',
        body: Type.Object({
          app: Type.String({ minLength: 1, maxLength: appCharactersMax, description: 'Slug or app_…' }),
          event_name: Type.Union(
            [EventName, Type.Array(EventName, { minItems: 1, maxItems: eventNamesMax })],
            {
              description:
                'What the sources know it by, such as message or reaction_added:C024BE91L; or several such names: each source gets the event once',
            },
          ),
          payload: Type.Unknown({ description: 'The event, as run gets it: any JSON, 512 KB at most' }),
        }),
        response: {
          200: DataOf(
            Type.Object({
              delivered: Type.Integer({ description: 'Sources that run for it; all of it is on disk' }),
            }),
          ),
        },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      const ownerId = await ownerForCreate(store.read, request);
      const { event_name, payload } = request.body;
      const slug = await slugOf(request.body.app, ownerId);
      const eventNames = [event_name].flat();
      const event = JSON.stringify(payload);
      const delivered = await appEvents.push({ ownerId, app: slug, eventNames, event });
      logger.info(
        {
          app: slug,
          event_names: eventNames,
          owner: ownerId,
          user: caller.userId,
          key: caller.keyId,
          delivered,
        },
        'apphook.pushed',
      );
      return { data: selectFields(request, { delivered }) };
    },
  );
}
