import { createHash, createHmac } from 'node:crypto';
import type { ReceivedRequest } from './http-receiver.ts';

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest('hex');
const hmac = (key: string | Buffer, data: string) => createHmac('sha256', key).update(data).digest();

/**
 * The signature (AWS Signature Version 4) that a request with its own signed headers would have under this secret:
 * https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html. Also answers the one it has.
 */
export function awsSignatures(
  request: ReceivedRequest,
  secretKey: string,
): { sent: string; expected: string; scope: string } {
  const authorization = request.headers.authorization ?? '';
  const part = (name: string) => new RegExp(`${name}=([^, ]+)`).exec(authorization)?.[1] ?? '';
  const [, ...scopeParts] = part('Credential').split('/');
  const [day = '', region = '', service = ''] = scopeParts;
  const [path = '', query = ''] = request.url.split('?');
  const signedHeaders = part('SignedHeaders');
  const canonical = [
    request.method,
    path,
    query.split('&').sort().join('&'),
    ...signedHeaders.split(';').map((name) => `${name}:${String(request.headers[name]).trim()}`),
    '',
    signedHeaders,
    sha256(request.body),
  ].join('\n');
  const scope = scopeParts.join('/');
  const toSign = ['AWS4-HMAC-SHA256', request.headers['x-amz-date'], scope, sha256(canonical)].join('\n');
  const key = [day, region, service, 'aws4_request'].reduce<string | Buffer>(hmac, `AWS4${secretKey}`);
  return { sent: part('Signature'), expected: hmac(key, toSign).toString('hex'), scope };
}
