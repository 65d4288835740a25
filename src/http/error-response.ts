import type { FastifyReply, FastifyRequest } from 'fastify';
import { CallerError, toError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { asksForMissingPage, sendMissingPage } from './missing-page.ts';

/** Table of contents 5: every error code a caller can get. docs/reference/errors.md is generated from it. */
export const errorCatalogue: Readonly<Record<string, { status: number; meaning: string }>> = {
  invalid_json: { status: 400, meaning: 'The body is not well-formed JSON.' },
  invalid_body: { status: 400, meaning: 'The body is not a JSON object.' },
  missing_parameter: { status: 400, meaning: 'A required parameter is missing; details.parameter names it.' },
  invalid_parameter: {
    status: 400,
    meaning: 'A parameter has the wrong type or value; details.parameter names it.',
  },
  unknown_parameter: {
    status: 400,
    meaning: 'The body has a field this operation does not know; details.parameter names it.',
  },
  unknown_cursor: { status: 400, meaning: 'after or before is not a cursor of this list.' },
  invalid_request: {
    status: 400,
    meaning:
      'The request is not well-formed HTTP; of the token endpoint: a parameter is missing, or the client is named twice.',
  },
  unsupported_grant_type: {
    status: 400,
    meaning: 'The token endpoint knows only grant_type=client_credentials.',
  },
  invalid_scope: { status: 400, meaning: 'The token endpoint knows only the scope *.' },
  invalid_client: {
    status: 401,
    meaning: 'client_id and client_secret are not those of an OAuth client that can be used.',
  },
  unauthorized: {
    status: 401,
    meaning:
      'No API key or access token, or one that is unknown, expired or revoked; of an endpoint: not the token it asks for.',
  },
  user_key_required: {
    status: 403,
    meaning: 'This operation takes the API key of a user, not an access token of an OAuth client.',
  },
  insufficient_scope: {
    status: 403,
    meaning:
      'The API key has scopes, and this operation needs another one; details.scope names it (`*`: a key without scopes).',
  },
  foreign_origin: {
    status: 403,
    meaning: 'A request with the cookie of a session did not come from a page of this service.',
  },
  forbidden: { status: 403, meaning: 'You can see this, but your role lets you neither change nor run it.' },
  not_found: { status: 404, meaning: 'There is no such thing, or it belongs to others.' },
  unknown_path: { status: 404, meaning: 'No operation has this path.' },
  method_not_allowed: { status: 405, meaning: 'The path exists with other methods; Allow lists them.' },
  request_timeout: { status: 408, meaning: 'The request did not arrive in time.' },
  conflict: { status: 409, meaning: 'What exists already stands in the way.' },
  sandbox_required: {
    status: 409,
    meaning:
      'Another person would come in, and user code runs at the seat belt because the kernel level does not work: the operator installs bubblewrap or sets MILLRACE_SANDBOX=seat-belt.',
  },
  run_over: {
    status: 410,
    meaning:
      'The run has continued or ended: it no longer waits at this link (only from resume and cancel URLs).',
  },
  account_dead: {
    status: 409,
    meaning:
      'The provider refused the account for good: it has to be connected again (POST /v1/accounts/connect).',
  },
  account_in_use: {
    status: 409,
    meaning:
      'Active sources or workflows use the account; details.sources and details.workflows name them. force=true deletes it.',
  },
  data_store_full: {
    status: 409,
    meaning: 'The data stores of the owner hold as many entries, or as much, as they may.',
  },
  body_too_large: { status: 413, meaning: 'The body is larger than this operation takes.' },
  unsupported_media_type: {
    status: 415,
    meaning: 'The body has a content type other than application/json, or a content encoding.',
  },
  idempotency_conflict: {
    status: 409,
    meaning:
      'The Idempotency-Key was used in the last 24 hours for a request with another method, path, query or body.',
  },
  in_progress: {
    status: 409,
    meaning:
      'A request with this Idempotency-Key was taken, and has no answer yet; send it again after Retry-After.',
  },
  reply_not_kept: {
    status: 409,
    meaning:
      'A request with this Idempotency-Key was taken, and its reply was lost, was larger than 1 MB or was not to be kept; with the status of the reply where that is known.',
  },
  source_busy: {
    status: 429,
    meaning:
      'Too many requests wait for this source already; send it again later (from endpoints, and when events are pushed).',
  },
  workflow_busy: {
    status: 429,
    meaning: 'Too many requests wait for this workflow already; send it again later (only from endpoints).',
  },
  too_many_hops: {
    status: 400,
    meaning: 'The event came through more than ten workflows and sources: a loop.',
  },
  workflow_failed: {
    status: 400,
    meaning: 'The workflow that $.flow.trigger ran has failed (only in steps).',
  },
  answer_too_large: { status: 400, meaning: 'What a step asked for is larger than 1 MB (only in steps).' },
  components_busy: {
    status: 429,
    meaning:
      'Too many components are being asked for options or props at the same time; try again in a moment.',
  },
  actions_busy: {
    status: 429,
    meaning: 'Too many actions or steps are being run by themselves at the same time; try again in a moment.',
  },
  streams_busy: {
    status: 429,
    meaning:
      'Too many live streams are open with this key, or with all keys of its user (MILLRACE_STREAMS_PER_KEY), or of one owner, which has its share of all; close some. Of what ' +
      'workflows send with $.send.sse, which needs no key: 1,000 readers of one workflow, 10,000 of all.',
  },
  bodies_busy: {
    status: 429,
    meaning:
      'Too many bodies of 64 KB and more of this user, or of the clients and service accounts of this workspace, wait to be read, or of 8 KB and more for the endpoints of this owner; send fewer at a time.',
  },
  account_tests_busy: {
    status: 429,
    meaning: 'Too many accounts are being tested at the same time; try again in a moment.',
  },
  quota_exceeded: {
    status: 429,
    meaning:
      'The owner has used up a quota of this UTC day, or has as much as it may of what is limited; details.quota names it. ' +
      'For quotas of a day Retry-After counts to 00:00 UTC. A limit of sources or workflows has no Retry-After: delete or deactivate one.',
  },
  headers_too_large: { status: 431, meaning: 'The header fields of the request are too large.' },
  invalid_event_id: { status: 400, meaning: 'An event id is not of the form <ms>-<sequence>.' },
  invalid_range: { status: 400, meaning: 'start_id names a later event than end_id.' },
  invalid_prop: {
    status: 400,
    meaning: 'A value in configured_props is missing or does not fit; details.parameter names it.',
  },
  invalid_schedule: {
    status: 400,
    meaning: 'An interval or cron expression cannot be used; details.parameter names the timer.',
  },
  invalid_component: {
    status: 400,
    meaning:
      'The component could not be evaluated, or is not of the kind asked for; details.error has its error.',
  },
  invalid_component_code: { status: 400, meaning: 'The code does not parse; the message has file and line.' },
  invalid_import: {
    status: 400,
    meaning:
      'The archive is damaged, too large or hostile, or has no workflow in it; the message says which.',
  },
  component_too_large: { status: 400, meaning: 'The component has too many files or bytes.' },
  component_url_unreachable: {
    status: 400,
    meaning: 'component_url, or a file it imports, could not be fetched.',
  },
  unsupported_specifier: {
    status: 400,
    meaning: 'An import is of a kind that is not allowed (git, file, URL).',
  },
  package_not_found: { status: 400, meaning: 'The registry has no such npm package or version.' },
  no_components: {
    status: 400,
    meaning: 'The package has no component; details.problems may say which files could not be read.',
  },
  repository_refused: {
    status: 400,
    meaning:
      'A Git repository of the registry cannot be used: it does not exist or is not public, it has no such branch or commit, or it is damaged.',
  },
  package_refused: { status: 400, meaning: 'An npm package breaks a rule, such as integrity or origin.' },
  native_addon: {
    status: 400,
    meaning: 'An npm package cannot be evaluated without its native addon, and these are refused here.',
  },
  build_failed: { status: 503, meaning: 'The process that builds components ended early; try again.' },
  build_timeout: { status: 400, meaning: 'Building the component took too long.' },
  build_cancelled: { status: 503, meaning: 'The service stopped while the component was built.' },
  builder_busy: { status: 503, meaning: 'Too many components are being built; try again.' },
  repository_unreachable: {
    status: 503,
    meaning:
      'The server of a Git repository cannot be reached, and a component of it is not built yet. Try again later.',
  },
  registry_unreachable: {
    status: 503,
    meaning: 'The package registry cannot be reached, and the cache has no copy.',
  },
  hook_failed: {
    status: 400,
    meaning:
      'A hook of the component threw, so nothing was changed; details has its error and its last log lines.',
  },
  unknown_endpoint: {
    status: 404,
    meaning: 'No active source or workflow has this endpoint (only from endpoints).',
  },
  endpoint_removed: {
    status: 410,
    meaning:
      'The source or workflow was deleted while the request waited for its reply: its run was ended, or never began (only from endpoints).',
  },
  no_response: {
    status: 500,
    meaning:
      'The component ended without responding, or its run did not begin in time (only from endpoints).',
  },
  reply_too_large: {
    status: 500,
    meaning:
      'The component gave a reply that is larger than is taken; details has its bytes and the bound (only from endpoints).',
  },
  oauth_client_missing: {
    status: 400,
    meaning:
      'The owner has no OAuth client for this app; details.registration may say what to register, then PUT …/oauth_client.',
  },
  grant_refused: {
    status: 400,
    meaning: 'The provider of an app refused the OAuth client, or what it asked for.',
  },
  provider_unavailable: {
    status: 503,
    meaning: 'The provider of an app gave no answer that can be used; try again.',
  },
  files_full: { status: 507, meaning: 'The files of the owner take as much as they may.' },
  account_not_refreshed: {
    status: 503,
    meaning: 'The access token of an account has ended, and its provider gives no new one right now.',
  },
  wrong_encryption_key: { status: 503, meaning: 'Credentials were sealed under another master key.' },
  sealed_value_damaged: {
    status: 503,
    meaning: 'Sealed credentials cannot be opened: they were changed or their key is gone.',
  },
  internal_error: {
    status: 500,
    meaning: 'A fault of the service; the request id in details finds it in the log.',
  },
  storage_full: { status: 503, meaning: 'The disk is full: nothing was stored.' },
  files_unavailable: {
    status: 503,
    meaning:
      'The bucket that has the content of files cannot be used, or the content of this file is not in it. No file was stored.',
  },
  store_unavailable: { status: 503, meaning: 'The database cannot be reached: nothing was stored.' },
  outcome_unknown: {
    status: 503,
    meaning:
      'The store was lost while this was being stored, and did not come back in time to say whether it was: it may have been accepted, or not; or the service stopped while it ran an action. A request to an endpoint with an Idempotency-Key can be sent again: it is taken once. Of the API, with status 409: the service stopped or failed while it carried out the first request with this Idempotency-Key; check whether it was done, and use a new key to do it again.',
  },
  store_damaged: {
    status: 503,
    meaning: 'The database is damaged: nothing was stored. The operator has to restore a backup.',
  },
  overloaded: {
    status: 503,
    meaning: 'More requests are waiting than can be served, or more of one owner than its share; try again.',
  },
  not_ready: {
    status: 503,
    meaning:
      'The store takes no writes, or the service cannot reach it, or its clock is too far off to fire timers, or it is about to stop (only from /readyz).',
  },
};

export interface ErrorAnswer {
  status: number;
  headers: Record<string, string>;
  body: { error: string; code: string; details: Record<string, unknown> };
}

/** After this many seconds it is worth trying again when the store or the service was not available. */
const retryAfterSeconds = '5';

/** The only mapping from a thrown error to status and body. Details that are not for callers are only logged. */
export function errorAnswer(thrown: unknown, requestId: string): ErrorAnswer {
  const error = toError(thrown);
  if (error instanceof CallerError) {
    const status = errorCatalogue[error.code]?.status ?? 400;
    const headers = status === 429 ? rateLimitHeaders(error.details) : {};
    return answer(status, error.code, error.message, { ...error.details }, headers);
  }
  if (error instanceof UnavailableError) {
    return answer(503, error.code, error.message, {}, { 'retry-after': retryAfterSeconds });
  }
  const known = fastifyErrors[codeOf(error)];
  if (known !== undefined) {
    return answer(errorCatalogue[known.code]?.status ?? 400, known.code, known.message, {});
  }
  const status = statusOf(error);
  if (status >= 400 && status < 500) {
    return answer(status, 'invalid_request', `the request cannot be read: ${toError(error).message}`, {});
  }
  return answer(500, 'internal_error', 'the service failed; look for the request id in its log', {
    request_id: requestId,
  });
}

/** What a 429 says about when to come back. */
function rateLimitHeaders(details: Readonly<Record<string, unknown>>): Record<string, string> {
  return {
    'retry-after': String(details.retry_after),
    'x-ratelimit-limit': String(details.limit),
    'x-ratelimit-remaining': '0',
    'x-ratelimit-reset': String(details.reset_at),
  };
}

function answer(
  status: number,
  code: string,
  error: string,
  details: Record<string, unknown>,
  headers: Record<string, string> = {},
): ErrorAnswer {
  return { status, headers, body: { error, code, details } };
}

const fastifyErrors: Readonly<Record<string, { code: string; message: string }>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    code: 'unsupported_media_type',
    message: 'send the body as JSON, with Content-Type: application/json',
  },
  FST_ERR_CTP_BODY_TOO_LARGE: { code: 'body_too_large', message: 'the body is too large for this operation' },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    code: 'invalid_request',
    message: 'the body does not have the length that Content-Length says',
  },
  FST_ERR_BAD_URL: { code: 'invalid_request', message: 'the path of the URL is not well-formed' },
  FST_ERR_MAX_PARAM_LENGTH: {
    code: 'not_found',
    message: 'nothing has an id or key as long as the one in this path',
  },
  ECONNRESET: { code: 'invalid_request', message: 'the connection ended before the request was complete' },
};

function codeOf(error: unknown): string {
  const { code } = Object(error) as { code?: unknown };
  return typeof code === 'string' ? code : '';
}

function statusOf(error: unknown): number {
  const { statusCode } = Object(error) as { statusCode?: unknown };
  return typeof statusCode === 'number' ? statusCode : 500;
}

const busyCodes: ReadonlySet<string> = new Set(['builder_busy', 'overloaded']);

/** Sends the answer to what a handler threw, and logs what is our fault. */
export function sendError(
  thrown: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  logger: Logger,
): FastifyReply {
  if (asksForMissingPage(request, thrown)) return sendMissingPage(request, reply);
  const { status, headers, body } = errorAnswer(thrown, request.id);
  if (status >= 500) {
    const about = { requestId: request.id, method: request.method, route: request.routeOptions.url };
    // What requests of users bring about by their number is no fault of the service.
    if (thrown instanceof UnavailableError && busyCodes.has(thrown.code))
      logger.warn({ ...about, code: thrown.code, error: thrown.message }, 'http.request-refused');
    // Its message says what is away. A stack for each request would bury the rest of the log while that lasts.
    else if (thrown instanceof UnavailableError)
      logger.error({ ...about, code: thrown.code, error: thrown.message }, 'http.request-failed');
    else logger.error({ ...about, err: toError(thrown) }, 'http.request-failed');
  }
  return reply
    .code(status)
    .headers(headers)
    .type('application/json; charset=utf-8')
    .send(request.caller === null ? forStrangers(body) : body);
}

/** The reason names the bucket, its host and its port, which are nothing for a caller without a key, such as one who has the URL of a file. */
function forStrangers(body: ErrorAnswer['body']): ErrorAnswer['body'] {
  if (body.code !== 'files_unavailable') return body;
  return { ...body, error: 'the content of files cannot be read or stored; the log of the service says why' };
}
