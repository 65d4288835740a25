import type { ConfigurableProp } from '#sdk';

export type PropValues = Readonly<Record<string, unknown>>;

/** What a field needs, whatever its type. `value` undefined: nothing is given, and the default of the component holds. */
export interface FieldProps {
  definition: ConfigurableProp;
  /** Of the control; its hint and problem are named after it. */
  id: string;
  value: unknown;
  onChange: (value: unknown) => void;
  describedBy: string;
  invalid: boolean;
}

export interface PropFormContext {
  /** Key or sc_…: whose options are asked for. */
  componentId: string;
  ownerId: string;
  values: PropValues;
  /** Of steps of workflows: values may be expressions, and these are paths that can stand in them. */
  expressions?: readonly string[];
  /** Before the ids of its controls, where a page has several forms. */
  idPrefix?: string;
}
