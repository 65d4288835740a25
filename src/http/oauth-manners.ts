import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { CallerError } from '#lib/errors.ts';
import { errorAnswer } from './error-response.ts';
import type { App } from './route-support.ts';

/** The forms of these routes have a few fields. Hundreds that are not known, as often as it was answered, kept the service from all else without a key. */
const fieldsMax = 50;

/** Lets the routes of this scope take forms in addition to JSON. A field that appears twice is refused (RFC 6749, 3.2). */
export function readForms(app: App): void {
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    (_request, body, done) => {
      const fields = new Map<string, string>();
      if (hasMoreFieldsThan(body as string, fieldsMax)) {
        done(
          new CallerError(
            'invalid_request',
            `the form has more than ${fieldsMax} fields, expected at most as many`,
          ),
        );
        return;
      }
      for (const [name, value] of new URLSearchParams(body as string)) {
        if (fields.has(name)) {
          const error = new CallerError('invalid_request', `${name}: stands in the form twice`, {
            parameter: name,
          });
          done(error);
          return;
        }
        fields.set(name, value);
      }
      done(null, Object.fromEntries(fields));
    },
  );
}

function hasMoreFieldsThan(form: string, max: number): boolean {
  let fields = 1;
  for (let at = form.indexOf('&'); at !== -1; at = form.indexOf('&', at + 1)) {
    fields += 1;
    if (fields > max) return true;
  }
  return false;
}

/** Codes of RFC 6749, 5.2; every other mistake in a request is `invalid_request` there. */
const oauthCodes: ReadonlySet<string> = new Set([
  'invalid_client',
  'unsupported_grant_type',
  'invalid_scope',
]);

/**
 * A caller's mistake in the form of RFC 6749 (5.2) and in ours at once: `error` is the code that OAuth clients look at,
 * `error_description` the sentence. All other errors are sent as usual.
 */
export function sendOAuthError(
  error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  if (!(error instanceof CallerError)) throw error;
  const { status, headers, body } = errorAnswer(error, request.id);
  const code = oauthCodes.has(error.code) ? error.code : 'invalid_request';
  if (status === 401) reply.header('www-authenticate', 'Basic realm="Millrace", charset="UTF-8"');
  return reply
    .code(status)
    .headers(headers)
    .send({ error: code, error_description: body.error, code: body.code, details: body.details });
}
