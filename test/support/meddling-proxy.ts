import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What happens around a request: before it is sent on, and, when it was carried out, in the place of its answer. */
export interface Meddling {
  before?: () => Promise<void>;
  /** The connection ends without an answer, as when the service dies after the commit. */
  insteadOfAnswer?: () => void;
}

/** Stands between a command and the service, and meddles with the requests that a test names. */
export class MeddlingProxy {
  readonly url: string;
  readonly close: () => Promise<void>;
  /** For the next request whose `METHOD /path` matches. */
  next: { request: RegExp; meddling: Meddling } | undefined;

  private constructor(url: string, close: () => Promise<void>) {
    this.url = url;
    this.close = close;
  }

  static async start(serviceUrl: string): Promise<MeddlingProxy> {
    const server = createServer((request, response) => {
      pass(proxy, serviceUrl, request, response).catch(() => response.destroy());
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const proxy = new MeddlingProxy(
      `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      async () => {
        server.closeAllConnections();
        server.close();
        await once(server, 'close');
      },
    );
    return proxy;
  }
}

async function pass(
  proxy: MeddlingProxy,
  serviceUrl: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { method = 'GET', url = '/', headers } = request;
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const { next } = proxy;
  const isMet = next?.request.test(`${method} ${url}`) === true;
  if (isMet) proxy.next = undefined;
  const meddling = isMet ? next?.meddling : undefined;
  await meddling?.before?.();
  const { authorization = '', 'content-type': type } = headers;
  const answer = await fetch(`${serviceUrl}${url}`, {
    method,
    headers: { authorization, ...(type === undefined ? {} : { 'content-type': type }) },
    ...(chunks.length === 0 ? {} : { body: Buffer.concat(chunks) }),
  });
  const body = Buffer.from(await answer.arrayBuffer());
  if (meddling?.insteadOfAnswer !== undefined) {
    meddling.insteadOfAnswer();
    response.destroy();
    return;
  }
  response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' });
  response.end(body);
}
