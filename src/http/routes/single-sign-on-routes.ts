import { type Static, Type } from 'typebox';
import { type App, callerOf, DataOf, IdParams, NoContent, OneOf } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { requireOwnPage } from '#http/session-cookie.ts';
import { signInCookieHeader } from '#http/sign-in-cookie-header.ts';
import { requireUnlimitedKey } from '#identity/api-keys.ts';
import { epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { UserIdentity } from '#single-sign-on/identity-store.ts';
import type { SingleSignOn } from '#single-sign-on/single-sign-on.ts';
import type { Store } from '#storage/store.ts';

export interface SingleSignOnRouteOptions {
  store: Store;
  settings: { publicUrl: string };
  /** Undefined: no provider is set up. */
  singleSignOn: SingleSignOn | undefined;
  /** Called when access has ended: streams check at once whether their readers may still read. */
  onAccessEnd: () => void;
}

const SignInMethods = Type.Object({
  api_key: OneOf(['everyone', 'instance admins'], { description: 'Who signs in with an API key' }),
  single_sign_on: Type.Union(
    [
      Type.Object({
        name: Type.String({ description: 'Of the provider, as the operator set it' }),
        available: Type.Boolean({ description: 'false: the provider did not answer when it was last asked' }),
      }),
      Type.Null(),
    ],
    { description: 'null: no provider is set up' },
  ),
});

const Departure = Type.Object({
  url: Type.String({ description: 'Page of the provider that the browser goes to; good for ten minutes' }),
});

const ReturnTo = Type.Optional(
  Type.String({
    default: '/',
    description: 'Path of this service that the browser is sent to in the end, such as /workflows',
  }),
);

const Identity = Type.Object({
  id: Type.String({ description: 'idn_…' }),
  issuer: Type.String({ description: 'The provider' }),
  subject: Type.String({ description: 'The user at the provider' }),
  email: Type.Union([Type.String(), Type.Null()], {
    description: 'As the provider gave it last; users are not recognized by it',
  }),
  created_at: Type.Integer({ description: 'Epoch seconds' }),
  signed_in_at: Type.Union([Type.Integer(), Type.Null()], {
    description: 'Epoch seconds of the last sign-in; null: never',
  }),
});

/** Additions: signing in to the dashboard with the OpenID Connect provider that the operator set up. */
export function singleSignOnRoutes(app: App, options: SingleSignOnRouteOptions): void {
  const { singleSignOn, settings } = options;

  app.get(
    '/session/methods',
    {
      schema: {
        operationId: 'getSignInMethods',
        summary: 'How users sign in to the dashboard',
        tags: ['sessions', 'addition'],
        response: { 200: DataOf(SignInMethods) },
      },
    },
    async (request) => {
      const status = await singleSignOn?.status();
      const data: Static<typeof SignInMethods> = {
        api_key: singleSignOn?.isOnly === true ? 'instance admins' : 'everyone',
        single_sign_on:
          singleSignOn === undefined
            ? null
            : { name: singleSignOn.name, available: status?.state === 'reachable' },
      };
      return { data: selectFields(request, data) };
    },
  );

  app.post(
    '/session/single_sign_on',
    {
      schema: {
        operationId: 'startSingleSignOn',
        summary: 'Begins a sign-in with the provider: answers with its page, and a cookie for the way back',
        description:
          'For the pages of the service, with the header `x-millrace-csrf`, as startSession. The provider sends the browser back to ' +
          '/oidc/callback, which begins the session.',
        tags: ['sessions', 'addition'],
        body: Type.Object({ return_to: ReturnTo }),
        response: { 200: DataOf(Departure) },
      },
    },
    async (request, reply) => {
      requireOwnPage(request, settings.publicUrl);
      const { url, cookie } = await setUp(singleSignOn).start({
        origin: request.headers.origin,
        returnTo: request.body.return_to ?? '/',
      });
      reply.header('set-cookie', signInCookieHeader(request, cookie, settings));
      return { data: { url } };
    },
  );

  identityRoutes(app, options);
}

function identityRoutes(
  app: App,
  { store, singleSignOn, settings, onAccessEnd }: SingleSignOnRouteOptions,
): void {
  app.get(
    '/users/me/identities',
    {
      schema: {
        operationId: 'listIdentities',
        summary: 'Your accounts at the provider of single sign-on that are linked to your user',
        tags: ['users', 'addition'],
        response: { 200: DataOf(Type.Array(Identity)) },
      },
    },
    async (request) => {
      const identities = (await singleSignOn?.identitiesOf(callerOf(request).userId)) ?? [];
      return { data: selectFields(request, identities.map(identityShape)) };
    },
  );

  app.post(
    '/users/me/identities',
    {
      schema: {
        operationId: 'linkIdentity',
        summary:
          'Begins to link your account at the provider: answers with its page, and a cookie for the way back',
        description:
          'For the pages of the service: the request comes with the cookie of a session, which must still be there when the provider ' +
          'sends the browser back. You can sign in with the provider from then on, with every scope: the key that the session began with has ' +
          'neither scopes nor an end.',
        tags: ['users', 'addition'],
        body: Type.Object({ return_to: ReturnTo }),
        response: { 200: DataOf(Departure) },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request);
      const { userId, sessionId } = caller;
      if (sessionId === undefined) {
        throw new CallerError(
          'conflict',
          'an account is linked in a browser that is signed in; this request came with an API key',
        );
      }
      // A session that begins with the account has every scope, and may be begun again and again.
      await requireUnlimitedKey(store.read, caller);
      const { url, cookie } = await setUp(singleSignOn).start({
        origin: request.headers.origin,
        returnTo: request.body.return_to ?? '/',
        link: { userId, sessionId },
      });
      reply.header('set-cookie', signInCookieHeader(request, cookie, settings));
      return { data: { url } };
    },
  );

  app.delete(
    '/users/me/identities/:id',
    {
      schema: {
        operationId: 'unlinkIdentity',
        summary: 'Unlinks an account at the provider: its sessions end, and the roles that its groups gave',
        tags: ['users', 'addition'],
        params: IdParams('idn_…'),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      await setUp(singleSignOn).unlink(callerOf(request).userId, request.params.id);
      onAccessEnd();
      return reply.code(204).send(null);
    },
  );
}

function setUp(singleSignOn: SingleSignOn | undefined): SingleSignOn {
  if (singleSignOn !== undefined) return singleSignOn;
  throw new CallerError('conflict', 'no provider of single sign-on is set up here (MILLRACE_OIDC_ISSUER)');
}

function identityShape(identity: UserIdentity): Static<typeof Identity> {
  return {
    id: identity.id,
    issuer: identity.issuer,
    subject: identity.subject,
    email: identity.email,
    created_at: epochSeconds(identity.created_at_ms),
    signed_in_at: identity.signed_in_at_ms === null ? null : epochSeconds(identity.signed_in_at_ms),
  };
}
