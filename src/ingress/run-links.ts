import type { FastifyReply, FastifyRequest } from 'fastify';
import { CallerError } from '#lib/errors.ts';
import { messagePage, messagePageHeaders, prefersHtml } from '#lib/message-page.ts';
import type { LinkAction } from '#storage/tables/workflow-tables.ts';
import type { LinkAnswer, RunResumer } from '#workflows/runs/resume-by-link.ts';

/** The actions of resume and cancel URLs. */
export type LinkTarget = Pick<RunResumer, LinkAction>;

const done: Record<LinkAction, { status: string; title: string; text: string; before: string }> = {
  resume: {
    status: 'resumed',
    title: 'Resumed',
    text: 'The workflow continues. You can close this page.',
    before: 'The workflow continued with the first request',
  },
  cancel: {
    status: 'cancelled',
    title: 'Cancelled',
    text: 'The run was cancelled. You can close this page.',
    before: 'The first request cancelled the run',
  },
};

/**
 * Answers browsers (users click such links in mails) with a page, and programs with JSON. A link that was used before answers when that was,
 * with 200 so that a caller who lost the first answer can ask again; what the later request holds counts for nothing. Throws CallerError `not_found`, `run_over`.
 */
export function sendLinkOutcome(
  request: FastifyRequest,
  reply: FastifyReply,
  { action, answer }: { action: LinkAction; answer: LinkAnswer },
): FastifyReply {
  const { outcome } = answer;
  const usedAt = new Date(answer.usedAtMs ?? 0).toISOString();
  const wantsPage = prefersHtml(request.headers.accept);
  if (outcome === 'unknown') {
    if (wantsPage) return sendBrokenLink(reply);
    throw new CallerError('not_found', 'this link leads to no run: check that it is complete');
  }
  const why = tooLate(action, answer, usedAt);
  if (why !== undefined) {
    if (!wantsPage)
      throw new CallerError('run_over', why, outcome === 'other_done' ? { used_at: usedAt } : {});
    return sendPage(reply.code(410), 'Too late', `${why.charAt(0).toUpperCase()}${why.slice(1)}.`);
  }
  const { status, title, text, before } = done[action];
  if (outcome !== 'done_before') return wantsPage ? sendPage(reply, title, text) : reply.send({ status });
  if (!wantsPage) return reply.send({ status: `already_${status}`, [`${status}_at`]: usedAt });
  return sendPage(
    reply,
    `Already ${status}`,
    `This link was used before, at ${pageTime(usedAt)}. ${before}; yours changed nothing.`,
  );
}

/** `2026-11-23 14:05:09 UTC`. */
function pageTime(iso: string): string {
  return `${iso.slice(0, 19).replace('T', ' ')} UTC`;
}

/** Why the link no longer has an effect; undefined: it has, or had. */
function tooLate(action: LinkAction, { outcome }: LinkAnswer, usedAt: string): string | undefined {
  if (outcome === 'over') return 'the run no longer waits at this link: it has continued or ended';
  if (outcome !== 'other_done') return undefined;
  const did = action === 'resume' ? 'cancelled' : 'resumed';
  return `the run was ${did} before, at ${pageTime(usedAt)}, by the other link of this wait`;
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
