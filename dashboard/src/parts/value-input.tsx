import { useState } from 'react';
import { readValue, valueText } from '~/editing/rule-draft.ts';
import { Field, fieldAttributes } from './field.tsx';

/** A value of any type in one line: text, a number, JSON, or an expression. */
export function ValueInput({
  id,
  name,
  hint = '',
  value,
  onChange,
  paths,
  placeholder,
  problem,
}: {
  id: string;
  name: string;
  hint?: string;
  value: unknown;
  onChange: (value: unknown) => void;
  /** That can be used in an expression. */
  paths: readonly string[];
  placeholder?: string;
  problem?: string | undefined;
}) {
  const [typed, setTyped] = useState(() => valueText(value));
  // What was typed stays as it was typed, unless the value is another one since.
  const text = JSON.stringify(readValue(typed)) === JSON.stringify(value) ? typed : valueText(value);
  return (
    <Field id={id} name={name} hint={hint} problem={problem}>
      <input
        {...fieldAttributes({ id, hint, problem })}
        className="input mono"
        spellCheck={false}
        autoComplete="off"
        list={`${id}-paths`}
        placeholder={placeholder}
        value={text}
        onChange={(event) => {
          setTyped(event.target.value);
          onChange(readValue(event.target.value));
        }}
      />
      <datalist id={`${id}-paths`}>
        {paths.map((path) => (
          <option key={path} value={`{{${path}}}`} />
        ))}
      </datalist>
    </Field>
  );
}
