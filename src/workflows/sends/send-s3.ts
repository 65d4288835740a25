import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { isBucketName } from '#config/bucket-name.ts';
import { type ObjectStorage, reasonOfFailure, requestObject } from '#egress/object-storage.ts';
import type { RunSendTable } from '#storage/tables/workflow-tables.ts';
import { optionalText, requiredText, SendError, type SendOutcome, sendArgument } from './run-send.ts';

const compress = promisify(gzip);
const timeoutMs = 30_000;
const answerBytesMax = 1024;
const prefixCharactersMax = 500;

/** Where sends go. No workflow writes to `ownBucket`, which has the files of the instance; '': it has none. */
export type SendStorage = ObjectStorage & { ownBucket: string };

/**
 * `$.send.s3`: `{ bucket, prefix, payload }` becomes the gzipped line of JSON `<prefix>/YYYY/MM/DD/HH/<time>-<run>-<n>.gz`,
 * with the time at which the step that requested it ended. Each send is an object of its own (the original gathers them for a minute).
 * Its name is the same when it is sent once more after a crash, so that it is there once.
 */
export async function sendS3(
  storage: SendStorage | undefined,
  send: Pick<RunSendTable, 'payload' | 'run_id' | 'number' | 'created_at_ms'>,
  signal: AbortSignal,
): Promise<SendOutcome> {
  if (storage === undefined)
    throw new SendError('no object storage is set: MILLRACE_S3_ACCESS_KEY, MILLRACE_S3_SECRET_KEY');
  const argument = sendArgument(send.payload);
  const bucket = requiredText(argument, 'bucket');
  if (!isBucketName(bucket))
    throw new SendError(`bucket: ${JSON.stringify(bucket.slice(0, 100))} is not the name of a bucket`);
  if (bucket === storage.ownBucket)
    throw new SendError(
      `bucket: ${JSON.stringify(bucket)} has the files of the instance; use another bucket`,
    );
  // Looked at before anything else: taking slashes off takes time that grows with the square of a long text.
  const given = optionalText(argument, 'prefix') ?? '';
  const prefix = given.length > prefixCharactersMax ? undefined : given.replace(/^\/+|\/+$/g, '');
  // Dots would be taken for a way up by what parses the URL.
  if (prefix === undefined || prefix.split('/').some((part) => /^\.{1,2}$/.test(part)))
    throw new SendError(`prefix: expected at most ${prefixCharactersMax} characters, and no part . or ..`);
  // Half a surrogate pair has no URL form.
  if (!prefix.isWellFormed()) throw new SendError('prefix: is not well-formed Unicode');
  if (argument.payload === undefined) throw new SendError('payload: required');
  const iso = new Date(send.created_at_ms).toISOString();
  const hour = iso.slice(0, 13).replaceAll(/[-T]/g, '/');
  const second = iso.slice(0, 19).replaceAll(/[T:]/g, '-');
  const key = `${prefix === '' ? '' : `${prefix}/`}${hour}/${second}-${send.run_id}-${send.number}.gz`;
  const body = await compress(`${JSON.stringify(argument.payload)}\n`);
  try {
    const answer = await requestObject(storage, {
      method: 'PUT',
      ...{ bucket, key, body },
      headers: { 'content-type': 'application/x-ndjson', 'content-encoding': 'gzip' },
      maxBytes: answerBytesMax,
      onOverflow: 'truncate',
      timeoutMs,
      signal,
    });
    const { status } = answer;
    if (status >= 200 && status < 300) return { state: 'sent', result: { status, bucket, key } };
    const text = answer.body.toString('utf8').replaceAll('\0', '');
    return { state: 'failed', result: { status, bucket, key, body: text } };
  } catch (error) {
    signal.throwIfAborted();
    const reason = `object storage: ${reasonOfFailure(error)}`;
    return { state: 'failed', result: { error: reason, bucket, key } };
  }
}
