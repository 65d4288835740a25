import { createHash } from 'node:crypto';
import { AwsV4Signer } from 'aws4fetch';
import { toError } from '#lib/errors.ts';
import { EgressError } from './egress-error.ts';
import type { GuardedDispatcher } from './guarded-dispatcher.ts';
import { type GuardedResponse, guardedFetch } from './guarded-fetch.ts';

/** Object storage of the instance, with the S3 protocol. */
export interface ObjectStorage {
  /** '' is that of AWS in the region. */
  endpoint: string;
  region: string;
  accessKey: string;
  secretKey: string;
  /** Reaches what the operator named, private addresses too; which host that is, no user can say. */
  dispatcher: GuardedDispatcher;
}

export interface ObjectRequest {
  method: 'GET' | 'PUT' | 'DELETE';
  bucket: string;
  /** Undefined: the request is about the bucket itself. */
  key?: string;
  query?: Readonly<Record<string, string>>;
  headers?: Readonly<Record<string, string>>;
  body?: Uint8Array;
  /** Largest answer, and what happens to a larger one, as for `guardedFetch`. */
  maxBytes: number;
  onOverflow?: 'error' | 'truncate';
  timeoutMs: number;
  signal?: AbortSignal;
}

export function endpointOf({ endpoint, region }: Pick<ObjectStorage, 'endpoint' | 'region'>): string {
  return endpoint.replace(/\/+$/, '') || `https://s3.${region}.amazonaws.com`;
}

/** One signed request, by path (`<endpoint>/<bucket>/<key>`). Resolves with any status; rejects as `guardedFetch` does. */
export async function requestObject(
  storage: ObjectStorage,
  request: ObjectRequest,
): Promise<GuardedResponse> {
  const { method, bucket, key, query, headers, body, signal, ...limits } = request;
  const path = key === undefined ? '' : `/${key.split('/').map(encodeURIComponent).join('/')}`;
  const search = query === undefined ? '' : `?${new URLSearchParams(query)}`;
  const signed = await new AwsV4Signer({
    method,
    url: `${endpointOf(storage)}/${bucket}${path}${search}`,
    headers: {
      ...headers,
      'x-amz-content-sha256': createHash('sha256')
        .update(body ?? '')
        .digest('hex'),
    },
    accessKeyId: storage.accessKey,
    secretAccessKey: storage.secretKey,
    service: 's3',
    region: storage.region,
  }).sign();
  return guardedFetch(signed.url.href, {
    ...limits,
    dispatcher: storage.dispatcher,
    method,
    headers: Object.fromEntries(signed.headers),
    ...(body === undefined ? {} : { body }),
    ...(signal === undefined ? {} : { signal }),
    maxRedirects: 0,
  });
}

/**
 * Why `requestObject` rejected, for users: the message of a connection that failed, which names the place or the proxy. Others could have the URL,
 * which names the object, or a header with the access key: of those only the code is told.
 */
export function reasonOfFailure(error: unknown): string {
  const code = String(Object(error).code ?? '');
  const message = toError(error).message.slice(0, 300);
  if (code === 'ETIMEDOUT' && !message.startsWith('connect ')) return 'it did not answer in time';
  if (error instanceof EgressError) return message;
  const isOfConnection = /^(?:E[A-Z]{3,20}|EAI_[A-Z]+|[A-Z_]*CERT[A-Z_]*|DEPTH_ZERO_\w+)$/.test(code);
  if (isOfConnection) return message;
  return code === '' ? 'the request could not be made' : code;
}
