import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyReply } from 'fastify';
import type { EndpointAnswer } from '#idempotency/kept-answer.ts';
import type { KeptAnswers } from '#idempotency/kept-answers.ts';
import type { RequestKey } from '#idempotency/request-key.ts';
import { CallerError } from '#lib/errors.ts';
import type { RunReply, RunTrigger } from '#workflows/runs/run.ts';
import type { RunStarter } from '#workflows/runs/start-run.ts';
import { isControlled } from './request-controls.ts';
import type { EndpointRequest } from './request-event.ts';
import type { WorkflowEndpoint } from './resolve-endpoint.ts';

export type WorkflowStarter = Pick<RunStarter, 'start' | 'startAndAwait' | 'recordOnly'>;

/** Access tokens of OAuth clients, for triggers that take those. */
export interface AccessTokens {
  /** True when the token is valid and belongs to a client of this workspace. */
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

/** Compared as hashes, in constant time: the time that it takes reveals neither the token nor its length. */
function isSameToken(given: string, token: string): boolean {
  return timingSafeEqual(sha256(given), sha256(token));
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** Makes a run of the request; how it is answered. Undefined: a request with its key was taken before. */
export async function takeByWorkflow(
  { starter, answers }: { starter: WorkflowStarter; answers: Pick<KeptAnswers, 'record'> },
  endpoint: WorkflowEndpoint,
  {
    request,
    event,
    key,
    onRun,
  }: {
    request: EndpointRequest;
    event: string;
    key: RequestKey | undefined;
    /** Gets the id of the run before its answer is sent. */
    onRun: (runId: string) => void;
  },
): Promise<EndpointAnswer | undefined> {
  const trigger: RunTrigger = {
    workflowId: endpoint.workflowId,
    ownerId: endpoint.ownerId,
    deploymentId: endpoint.deploymentId,
    flowControl: endpoint.flowControl,
    emitterId: endpoint.triggerId,
    sourceType: 'HTTP',
    event,
    hops: 0,
    ...(isControlled(request, 'x-pd-nostore') ? { noStore: true } : {}),
  };
  if (isControlled(request, 'x-pd-notrigger')) {
    const { repeated } = await starter.recordOnly(trigger, key);
    return repeated ? undefined : { kind: 'accepted' };
  }
  if (!endpoint.customResponse) {
    const { repeated, runId } = await starter.start(trigger, key);
    if (!repeated) onRun(runId);
    return repeated ? undefined : { kind: 'accepted' };
  }
  const outcome = await starter.startAndAwait(trigger, key);
  if (outcome === undefined) return undefined;
  const { runId, ...reply } = outcome;
  onRun(runId);
  const answer = answerOf(reply);
  if (key !== undefined)
    await answers.record({ ...key, jobId: runId }, answer, { isPrivate: trigger.noStore === true });
  return answer;
}

function answerOf(reply: RunReply): EndpointAnswer {
  if (reply.kind === 'responded') return reply;
  return { kind: 'ended', waits: reply.waits, ...(reply.state === 'failed' ? { failed: true } : {}) };
}
