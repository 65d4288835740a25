import { type Static, Type } from 'typebox';
import { requireCodeScopes } from '#http/require-code-scopes.ts';
import { type App, callerOf, DataOf, OneOf, ownerForCreate } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { ownersOf } from '#identity/permissions.ts';
import { logLevels } from '#runner/protocol.ts';
import type { Store } from '#storage/store.ts';
import { sendKinds } from '#storage/tables/workflow-tables.ts';
import { type ActionRunner, requireOneAction } from '#workflows/runs/run-action.ts';

const ActionRun = Type.Object({
  component: Type.Object({
    id: Type.String({ description: 'sc_…; may be given as id the next time' }),
    key: Type.Union([Type.String(), Type.Null()]),
    version: Type.String(),
  }),
  exports: Type.Record(Type.String(), Type.Unknown(), { description: 'What $.export was called with' }),
  ret: Type.Unknown({ description: 'What run returned; null when that is nothing, or it failed' }),
  os: Type.Array(
    Type.Object({
      k: OneOf(['log', 'error']),
      ts: Type.Integer({ description: 'Epoch milliseconds' }),
      level: Type.Optional(OneOf(logLevels, { description: 'The level of a log line' })),
      msg: Type.Optional(Type.String()),
      err: Type.Optional(Type.Object({ name: Type.String(), message: Type.String(), stack: Type.String() })),
    }),
    { description: 'Log lines, then the error, if the action failed' },
  ),
  duration: Type.Integer({ description: 'Milliseconds in the code of the action' }),
  exit: Type.Union([Type.Object({ reason: Type.Union([Type.String(), Type.Null()]) }), Type.Null()], {
    description: 'Set when $.flow.exit was called',
  }),
  response: Type.Union(
    [
      Type.Object({
        status: Type.Integer(),
        headers: Type.Record(Type.String(), Type.Unknown()),
        body: Type.String(),
      }),
      Type.Null(),
    ],
    { description: 'What $.respond was called with' },
  ),
  sends: Type.Array(
    Type.Object({
      kind: OneOf(sendKinds),
      state: OneOf(['sent', 'failed']),
      result: Type.Unknown(),
    }),
    { description: 'What $.send sent, in order' },
  ),
});

/** A caller waits for it with an open connection. */
const timeoutSecondsMax = 300;

export interface ActionRouteOptions {
  store: Store;
  actionRunner: ActionRunner;
}

export function actionRoutes(app: App, { store, actionRunner }: ActionRouteOptions): void {
  app.post(
    '/actions/run',
    {
      schema: {
        operationId: 'runAction',
        tags: ['actions', 'addition'],
        summary: 'Run one action once and wait for what comes of it',
        description:
          'What goes wrong in the code of the action is in the answer: os has the error, ret is null. ' +
          'Nothing is kept of the run but what it used. component_code and a URL need the scope `write` too, and an account in ' +
          'configured_props needs `credentials`.',
        body: Type.Object({
          id: Type.Optional(
            Type.String({ minLength: 1, description: 'Key, key@version or sc_ id of the action' }),
          ),
          component_code: Type.Optional(Type.String({ description: 'Code of an action, in place of id' })),
          configured_props: Type.Optional(
            Type.Record(Type.String(), Type.Unknown(), { description: 'Values of its props, as they are' }),
          ),
          timeout_seconds: Type.Optional(
            Type.Integer({
              minimum: 1,
              maximum: timeoutSecondsMax,
              description: 'Longest it may take; default 60',
            }),
          ),
          dynamic_props: Type.Optional(
            Type.Record(Type.String(), Type.Unknown(), {
              description:
                'As POST /components/props answered them. Not needed: they are computed again from configured_props',
            }),
          ),
        }),
        response: { 200: DataOf(ActionRun) },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      const { id, component_code: code, configured_props: configuredProps = {} } = request.body;
      requireCodeScopes(caller, { component: id, hasOwnCode: code !== undefined, props: configuredProps });
      const ownerId = await ownerForCreate(store.read, request);
      const { timeout_seconds: timeoutSeconds } = request.body;
      requireOneAction({ id, code });
      const { ids } = await ownersOf(store.read, caller);
      const { component, ...result } = await actionRunner.run(
        {
          ...(id === undefined ? {} : { id }),
          ...(code === undefined ? {} : { code }),
          configuredProps,
          ...(timeoutSeconds === undefined ? {} : { timeoutSeconds }),
        },
        { ownerId, userId: caller.userId, readableOwners: ids },
      );
      const view: Static<typeof ActionRun> = {
        component: { id: component.id, key: component.component_key, version: component.version },
        ...result,
      };
      return { data: selectFields(request, view) };
    },
  );
}
