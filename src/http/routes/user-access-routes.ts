import { Type } from 'typebox';
import type { ComponentBuilder } from '#components/build-component.ts';
import { type App, callerOf, DataOf, IdParams } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { changeUser } from '#identity/change-user.ts';
import { disableUser, enableUser } from '#identity/disable-user.ts';
import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import type { SourceDeployer } from '#sources/deploy-source.ts';
import type { Store } from '#storage/store.ts';
import type { WorkflowDeployer } from '#workflows/definitions/deploy-workflow.ts';
import { activeDeploymentsOf, pauseDeployments } from '#workflows/definitions/pause-owner.ts';
import { Email } from './identity-shapes.ts';
import { ListedUser, listedUser } from './user-routes.ts';

export interface UserAccessRouteOptions {
  store: Store;
  clock: Clock;
  logger: Logger;
  deployer: SourceDeployer;
  workflowDeployer: WorkflowDeployer;
  builder: Pick<ComponentBuilder, 'endBuildsOf'>;
  /** Called when access has ended: streams check at once whether their readers may still read. */
  onAccessEnd: () => void;
}

const Ids = Type.Array(Type.String());
const DisabledUser = Type.Intersect([
  ListedUser,
  Type.Object({
    still_running: Type.Object(
      { sources: Ids, workflows: Ids },
      { description: 'Active sources and workflows that belong to the user personally, and continue' },
    ),
    not_paused: Type.Array(Type.Object({ id: Type.String(), reason: Type.String() }), {
      description: 'With pause: what could not be deactivated, and why',
    }),
  }),
]);

/** Additions: changing, disabling and enabling users, for the admin of the instance. */
export function userAccessRoutes(app: App, options: UserAccessRouteOptions): void {
  const { store, clock, logger, onAccessEnd } = options;

  app.put(
    '/:id',
    {
      config: { adminMay: 'change users' },
      schema: {
        operationId: 'updateUser',
        summary: 'Changes the e-mail address of a user; only for the admin of the instance',
        description:
          'Mail that workflows of the user send with `$.send.email` goes there from then on. Users do not change theirs: such mail would go to any address then.',
        tags: ['users', 'addition'],
        params: IdParams('u_…'),
        body: Type.Object({ email: Email }),
        response: { 200: DataOf(ListedUser) },
      },
    },
    async (request) => {
      const user = await changeUser(store, request.params.id, request.body);
      return { data: selectFields(request, listedUser(user)) };
    },
  );

  app.post(
    '/:id/disable',
    {
      config: { adminMay: 'disable users' },
      schema: {
        operationId: 'disableUser',
        summary:
          'Disables a user: keys, sessions and streams end at once; only for the admin of the instance',
        description:
          'On every node. What the user deployed continues to run, and stays with its workspace where it belongs to one; with `pause`, ' +
          'sources and workflows that belong to the user personally are deactivated. Memberships stay, also that of the last admin of a ' +
          'workspace: make another member admin first. An admin of the instance is disabled by another one.',
        tags: ['users', 'addition'],
        params: IdParams('u_…'),
        body: Type.Object({
          pause: Type.Optional(
            Type.Boolean({
              default: false,
              description: "Deactivate the user's personal sources and workflows too",
            }),
          ),
          reason: Type.Optional(
            Type.String({
              minLength: 1,
              maxLength: 500,
              description: 'Why, for admins of the instance: the list of users and the audit show it',
            }),
          ),
        }),
        response: { 200: DataOf(DisabledUser) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const caller = callerOf(request);
      const user = await disableUser(store, caller, { userId: id, reason: request.body.reason }, clock);
      onAccessEnd();
      options.builder.endBuildsOf(id);
      logger.info({ user: id, by: caller.userId }, 'user.disabled');
      const active = await activeDeploymentsOf(store.read, id);
      const failures = request.body.pause === true ? await pauseDeployments(options, id, active) : [];
      const running = request.body.pause === true ? await activeDeploymentsOf(store.read, id) : active;
      return {
        data: selectFields(request, { ...listedUser(user), still_running: running, not_paused: failures }),
      };
    },
  );

  app.post(
    '/:id/enable',
    {
      config: { adminMay: 'enable users' },
      schema: {
        operationId: 'enableUser',
        summary: 'Enables a disabled user: their keys work again; only for the admin of the instance',
        description: 'Sessions that ended stay ended, and what was deactivated stays inactive.',
        tags: ['users', 'addition'],
        params: IdParams('u_…'),
        response: { 200: DataOf(ListedUser) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const user = await enableUser(store, id);
      logger.info({ user: id, by: callerOf(request).userId }, 'user.enabled');
      return { data: selectFields(request, listedUser(user)) };
    },
  );
}
