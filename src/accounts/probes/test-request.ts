import type { AppDefinition } from '#accounts/apps/app-definition.ts';
import { fieldsOf, fillTemplate } from '#accounts/apps/fill-template.ts';
import { makeRedactor, secretValues } from '#vault/redact.ts';
import {
  codeOf,
  ProbeFailure,
  type ProbeOptions,
  type Sign,
  type TestOutcome,
  type TestRequestOptions,
  UnfitCredentials,
} from './account-probe.ts';
import { probeGreeting } from './probe-greeting.ts';
import { probeHttp } from './probe-http.ts';
import { probePostgresql } from './probe-postgresql.ts';

/** For everything that a test does together. */
const testTimeoutMs = 15_000;
const messageCharactersMax = 300;

/**
 * Tests credentials as the app's definition says; undefined when it says nothing. Every connection is vetted. Rejects
 * only with the reason of `signal`.
 */
export async function testAccount(
  options: TestRequestOptions,
  account: {
    app: AppDefinition;
    credentials: Readonly<Record<string, unknown>>;
    /** Signs the request of an OAuth 1 account. */
    sign?: Sign;
  },
  signal?: AbortSignal,
): Promise<TestOutcome | undefined> {
  const { app, credentials, sign } = account;
  const { test } = app;
  if (test === undefined) return undefined;
  // Every request of OAuth 1 has to be signed; one that is not is refused whatever the account is.
  if (test.kind === 'http' && app.oauth?.version === 1 && sign === undefined) return undefined;
  const values = { ...credentials, ...fieldsOf(app, credentials) };
  const formValues = Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      typeof value === 'string' ? encodeURIComponent(value.toWellFormed()) : value,
    ]),
  );
  const timeout = AbortSignal.timeout(testTimeoutMs);
  const probeOptions: ProbeOptions = {
    ...options,
    sign,
    signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
    fill: (template, mode) => {
      try {
        return mode === 'form'
          ? fillTemplate(template, formValues, 'text')
          : fillTemplate(template, values, mode);
      } catch (cause) {
        throw new UnfitCredentials((cause as Error).message, { cause });
      }
    },
  };
  const redact = makeRedactor(secretValues(values));
  const result = (outcome: TestOutcome['outcome'], message: string): TestOutcome => ({
    outcome,
    message: redact(message).replaceAll('\0', '').slice(0, messageCharactersMax),
  });
  try {
    const found =
      test.kind === 'http'
        ? await probeHttp(test, probeOptions)
        : test.kind === 'postgresql'
          ? await probePostgresql(test, probeOptions, values)
          : await probeGreeting(test, probeOptions);
    return result(found.outcome, found.message);
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof UnfitCredentials) return result('refused', error.message);
    return result('unreachable', describeFailure(error, timeout.aborted));
  }
}

const failures: Readonly<Record<string, string>> = {
  ENOTFOUND: 'the host name is not known',
  EAI_AGAIN: 'the host name could not be looked up',
  EACCES: 'this service may not connect there (MILLRACE_EGRESS)',
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was cut',
  UND_ERR_SOCKET: 'the connection was cut',
  ETIMEDOUT: 'no answer in time',
};

function describeFailure(error: unknown, isLate: boolean): string {
  const asked = error instanceof ProbeFailure ? error.asked : 'the test';
  const cause = error instanceof ProbeFailure ? error.cause : error;
  if (isLate) return `${asked}: no answer within ${testTimeoutMs / 1000} seconds`;
  const code = codeOf(cause);
  return `${asked}: ${failures[code] ?? `failed (${code})`}`;
}
