import type { ConfigurableProp } from '#sdk';

export type PropValues = Readonly<Record<string, unknown>>;

/** What a field needs, whatever its type. `value` undefined: nothing is given, and the default of the component holds. */
export interface FieldProps {
  definition: ConfigurableProp;
  /** The id of the control; those of its hint and problem are derived from it. */
  id: string;
  value: unknown;
  onChange: (value: unknown) => void;
  describedBy: string;
  invalid: boolean;
}

export interface PropFormContext {
  /** Key or sc_…: the component whose options are requested. */
  componentId: string;
  ownerId: string;
  values: PropValues;
  /** For steps of workflows, whose values may be expressions: the paths that can be used in them. */
  expressions?: readonly string[];
  /** Before the ids of its controls, where a page has several forms. */
  idPrefix?: string;
}
