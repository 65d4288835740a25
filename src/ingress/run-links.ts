import type { FastifyReply, FastifyRequest } from 'fastify';
import { CallerError } from '#lib/errors.ts';
import type { ResumeOutcome, ResumeRequest, RunResumer } from '#runs/resume-run.ts';

/** What resume and cancel URLs lead to. */
export type LinkTarget = Pick<RunResumer, 'resume' | 'cancel'>;

export type LinkAction = keyof LinkTarget;

/** Undefined when this cannot be a link of ours. A workflow has at most 100 steps, so there are as many places. */
export function readRunLink(params: {
  run: string;
  position: string;
  token: string;
}): Omit<ResumeRequest, 'request'> | undefined {
  const { run, position, token } = params;
  if (!/^[0-9A-Za-z]{27}$/.test(run) || !/^\d{1,2}$/.test(position)) return undefined;
  if (!/^[0-9A-Za-z]{16,64}$/.test(token)) return undefined;
  return { runId: run, position: Number(position), token };
}

const done: Record<LinkAction, { status: string; title: string; text: string }> = {
  resume: { status: 'resumed', title: 'Resumed', text: 'The workflow goes on.' },
  cancel: { status: 'cancelled', title: 'Cancelled', text: 'The run was cancelled.' },
};

/** Answers people (who click such links in mails) with a page, and programs with JSON. Throws CallerError `not_found`. */
export function sendLinkOutcome(
  request: FastifyRequest,
  reply: FastifyReply,
  { action, outcome }: { action: LinkAction; outcome: ResumeOutcome },
): FastifyReply {
  if (outcome === 'unknown') {
    throw new CallerError('not_found', 'this link leads to no run: check that it is complete');
  }
  const wantsPage = prefersHtml(request.headers.accept);
  if (outcome === 'over') {
    const text = 'the run does not wait here any more: it has gone on, or ended';
    if (!wantsPage) throw new CallerError('run_over', text);
    return sendPage(reply.code(410), 'Too late', `This link was used before, or ${text}.`);
  }
  const { status, title, text } = done[action];
  if (!wantsPage) return reply.send({ status });
  return sendPage(reply, title, text);
}

function sendPage(reply: FastifyReply, title: string, text: string): FastifyReply {
  return reply.type('text/html; charset=utf-8').send(`<p><b>${title}</b></p>\n<p>${text}</p>\n`);
}

/** Browsers name text/html; programs name JSON, or nothing in particular. */
function prefersHtml(accept: string | undefined): boolean {
  return accept?.toLowerCase().includes('text/html') === true;
}
