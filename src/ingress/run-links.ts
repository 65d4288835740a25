import type { FastifyReply, FastifyRequest } from 'fastify';
import { CallerError } from '#lib/errors.ts';
import type { LinkOutcome, RunResumer } from '#runs/resume-run.ts';
import type { LinkAction } from '#runs/run-link.ts';

/** What resume and cancel URLs lead to. */
export type LinkTarget = Pick<RunResumer, LinkAction>;

const done: Record<LinkAction, { status: string; title: string; text: string; before: string }> = {
  resume: {
    status: 'resumed',
    title: 'Resumed',
    text: 'The workflow goes on.',
    before: 'This link was used before: the workflow went on then, and nothing was done now.',
  },
  cancel: {
    status: 'cancelled',
    title: 'Cancelled',
    text: 'The run was cancelled.',
    before: 'This link was used before: the run was cancelled then, and nothing was done now.',
  },
};

/**
 * Answers people (who click such links in mails) with a page, and programs with JSON. A link that was used before answers what it did
 * then. Throws CallerError `not_found`, `run_over`.
 */
export function sendLinkOutcome(
  request: FastifyRequest,
  reply: FastifyReply,
  { action, outcome }: { action: LinkAction; outcome: LinkOutcome },
): FastifyReply {
  if (outcome === 'unknown') {
    throw new CallerError('not_found', 'this link leads to no run: check that it is complete');
  }
  const wantsPage = prefersHtml(request.headers.accept);
  const why = tooLate(action, outcome);
  if (why !== undefined) {
    if (!wantsPage) throw new CallerError('run_over', why);
    return sendPage(reply.code(410), 'Too late', `${why.charAt(0).toUpperCase()}${why.slice(1)}.`);
  }
  const { status, title, text, before } = done[action];
  if (!wantsPage) return reply.send({ status });
  return sendPage(reply, title, outcome === 'done_before' ? before : text);
}

/** Why the link does nothing any more; undefined: it does, or did. */
function tooLate(action: LinkAction, outcome: LinkOutcome): string | undefined {
  if (outcome === 'over') return 'the run does not wait here any more: it has gone on, or ended';
  if (outcome !== 'other_done') return undefined;
  return action === 'resume'
    ? 'the run was cancelled before, by the other link of this wait'
    : 'the run was resumed before, by the other link of this wait';
}

function sendPage(reply: FastifyReply, title: string, text: string): FastifyReply {
  return reply.type('text/html; charset=utf-8').send(`<p><b>${title}</b></p>\n<p>${text}</p>\n`);
}

/** Browsers name text/html; programs name JSON, or nothing in particular. */
function prefersHtml(accept: string | undefined): boolean {
  return accept?.toLowerCase().includes('text/html') === true;
}
