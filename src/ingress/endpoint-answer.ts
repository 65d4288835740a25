import type { FastifyReply } from 'fastify';
import type { EndpointAnswer } from '#idempotency/kept-answer.ts';
import type { FoundKey, KeptAnswers } from '#idempotency/kept-answers.ts';
import { CallerError } from '#lib/errors.ts';
import { endpointRemoved } from '#sources/endpoint-errors.ts';
import { sendHttpReply } from './endpoint-reply.ts';
import type { Endpoint, EndpointDirectory } from './resolve-endpoint.ts';

/** On each answer of a workflow that a request has started. The id is of use only with the rights to read the run. */
export const runIdHeader = 'x-millrace-run-id';

/** The page for a caller whose request became a run; it holds no data of any owner. */
const successPage =
  '<p><b>Success!</b></p>\n<p>The workflow got this request. To answer with something else, set Custom response in its trigger (<code>custom_response</code>), and respond in a step: with the action Respond to the HTTP request, or with <code>$.respond()</code> in code.</p>\n';

/** Sends the answer of an endpoint: the first time, and when the request is repeated. */
export function sendAnswer(reply: FastifyReply, endpoint: Endpoint, answer: EndpointAnswer): FastifyReply {
  return endpoint.kind === 'source' ? sendSourceAnswer(reply, answer) : sendWorkflowAnswer(reply, answer);
}

function sendSourceAnswer(reply: FastifyReply, answer: EndpointAnswer): FastifyReply {
  if (answer.kind === 'accepted')
    return reply.header('access-control-allow-origin', '*').send({ success: true });
  if (answer.kind === 'responded') return sendHttpReply(reply, answer.reply);
  return reply.code(500).send({
    error: answer.waits
      ? 'no response came in time; the run of this request waits for its turn, or is still under way'
      : 'the component did not respond to this request',
    code: 'no_response',
    // The caller may be a stranger to the owner: no ids.
    details: {},
  });
}

/** Sends the answer of a workflow (platform facts, 4.2 and 4.3). */
function sendWorkflowAnswer(reply: FastifyReply, answer: EndpointAnswer): FastifyReply {
  if (answer.kind === 'accepted') return reply.code(200).type('text/html; charset=utf-8').send(successPage);
  if (answer.kind === 'responded') return sendHttpReply(reply, answer.reply);
  const text = answer.waits
    ? '$.respond() not called for this invocation'
    : `No $.respond called in workflow${answer.failed === true ? `\n${failureLine(reply)}` : ''}`;
  return reply.code(400).type('text/plain; charset=utf-8').send(text);
}

/** A second line, so that clients that look for the first one find it. The caller gets no more than the header tells already. */
function failureLine(reply: FastifyReply): string {
  const runId = reply.getHeader(runIdHeader);
  return typeof runId === 'string' ? `Run ${runId} failed` : 'The run failed';
}

/** Answers a request whose key was taken before as that was answered; nothing runs. */
export async function answerRepeated(
  {
    answers,
    directory,
  }: { answers: Pick<KeptAnswers, 'answerOf'>; directory: Pick<EndpointDirectory, 'isRemoved'> },
  endpoint: Endpoint,
  { known, requestDigest, reply }: { known: FoundKey; requestDigest: string; reply: FastifyReply },
): Promise<FastifyReply> {
  if (known.requestDigest !== requestDigest) throw idempotencyConflict();
  const answer = await answers.answerOf(known);
  // The run of the first request was ended by the deletion, and its key is removed with it.
  if ((answer === undefined || answer.kind === 'ended') && (await directory.isRemoved(endpoint)))
    throw endpointRemoved(endpoint.kind);
  if (answer === undefined) throw inProgress(reply);
  if (answer.kind === 'not_kept') return sendNotKept(reply, answer.status);
  return sendAnswer(reply.header(replayedHeader, 'true'), endpoint, answer);
}

/** On each answer that was given before. */
export const replayedHeader = 'idempotency-replayed';

/** Answers a repeated request with the status of the first reply, of which nothing else is kept. */
export function sendNotKept(reply: FastifyReply, status: number): FastifyReply {
  return reply.header(replayedHeader, 'true').code(status).send({
    error: 'the request was taken, and its reply is not kept',
    code: 'reply_not_kept',
    details: {},
  });
}

export function idempotencyConflict(): CallerError {
  return new CallerError(
    'idempotency_conflict',
    'Idempotency-Key: used before for a request with another method, path, query or body, expected a new key',
    { parameter: 'Idempotency-Key' },
  );
}

/** Seconds after which it is worth asking for the answer again. */
const tryAgainSeconds = '5';

export function inProgress(reply: FastifyReply): CallerError {
  reply.header('retry-after', tryAgainSeconds);
  return new CallerError(
    'in_progress',
    'a request with this Idempotency-Key is being worked on; send it again later for its answer',
  );
}
