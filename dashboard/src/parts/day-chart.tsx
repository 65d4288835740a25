export interface DayValue {
  /** YYYY-MM-DD, UTC. */
  day: string;
  value: number;
}

const width = 600;
const height = 120;
const gap = 3;
/** A quota that is higher than the highest bar times this factor is shown as text: as a line it would flatten all bars. */
const lineMax = 3;

/**
 * A value of each day as bars, with what a day may use as a line. Screen readers get the figures from a table beside it,
 * which is the page's.
 */
export function DayChart({
  name,
  days,
  show,
  quota,
}: {
  name: string;
  days: readonly DayValue[];
  show: (value: number) => string;
  quota?: number | undefined;
}) {
  const highest = Math.max(1, ...days.map(({ value }) => value));
  const hasLine = quota !== undefined && quota <= highest * lineMax;
  const top = hasLine ? Math.max(highest, quota) : highest;
  const step = width / Math.max(1, days.length);
  const scaled = (value: number) => (value === 0 ? 0 : Math.max(2, (value / top) * height));
  const y = hasLine ? Math.min(height - 1, Math.max(1, height - (quota / top) * height)) : 0;
  return (
    <figure className="chart" aria-label={name}>
      <div className="chart-scale" aria-hidden="true">
        <span>{show(top)}</span>
        <span>0</span>
      </div>
      <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
        {days.map(({ day, value }, index) => (
          <g key={day}>
            <title>{`${dayName(day)}: ${show(value)}`}</title>
            <rect className="hit" x={index * step} y={0} width={step} height={height} />
            <rect
              className={quota !== undefined && value > quota ? 'bar bad' : 'bar'}
              x={index * step + gap / 2}
              y={height - scaled(value)}
              width={step - gap}
              height={scaled(value)}
            />
          </g>
        ))}
        {hasLine && <line className="quota-mark" x1={0} x2={width} y1={y} y2={y} />}
      </svg>
      <figcaption>
        <span>{days[0] === undefined ? '' : dayName(days[0].day)}</span>
        {quota !== undefined && (
          <span>
            {hasLine && <span className="key line" />} a day may use {show(quota)}
          </span>
        )}
        <span>today</span>
      </figcaption>
    </figure>
  );
}

/** Such as 3 Nov; days are those of UTC. */
export function dayName(day: string): string {
  return new Date(`${day}T00:00:00Z`).toLocaleDateString('en', {
    day: 'numeric',
    month: 'short',
    timeZone: 'UTC',
  });
}
