import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { AccountConnector } from '#accounts/connect/connect-account.ts';
import { formName } from '#accounts/connect/connect-fields.ts';
import { type BrowserCookie, ConnectRefusal, type ConnectStep } from '#accounts/connect/connect-flow.ts';
import { connectedPage, formPage, goOnPage, pageHeaders, problemPage } from '#http/connect-pages.ts';
import { cookiesOf } from '#http/cookies-of.ts';
import { errorAnswer } from '#http/error-response.ts';
import { type App, callerOf, DataOf, ownerForCreate } from '#http/route-support.ts';
import { unreachable } from '#lib/assert.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';

/** A form with a few private keys. */
const formBytesMax = 256 * 1024;

export interface ConnectRouteOptions {
  store: Store;
  logger: Logger;
  connector: AccountConnector;
  /** The address of the service as browsers reach it. */
  publicUrl: () => string;
}

/** Creates links with which a user connects an account in a browser. */
export function connectRoutes(app: App, { store, connector }: ConnectRouteOptions): void {
  app.post(
    '/accounts/connect',
    {
      schema: {
        operationId: 'connectAccount',
        tags: ['accounts', 'addition'],
        summary: 'A link with which an account is connected, or connected again, in a browser',
        description:
          'The link is good for ten minutes, until the key or access token of this request ends, and for the first browser that agrees there. It ' +
          'connects nothing once that key is revoked or its user disabled. That browser fills in fields of the ' +
          'app that are missing, is sent to the provider of an OAuth app, and in the end to redirect_url, with ' +
          'account_id, or with error and error_description.',
        body: Type.Object({
          app: Type.Optional(Type.String({ description: 'Slug or app_ id; not needed with account_id' })),
          account_id: Type.Optional(Type.String({ description: 'apn_… to connect again' })),
          name: Type.Optional(Type.Union([Type.String(), Type.Null()], { description: 'Nickname' })),
          redirect_url: Type.Optional(
            Type.String({
              description: 'Where the browser is sent in the end; without it a page says how it went',
            }),
          ),
          fields: Type.Optional(
            Type.Record(Type.String(), Type.Unknown(), {
              description: 'Custom fields of the app that are known already',
            }),
          ),
          scopes: Type.Optional(
            Type.Array(Type.String(), { description: 'Instead of those of the OAuth client or the app' }),
          ),
        }),
        response: {
          200: DataOf(
            Type.Object({ connect_url: Type.String(), expires_at: Type.String({ format: 'date-time' }) }),
          ),
        },
      },
    },
    async (request) => {
      const {
        app: slug,
        account_id: accountId,
        redirect_url: redirectUrl,
        fields,
        scopes,
        name,
      } = request.body;
      const ownerId = await ownerForCreate(store.read, request);
      const { url, expiresAtMs } = await connector.begin({
        caller: callerOf(request),
        ownerId,
        app: slug,
        accountId,
        name,
        redirectUrl,
        fields: fields ?? {},
        scopes,
      });
      return { data: { connect_url: url, expires_at: new Date(expiresAtMs).toISOString() } };
    },
  );
}

/** What a browser sees of it: pages, and redirects. Public, as the secret is in the address and then in a cookie. */
export function connectPageRoutes(app: App, { logger, connector, publicUrl }: ConnectRouteOptions): void {
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit: formBytesMax },
    (_request, body, done) => done(null, body),
  );
  app.setErrorHandler((error, request, reply) => {
    if (error instanceof ConnectRefusal) return sendPage(reply, error.status, problemPage(error.message));
    const { status, body } = errorAnswer(error, request.id);
    if (status >= 500) {
      logger.error(
        { requestId: request.id, route: request.routeOptions.url, err: toError(error) },
        'http.request-failed',
      );
      const message = `The service could not do this: ${body.error}. Try again; if that does not help, give request id ${request.id} to the operator.`;
      return sendPage(reply, status, problemPage(message));
    }
    return sendPage(
      reply,
      status,
      problemPage(`The browser sent something that cannot be read: ${body.error}.`),
    );
  });
  // A HEAD would take the link from the browser that it is meant for.
  const page = { exposeHeadRoute: false, schema: { hide: true } } as const;

  app.get('/connect/callback', page, async (request, reply) =>
    answer(reply, await connector.callback(queryOf(request), cookiesOf(request)), 'redirect'),
  );
  app.get('/connect/:link', page, async (request, reply) =>
    answer(reply, await connector.open(linkOf(request), cookiesOf(request)), 'redirect'),
  );
  app.post('/connect/:link', page, async (request, reply) => {
    const form = new URLSearchParams(typeof request.body === 'string' ? request.body : '');
    return answer(reply, await connector.submit(linkOf(request), cookiesOf(request), form), 'page');
  });

  function answer(reply: FastifyReply, step: ConnectStep, onward: 'redirect' | 'page'): FastifyReply {
    if ('cookie' in step && step.cookie !== undefined)
      reply.header('set-cookie', cookieHeader(step.cookie, publicUrl()));
    switch (step.kind) {
      case 'form':
        return sendPage(
          reply,
          step.problems.size === 0 ? 200 : 422,
          formPage({
            ...step,
            appName: step.app.name,
            description: step.app.description,
            inputName: formName,
          }),
        );
      case 'provider':
        return sendOn(reply, onward, {
          title: `Connect ${step.app.name}`,
          label: `Continue to ${step.app.name}`,
          url: step.url,
        });
      case 'connected': {
        const { account, isNew, redirectUrl } = step;
        const appName = account.app_name;
        if (redirectUrl === null)
          return sendPage(reply, 200, connectedPage({ appName, name: account.name, isNew }));
        const url = withParameters(redirectUrl, {
          account_id: account.id,
          error: null,
          error_description: null,
        });
        return sendOn(reply, onward, { title: `${appName} is connected`, label: 'Continue', url });
      }
      case 'failed': {
        const { failure, redirectUrl } = step;
        if (redirectUrl === null) return sendPage(reply, 400, problemPage(failure.message));
        const url = withParameters(redirectUrl, {
          account_id: null,
          error: failure.code,
          error_description: failure.message,
        });
        return sendOn(reply, onward, { title: 'No account was connected', label: 'Continue', url });
      }
      default:
        return unreachable(step);
    }
  }
}

function sendOn(
  reply: FastifyReply,
  how: 'redirect' | 'page',
  target: { title: string; label: string; url: string },
): FastifyReply {
  if (how === 'redirect') return reply.headers(pageHeaders).redirect(target.url, 303);
  return sendPage(reply, 200, goOnPage(target));
}

function sendPage(reply: FastifyReply, status: number, html: string): FastifyReply {
  return reply.code(status).headers(pageHeaders).serializer(String).send(html);
}

/** null: it is not in the URL, whatever was in it before. */
function withParameters(url: string, parameters: Record<string, string | null>): string {
  const target = new URL(url);
  for (const [name, value] of Object.entries(parameters)) {
    if (value === null) target.searchParams.delete(name);
    else target.searchParams.set(name, value);
  }
  return target.href;
}

function cookieHeader({ name, value, maxAgeSeconds }: BrowserCookie, publicUrl: string): string {
  const { protocol, pathname } = new URL(publicUrl);
  const path = `${pathname.replace(/\/$/, '')}/connect`;
  // Lax: the provider sends the browser back by a link of its own.
  const attributes = [`Path=${path}`, `Max-Age=${maxAgeSeconds}`, 'HttpOnly', 'SameSite=Lax'];
  if (protocol === 'https:') attributes.push('Secure');
  return `${name}=${value}; ${attributes.join('; ')}`;
}

function linkOf({ params }: Pick<FastifyRequest, 'params'>): string {
  return String((params as { link?: unknown }).link ?? '');
}

/** A parameter that comes twice is none (RFC 6749, 3.1). */
function queryOf({ query }: Pick<FastifyRequest, 'query'>): Record<string, string | undefined> {
  return Object.fromEntries(
    Object.entries(query as Record<string, unknown>).filter(
      (entry): entry is [string, string] => typeof entry[1] === 'string',
    ),
  );
}
