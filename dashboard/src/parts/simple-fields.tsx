import { useState } from 'react';
import type { FieldProps } from './prop-field.ts';

/** Attributes that every control of a field has. */
export function commonProps({ id, describedBy, invalid, definition }: FieldProps) {
  return {
    id,
    'aria-describedby': describedBy,
    'aria-invalid': invalid || undefined,
    disabled: definition.disabled === true,
  } as const;
}

export function shownDefault(value: unknown): string {
  if (value === undefined) return '';
  return `Default: ${typeof value === 'string' ? value : JSON.stringify(value)}`;
}

export function TextField(props: FieldProps) {
  const { definition, value, onChange } = props;
  return (
    <input
      {...commonProps(props)}
      className="input"
      type={definition.secret === true ? 'password' : 'text'}
      autoComplete={definition.secret === true ? 'new-password' : 'off'}
      spellCheck={false}
      placeholder={definition.secret === true ? '' : shownDefault(definition.default)}
      value={typeof value === 'string' ? value : ''}
      onChange={(event) => onChange(event.target.value === '' ? undefined : event.target.value)}
    />
  );
}

export function NumberField(props: FieldProps) {
  const { definition, value, onChange } = props;
  return (
    <input
      {...commonProps(props)}
      className="input"
      type="number"
      step={definition.type === 'integer' ? 1 : 'any'}
      min={definition.min}
      max={definition.max}
      placeholder={shownDefault(definition.default)}
      value={typeof value === 'number' ? value : ''}
      onChange={(event) => onChange(event.target.value === '' ? undefined : event.target.valueAsNumber)}
    />
  );
}

export function YesNoField(props: FieldProps) {
  const { definition, value, onChange } = props;
  return (
    <select
      {...commonProps(props)}
      className="select"
      value={value === undefined ? '' : String(value)}
      onChange={(event) => onChange(event.target.value === '' ? undefined : event.target.value === 'true')}
    >
      <option value="">
        {definition.default === undefined ? 'Not set' : shownDefault(definition.default)}
      </option>
      <option value="true">Yes</option>
      <option value="false">No</option>
    </select>
  );
}

/** One value on each line. */
export function LinesField(props: FieldProps) {
  const { definition, value, onChange } = props;
  const [text, setText] = useState(() => (Array.isArray(value) ? value.join('\n') : ''));
  return (
    <textarea
      {...commonProps(props)}
      className="input"
      rows={3}
      spellCheck={false}
      placeholder={shownDefault(definition.default) || 'One on each line'}
      value={text}
      onChange={(event) => {
        setText(event.target.value);
        const lines = event.target.value.split('\n').filter((line) => line !== '');
        onChange(lines.length === 0 ? undefined : lines);
      }}
    />
  );
}

/** Objects, arrays of anything but texts, and types that this page does not know: as JSON. */
export function JsonField(props: FieldProps) {
  const { definition, value, onChange } = props;
  const [text, setText] = useState(() => (value === undefined ? '' : JSON.stringify(value, null, 2)));
  const [isJson, setIsJson] = useState(true);
  const change = (next: string) => {
    setText(next);
    try {
      onChange(next.trim() === '' ? undefined : (JSON.parse(next) as unknown));
      setIsJson(true);
    } catch {
      // With the type any, a text may be meant literally; for other types the service reports what it expected.
      onChange(next);
      setIsJson(definition.type === 'any');
    }
  };
  return (
    <>
      <textarea
        {...commonProps(props)}
        className="input code"
        rows={4}
        spellCheck={false}
        placeholder={shownDefault(definition.default) || `JSON, of type ${definition.type}`}
        value={text}
        onChange={(event) => change(event.target.value)}
      />
      {!isJson && <p className="hint">This is not JSON yet.</p>}
    </>
  );
}
