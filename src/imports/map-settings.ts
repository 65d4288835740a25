import { isRecord } from '#components/validate-props.ts';
import type { SettingsInput } from '#workflows/definitions/workflow-input.ts';
import { describeValue } from './describe-value.ts';
import { checkIt, type Finding, type ForeignSettings } from './project.ts';

const timeoutMax = 750;
const memoryRange = [128, 10_240] as const;
const concurrencyRange = [1, 10_000] as const;
const queueRange = [1, 10_000] as const;
/** Ranges of a throttle: runs, and the seconds of a window. */
const limitRange = [0, 10_000] as const;
const windowRange = [1, 36_000_000] as const;
const unitSeconds: Readonly<Record<string, number>> = { second: 1, minute: 60, hour: 3600 };

/** Pure: the settings that have a counterpart here. Findings say what has none, and what is out of range. */
export function mapSettings(settings: ForeignSettings, findings: Finding[]): SettingsInput {
  const { network, retention } = settings;
  const mapped: SettingsInput = {
    ...timeoutOf(settings.timeout, findings),
    ...numberOf(settings.memory, {
      ...{ key: 'memory_mb', name: 'its memory', unit: 'MB', range: memoryRange, findings },
    }),
    ...autoRetryOf(settings.autoRetry, findings),
    ...numberOf(limitIn(settings.concurrency), {
      ...{ key: 'concurrency', name: 'its concurrency', range: concurrencyRange, findings },
    }),
    ...throttleOf(settings.throttle, findings),
    ...numberOf(settings.queueSize, {
      ...{ key: 'queue_size', name: 'its queue size', range: queueRange, findings },
    }),
    ...(settings.isolated === true ? { isolated: true } : {}),
  };
  if (isGiven(network))
    findings.push(
      checkIt(
        `it ran in the network ${isNetworkId(network) ? network : describeValue(network)}, and requests leave from the address of this service now`,
      ),
    );
  if (isGiven(retention) && retention !== true)
    findings.push(
      checkIt(
        `its data retention is ${describeValue(retention)} there: here a workspace has days for which runs are kept, and a workflow has none of its own`,
        '',
        'millrace retention --workspace WORKSPACE',
      ),
    );
  return mapped;
}

/** Settings that are off are null or false. */
function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

function isOff(value: unknown): boolean {
  return !isGiven(value) || value === false || (isRecord(value) && value.enabled === false);
}

function timeoutOf(timeout: unknown, findings: Finding[]): Pick<SettingsInput, 'timeout_seconds'> {
  if (!isGiven(timeout)) return {};
  if (isWhole(timeout, 1, timeoutMax)) return { timeout_seconds: timeout };
  findings.push(
    checkIt(
      `its time limit is ${withUnit(timeout, 'seconds')}, expected 1 to ${timeoutMax}: ${timeoutMax} is used`,
    ),
  );
  return { timeout_seconds: timeoutMax };
}

function numberOf<Key extends 'memory_mb' | 'concurrency' | 'queue_size'>(
  value: unknown,
  {
    key,
    name,
    unit = '',
    range: [min, max],
    findings,
  }: { key: Key; name: string; unit?: string; range: readonly [number, number]; findings: Finding[] },
): { [Name in Key]?: number } {
  if (isOff(value)) return {};
  if (isWhole(value, min, max)) return { [key]: value } as { [Name in Key]?: number };
  findings.push(
    checkIt(`${name} is ${withUnit(value, unit)}, expected ${min} to ${max}: the default is used`),
  );
  return {};
}

/** A number, or a mapping that has it. */
function limitIn(value: unknown): unknown {
  if (!isRecord(value) || isOff(value)) return value;
  const { enabled: _enabled, ...rest } = value;
  const [name = '', ...others] = Object.keys(rest);
  return others.length === 0 && ['limit', 'workers', 'max', 'value'].includes(name) ? rest[name] : value;
}

function autoRetryOf(value: unknown, findings: Finding[]): Pick<SettingsInput, 'auto_retry'> {
  if (isOff(value)) return {};
  if (value === true || (isRecord(value) && value.enabled === true)) return { auto_retry: true };
  findings.push(checkIt(`its auto-retry is ${describeValue(value)}, expected true or false: it is off`));
  return {};
}

/** `{ limit, seconds }`, or a limit in an interval with a unit. */
function throttleOf(value: unknown, findings: Finding[]): Pick<SettingsInput, 'throttle'> {
  if (isOff(value)) return {};
  const {
    limit,
    seconds,
    interval_seconds: inSeconds = seconds,
    interval,
    unit,
  } = isRecord(value) ? value : {};
  const factor = typeof unit === 'string' ? unitSeconds[unit.toLowerCase().replace(/s$/, '')] : undefined;
  const window =
    inSeconds ?? (typeof interval === 'number' && factor !== undefined ? interval * factor : undefined);
  if (isWhole(limit, ...limitRange) && isWhole(window, ...windowRange))
    return { throttle: { limit, seconds: window } };
  findings.push(
    checkIt(
      `its throttle is ${describeValue(value)}, expected a limit and the seconds of a window: set it again`,
    ),
  );
  return {};
}

function withUnit(value: unknown, unit: string): string {
  if (typeof value !== 'number') return describeValue(value);
  return unit === '' ? String(value) : `${value} ${unit}`;
}

function isNetworkId(value: unknown): value is string {
  return typeof value === 'string' && /^net_\w{1,60}$/.test(value);
}

function isWhole(value: unknown, min: number, max: number): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max;
}
