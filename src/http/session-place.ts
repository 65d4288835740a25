import type { FastifyRequest } from 'fastify';
import type { SessionPlace } from '#identity/sessions.ts';
import { userAgentFamily } from './user-agent-family.ts';

/** Where a session is used from, as it is listed. */
export function placeOf({ headers, ip }: FastifyRequest): SessionPlace {
  return { userAgent: userAgentFamily(headers['user-agent']), address: ip };
}
