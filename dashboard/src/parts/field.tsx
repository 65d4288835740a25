import type { ReactNode } from 'react';
import { visible } from './plain-text.ts';

interface FieldTexts {
  /** Names the control. */
  id: string;
  /** Undefined: there is no line for it. */
  hint?: string | undefined;
  /** The service's error about the field. */
  problem?: string | undefined;
}

/** A control with its name and a hint above, and the service's error about it below. */
export function Field({
  id,
  name,
  hint,
  problem,
  children,
}: FieldTexts & { name: ReactNode; children: ReactNode }) {
  return (
    <div className="field">
      <label className="label" htmlFor={id}>
        {name}
      </label>
      {hint !== undefined && (
        <p className="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {children}
      <FieldProblem id={id} text={problem} />
    </div>
  );
}

/** What ties the control to the texts around it. */
export function fieldAttributes({ id, hint, problem }: FieldTexts) {
  const describedBy = [
    ...(hint === undefined ? [] : [`${id}-hint`]),
    ...(problem === undefined ? [] : [`${id}-problem`]),
  ];
  return {
    id,
    'aria-describedby': describedBy.length === 0 ? undefined : describedBy.join(' '),
    'aria-invalid': problem !== undefined || undefined,
  } as const;
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
