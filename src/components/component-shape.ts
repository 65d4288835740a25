export const componentTypes = ['source', 'action', 'app'] as const;
export type ComponentType = (typeof componentTypes)[number];

/** The result of evaluating a component: everything but its functions. Made inside the sandbox. */
export interface ComponentShape {
  type: ComponentType;
  key?: string;
  name?: string;
  version?: string;
  description?: string;
  dedupe?: 'unique' | 'greatest' | 'last';
  hooks: ('deploy' | 'activate' | 'deactivate')[];
  hasRun: boolean;
  hasAdditionalProps: boolean;
  hasSampleEmit: boolean;
  annotations?: Record<string, unknown>;
  /** In declaration order, propDefinitions resolved, functions stripped, computed flags added. */
  configurableProps: PropDefinition[];
}

/** One entry of `configurable_props` (specification, section 2; component contract). Unknown attributes are kept. */
export interface PropDefinition {
  name: string;
  type: string;
  label?: string;
  description?: string;
  optional?: boolean;
  default?: unknown;
  /** Only for type app: its slug. */
  app?: string;
  options?: unknown[];
  remoteOptions?: boolean;
  /** True: `options` are suggestions, and other values are valid too. */
  otherValues?: boolean;
  useQuery?: boolean;
  reloadProps?: boolean;
  withLabel?: boolean;
  secret?: boolean;
  hidden?: boolean;
  disabled?: boolean;
  min?: number;
  max?: number;
  /** http interface: the reply is the component's. */
  customResponse?: boolean;
  /** timer: fixed schedule. */
  static?: unknown;
  [attribute: string]: unknown;
}
