import type { WorkflowSettings } from '#sdk';
import { withoutPlace } from '~/editing/code-problem.ts';
import { EditFlowControl } from './edit-flow-control.tsx';
import { NumberInput } from './number-input.tsx';
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
        <NumberInput
          id="setting-timeout"
          name="Longest time of a step, in seconds"
          hint="Empty: 30 after requests and mails, else 60"
          value={timeout_seconds ?? undefined}
          max={750}
          onChange={(value) => set({ timeout_seconds: value ?? null })}
        />
        <NumberInput
          id="setting-memory"
          name="Memory of a step, in MB"
          hint="From 128 to 10,240"
          value={memory_mb}
          max={10_240}
          onChange={(value) => set({ memory_mb: value ?? 256 })}
        />
        <NumberInput
          id="setting-concurrency"
          name="Runs at the same time"
          hint="Empty: any number. Counts for runs that events start"
          value={concurrency ?? undefined}
          max={10_000}
          onChange={(value) => set({ concurrency: value ?? null })}
        />
        <NumberInput
          id="setting-queue"
          name="Events that wait for their turn"
          hint="Those beyond are dropped, with an error event"
          value={queue_size}
          max={10_000}
          onChange={(value) => set({ queue_size: value ?? 100 })}
        />
        <NumberInput
          id="setting-throttle"
          name="Runs that begin in each window"
          hint="Empty: all begin at once"
          value={throttle?.limit}
          min={0}
          max={10_000}
          onChange={(value) =>
            set({ throttle: value === undefined ? null : { limit: value, seconds: throttle?.seconds ?? 60 } })
          }
        />
        {throttle !== null && (
          <NumberInput
            id="setting-window"
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
          of="workflow"
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
