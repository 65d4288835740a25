import { Field, fieldAttributes } from './field.tsx';

/** A whole number, or none. */
export function NumberInput({
  id,
  name,
  hint,
  value,
  min = 1,
  max,
  onChange,
  problem,
}: {
  id: string;
  name: string;
  hint: string;
  value: number | undefined;
  min?: number;
  max: number;
  /** Undefined: the field is empty. */
  onChange: (value: number | undefined) => void;
  problem?: string | undefined;
}) {
  return (
    <Field id={id} name={name} hint={hint} problem={problem}>
      <input
        {...fieldAttributes({ id, hint, problem })}
        className="input"
        type="number"
        min={min}
        max={max}
        step={1}
        value={value ?? ''}
        onChange={({ target }) => onChange(target.value === '' ? undefined : target.valueAsNumber)}
      />
    </Field>
  );
}
