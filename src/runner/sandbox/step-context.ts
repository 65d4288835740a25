import { refreshedDeadlinesMax, rerunsMax, waitMsMax } from '#runner/protocol.ts';
import type { CallEffects } from './call-effects.ts';
import { type FileStore, makeFileStore } from './file-client.ts';
import type { HostCallFunction } from './host-calls.ts';
import { jsonParse, jsonStringify, now } from './primordials.ts';
import { shortened } from './shortened.ts';
import type { StepReply } from './step-reply.ts';
import type { SendKind, StepWork } from './step-work.ts';

type Loose = Record<string, unknown>;

const suspendMsDefault = 24 * 3_600_000;
const rerunsDefault = 10;

/** Everything that `$` is made from. */
export interface StepContextOptions {
  effects: CallEffects;
  work: StepWork;
  reply: StepReply;
  hostCall: HostCallFunction;
  /** `$.context` without its deadline. Only this call has it. */
  context: Loose;
  deadlineMs: number;
  resumeUrl: string;
  cancelUrl: string;
  /** True when the step belongs to no workflow. */
  byItself: boolean;
}

/** Makes the `$` of a step. Its effects are kept in `work`, and sent when the step ends. */
export function makeStepContext(parts: StepContextOptions): Loose {
  const { effects, work, reply, context, hostCall } = parts;
  const begunAt = now();
  context.deadline = begunAt + parts.deadlineMs;
  let files: FileStore | undefined;
  return {
    context,
    export: (key: unknown, value: unknown): void => {
      if (!effects.ended) work.export(key, value);
    },
    respond: (given: unknown): Promise<void> => reply.respond(given),
    flow: makeFlow(parts, begunAt),
    send: makeSend(parts),
    get files(): FileStore {
      files ??= makeFileStore(hostCall);
      return files;
    },
  };
}

function makeFlow(parts: StepContextOptions, begunAt: number): Loose {
  const { effects, work, hostCall, context, deadlineMs } = parts;
  const urls = (): Loose => ({ resume_url: parts.resumeUrl, cancel_url: parts.cancelUrl });
  return {
    exit: (reason?: unknown): void => work.exit(reason),
    delay: (ms: unknown): Loose => {
      work.flow = { kind: 'delay', ms: checkMs(ms, 1, 'delay') };
      return urls();
    },
    suspend: (ms: unknown = suspendMsDefault): Loose => {
      work.flow = { kind: 'suspend', ms: checkMs(ms, 1, 'suspend') };
      return urls();
    },
    rerun: (ms: unknown, given?: unknown, maxRetries: unknown = rerunsDefault): Loose => {
      work.rerun(checkMs(ms, 0, 'rerun'), given, checkRetries(maxRetries));
      return urls();
    },
    trigger: async (workflowId: unknown, payload?: unknown, options?: unknown): Promise<unknown> => {
      if (typeof workflowId !== 'string' || workflowId === '')
        throw new TypeError('$.flow.trigger expects the id of a workflow');
      const header = { workflow_id: workflowId, ...(options === undefined ? {} : { options }) };
      const answer = await hostCall('trigger_workflow', header, jsonStringify(payload) ?? 'null');
      return answer.body.length === 0 ? answer.header : jsonParse(answer.body.toString('utf8'));
    },
    refreshTimeout: (): void => {
      effects.refreshDeadline();
      context.deadline = Math.min(now() + deadlineMs, begunAt + refreshedDeadlinesMax * deadlineMs);
    },
    ...(parts.byItself
      ? {
          delay: onlyInWorkflows('$.flow.delay', 'nothing waits'),
          suspend: onlyInWorkflows('$.flow.suspend', 'nothing waits'),
          rerun: onlyInWorkflows('$.flow.rerun', 'nothing waits'),
        }
      : {}),
  };
}

/** Replaces a method of `$` that has no meaning for an action that is run by itself. */
function onlyInWorkflows(method: string, reason: string) {
  return (): never => {
    throw new Error(
      `${method} can be used in steps of workflows only: ${reason} where an action is run by itself`,
    );
  };
}

function checkMs(given: unknown, min: number, method: string): number {
  const ms = typeof given === 'string' && given.trim() !== '' ? Number(given) : given;
  if (typeof ms !== 'number' || !(ms >= min && ms <= waitMsMax)) {
    throw new TypeError(
      `$.flow.${method}: expected milliseconds from ${min} to ${waitMsMax} (one year), found ${shortened(String(given), 40)}`,
    );
  }
  return Math.round(ms);
}

function checkRetries(given: unknown): number {
  if (typeof given !== 'number' || !Number.isInteger(given) || given < 0 || given > rerunsMax) {
    throw new TypeError(
      `$.flow.rerun: the third argument is how many times the step may run again, from 0 to ${rerunsMax}`,
    );
  }
  return given;
}

/** `$.send.<kind>(config)`, and `$.send(kind, config)`. */
function makeSend({ effects, work, byItself }: StepContextOptions): object {
  const queue = (kind: SendKind, payload: object): void => {
    if (!effects.ended) effects.addedSend(work.send(kind, payload));
  };
  const configured = (kind: SendKind) => (config: unknown) => {
    if (typeof config !== 'object' || config === null)
      throw new TypeError(
        `$.send.${kind} expects an object, found ${config === null ? 'null' : typeof config}`,
      );
    queue(kind, config);
  };
  const notSupported = (kind: string) => () => {
    throw new Error(`$.send.${kind} is not supported`);
  };
  const methods: Record<string, (...args: unknown[]) => void> = {
    http: configured('http'),
    email: configured('email'),
    s3: configured('s3'),
    sse: configured('sse'),
    emit: (event, channel) => queue('emit', readEmit(event, channel)),
    sql: notSupported('sql'),
    snowflake: notSupported('snowflake'),
    ...(byItself
      ? {
          sse: onlyInWorkflows('$.send.sse', 'there is no stream'),
          emit: onlyInWorkflows('$.send.emit', 'it has no listeners'),
        }
      : {}),
  };
  const send = (kind: unknown, ...args: unknown[]): void => {
    const method = typeof kind === 'string' && Object.hasOwn(methods, kind) ? methods[kind] : undefined;
    if (method === undefined) throw new TypeError(`$.send: ${shortened(String(kind), 40)} is no way to send`);
    method(...args);
  };
  return Object.assign(send, methods);
}

/** Reads the event and its channel. In the older form, one object has both. */
function readEmit(event: unknown, channel: unknown): { event: unknown; channel: string | null } {
  let emitted = event;
  let name = channel;
  if (
    channel === undefined &&
    typeof event === 'object' &&
    event !== null &&
    Object.hasOwn(event, 'raw_event')
  ) {
    const { raw_event: raw, event: named, ...others } = event as Loose;
    if (Object.keys(others).length === 0) {
      emitted = raw;
      name = named;
    }
  }
  if (name !== undefined && name !== null && typeof name !== 'string')
    throw new TypeError('$.send.emit: the channel must be a text');
  return { event: emitted ?? null, channel: name ?? null };
}
