import type { CallHeader } from './protocol.ts';
import type { CallRequest } from './runner.ts';

/** Header and payload of a `call` frame: event, props and db travel as text whose lengths stand in the header. */
export function encodeCall(
  request: CallRequest,
  options: { ack: boolean; withProps: boolean },
): { header: CallHeader; payload: string[]; bytes: number } {
  const { call } = request;
  const header: CallHeader = { kind: call.kind, event: -1, props: -1, db: [] };
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
  else if (call.kind === 'additionalProps') header.event = add(JSON.stringify(call.previous));
  else if (call.event !== undefined) header.event = add(call.event);
  if (options.withProps) header.props = add(JSON.stringify([request.props, request.dynamicProps ?? {}]));
  for (const key of Object.keys(request.db)) header.db.push([key, add(request.db[key] ?? 'null')]);
  return { header, payload, bytes };
}
