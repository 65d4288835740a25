import type { FlowControl } from '#flow-control/flow-control.ts';
import type { BlockDefinition } from './block-definition.ts';

/** What one deployment of a workflow does, as it is kept in `deployments.definition`. Never changed once written. */
export interface WorkflowDefinition {
  /** In the order in which they are written: a block comes before the steps in it. */
  steps: StepDefinition[];
  settings: WorkflowSettings;
}

export interface StepDefinition {
  /** c_…; a step keeps it when a later deployment has a step of the same namespace. */
  id: string;
  /** Name under which its exports are found: `steps.<namespace>`. Letters, digits and underscores; not `trigger`. */
  namespace: string;
  /** The saved component (sc_…) that it runs. The source text of a code cell is a saved component too. */
  componentId: string;
  /** `code`: its source was given with the workflow; `component`: a key or an id was. */
  origin: 'code' | 'component';
  /** Registry or saved key of the component, as in the request. */
  componentKey: string | null;
  /** JSON object of values, without those of secret props; strings may hold `{{expressions}}`. */
  configuredProps: string;
  /** JSON object of sealed values of secret props, by name; null: none. */
  sealedProps: string | null;
  /** JSON object of definitions that additionalProps returned, by name; null: none. */
  dynamicProps: string | null;
  disabled: boolean;
  /** Absent: a step that is no block. */
  block?: BlockDefinition;
  /** For people; absent: none. */
  note?: string;
  /** Longest time that it may take, in seconds; absent: that of the settings. */
  timeoutSeconds?: number;
  /** Its own retries, instead of those of the settings; absent: none. */
  retries?: StepRetries;
}

/** A failed step, or a failed block with all that is in it, is tried again `times` times: after `seconds`, and twice as late each time. */
export interface StepRetries {
  times: number;
  seconds: number;
}

/** How the runs of a deployment are run. */
export interface WorkflowSettings {
  /** Longest one step may take, in seconds; null: 30 for HTTP and email triggers, 60 for timers and events. */
  timeoutSeconds: number | null;
  memoryMb: number;
  /** Retries of a failed step: 8 over 10 hours. */
  autoRetry: boolean;
  /** Maximum of simultaneous runs started by events; null: no maximum. 1 keeps the order of events. */
  concurrency: number | null;
  /** At most `limit` runs started by events begin in each window of `seconds`; null: no bound. 0 holds them all. */
  throttle: { limit: number; seconds: number } | null;
  /** Runs that wait for their turn; an event beyond is dropped, with an error event. Only with the two above. */
  queueSize: number;
  /** Steps run in a process that no other code of the owner shares. Absent in deployments from before it existed: no. */
  isolated?: boolean;
  /** Absent in deployments from before it existed: none. */
  flowControl?: FlowControl | null;
}

export const defaultWorkflowSettings: WorkflowSettings = {
  timeoutSeconds: null,
  memoryMb: 256,
  autoRetry: false,
  concurrency: null,
  throttle: null,
  queueSize: 100,
  isolated: false,
  flowControl: null,
};
