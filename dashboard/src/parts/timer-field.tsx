import { useState } from 'react';
import type { FieldProps } from './prop-field.ts';
import { commonProps, shownDefault } from './simple-fields.tsx';

const units = [
  { name: 'seconds', seconds: 1 },
  { name: 'minutes', seconds: 60 },
  { name: 'hours', seconds: 3600 },
  { name: 'days', seconds: 86_400 },
] as const;

interface Timer {
  intervalSeconds?: number;
  interval_seconds?: number | null;
  cron?: string | null;
  timezone?: string;
}

/** When it runs: at an interval, or by a cron expression. */
export function TimerField(props: FieldProps) {
  const { definition, value, onChange, id } = props;
  const timer = (value ?? definition.default ?? {}) as Timer;
  const [kind, setKind] = useState<'interval' | 'cron'>(typeof timer.cron === 'string' ? 'cron' : 'interval');
  const seconds = timer.intervalSeconds ?? timer.interval_seconds ?? undefined;
  const [unit, setUnit] = useState(() => unitFor(seconds));
  const [zone, setZone] = useState(timer.timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone);
  if (definition.static !== undefined)
    return <p className="muted">Fixed by the component: {JSON.stringify(definition.static)}</p>;
  return (
    <div className="timer">
      <select
        className="select small"
        aria-label="Kind of schedule"
        value={kind}
        onChange={(event) => {
          setKind(event.target.value as typeof kind);
          onChange(undefined);
        }}
      >
        <option value="interval">Every</option>
        <option value="cron">Cron</option>
      </select>
      {kind === 'interval' ? (
        <>
          <input
            {...commonProps(props)}
            className="input small"
            type="number"
            min={1}
            step={1}
            placeholder={shownDefault(definition.default)}
            value={seconds === undefined ? '' : seconds / unit.seconds}
            onChange={(event) =>
              onChange(
                event.target.value === ''
                  ? undefined
                  : { intervalSeconds: Math.round(event.target.valueAsNumber * unit.seconds) },
              )
            }
          />
          <select
            className="select small"
            aria-label="Unit"
            value={unit.name}
            onChange={(event) => {
              const next = units.find(({ name }) => name === event.target.value) ?? units[0];
              setUnit(next);
              if (seconds !== undefined)
                onChange({ intervalSeconds: Math.max(1, Math.round(seconds / unit.seconds)) * next.seconds });
            }}
          >
            {units.map(({ name }) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </>
      ) : (
        <>
          <input
            {...commonProps(props)}
            className="input small"
            placeholder="0 9 * * 1-5"
            value={timer.cron ?? ''}
            onChange={(event) =>
              onChange(event.target.value === '' ? undefined : { cron: event.target.value, timezone: zone })
            }
          />
          <input
            className="input small"
            aria-label={`Time zone of ${id}`}
            value={zone}
            onChange={(event) => {
              setZone(event.target.value);
              if (typeof timer.cron === 'string')
                onChange({ cron: timer.cron, timezone: event.target.value });
            }}
          />
        </>
      )}
    </div>
  );
}

/** The largest in which it is a whole number. */
function unitFor(seconds: number | undefined) {
  return (
    [...units].reverse().find((unit) => seconds !== undefined && seconds % unit.seconds === 0) ?? units[1]
  );
}
