import type { CallHeader } from './protocol.ts';
import type { CallRequest } from './runner.ts';

/**
 * Returns header and payload of a `call` frame. Event, steps, props and db travel as text whose lengths stand in the header. The keys of
 * the db do too, because a component decides how many there are.
 */
export function encodeCall(
  request: CallRequest,
  options: { module: string; ack: boolean; withProps: boolean },
): { header: CallHeader; payload: string[]; bytes: number } {
  const { call } = request;
  const header: CallHeader = { kind: call.kind, module: options.module, event: -1, props: -1, db: -1 };
  if (options.ack) header.ack = 1;
  const payload: string[] = [];
  let bytes = 0;
  const add = (text: string): number => {
    const length = Buffer.byteLength(text);
    bytes += length;
    payload.push(text);
    return length;
  };
  if (call.kind === 'hook') header.hook = call.hook;
  else if (call.kind === 'additionalProps' || call.kind === 'eventNames')
    header.event = add(JSON.stringify(call.previous));
  else if (call.kind === 'options') {
    const { kind, ...request } = call;
    header.event = add(JSON.stringify(request));
  } else if (call.kind === 'step') {
    const { resumeUrl, cancelUrl, scratch } = call;
    const { deadlineMs } = request;
    header.step = {
      steps: add(call.steps),
      context: add(call.context),
      resumeUrl,
      cancelUrl,
      scratch,
      deadlineMs,
      ...(call.byItself === true ? { byItself: true } : {}),
    };
  } else if (call.kind === 'run' && call.event !== undefined) header.event = add(call.event);
  if (options.withProps) header.props = add(JSON.stringify([request.props, request.dynamicProps ?? {}]));
  const keys = Object.keys(request.db);
  if (keys.length > 0) {
    const values = keys.map((key) => request.db[key] ?? 'null');
    header.db = add(JSON.stringify(keys.map((key, i) => [key, Buffer.byteLength(values[i] ?? '')])));
    for (const value of values) add(value);
  }
  return { header, payload, bytes };
}
