import type { FieldProps } from './prop-field.ts';
import { commonProps } from './simple-fields.tsx';

/** Types whose values are always as they are. */
const plainTypes: ReadonlySet<string> = new Set(['app', 'data_store', 'dir', 'alert']);

export function mayBeExpression(type: string): boolean {
  return !plainTypes.has(type) && !type.startsWith('$.service.') && !type.startsWith('$.interface.');
}

export function isExpression(value: unknown): boolean {
  return typeof value === 'string' && value.includes('{{');
}

/** A value that is found when the step runs: `{{steps.trigger.event.body.id}}`, or a text that holds some. */
export function ExpressionField({ paths, ...props }: FieldProps & { paths: readonly string[] }) {
  const { id, value, onChange } = props;
  const list = `${id}-paths`;
  return (
    <>
      <input
        {...commonProps(props)}
        className="input mono"
        spellCheck={false}
        autoComplete="off"
        list={list}
        placeholder="{{steps.trigger.event.body}}"
        value={typeof value === 'string' ? value : ''}
        onChange={(event) => onChange(event.target.value === '' ? undefined : event.target.value)}
      />
      <datalist id={list}>
        {paths.map((path) => (
          <option key={path} value={`{{${path}}}`} />
        ))}
      </datalist>
    </>
  );
}
