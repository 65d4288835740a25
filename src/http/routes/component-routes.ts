import { Type } from 'typebox';
import { ownersOf } from '#auth/permissions.ts';
import type { ComponentShape } from '#components/component-shape.ts';
import { type App, callerOf, DataOf, ownerForCreate } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { ComponentResolver } from '#registry/resolve-component.ts';
import type { Store } from '#storage/store.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';

const ConfigurableProp = Type.Object(
  { name: Type.String(), type: Type.String() },
  { additionalProperties: true },
);

/** Specification, section 2, Component. */
const Component = Type.Object(
  {
    id: Type.String({ description: 'sc_…' }),
    code: Type.String(),
    code_hash: Type.String({ description: 'SHA-256 of the code, hex' }),
    key: Type.Optional(Type.String()),
    name: Type.String(),
    version: Type.String(),
    description: Type.Optional(Type.String()),
    type: Type.String(),
    configurable_props: Type.Array(ConfigurableProp),
    created_at: Type.Integer({ description: 'Epoch seconds' }),
    updated_at: Type.Integer({ description: 'Epoch seconds' }),
  },
  { additionalProperties: true },
);

function viewComponent(component: ComponentTable) {
  const shape = JSON.parse(component.shape) as ComponentShape;
  return {
    id: component.id,
    code: component.code,
    code_hash: component.code_hash,
    ...(component.component_key === null ? {} : { key: component.component_key }),
    name: component.name,
    version: component.version,
    ...(shape.description === undefined ? {} : { description: shape.description }),
    type: shape.type,
    configurable_props: shape.configurableProps,
    created_at: epochSeconds(component.created_at_ms),
    updated_at: epochSeconds(component.updated_at_ms),
  };
}

export interface ComponentRouteDeps {
  store: Store;
  resolver: ComponentResolver;
}

/** Specification, section 4, Components. */
export function componentRoutes(app: App, deps: ComponentRouteDeps): void {
  const { store, resolver } = deps;

  app.post(
    '/components',
    {
      schema: {
        operationId: 'createComponent',
        tags: ['components'],
        summary: 'Save a component from its code or from a URL',
        body: Type.Object({
          component_code: Type.Optional(Type.String({ description: 'Full code of the component' })),
          component_url: Type.Optional(
            Type.String({ description: 'Where the code is; only metadata when component_code is given' }),
          ),
        }),
        response: { 200: DataOf(Component) },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      const ownerId = await ownerForCreate(store.read, request);
      const { component_code, component_url } = request.body;
      const component = await resolver.resolve(
        {
          ...(component_code === undefined ? {} : { component_code }),
          ...(component_url === undefined ? {} : { component_url }),
        },
        { ownerId, userId: caller.userId, readableOwners: [ownerId] },
      );
      return { data: selectFields(request, viewComponent(component)) };
    },
  );

  app.get(
    '/components/registry/:key',
    {
      schema: {
        operationId: 'getRegistryComponent',
        tags: ['components'],
        summary: 'A globally published component',
        params: Type.Object({ key: Type.String({ description: 'Key of the component' }) }),
        response: { 200: DataOf(Component) },
      },
    },
    async (request) => {
      const { key } = request.params;
      const component = await resolver.findInRegistry(key);
      if (component === undefined) {
        throw new CallerError('not_found', `the registry has no component ${JSON.stringify(key)}`, {
          parameter: 'key',
        });
      }
      return { data: selectFields(request, viewComponent(component)) };
    },
  );

  app.get(
    '/components/:id',
    {
      schema: {
        operationId: 'getComponent',
        tags: ['components'],
        summary: 'A component by its key or id',
        params: Type.Object({ id: Type.String({ description: 'Key from the code, or sc_…' }) }),
        response: { 200: DataOf(Component) },
      },
    },
    async (request) => {
      const owners = await ownersOf(store.read, callerOf(request));
      const component = await resolver.findSaved(request.params.id, { readableOwners: owners.ids });
      return { data: selectFields(request, viewComponent(component)) };
    },
  );
}
