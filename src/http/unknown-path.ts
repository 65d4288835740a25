import type { FastifyReply, FastifyRequest } from 'fastify';
import { CallerError } from '#lib/errors.ts';
import type { App } from './route-support.ts';

/** Answers requests that no route takes, before their body is read: 405 with Allow where other methods work, else 404. */
export function refuseUnknownPaths(app: App): void {
  const methodsByPath = new Map<string, Set<string>>();
  app.addHook('onRoute', (route) => {
    if (route.config?.page === true) return;
    const methods = methodsByPath.get(route.url) ?? new Set();
    for (const method of [route.method].flat()) methods.add(method);
    methodsByPath.set(route.url, methods);
  });
  app.addHook('onRequest', async (request, reply) => {
    if (request.is404) refuse(request, reply, methodsByPath);
  });
  // Never reached with the hook above; without it Fastify would have an answer of its own.
  app.setNotFoundHandler((request, reply) => refuse(request, reply, methodsByPath));
}

function refuse(
  request: FastifyRequest,
  reply: FastifyReply,
  methodsByPath: ReadonlyMap<string, ReadonlySet<string>>,
): never {
  const path = segmentsOf(request.url.split('?', 1)[0] ?? '');
  const allowed = new Set<string>();
  for (const [pattern, methods] of methodsByPath) {
    if (matches(segmentsOf(pattern), path)) for (const method of methods) allowed.add(method);
  }
  if (allowed.size === 0) {
    throw new CallerError('unknown_path', 'no operation has this path; /openapi.json lists them all');
  }
  const allow = [...allowed].sort().join(', ');
  reply.header('allow', allow);
  throw new CallerError('method_not_allowed', `this path takes ${allow}`, { method: request.method });
}

function segmentsOf(path: string): string[] {
  return path.replace(/\/$/, '').split('/').slice(1);
}

function matches(pattern: readonly string[], path: readonly string[]): boolean {
  if (pattern.at(-1) === '*' ? path.length < pattern.length : path.length !== pattern.length) return false;
  return pattern.every(
    (segment, index) =>
      segment === '*' || segment === path[index] || (segment.startsWith(':') && path[index] !== ''),
  );
}
