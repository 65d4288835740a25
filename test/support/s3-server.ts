import { awsSignatures } from './aws-signature.ts';
import { HttpReceiver, type ReceivedRequest, type ReceiverAnswer } from './http-receiver.ts';

/** What happens to a request instead of an answer to it: an answer of its own, or none at all. */
export type S3Fault = (request: ReceivedRequest) => ReceiverAnswer | 'hang' | undefined;

const region = 'eu-test-1';
const accessKey = 'the-access-key';
const secretKey = 'the-secret-of-the-bucket';
/** Signatures are good for this long after their date, as at AWS. */
const signatureMs = 15 * 60_000;

/** Object storage with the S3 protocol on 127.0.0.1: one bucket, in memory. It checks the signature of every request. */
export class S3Server implements AsyncDisposable {
  /** By their keys. */
  readonly objects = new Map<string, { body: Buffer; writtenAtMs: number }>();
  readonly bucket = 'the-bucket';
  readonly #receiver: HttpReceiver;
  /** Keys on a page of a list. */
  pageSize = 1000;
  fault: S3Fault = () => undefined;

  private constructor(receiver: HttpReceiver) {
    this.#receiver = receiver;
  }

  static async start(): Promise<S3Server> {
    const receiver = await HttpReceiver.start();
    const server = new S3Server(receiver);
    receiver.answerAlways((request) => {
      const fault = server.fault(request);
      if (fault === 'hang') return new Promise<undefined>(() => {});
      return fault ?? server.#answer(request);
    });
    return server;
  }

  get url(): string {
    return this.#receiver.url;
  }

  get requests(): readonly ReceivedRequest[] {
    return this.#receiver.requests;
  }

  get connection() {
    return { endpoint: this.url, region, accessKey, secretKey };
  }

  /** The settings of a service that keeps its files here. */
  get environment(): Record<string, string> {
    return {
      MILLRACE_FILES: 's3',
      MILLRACE_FILES_BUCKET: this.bucket,
      MILLRACE_S3_ENDPOINT: this.url,
      MILLRACE_S3_REGION: region,
      MILLRACE_S3_ACCESS_KEY: accessKey,
      MILLRACE_S3_SECRET_KEY: secretKey,
    };
  }

  /** Keys of chunks of files, without what the service itself writes. */
  chunkKeys(): string[] {
    return [...this.objects.keys()].filter((key) => /\/file_\w+\/\d+$/.test(key)).sort();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#receiver.close();
  }

  #answer(request: ReceivedRequest): ReceiverAnswer {
    const { sent, expected, scope } = awsSignatures(request, secretKey);
    if (sent !== expected || !scope.endsWith(`/${region}/s3/aws4_request`))
      return refused(403, 'SignatureDoesNotMatch');
    if (Math.abs(Date.now() - signedAt(request)) > signatureMs) return refused(403, 'RequestTimeTooSkewed');
    const url = new URL(request.url, this.url);
    const [, bucket = '', ...parts] = url.pathname.split('/').map(decodeURIComponent);
    if (bucket !== this.bucket) return refused(404, 'NoSuchBucket');
    if (parts.length === 0) return this.#list(url.searchParams);
    const key = parts.join('/');
    switch (request.method) {
      case 'PUT':
        this.objects.set(key, { body: request.body, writtenAtMs: Date.now() });
        return { status: 200 };
      case 'DELETE':
        this.objects.delete(key);
        return { status: 204 };
      case 'GET': {
        const found = this.objects.get(key);
        return found === undefined ? refused(404, 'NoSuchKey') : { status: 200, body: found.body };
      }
      default:
        return refused(405, 'MethodNotAllowed');
    }
  }

  #list(query: URLSearchParams): ReceiverAnswer {
    const prefix = query.get('prefix') ?? '';
    // A token as real ones are: with characters that URLs and XML write differently.
    const token = query.get('continuation-token');
    const after = token === null ? '' : Buffer.from(token.slice(2), 'base64').toString();
    const keys = [...this.objects.keys()].filter((key) => key.startsWith(prefix) && key > after).sort();
    const page = keys.slice(0, this.pageSize);
    const isTruncated = page.length < keys.length;
    const next = `&+${Buffer.from(page.at(-1) ?? '').toString('base64')}`;
    const contents = page.map((key) => {
      const at = new Date(this.objects.get(key)?.writtenAtMs ?? 0).toISOString();
      return `<Contents><Key>${escaped(key)}</Key><LastModified>${at}</LastModified></Contents>`;
    });
    const end = isTruncated ? `<NextContinuationToken>${escaped(next)}</NextContinuationToken>` : '';
    return {
      headers: { 'content-type': 'application/xml' },
      body: `<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult><IsTruncated>${isTruncated}</IsTruncated>${contents.join('')}${end}</ListBucketResult>`,
    };
  }
}

function refused(status: number, code: string): ReceiverAnswer {
  return { status, body: `<?xml version="1.0"?><Error><Code>${code}</Code><Message>no</Message></Error>` };
}

function signedAt(request: ReceivedRequest): number {
  const date = String(request.headers['x-amz-date']);
  return Date.parse(date.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'));
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
