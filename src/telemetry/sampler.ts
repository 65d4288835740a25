import type { TraceContext } from './trace-context.ts';

/** Values of `OTEL_TRACES_SAMPLER`. */
export const samplers = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;
export type SamplerName = (typeof samplers)[number];

/** Decides whether the spans of a trace are recorded. `parent`: where the trace came from, if it did not begin here. */
export type Sampler = (traceId: string, parent: TraceContext | undefined) => boolean;

/** `ratio`: from 0 to 1; all processes decide the same for a trace. */
export function samplerOf(name: SamplerName, ratio: number): Sampler {
  const [, parentBased, base = name] = /^(parentbased_)?(.*)$/.exec(name) ?? [];
  const decide = (traceId: string): boolean => {
    if (base === 'traceidratio') return Number.parseInt(traceId.slice(-8), 16) < ratio * 2 ** 32;
    return base === 'always_on';
  };
  return (traceId, parent) =>
    parentBased !== undefined && parent !== undefined ? parent.sampled : decide(traceId);
}

/** The text of `OTEL_TRACES_SAMPLER_ARG`; undefined when it is no number from 0 to 1. */
export function parseRatio(text: string): number | undefined {
  const ratio = text.trim() === '' ? 1 : Number(text);
  return ratio >= 0 && ratio <= 1 ? ratio : undefined;
}
