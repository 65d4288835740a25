import type { FastifyReply, FastifyRequest } from 'fastify';
import { CallerError } from '#lib/errors.ts';
import type { App } from './route-support.ts';

/** Answers requests that no route takes, before their body is read: 405 with Allow where other methods work, else 404. */
export function refuseUnknownPaths(app: App): void {
  const byUrl = new Map<string, KnownPath>();
  app.addHook('onRoute', ({ url, method, config }) => {
    if (config?.page === true) return;
    const known = byUrl.get(url) ?? { segments: segmentsOf(url), methods: new Set() };
    for (const name of [method].flat()) known.methods.add(name);
    byUrl.set(url, known);
  });
  app.addHook('onRequest', async (request, reply) => {
    if (request.is404) refuse(request, reply, byUrl);
  });
  // Never reached with the hook above; without it Fastify would have an answer of its own.
  app.setNotFoundHandler((request, reply) => refuse(request, reply, byUrl));
}

interface KnownPath {
  segments: readonly string[];
  methods: Set<string>;
}

function refuse(request: FastifyRequest, reply: FastifyReply, byUrl: ReadonlyMap<string, KnownPath>): never {
  const path = segmentsOf(request.url.split('?', 1)[0] ?? '');
  const allowed = new Set<string>();
  for (const { segments, methods } of byUrl.values()) {
    if (matches(segments, path)) for (const method of methods) allowed.add(method);
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
