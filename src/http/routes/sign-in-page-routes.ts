import type { FastifyReply } from 'fastify';
import { cookiesOf } from '#http/cookies-of.ts';
import { errorAnswer } from '#http/error-response.ts';
import type { App } from '#http/route-support.ts';
import { setSessionCookie } from '#http/session-cookie.ts';
import { placeOf } from '#http/session-place.ts';
import { signInCookieHeader } from '#http/sign-in-cookie-header.ts';
import type { Clock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { messagePage, messagePageHeaders } from '#lib/message-page.ts';
import { cookieNameOf } from '#single-sign-on/sign-in-cookie.ts';
import { type RefusalCode, SignInRefusal } from '#single-sign-on/sign-in-refusal.ts';
import type { SingleSignOn } from '#single-sign-on/single-sign-on.ts';

export interface SignInPageRouteOptions {
  logger: Logger;
  clock: Clock;
  settings: { publicUrl: string };
  /** Undefined: no provider is set up. */
  singleSignOn: SingleSignOn | undefined;
}

/** Where the provider of single sign-on sends the browser: a redirect into the dashboard, or a page that says what happened. */
export function signInPageRoutes(app: App, options: SignInPageRouteOptions): void {
  const { logger, clock, settings, singleSignOn } = options;
  app.setErrorHandler((error, request, reply) => {
    if (error instanceof SignInRefusal) {
      const { code, reason } = error;
      logger.warn({ requestId: request.id, code, reason }, 'single-sign-on.refused');
      const title = linkCodes.has(code) ? 'No account was linked' : 'You are not signed in';
      return sendPage(reply, error.status, { title, text: error.message });
    }
    const { status, body } = errorAnswer(error, request.id);
    if (status >= 500) {
      logger.error({ requestId: request.id, err: toError(error) }, 'http.request-failed');
    }
    const text = `The service could not do this: ${body.error}. Try again; if that does not help, give request id ${request.id} to the operator.`;
    return sendPage(reply, status, { title: 'You are not signed in', text });
  });

  // A HEAD would use the answer of the provider up.
  app.get('/oidc/callback', { exposeHeadRoute: false, schema: { hide: true } }, async (request, reply) => {
    if (singleSignOn === undefined) {
      throw new SignInRefusal('not_started_here', 404, 'Single sign-on is not set up on this service.');
    }
    const query = request.url.includes('?') ? request.url.slice(request.url.indexOf('?')) : '';
    const state = new URLSearchParams(query).get('state');
    const cookies = cookiesOf(request);
    if (state !== null && cookies.has(cookieNameOf(state))) {
      const used = { name: cookieNameOf(state), value: '', maxAgeSeconds: 0 };
      reply.header('set-cookie', signInCookieHeader(request, used, settings));
    }
    const { returnTo, session } = await singleSignOn.finish(query, {
      cookies,
      place: placeOf(request),
    });
    if (session !== undefined) {
      const maxAgeSeconds = Math.max(0, Math.ceil((session.expiresAtMs - clock.now()) / 1000));
      setSessionCookie(request, reply, { token: session.token, maxAgeSeconds, ...settings });
    }
    return reply.redirect(returnTo, 303);
  });
}

/** Refusals to link an account: the user is signed in, and stays so. */
const linkCodes: ReadonlySet<RefusalCode> = new Set(['session_over', 'identity_taken', 'identity_exists']);

function sendPage(reply: FastifyReply, status: number, page: { title: string; text: string }): FastifyReply {
  const links = [
    { label: 'Sign-in page', path: '/sign-in' },
    { label: 'Home', path: '/' },
  ];
  return reply
    .code(status)
    .headers(messagePageHeaders)
    .serializer(String)
    .send(messagePage({ ...page, links }));
}
