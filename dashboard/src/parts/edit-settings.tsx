import type { WorkflowSettings } from '#sdk';
import { withoutPlace } from '~/editing/code-problem.ts';
import { EditFlowControl } from './edit-flow-control.tsx';
import { visible } from './plain-text.ts';

/** How runs of the workflow are run. An empty field is what the service does by itself. */
export function EditSettings({
  settings,
  onChange,
  problem,
}: {
  settings: WorkflowSettings;
  onChange: (settings: WorkflowSettings) => void;
  problem: { field: string; message: string } | undefined;
}) {
  const { timeout_seconds, memory_mb, auto_retry, concurrency, throttle, queue_size, isolated } = settings;
  const set = (change: Partial<WorkflowSettings>) => onChange({ ...settings, ...change });
  const told = problem === undefined ? undefined : withoutPlace(problem.message);
  return (
    <details open={problem !== undefined || undefined}>
      <summary>Run settings</summary>
      <div className="field-grid edit-body">
        <NumberSetting
          name="Longest time of a step, in seconds"
          hint="Empty: 30 after requests and mails, else 60"
          value={timeout_seconds}
          max={750}
          onChange={(value) => set({ timeout_seconds: value })}
        />
        <NumberSetting
          name="Memory of a step, in MB"
          hint="From 128 to 10,240"
          value={memory_mb}
          max={10_240}
          onChange={(value) => set({ memory_mb: value ?? 256 })}
        />
        <NumberSetting
          name="Runs at the same time"
          hint="Empty: any number. Counts for runs that events start"
          value={concurrency}
          max={10_000}
          onChange={(value) => set({ concurrency: value })}
        />
        <NumberSetting
          name="Events that wait for their turn"
          hint="Those beyond are dropped, with an error event"
          value={queue_size}
          max={10_000}
          onChange={(value) => set({ queue_size: value ?? 100 })}
        />
        <NumberSetting
          name="Runs that begin in each window"
          hint="Empty: all begin at once"
          value={throttle?.limit ?? null}
          min={0}
          max={10_000}
          onChange={(value) =>
            set({ throttle: value === null ? null : { limit: value, seconds: throttle?.seconds ?? 60 } })
          }
        />
        {throttle !== null && (
          <NumberSetting
            name="Length of a window, in seconds"
            hint=""
            value={throttle.seconds}
            max={36_000_000}
            onChange={(value) => set({ throttle: { ...throttle, seconds: value ?? 60 } })}
          />
        )}
        <label className="check">
          <input
            type="checkbox"
            checked={auto_retry}
            onChange={(event) => set({ auto_retry: event.target.checked })}
          />
          A step that fails is tried again, 8 times in about ten hours
        </label>
        <label className="check">
          <input
            type="checkbox"
            checked={isolated}
            onChange={(event) => set({ isolated: event.target.checked })}
          />
          Steps run in a process of their own, which no other code shares
        </label>
        <EditFlowControl
          flow={settings.flow_control ?? {}}
          onChange={(flow_control) => set({ flow_control })}
        />
      </div>
      {told !== undefined && (
        <p className="field-problem" role="alert">
          {visible(told)}
        </p>
      )}
    </details>
  );
}

function NumberSetting({
  name,
  hint,
  value,
  min = 1,
  max,
  onChange,
}: {
  name: string;
  hint: string;
  value: number | null;
  min?: number;
  max: number;
  onChange: (value: number | null) => void;
}) {
  const id = `setting-${name.replaceAll(/\W+/g, '-')}`;
  return (
    <div className="field">
      <label className="label" htmlFor={id}>
        {name}
      </label>
      <p className="hint" id={`${id}-hint`}>
        {hint}
      </p>
      <input
        id={id}
        className="input"
        type="number"
        min={min}
        max={max}
        step={1}
        aria-describedby={`${id}-hint`}
        value={value ?? ''}
        onChange={(event) => onChange(event.target.value === '' ? null : event.target.valueAsNumber)}
      />
    </div>
  );
}
