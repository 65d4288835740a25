import { Type } from 'typebox';
import { requireCodeScopes } from '#http/require-code-scopes.ts';
import { type App, callerOf, ownerForCreate } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { ownersOf } from '#identity/permissions.ts';
import type { ComponentConfigurer } from '#sources/component-configurer.ts';
import type { Store } from '#storage/store.ts';
import { ConfigurableProp } from './prop-shapes.ts';

const Definition = Type.Object({ name: Type.String(), type: Type.String() }, { additionalProperties: true });

const draftFields = {
  id: Type.String({ minLength: 1, maxLength: 300, description: 'Key, key@version, or sc_…' }),
  configured_props: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      description:
        'Values so far; accounts as { authProvisionId }, choices also as { __lv: { label, value } }',
    }),
  ),
  dynamic_props: Type.Optional(
    Type.Object(
      {
        id: Type.Optional(Type.String()),
        configurableProps: Type.Optional(Type.Array(Definition, { maxItems: 1000 })),
      },
      { description: 'dynamicProps of an earlier answer: the definitions that additionalProps is given' },
    ),
  ),
  dynamic_props_id: Type.Optional(
    Type.String({ description: 'dyp_…; need not be sent, since dynamic props are computed again' }),
  ),
};

const told = {
  errors: Type.Array(Type.String(), {
    description: 'JSON of { name, message, stack }, when the code of the component failed',
  }),
  observations: Type.Array(
    Type.Object(
      {
        k: Type.String({ description: 'console.log, console.error, …; error' }),
        ts: Type.Integer({ description: 'Epoch ms' }),
        msg: Type.Optional(Type.String()),
        err: Type.Optional(
          Type.Object({ name: Type.String(), message: Type.String(), stack: Type.String() }),
        ),
      },
      { description: 'What the code printed, and its errors' },
    ),
  ),
};

export interface ConfigureRouteOptions {
  store: Store;
  componentConfigurer: Pick<ComponentConfigurer, 'options' | 'props'>;
}

/** What forms for components need: choices for a prop, and the props that follow from others. */
export function configureRoutes(app: App, { store, componentConfigurer }: ConfigureRouteOptions): void {
  app.post(
    '/components/configure',
    {
      schema: {
        operationId: 'configureComponent',
        tags: ['components', 'addition'],
        summary: 'What a prop of a component can be given, one page',
        body: Type.Object({
          ...draftFields,
          prop_name: Type.String({ minLength: 1, maxLength: 300 }),
          page: Type.Optional(Type.Integer({ minimum: 0, default: 0, description: 'From 0 on' })),
          prev_context: Type.Optional(
            Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()], {
              description: '`context` of the page before',
            }),
          ),
          query: Type.Optional(Type.String({ description: 'What was typed, for props with useQuery' })),
        }),
        response: {
          200: Type.Object({
            options: Type.Array(Type.Object({ label: Type.String(), value: Type.Unknown() })),
            stringOptions: Type.Union([Type.Array(Type.String()), Type.Null()], {
              description: 'The same as texts, when the component gave texts',
            }),
            context: Type.Record(Type.String(), Type.Unknown(), {
              description: 'To be sent as prev_context with the next page',
            }),
            ...told,
          }),
        },
      },
    },
    async (request) => {
      const { prop_name, page = 0, prev_context, query = '', ...draft } = request.body;
      requireCodeScopes(callerOf(request), { component: draft.id, props: draft.configured_props });
      const answer = await componentConfigurer.options(
        { ...draftOf(draft), prop: prop_name, page, prevContext: prev_context ?? {}, query },
        await ownerOf(request),
      );
      return selectFields(request, answer);
    },
  );

  app.post(
    '/components/props',
    {
      schema: {
        operationId: 'reloadComponentProps',
        tags: ['components', 'addition'],
        summary: 'The props that a component has for the values so far (additionalProps)',
        body: Type.Object(draftFields),
        response: {
          200: Type.Object({
            dynamicProps: Type.Union([
              Type.Object({
                id: Type.String({ description: 'dyp_…, the same for the same props' }),
                configurableProps: Type.Array(ConfigurableProp, {
                  description: 'All props, also those that stay',
                }),
              }),
              Type.Null({ description: 'The code failed' }),
            ]),
            ...told,
          }),
        },
      },
    },
    async (request) => {
      requireCodeScopes(callerOf(request), {
        component: request.body.id,
        props: request.body.configured_props,
      });
      const answer = await componentConfigurer.props(draftOf(request.body), await ownerOf(request));
      return selectFields(request, answer);
    },
  );

  async function ownerOf(request: Parameters<typeof ownerForCreate>[1]) {
    const caller = callerOf(request);
    const ownerId = await ownerForCreate(store.read, request);
    const { ids } = await ownersOf(store.read, caller);
    return { ownerId, userId: caller.userId, readableOwners: ids };
  }
}

function draftOf(body: {
  id: string;
  configured_props?: Record<string, unknown>;
  dynamic_props?: { configurableProps?: { name: string; type: string }[] };
}) {
  return {
    id: body.id,
    configuredProps: body.configured_props ?? {},
    dynamicProps: body.dynamic_props?.configurableProps ?? [],
  };
}
