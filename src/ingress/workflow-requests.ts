import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyReply } from 'fastify';
import { CallerError } from '#lib/errors.ts';
import type { RunTrigger } from '#runs/run.ts';
import type { RunStarter } from '#runs/start-run.ts';
import { sendHttpReply } from './endpoint-reply.ts';
import { isControlled } from './request-controls.ts';
import type { EndpointRequest } from './request-event.ts';
import type { WorkflowEndpoint } from './resolve-endpoint.ts';

export type WorkflowStarter = Pick<RunStarter, 'start' | 'startAndAwait' | 'recordOnly'>;

/** What a caller gets whose request became a run; nothing in it belongs to anybody. */
const successPage =
  '<p><b>Success!</b></p>\n<p>The workflow got this request. To answer with something else, let its trigger respond itself and call <code>$.respond()</code> in a step.</p>\n';

/** Access tokens of OAuth clients, for triggers that take those. */
export interface AccessTokens {
  /** Whether the token is good and of a client of this workspace. */
  accepts: (token: string, workspaceId: string) => Promise<boolean>;
}

/** Throws CallerError `unauthorized` unless the request has the token that the trigger asks for. */
export async function requireToken(
  endpoint: WorkflowEndpoint,
  authorization: string | undefined,
  { reply, accessTokens }: { reply: FastifyReply; accessTokens: AccessTokens },
): Promise<void> {
  const { auth, ownerId } = endpoint;
  if (auth === undefined) return;
  // No token has a space in it. Only so does the time that this takes not grow with the square of the header.
  const given = /^bearer +(\S+) *$/i.exec(authorization ?? '')?.[1] ?? '';
  const isRight =
    auth.type === 'oauth' ? await accessTokens.accepts(given, ownerId) : isSameToken(given, auth.token);
  if (isRight) return;
  reply.header('www-authenticate', 'Bearer');
  const wanted = auth.type === 'oauth' ? 'access token of the workspace' : 'token of the trigger';
  throw new CallerError('unauthorized', `this endpoint asks for a token: Authorization: Bearer <${wanted}>`);
}

/** Compared as hashes, in constant time: how long it takes tells nothing about the token, nor its length. */
function isSameToken(given: string, token: string): boolean {
  return timingSafeEqual(sha256(given), sha256(token));
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** Makes a run of the request and answers it (platform facts, 4.2 and 4.3). */
export async function answerByWorkflow(
  starter: WorkflowStarter,
  endpoint: WorkflowEndpoint,
  { request, event, reply }: { request: EndpointRequest; event: string; reply: FastifyReply },
): Promise<FastifyReply> {
  const trigger: RunTrigger = {
    workflowId: endpoint.workflowId,
    ownerId: endpoint.ownerId,
    deploymentId: endpoint.deploymentId,
    emitterId: endpoint.triggerId,
    sourceType: 'HTTP',
    event,
    hops: 0,
    ...(isControlled(request, 'x-pd-nostore') ? { noStore: true } : {}),
  };
  if (isControlled(request, 'x-pd-notrigger')) {
    await starter.recordOnly(trigger);
    return sendSuccess(reply);
  }
  if (!endpoint.customResponse) {
    await starter.start(trigger);
    return sendSuccess(reply);
  }
  const answer = await starter.startAndAwait(trigger);
  if (answer.kind === 'responded') return sendHttpReply(reply, answer.reply);
  const text = answer.waits
    ? '$.respond() not called for this invocation'
    : 'No $.respond called in workflow';
  return reply.code(400).type('text/plain; charset=utf-8').send(text);
}

function sendSuccess(reply: FastifyReply): FastifyReply {
  return reply.code(200).type('text/html; charset=utf-8').send(successPage);
}
