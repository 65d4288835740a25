import type { FastifyInstance, FastifyRequest } from 'fastify';
import { inSpan, type Span } from '#telemetry/span.ts';
import type { Tracer } from '#telemetry/tracer.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Undefined when tracing is off, and for requests that are not traced. */
    span: Span | undefined;
  }
}

/**
 * Has each request to the API and to endpoints carried out in a span: below the one that its `traceparent` names, else at the root of a
 * new trace. To be called before other hooks are added. When tracing is off, requests pass no further hook.
 */
export function traceRequests(app: FastifyInstance, tracer: Tracer): void {
  app.decorateRequest('span', undefined);
  if (!tracer.isOn) return;
  app.addHook('onRequest', (request, _reply, done) => {
    if (isTraced(request)) request.span = startRequestSpan(tracer, request);
    inSpan(request.span, done);
  });
  // Reading the body has left the context of the request.
  app.addHook('preValidation', (request, _reply, done) => inSpan(request.span, done));
  app.addHook('onResponse', (request, reply, done) => {
    const { span } = request;
    if (span === undefined) return done();
    const status = reply.statusCode;
    if (status >= 500) span.fail(`the request was answered with ${status}`);
    span.end({ 'http.response.status_code': status });
    return inSpan(span, done);
  });
  app.addHook('onRequestAbort', (request, done) => {
    request.span?.fail('the caller closed the connection before the answer');
    request.span?.end();
    done();
  });
}

function startRequestSpan(tracer: Tracer, request: FastifyRequest): Span | undefined {
  const { method, routeOptions, id, headers } = request;
  const route = routeOptions.url;
  return tracer.start(
    {
      name: `${method} ${route}`,
      kind: 'server',
      // The pattern, never the path: paths hold keys of endpoints and tokens of links.
      attributes: { 'http.request.method': method, 'http.route': route, 'millrace.request.id': id },
    },
    headers.traceparent,
  );
}

/** Streams are open for days, and health, metrics, the manual and files of the dashboard cause no work. */
function isTraced({ routeOptions }: FastifyRequest): boolean {
  const { url, config, schema } = routeOptions;
  if (url === undefined || schema?.produces?.includes('text/event-stream') === true) return false;
  return config.userContent === true || url.startsWith('/v1/');
}
