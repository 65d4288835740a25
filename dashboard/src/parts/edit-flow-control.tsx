import { useState } from 'react';
import type { WorkflowSettings } from '#sdk';
import { Field } from './field.tsx';

type FlowControl = NonNullable<WorkflowSettings['flow_control']>;
type Control = keyof FlowControl;

interface NumberField {
  field: string;
  name: string;
  max: number;
}

/** What the form asks for each control, in the words of the manual. */
const controls: {
  control: Exclude<Control, 'priority'>;
  name: string;
  hint: string;
  usual: object;
  numbers: NumberField[];
  hasKey: boolean;
}[] = [
  {
    control: 'concurrency',
    name: 'Concurrency',
    hint: 'Limits how many runs of each key are under way',
    usual: { limit: 1 },
    numbers: [{ field: 'limit', name: 'Runs', max: 10_000 }],
    hasKey: true,
  },
  {
    control: 'throttle',
    name: 'Throttle',
    hint: 'Limits how many runs of each key begin in a period',
    usual: { limit: 10, seconds: 60 },
    numbers: [
      { field: 'limit', name: 'Runs', max: 10_000 },
      { field: 'seconds', name: 'Seconds', max: 86_400 },
    ],
    hasKey: true,
  },
  {
    control: 'debounce',
    name: 'Debounce',
    hint: 'Starts one run, with the last event, when no event of the key came for a while',
    usual: { seconds: 10, max_wait_seconds: 60 },
    numbers: [
      { field: 'seconds', name: 'Seconds', max: 86_400 },
      { field: 'max_wait_seconds', name: 'Longest wait, in seconds', max: 604_800 },
    ],
    hasKey: true,
  },
  {
    control: 'singleton',
    name: 'Singleton',
    hint: 'Keeps one run of each key under way',
    usual: { mode: 'skip' },
    numbers: [],
    hasKey: true,
  },
  {
    control: 'batch',
    name: 'Batch',
    hint: 'Starts one run for several events of a key',
    usual: { max_events: 10, max_seconds: 60 },
    numbers: [
      { field: 'max_events', name: 'Events', max: 1_000 },
      { field: 'max_seconds', name: 'Longest wait, in seconds', max: 86_400 },
    ],
    hasKey: true,
  },
  {
    control: 'rate_limit',
    name: 'Rate limit of an account',
    hint: 'Limits how many runs begin in a period, over all workflows and sources with the same account',
    usual: { account: '', limit: 10, seconds: 60 },
    numbers: [
      { field: 'limit', name: 'Runs', max: 10_000 },
      { field: 'seconds', name: 'Seconds', max: 86_400 },
    ],
    hasKey: false,
  },
];

/** When runs may begin. A control that is not checked is not set. */
export function EditFlowControl({
  of,
  flow,
  onChange,
}: {
  of: 'workflow' | 'source';
  flow: FlowControl;
  onChange: (flow: FlowControl | null) => void;
}) {
  const set = (control: Control, value: unknown) => {
    const { [control]: _, ...rest } = flow;
    const next = value === undefined ? rest : { ...rest, [control]: value };
    onChange(Object.keys(next).length === 0 ? null : (next as FlowControl));
  };
  return (
    <fieldset className="edit-body">
      <legend>Flow control</legend>
      {controls.map(({ control, name, hint, usual, numbers, hasKey }) => {
        const value = flow[control] as Record<string, string | number> | undefined;
        const change = (field: string, to: string | number | undefined) => {
          const { [field]: _, ...rest } = value ?? {};
          set(control, to === undefined ? rest : { ...rest, [field]: to });
        };
        return (
          <div key={control} className="field">
            <label className="check">
              <input
                type="checkbox"
                checked={value !== undefined}
                onChange={(event) => set(control, event.target.checked ? usual : undefined)}
              />
              {name}
            </label>
            <p className="hint">{hint}</p>
            {value !== undefined && (
              <div className="field-grid">
                {numbers.map(({ field, name: label, max }) => (
                  <TextSetting
                    key={field}
                    name={`${name}: ${label}`}
                    type="number"
                    max={max}
                    value={String(value[field] ?? '')}
                    onChange={(text) => change(field, text === '' ? 1 : Number(text))}
                  />
                ))}
                {control === 'singleton' && (
                  <label className="label">
                    Singleton: an event that finds a run
                    <select
                      className="input"
                      value={value.mode}
                      onChange={(event) => change('mode', event.target.value)}
                    >
                      <option value="skip">is skipped</option>
                      <option value="replace">replaces it</option>
                    </select>
                  </label>
                )}
                {control === 'rate_limit' && (
                  <TextSetting
                    name={of === 'source' ? `${name}: app prop` : `${name}: step.prop`}
                    value={String(value.account ?? '')}
                    onChange={(text) => change('account', text)}
                  />
                )}
                {hasKey && (
                  <TextSetting
                    name={`${name}: key`}
                    placeholder={
                      of === 'source' ? '{{event.body.customer}}' : '{{steps.trigger.event.body.customer}}'
                    }
                    value={String(value.key ?? '')}
                    onChange={(text) => change('key', text === '' ? undefined : text)}
                  />
                )}
              </div>
            )}
          </div>
        );
      })}
      <Priority priority={flow.priority} onChange={(value) => set('priority', value)} />
    </fieldset>
  );
}

/** A number of seconds, or an expression for them. */
function Priority({
  priority,
  onChange,
}: {
  priority: FlowControl['priority'];
  onChange: (priority: FlowControl['priority']) => void;
}) {
  // What is typed may be a number only at its end: `-` is on the way to one.
  const [text, setText] = useState(String(priority ?? ''));
  return (
    <div className="field">
      <TextSetting
        name="Priority: seconds"
        placeholder="-600 to 600, or an expression"
        value={text}
        onChange={(typed) => {
          setText(typed);
          const isNumber = /^-?\d+$/.test(typed.trim());
          onChange(typed.trim() === '' ? undefined : isNumber ? Number(typed) : typed);
        }}
      />
    </div>
  );
}

function TextSetting({
  name,
  value,
  type = 'text',
  max,
  placeholder,
  onChange,
}: {
  name: string;
  value: string;
  type?: 'text' | 'number';
  max?: number;
  placeholder?: string;
  onChange: (text: string) => void;
}) {
  const id = `flow-${name.replaceAll(/\W+/g, '-')}`;
  return (
    <Field id={id} name={name}>
      <input
        id={id}
        className="input"
        type={type}
        {...(type === 'number' ? { min: 1, max, step: 1 } : { spellCheck: false })}
        {...(placeholder === undefined ? {} : { placeholder })}
        value={value}
        onChange={(event) => onChange(event.target.value)}
      />
    </Field>
  );
}
