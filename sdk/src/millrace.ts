import type { EventStream } from './event-stream.ts';
import { Resources } from './generated/resources.ts';
import type { Paged } from './paged.ts';
import type { RequestOptions, StreamOptions } from './request-options.ts';
import { type ApiRequest, type MillraceOptions, Transport } from './transport.ts';

export { EventStream, type StreamedEvent, type StreamMessage } from './event-stream.ts';
export type * from './generated/api-types.ts';
export {
  type ErrorCode,
  MillraceConnectionError,
  MillraceError,
  MillraceTimeoutError,
} from './millrace-error.ts';
export { type Page, Paged } from './paged.ts';
export type { RequestOptions, StreamOptions } from './request-options.ts';
export { type ApiRequest, type MillraceOptions, pathOf } from './transport.ts';
export {
  type VerifyWebhookOptions,
  verifyWebhook,
  type WebhookRequest,
  WebhookVerificationError,
} from './verify-webhook.ts';
export { clientVersion } from './version.ts';

/**
 * A client of one Millrace service, as one user or one workspace. It keeps no connection open and needs no end.
 *
 * ```ts
 * const client = new Millrace({ url: 'https://events.example.com', apiKey });
 * for await (const source of client.sources.list()) console.log(source.id, source.name);
 * ```
 *
 * Fields of bodies, queries and answers have the names that the API gives them. Throws TypeError for options that do not go
 * together.
 */
export class Millrace extends Resources {
  readonly #transport: Transport;

  constructor(options: MillraceOptions) {
    const transport = new Transport(options);
    super(transport);
    this.#transport = transport;
  }

  /**
   * The JSON answer to any request, whole, for operations that this version of the client does not know; undefined where the
   * answer has no body.
   *
   * @param request its `path` begins with `/v1/`; ids in it are encoded, as `pathOf` does
   */
  request<Answer = unknown>(request: ApiRequest, options: RequestOptions = {}): Promise<Answer> {
    return this.#transport.answer<Answer>(request, options);
  }

  /** The list at any path, as `request` is for other operations. */
  list<Item = unknown>(request: ApiRequest, options: RequestOptions = {}): Paged<Item> {
    return this.#transport.paged<Item>(request, options);
  }

  /** The live stream at any path, as `request` is for other operations. */
  stream<Data = unknown>(request: ApiRequest, options: StreamOptions = {}): EventStream<Data> {
    return this.#transport.stream<Data>(request, options);
  }
}
