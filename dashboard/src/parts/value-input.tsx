import { useState } from 'react';
import { readValue, valueText } from '~/editing/rule-draft.ts';
import { visible } from './plain-text.ts';

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
    <div className="field">
      <label className="label" htmlFor={id}>
        {name}
      </label>
      <p className="hint" id={`${id}-hint`}>
        {hint}
      </p>
      <input
        id={id}
        className="input mono"
        spellCheck={false}
        autoComplete="off"
        list={`${id}-paths`}
        placeholder={placeholder}
        aria-describedby={`${id}-hint${problem === undefined ? '' : ` ${id}-problem`}`}
        aria-invalid={problem !== undefined || undefined}
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
      <FieldProblem id={id} text={problem} />
    </div>
  );
}

/** The service's error about a field. */
export function FieldProblem({ id, text }: { id: string; text: string | undefined }) {
  if (text === undefined) return null;
  return (
    <p className="field-problem" id={`${id}-problem`} role="alert">
      {visible(text)}
    </p>
  );
}
