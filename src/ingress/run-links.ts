import type { FastifyReply, FastifyRequest } from 'fastify';
import { CallerError } from '#lib/errors.ts';
import { messagePage, messagePageHeaders, prefersHtml } from '#lib/message-page.ts';
import type { LinkAction } from '#storage/tables/workflow-tables.ts';
import type { LinkOutcome, RunResumer } from '#workflows/runs/resume-by-link.ts';

/** The actions of resume and cancel URLs. */
export type LinkTarget = Pick<RunResumer, LinkAction>;

const done: Record<LinkAction, { status: string; title: string; text: string; before: string }> = {
  resume: {
    status: 'resumed',
    title: 'Resumed',
    text: 'The workflow continues. You can close this page.',
    before: 'This link was used before. The workflow continued then; nothing was done now.',
  },
  cancel: {
    status: 'cancelled',
    title: 'Cancelled',
    text: 'The run was cancelled. You can close this page.',
    before: 'This link was used before. The run was cancelled then; nothing was done now.',
  },
};

/**
 * Answers browsers (users click such links in mails) with a page, and programs with JSON. A link that was used before answers what it did
 * then. Throws CallerError `not_found`, `run_over`.
 */
export function sendLinkOutcome(
  request: FastifyRequest,
  reply: FastifyReply,
  { action, outcome }: { action: LinkAction; outcome: LinkOutcome },
): FastifyReply {
  const wantsPage = prefersHtml(request.headers.accept);
  if (outcome === 'unknown') {
    if (wantsPage) return sendBrokenLink(reply);
    throw new CallerError('not_found', 'this link leads to no run: check that it is complete');
  }
  const why = tooLate(action, outcome);
  if (why !== undefined) {
    if (!wantsPage) throw new CallerError('run_over', why);
    return sendPage(reply.code(410), 'Too late', `${why.charAt(0).toUpperCase()}${why.slice(1)}.`);
  }
  const { status, title, text, before } = done[action];
  if (!wantsPage) return reply.send({ status });
  return sendPage(reply, title, outcome === 'done_before' ? before : text);
}

/** Why the link no longer has an effect; undefined: it has, or had. */
function tooLate(action: LinkAction, outcome: LinkOutcome): string | undefined {
  if (outcome === 'over') return 'the run no longer waits at this link: it has continued or ended';
  if (outcome !== 'other_done') return undefined;
  return action === 'resume'
    ? 'the run was cancelled before, by the other link of this wait'
    : 'the run was resumed before, by the other link of this wait';
}

/** Also for the rest of a truncated link. */
export function sendBrokenLink(reply: FastifyReply): FastifyReply {
  return sendPage(
    reply.code(404),
    'Link not found',
    'This link leads to no workflow run. Check that it is complete: copy all of it from the message that it came in.',
  );
}

/** The reader may have no account here, so nothing leads on. */
function sendPage(reply: FastifyReply, title: string, text: string): FastifyReply {
  return reply.headers(messagePageHeaders).send(messagePage({ title, text }));
}
